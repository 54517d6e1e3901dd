"""The files that judge come from the base: what is done to them turns no verdict into a pass."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.actingkit import HONEST, PYTEST, TEST, WRONG, checks_in, provider
from tests.e2e.conftest import Shop

GREEN = """\
import pytest


@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome = "passed"
    report.longrepr = None
"""

CHEATS: dict[str, dict[str, Any]] = {
    "weakened test": {"write": {"tests/test_totals.py": TEST.replace("== 4", "is not None")}},
    "skip marker": {
        "write": {"tests/test_totals.py": "import pytest\n" + TEST.replace("def test", "@pytest.mark.skip\ndef test")}
    },
    "deleted test": {"delete": ["tests/test_totals.py"]},
    "test renamed away": {"delete": ["tests/test_totals.py"], "write": {"attic/totals.txt": TEST}},
    "new conftest at the top": {"write": {"conftest.py": GREEN}},
    "new conftest in the folder": {"write": {"tests/conftest.py": GREEN}},
    "plugin by pytest.ini": {"write": {"pytest.ini": "[pytest]\naddopts = -p shop.green\n", "shop/green.py": GREEN}},
    "plugin by pyproject": {
        "write": {
            "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n\n[tool.pytest.ini_options]\n'
            'addopts = "-p shop.green"\n',
            "shop/green.py": GREEN,
        }
    },
    "other tests by pyproject": {
        "write": {
            "pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["easy"]\n',
            "easy/test_easy.py": "def test_easy():\n    pass\n",
        }
    },
    "sitecustomize": {"write": {"sitecustomize.py": "import os, sys\nif 'pytest' in sys.argv[0]: os._exit(0)\n"}},
    "edited CI file": {"write": {".github/workflows/ci.yml": "on: push\njobs: {}\n"}},
    "folder of tests replaced by a link": {
        "delete": ["tests/test_totals.py", "tests/test_other.py"],
        "write": {"easy/test_totals.py": "def test_total():\n    pass\n"},
        "link": {"tests": "easy"},
    },
}


@pytest.fixture
def tested(shop: Shop) -> Shop:
    """The shop with one test, which is red; a conftest-free configuration; continuous integration."""
    shop.write("tests/test_totals.py", TEST)
    shop.write("tests/test_other.py", "def test_other():\n    pass\n")
    shop.write("pyproject.toml", '[project]\nname = "shop"\nversion = "1"\n')
    shop.write(".github/workflows/ci.yml", "on: push\njobs: {test: {}}\n")
    shop.commit("tests")
    return shop


def run(shop: Shop, actions: dict[str, Any], *more: str, declares: bool = False) -> dict[str, Any]:
    flags = (*provider(actions, declares=declares), "--retries", "0", "--replans", "0", *more)
    ended = shop.run("double it", *flags)
    assert "disposition" in ended.json, (ended.out, ended.err)
    return ended.json


MUST = ("--must-pass", PYTEST)


def test_an_honest_candidate_is_admitted(tested: Shop) -> None:
    """The positive control: the test that was red passes, and nothing that judges changed."""
    assert run(tested, {"write": {"shop/totals.py": HONEST}}, *MUST)["disposition"] == "admitted"


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda name: name.replace(" ", "-"))
def test_a_cheating_candidate_is_no_candidate(tested: Shop, cheat: str) -> None:
    """The same task with wrong code and a judge that was tampered with: never admitted, and the path is named."""
    actions = {**CHEATS[cheat], "write": {"shop/totals.py": WRONG, **CHEATS[cheat].get("write", {})}}
    told = run(tested, actions, *MUST)
    assert told["disposition"] == "terminal-failure"
    assert told["reason"] == "architect-review-required"


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda name: name.replace(" ", "-"))
def test_the_tests_of_the_base_judge_whatever_was_declared(tested: Shop, cheat: str) -> None:
    """Declared, it is a matter for a person: waiting or no candidate, never admitted by itself."""
    actions = {**CHEATS[cheat], "write": {"shop/totals.py": WRONG, **CHEATS[cheat].get("write", {})}}
    told = run(tested, actions, *MUST, declares=True)
    assert told["disposition"] in {"waiting", "terminal-failure"}
    if told["disposition"] == "terminal-failure":
        assert told["reason"] == "retry-budget-exhausted"


def test_an_honest_candidate_that_changes_ci_undeclared_waits_for_nobody(tested: Shop) -> None:
    """Right code does not excuse an undeclared change of the gate; declared, a person is asked."""
    actions = {"write": {"shop/totals.py": HONEST, ".github/workflows/ci.yml": "on: push\njobs: {}\n"}}
    assert run(tested, actions, *MUST)["reason"] == "architect-review-required"
    told = run(tested, actions, *MUST, declares=True)
    assert told["disposition"] == "waiting"


def test_a_manifest_that_configures_more_than_checks_is_no_gate(tested: Shop) -> None:
    """A version that moves is not a change of what judges; the part of pytest is."""
    moved = '[project]\nname = "shop"\nversion = "2"\n'
    told = run(tested, {"write": {"shop/totals.py": HONEST, "pyproject.toml": moved}}, *MUST)
    assert told["disposition"] == "waiting"  # a dependency manifest asks; nothing was judged otherwise
    assert told["reason"] == "candidate-ready-for-admission"


def test_new_tests_are_free_and_it_is_shown_whether_they_fail_on_the_base(tested: Shop) -> None:
    """One that proves the change, and one that proves nothing."""
    new = (
        "from shop.totals import total\n\n\ndef test_proof():\n    assert total(5) == 10\n\n\n"
        "def test_nothing():\n    pass\n"
    )
    told = run(tested, {"write": {"shop/totals.py": HONEST, "tests/test_new.py": new}}, "--check", PYTEST)
    assert told["disposition"] == "admitted"
    shown = tested.savant("show", "--format", "json").json
    checks = {check["check"].rpartition("::")[2]: check for check in checks_in(shown)}
    assert (checks["test_proof"]["comparison"], checks["test_proof"]["base_status"]) == ("new", "failed")
    assert (checks["test_nothing"]["comparison"], checks["test_nothing"]["base_status"]) == ("new", "passed")
    assert checks["test_total"]["comparison"] == "fixed"


def test_a_new_test_that_cannot_be_read_on_the_base_disturbs_nothing(tested: Shop) -> None:
    """It imports what the change brings: on the base it did not run, and the base was measured all the same."""
    new = "from shop.fresh import price\n\n\ndef test_price():\n    assert price() == 1\n"
    actions = {
        "write": {"shop/totals.py": HONEST, "shop/fresh.py": "def price():\n    return 1\n", "tests/test_new.py": new}
    }
    assert run(tested, actions, "--check", PYTEST)["disposition"] == "admitted"
    checks = {
        check["check"].rpartition("::")[2]: check for check in checks_in(tested.savant("show", "--format", "json").json)
    }
    assert (checks["test_price"]["comparison"], checks["test_price"]["base_status"]) == ("new", "unavailable")
    assert checks["test_total"]["comparison"] == "fixed"
