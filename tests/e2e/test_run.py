"""Runs through the command line: what comes out, what is recorded, and that the same work gives the same documents."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.history import read_runs
from savant.cli.kinds import registry
from savant.ledger.sqlitestore import SqliteStore
from savant.store.objects import FileObjectStore
from tests.e2e.conftest import Shop, git

TEST = "from shop.totals import total\n\n\ndef test_total():\n    assert total(2) == 4\n"
CONFIG = '[tool.pytest.ini_options]\npythonpath = ["."]\n'


def documents(shop: Shop) -> list[tuple[str, str]]:
    """Every document of every run in ledger order, without the ledger's own."""
    directory = shop.path / ".git" / "savant"
    store = SqliteStore(directory)
    with FileObjectStore(directory / "objects") as objects:
        runs = list(read_runs(store.lines(0, store.tail().size), registry(), objects))
    store.close()
    return [(e.kind, e.body.digest) for run in runs for e in run.entries if not e.kind.startswith("savant.ledger.")]


def test_the_same_run_twice_gives_byte_identical_documents(shop: Shop, tool: Callable[[str], str]) -> None:
    """Two runs of the same work share every document; only run ids and observations differ."""
    shop.write("tests/test_totals.py", TEST)
    shop.write("pyproject.toml", CONFIG)
    shop.commit("a red test")
    flags = (
        "Double it",
        "--recipe",
        "/bin/sh -c 'echo >> shop/totals.py'",
        "--on-failure",
        "pytest=/bin/sh -c 'printf \"def total(amount):\\n    return amount * 2\\n\" > shop/totals.py'",
        "--must-pass",
        f"{tool('pytest')} -q",
    )
    seen = []
    for _ in range(2):
        ended = shop.run(*flags)
        assert (ended.code, ended.json["disposition"]) == (0, "admitted"), ended.out + ended.err
        seen.append(ended.json)
    assert seen[0]["run"] != seen[1]["run"]
    assert {k: seen[0][k] for k in ("session", "candidate", "decision", "receipt")} == {
        k: seen[1][k] for k in ("session", "candidate", "decision", "receipt")
    }
    recorded = documents(shop)
    assert len(recorded) > 60
    assert recorded[: len(recorded) // 2] == recorded[len(recorded) // 2 :]


def test_a_retry_passes_because_its_request_holds_the_findings(shop: Shop, tool: Callable[[str], str]) -> None:
    """The first attempt fails; the second request carries the failed test, and only that makes it pass."""
    shop.write("tests/test_totals.py", TEST)
    shop.write("pyproject.toml", CONFIG)
    shop.commit("a red test")
    recipe = ("Double it", "--recipe", "/bin/sh -c 'echo >> shop/totals.py'", "--must-pass", f"{tool('pytest')} -q")
    fix = "pytest=/bin/sh -c 'printf \"def total(amount):\\n    return amount * 2\\n\" > shop/totals.py'"
    blind = shop.run(*recipe)
    assert (blind.code, blind.json["reason"]) == (30, "retry-budget-exhausted")
    ended = shop.run(*recipe, "--on-failure", fix)
    assert (ended.code, ended.json["disposition"]) == (0, "admitted"), ended.err
    shown = shop.savant("show", ended.json["run"], "--format", "json").json
    assert [e["recommendation"] for e in shown["evaluations"]] == ["retry-generation", "accept"]
    found = [f for c in shown["evaluations"][0]["checks"] for f in c["findings"]]
    assert ("tests/test_totals.py", 5) in [(f["path"], f["line"]) for f in found]


def test_a_red_base_is_no_obstacle_but_a_new_failure_is(shop: Shop, tool: Callable[[str], str]) -> None:
    """Under a check that may not get worse, a test that failed before blocks nothing; one that newly fails does."""
    shop.write("tests/test_totals.py", TEST + "\n\ndef test_one():\n    assert total(0) == 0\n")
    shop.write("pyproject.toml", CONFIG)
    shop.commit("one red, one green")
    check = ("--check", f"{tool('pytest')} -q", "--retries", "0")
    fine = shop.run("Comment", "--recipe", "/bin/sh -c 'echo \"# x\" >> shop/totals.py'", *check)
    assert (fine.code, fine.json["disposition"]) == (0, "admitted"), fine.out + fine.err
    worse = shop.run("Break", "--recipe", "/bin/sh -c 'sed -i s/amount$/amount+1/ shop/totals.py'", *check)
    assert (worse.code, worse.json["reason"]) == (30, "retry-budget-exhausted")
    checks = shop.savant("show", worse.json["run"], "--format", "json").json["evaluations"][0]["checks"]
    assert {c["check"]: c["comparison"] for c in checks if c["check"].endswith(("test_total", "test_one"))} == {
        "pytest:tests.test_totals::test_one": "regressed",
        "pytest:tests.test_totals::test_total": "still-failing",
    }


def test_without_a_check_a_person_is_asked(shop: Shop) -> None:
    """Nothing measured the candidate, so it waits."""
    ended = shop.run("Change", "--recipe", "/bin/sh -c 'echo x >> README.txt'")
    assert (ended.code, ended.json["conditions"]) == (10, ["no-required-check"])


def test_a_check_whose_tool_is_missing_stops_before_any_call(shop: Shop) -> None:
    """A required tool that cannot be found is named, and nothing is recorded."""
    ended = shop.run("Change", "--recipe", "/bin/sh -c true", "--must-pass", "no-such-tool")
    assert ended.code == 40
    assert "no-such-tool" in ended.out
    assert not (shop.path / ".git" / "savant" / "ledger.sqlite3").exists()


def test_no_difference_is_no_candidate(shop: Shop) -> None:
    """A tool that changes nothing gives no candidate, and says so."""
    ended = shop.run("Change", "--recipe", "/bin/sh -c true", "--must-pass", "/bin/true")
    assert (ended.code, ended.json["reason"]) == (30, "invalid-provider-output")
    shown = shop.savant("show", "--format", "json").json
    assert [a["failure_kind"] for a in shown["attempts"]] == ["no-change"] * 3


def test_run_and_apply_in_one_command(shop: Shop) -> None:
    """``--apply`` applies what was admitted and verifies it; the run's disposition says so."""
    target = shop.root / "applied"
    ended = shop.run(
        "Change", "--recipe", "/bin/sh -c 'echo x >> README.txt'", "--must-pass", "/bin/true", "--apply", str(target)
    )
    assert (ended.code, ended.json["disposition"]) == (0, "applied-compliant"), ended.out + ended.err
    assert (target / "README.txt").read_text() == "A shop.\nx\n"
    assert git(target, "rev-parse", "HEAD") == git(shop.path, "rev-parse", "HEAD")
    assert git(target, "diff", "--cached", "--name-only") == ""
    assert shop.savant("replay").code == 0


def test_an_import_of_a_patch_is_judged(shop: Shop) -> None:
    """A patch file becomes a candidate whose promise is none; a patch that leaves the tree does not."""
    patch = shop.root / "change.patch"
    patch.write_text("--- a/README.txt\n+++ b/README.txt\n@@ -1 +1,2 @@\n A shop.\n+Open.\n")
    ended = shop.run("--patch", str(patch), "--must-pass", "/bin/true")
    assert (ended.code, ended.json["disposition"]) == (0, "admitted"), ended.out + ended.err
    assert "+Open." in shop.savant("diff").out
    patch.write_text("--- /dev/null\n+++ b/../outside.txt\n@@ -0,0 +1 @@\n+x\n")
    bad = shop.run("--patch", str(patch), "--must-pass", "/bin/true", "--retries", "0")
    assert (bad.code, bad.json["reason"]) == (30, "provider-unavailable")
    assert not (shop.root / "outside.txt").exists()


def test_ledger_mode_off_records_nothing(shop: Shop) -> None:
    """Display only: no ledger, no apply."""
    ended = shop.run(
        "Change", "--recipe", "/bin/sh -c 'echo x >> README.txt'", "--must-pass", "/bin/true", "--ledger-mode", "off"
    )
    assert (ended.code, ended.json["ledger"]) == (0, None)
    assert not (shop.path / ".git" / "savant" / "ledger.sqlite3").exists()
    assert shop.savant("apply", "--new", "--format", "json").json["code"] == "unverifiable.no-ledger"


def test_an_unwritable_ledger_stops_the_run_under_enforce(shop: Shop) -> None:
    """No effect without a durable record: when the ledger is gone, nothing is called."""
    shop.uncontained()
    shop.admitted()
    (shop.path / ".git" / "savant" / "ledger.sqlite3").unlink()
    marker = shop.root / "called"
    ended = shop.run("Change", "--recipe", f"/bin/sh -c 'touch {marker}'", "--must-pass", "/bin/true")
    assert (ended.code, ended.json["code"]) == (43, "conflict.ledger-gone")
    assert not marker.exists()


def test_runs_show_and_the_index_is_rebuilt(shop: Shop) -> None:
    """The index of runs is rebuilt from the ledger when it is gone."""
    run = shop.admitted()
    assert shop.savant("runs").code == 0
    (shop.path / ".git" / "savant" / "runs.db").unlink()
    listed = shop.savant("runs", "--format", "json").json["runs"]
    assert [(row["run"], row["disposition"]) for row in listed] == [(run, "admitted")]
    assert shop.savant("show", run[:6]).code == 0
    assert shop.savant("show", "ffff", "--format", "json").json["code"] == "usage.unknown-run"


def test_init_writes_rules_that_are_in_force_once_committed(shop: Shop) -> None:
    """``init`` writes what it found, overwrites nothing, and the next run uses it after the commit."""
    shop.write("Makefile", "test:\n\ttrue\n")
    shop.commit("a check")
    first = shop.savant("init", "--format", "json")
    assert (first.code, first.json["written"]) == (0, ["config.toml", "policy.toml"])
    assert first.json["checks"] == [{"id": "make-test", "command": "make test", "base": "passed"}]
    assert shop.savant("init", "--format", "json").json["kept"] == ["config.toml", "policy.toml"]
    ended = shop.savant("run", "x", "--recipe", "/bin/sh -c 'echo x >> README.txt'", "--must-pass", "/bin/true")
    assert "the uncommitted rules are NOT in force" in ended.err
    assert "built-in starter policy" in ended.err
    shop.commit("rules")
    shop.savant("trust", shop.savant("trust", "--format", "json").json["policy"])
    ended = shop.savant("run", "x", "--recipe", "/bin/sh -c 'echo x >> README.txt'")
    assert ended.code == 0, ended.out + ended.err
    assert ".savant/policy.toml at the base" in ended.err


def test_init_writes_through_no_link(shop: Shop) -> None:
    """A ``.savant`` that leads elsewhere is refused, and nothing is written there."""
    elsewhere = shop.root / "elsewhere"
    elsewhere.mkdir()
    (shop.path / ".savant").symlink_to(elsewhere)
    refused = shop.savant("init", "--no-try-checks", "--format", "json")
    assert (refused.code, refused.json["code"]) == (22, "refused.init-link")
    assert not list(elsewhere.iterdir())
    (shop.path / ".savant").unlink()
    assert shop.savant("init", "--no-try-checks").code == 0


def test_a_tool_finds_no_repository_above_its_copy(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """git, run by a tool in the copy, looks for no repository above it, wherever the scratch folder lies."""
    outer = shop.root / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    monkeypatch.setenv("SAVANT_HOME", str(outer / "home"))
    script = "git rev-parse --git-dir && exit 9; echo x >> README.txt"
    ended = shop.run("Change", "--recipe", f"/bin/sh -c '{script}'", "--must-pass", "/bin/true", "--retries", "0")
    assert (ended.code, ended.json["disposition"]) == (0, "admitted"), ended.out + ended.err


def test_the_demonstration_runs_to_its_end(tmp_path: Path) -> None:
    """``savant demo`` goes through every step, and a tampered copy of the ledger is refused."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "savant.cli", "demo", "--directory", str(tmp_path / "demo")],
        env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The tampered copy was REFUSED" in done.stdout


def test_json_is_one_document_on_stdout(shop: Shop) -> None:
    """Every command that offers JSON prints one document of the named format."""
    shop.admitted()
    for command in ("runs", "show", "diff", "admit", "doctor", "trust"):
        ended = shop.savant(command, "--format", "json")
        assert json.loads(ended.out)["format"] == "savant.cli/v1"
    for command in ("exit-codes", "contracts"):
        assert shop.savant(command, "--format", "json", repo=False).json["ending"] == "ok"
