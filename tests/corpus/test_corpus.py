"""Small repositories that are not perfect: each gets the verdict that its owner would want, at the command line."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
import venv as maker
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.actingkit import PYTEST, checks_in, provider
from tests.e2e.conftest import BIN, Shop

RED = "from shop.totals import total\n\n\ndef test_red():\n    assert total(2) == 5\n"
GREEN = "from shop.totals import total\n\n\ndef test_green():\n    assert total(2) == 2\n"
EXTRA = "def total(amount):\n    return amount\n\n\ndef tax(amount):\n    return amount\n"
BROKEN = "def total(amount):\n    return amount + 1\n"


@pytest.fixture
def red(shop: Shop) -> Shop:
    """A repository with one red and one green test."""
    shop.write("tests/test_red.py", RED)
    shop.write("tests/test_green.py", GREEN)
    shop.commit("tests")
    return shop


def run(shop: Shop, change: dict[str, str], *more: str, retries: int = 0) -> dict[str, Any]:
    flags = (*provider({"write": change}, declares=False), "--retries", str(retries), "--replans", "0", *more)
    ended = shop.run("change it", *flags)
    assert "disposition" in ended.json, (ended.out, ended.err)
    return ended.json


def checks(shop: Shop) -> dict[str, dict[str, Any]]:
    """The checks of the latest run by their last word."""
    shown = shop.savant("show", "--format", "json").json
    return {check["check"].rpartition("::")[2]: check for check in checks_in(shown)}


def test_a_red_base_and_a_correct_change(red: Shop) -> None:
    """What was red stays red and blocks nothing."""
    assert run(red, {"shop/totals.py": EXTRA}, "--check", PYTEST)["disposition"] == "admitted"
    assert checks(red)["test_red"]["comparison"] == "still-failing"


def test_a_change_that_breaks_one_more_test_and_the_retry_that_is_told(red: Shop) -> None:
    """The second request names the test; told so, the provider mends it."""
    program = (
        textwrap.dedent(
            """
        import json, sys
        asked = json.load(sys.stdin)
        said = {"wire": asked["wire"], "request_digest": asked["request_digest"]}
        prior = asked["request"]["prior"]
        if asked["request"]["operation"] == "planning":
            said["plan"] = {"steps": [{"id": "a", "intended_changes": [{"pattern": "**", "operations": ["modify"]}]}]}
        else:
            names = [finding["check"] for finding in (prior or {"findings": []})["findings"]]
            good = any(name.endswith("test_green") for name in names) and not any(n.endswith("test_red") for n in names)
            text = GOOD if good else BAD
            said["generation"] = {"edits": [{"op": "write", "path": "shop/totals.py", "text": text}]}
        print(json.dumps(said))
        """
        )
        .replace("GOOD", repr(EXTRA))
        .replace("BAD", repr(BROKEN))
    )
    words = shlex.join((sys.executable, "-I", "-c", program))
    named = ("--provider-operation", "planning", "--provider-operation", "generation")
    told = red.run("change it", "--provider", words, *named, "--check", PYTEST, "--retries", "1").json
    assert told["disposition"] == "admitted"
    assert run(red, {"shop/totals.py": BROKEN}, "--check", PYTEST)["reason"] == "retry-budget-exhausted"


def flaky(state: Path) -> str:
    """A test that fails the first time that it runs on a tree where the change is, and passes afterwards."""
    return (
        "import pathlib\nfrom shop import totals\n\n\ndef test_flaky():\n"
        f"    seen = pathlib.Path({str(state)!r})\n"
        "    if hasattr(totals, 'tax') and not seen.exists():\n"
        "        seen.write_text('')\n"
        "        raise AssertionError('unlucky')\n"
    )


def configured(shop: Shop, text: str) -> None:
    shop.write(".savant/config.toml", 'domain = "shop"\n' + text)
    shop.commit("rules")


def trusted(shop: Shop) -> None:
    """The person reads the commands of the repository and trusts them."""
    listed = shop.savant("trust", "--format", "json").json
    assert shop.savant("trust", listed["policy"]).code == 0


def test_a_flaky_check_is_reported_and_decides_nothing(red: Shop) -> None:
    """Repeated, it is told as flaky and the change is admitted; without repeats it is a regression."""
    red.uncontained()  # the test keeps its state outside the copy
    red.write("tests/test_flaky.py", flaky(red.root / "seen"))
    check = f'[[check]]\nid = "unit"\ncommand = {json.dumps(PYTEST)}\n'
    configured(red, check + "repeats = 2\n")
    trusted(red)
    assert run(red, {"shop/totals.py": EXTRA})["disposition"] == "admitted"
    assert checks(red)["test_flaky"]["comparison"] == "flaky"
    assert "flaky" in red.savant("show").out
    (red.root / "seen").unlink()
    configured(red, check)
    trusted(red)
    assert run(red, {"shop/totals.py": EXTRA})["reason"] == "retry-budget-exhausted"


def test_an_editable_install_judges_the_candidate(red: Shop) -> None:
    """The checkout is on the path of the environment, and the candidate is judged all the same."""
    venv = red.path / ".venv"
    maker.create(venv, symlinks=True)
    site = next(venv.glob("lib/python*/site-packages"))
    (site / "editable.pth").write_text(f"{red.path}\n")
    red.write(".gitignore", ".venv\n")
    red.commit("ignore")
    look = "import sys; sys.path[:] = filter(None, sys.path); import shop.totals; sys.exit(shop.totals.total(2) != 2)"
    python = ("--must-pass", shlex.join((f"{venv}/bin/python", "-c", look)))
    assert run(red, {"shop/totals.py": BROKEN}, *python)["reason"] == "retry-budget-exhausted"
    assert run(red, {"shop/totals.py": EXTRA}, *python)["disposition"] == "admitted"


def test_a_missing_toolchain_is_never_a_pass(red: Shop) -> None:
    """Nothing is called, and the words name the tool."""
    flags = provider({"write": {"shop/totals.py": EXTRA}}, declares=False)
    ended = red.run("change it", *flags, "--check", "no-such-tool --version")
    assert (ended.code, ended.json["ending"]) == (40, "not-ready")
    assert "no-such-tool" in ended.out


def test_zero_tests_are_never_a_pass(red: Shop) -> None:
    """A pattern that selects nothing."""
    told = run(red, {"shop/totals.py": EXTRA}, "--check", PYTEST + " -k nothing_of_that_name")
    assert told["reason"] == "evaluator-unavailable"


def test_a_monorepo_with_a_project_in_a_folder(shop: Shop) -> None:
    """The check starts in the folder; where the candidate removes it, it did not run."""
    shop.write("web/calc.py", "def add(a, b):\n    return a + b\n")
    shop.write("web/test_calc.py", "import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n")
    configured(shop, f'[[check]]\nid = "web"\ncommand = {json.dumps(PYTEST)}\ndirectory = "web"\n')
    good = {"web/calc.py": "def add(a, b):\n    return b + a\n"}
    assert run(shop, good)["disposition"] == "admitted"
    assert checks(shop)["test_add"]["status"] == "passed"
    assert run(shop, {"web/calc.py": "def add(a, b):\n    return 0\n"})["reason"] == "retry-budget-exhausted"


def test_a_formatter_of_the_pre_commit_configuration_runs_before_the_seal(shop: Shop) -> None:
    """What the provider wrote badly is sealed formatted, so the linter's own check passes."""
    ruff = BIN / "ruff"
    configured(
        shop,
        f'[[normaliser]]\nid = "format"\ncommand = "{ruff} format --isolated --no-cache -q ."\npatterns = ["*.py"]\n'
        f'[[check]]\nid = "format"\ncommand = "{ruff} format --isolated --no-cache --check -q ."\n',
    )
    assert (
        run(shop, {"shop/totals.py": "def total( amount ):\n    return  amount\n\n\nx=1\n"})["disposition"]
        == "admitted"
    )
    assert "+x = 1" in shop.savant("diff").out


