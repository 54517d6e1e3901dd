"""A suite that nobody who generates has seen decides about the sealed candidate."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.actingkit import HONEST, PYTEST, provider
from tests.e2e.conftest import Shop, strongest

SECRET = "def test_held_out():\n    from shop.totals import total\n\n    assert total(21) == 42\n"
SPECIAL = "def total(amount):\n    return 4 if amount == 2 else amount\n"
"""Code that knows the visible test only."""


@pytest.fixture
def suite(shop: Shop) -> Path:
    """A suite beside the repository; the repository has one visible test, red on the base."""
    shop.write(
        "tests/test_totals.py", "from shop.totals import total\n\n\ndef test_total():\n    assert total(2) == 4\n"
    )
    shop.commit("tests")
    folder = shop.root / "held-out"
    folder.mkdir()
    (folder / "test_held_out.py").write_text(SECRET)
    return folder


def run(shop: Shop, suite: Path, code: str, *more: str) -> Any:
    flags = provider({"write": {"shop/totals.py": code}}, declares=False)
    held = ("--held-out", str(suite), "--held-out-check", PYTEST + " {suite}")
    return shop.run("double it", *flags, "--must-pass", PYTEST + " tests", *held, *more)


def records(shop: Shop, kind: str) -> list[dict[str, Any]]:
    lines = shop.savant("ledger", "log", "--format", "json").json["records"]
    return [line for line in lines if line.get("kind") == kind or kind in json.dumps(line)]


def test_what_passes_what_it_saw_and_fails_what_it_did_not_is_no_candidate(shop: Shop, suite: Path) -> None:
    """The honest change is admitted and the suite revealed; the special case ends the run, without a retry."""
    honest = run(shop, suite, HONEST)
    assert honest.json["disposition"] == "admitted", (honest.out, honest.err)
    assert records(shop, "savant.evaluator.suite/v1")
    special = run(shop, suite, SPECIAL, "--retries", "2").json
    assert (special["disposition"], special["reason"]) == ("terminal-failure", "architect-review-required")


def test_where_another_check_stops_the_candidate_it_is_not_run_and_not_revealed(shop: Shop, suite: Path) -> None:
    """A retry cannot use it as an oracle."""
    told = run(shop, suite, "def total(amount):\n    return 0\n", "--retries", "0").json
    assert (told["disposition"], told["reason"]) == ("terminal-failure", "retry-budget-exhausted")
    assert not records(shop, "savant.evaluator.suite/v1")


def test_a_suite_that_did_not_end_is_revealed_too(shop: Shop, suite: Path) -> None:
    """It has run, so it is no longer held out; that it gave no result is never a pass."""
    (suite / "test_held_out.py").write_text("import os, signal\n\nos.kill(os.getpid(), signal.SIGKILL)\n")
    told = run(shop, suite, HONEST, "--retries", "0").json
    assert told["disposition"] == "terminal-failure"
    assert records(shop, "savant.evaluator.suite/v1")


def test_no_command_of_the_provider_sees_the_suite(shop: Shop, suite: Path) -> None:
    """Contained, the folder is not there for it; nor is its name in the request."""
    if strongest() < "S1":
        pytest.skip(f"at level {strongest()} every program reads what its user can read")
    probe = (
        "import json, os, sys; asked = sys.stdin.read(); "
        f"seen = os.path.exists({str(suite)!r}) or ('savant-held' + '-out') in asked; "
        "print(json.dumps({'wire': json.loads(asked)['wire'], 'request_digest': json.loads(asked)['request_digest'], "
        "'generation': {'edits': [{'op': 'write', 'path': 'seen.txt', 'text': str(seen)}]}}))"
    )
    words = shlex.join((sys.executable, "-I", "-c", probe))
    held = ("--held-out", str(suite), "--held-out-check", PYTEST + " {suite}")
    told = shop.run("look around", "--provider", words, "--check", "/bin/true", *held, "--retries", "0").json
    assert told["reason"] == "architect-review-required"  # the suite fails on the base's code
    patch = shop.savant("diff").out
    assert "+False" in patch, patch


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--held-out", "{folder}"), "belong together"),
        (("--held-out-check", "pytest {suite}"), "belong together"),
        (("--held-out", "{folder}", "--held-out-check", "pytest"), "belong together"),
        (("--held-out", "{tests}", "--held-out-check", "pytest {suite}"), "may not lie in each other"),
        (("--held-out", "{root}", "--held-out-check", "pytest {suite}"), "may not lie in each other"),
        (("--held-out", "{empty}", "--held-out-check", "pytest {suite}"), "holds no file"),
        (("--held-out", "{linked}", "--held-out-check", "pytest {suite}"), "is no file"),
    ],
)
def test_what_cannot_be_held_out_is_refused(shop: Shop, suite: Path, flags: tuple[str, ...], words: str) -> None:
    """Half of it, a suite in the repository, none, or one with links; nothing is recorded."""
    (shop.root / "empty").mkdir()
    (shop.root / "linked").mkdir()
    (shop.root / "linked/a").symlink_to(suite / "test_held_out.py")
    places = {
        "{folder}": str(suite),
        "{tests}": str(shop.path / "tests"),
        "{root}": str(shop.root),
        "{empty}": str(shop.root / "empty"),
        "{linked}": str(shop.root / "linked"),
    }
    filled = [places.get(flag, flag) for flag in flags]
    before = shop.state()
    ended = shop.run("x", "--recipe", "/bin/true", *filled)
    assert ended.code in {2, 22}, (ended.code, ended.out)
    assert words in ended.out + ended.err
    assert shop.state() == before


def test_a_candidate_that_occupies_the_place_of_the_suite_is_not_judged_by_it(shop: Shop, suite: Path) -> None:
    """The suite did not run; that is never a pass."""
    flags = provider({"write": {"shop/totals.py": HONEST, ".savant-held-out/notes.txt": "mine"}}, declares=True)
    held = ("--held-out", str(suite), "--held-out-check", PYTEST + " {suite}")
    told = shop.run("double it", *flags, "--must-pass", PYTEST + " tests", *held, "--retries", "0").json
    assert told["disposition"] == "terminal-failure"
    assert told["reason"] in {"evaluator-unavailable", "invalid-provider-output"}