def test_a_manifest_waits_for_a_person_and_without_its_lock_says_so(shop: Shop) -> None:
    """With the lock there is one condition; without it there are two."""
    manifest = '[project]\nname = "shop"\nversion = "1"\ndependencies = ["a"]\n'
    shop.write("pyproject.toml", manifest)
    shop.write("uv.lock", "version = 1\n")
    shop.commit("manifest")
    more = manifest.replace('"a"', '"a", "b"')
    together = run(shop, {"pyproject.toml": more, "uv.lock": "version = 2\n"}, "--check", "/bin/true")
    assert together["disposition"] == "waiting"
    ids = _conditions(shop)
    alone = run(shop, {"pyproject.toml": more}, "--check", "/bin/true")
    assert alone["disposition"] == "waiting"
    assert set(_conditions(shop)) - set(ids) == {"lock-python"}


def _conditions(shop: Shop) -> list[str]:
    shown = shop.savant("admit", "--explain", "--format", "json").json
    return sorted(item["id"] for item in shown["conditions"])


def test_a_secret_is_sent_back_and_never_admitted(shop: Shop) -> None:
    """The place is told and the value is not."""
    token = "ghp_" + "q7Zr2Lw9Xk4Vb6Nm1Tc8" * 2
    told = run(shop, {"shop/totals.py": f"TOKEN = '{token}'\n"}, "--check", "/bin/true")
    assert told["reason"] == "retry-budget-exhausted"
    assert token not in json.dumps(told)
