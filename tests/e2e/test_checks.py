"""Checks of a project through the command line: linters, bugs that must be fixed, excuses; and their replay."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.conftest import Shop

PLAIN = "-p no:cacheprovider -p no:hypothesispytest -p no:timeout -p no:pytest_cov"
TEST = """\
from shop.totals import total


def test_zero():
    assert total(0) == 0


def test_total():
    assert total(2) == 4
"""


@pytest.fixture
def configured(shop: Shop, tool: Callable[[str], str]) -> Callable[[str, dict[str, str]], Shop]:
    """The shop with checks of its own, which its person trusts; ``{ruff}`` and ``{pytest}`` are those of here."""

    def configure(text: str, files: dict[str, str]) -> Shop:
        names = {"{ruff}": f"{tool('ruff')} check -n", "{pytest}": f"{tool('pytest')} -q {PLAIN}"}
        for name, words in names.items():
            text = text.replace(name, words)
        shop.write(".savant/config.toml", f'domain = "shop"\n{text}')
        shop.write("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = ["."]\n')
        for name, content in files.items():
            shop.write(name, content)
        shop.commit("checks")
        digest = shop.savant("trust", "--format", "json").json["policy"]
        assert shop.savant("trust", digest).code == 0
        return shop

    return configure


def change(shop: Shop, name: str, text: str, *flags: str) -> dict[str, Any]:
    """A run whose change is one file; what it says, and the same of its replay."""
    script = "cat > " + name + " <<'END'\n" + text + "END"
    ended = shop.run("Change it", "--recipe", f"/bin/sh -c {shlex.quote(script)}", "--retries", "0", *flags)
    assert "disposition" in ended.json, (ended.out, ended.err)
    told = ended.json
    replayed = shop.savant("replay", told["run"], "--format", "json")
    assert replayed.code == 0, (replayed.out, replayed.err)
    return told


LINT = """\
[[check]]
id = "lint"
command = "{ruff} --output-format sarif ."
format = "sarif"
rule = "no-new"
"""
OLD = "import os\nimport sys\n\n\ndef total(amount):\n    return amount\n"


def test_a_linter_counts_only_what_is_new(configured: Callable[[str, dict[str, str]], Shop]) -> None:
    """Old findings move and do not count; a new one does, and is named with its place."""
    shop = configured(LINT, {"shop/totals.py": OLD})
    moved = change(shop, "shop/totals.py", "# a line\n# another\n" + OLD)
    assert moved["disposition"] == "admitted", moved
    added = change(shop, "shop/totals.py", OLD.replace("import sys", "import re\nimport sys"))
    assert added["disposition"] == "terminal-failure"
    shown = shop.savant("show", added["run"]).out
    assert "`re` imported but unused" in shown
    assert "`sys` imported" not in shown


@pytest.mark.parametrize("place", ["ruff.toml", "shop/.ruff.toml"])
def test_the_rules_of_a_linter_are_the_bases(configured: Callable[[str, dict[str, str]], Shop], place: str) -> None:
    """A change that switches a linter off is judged by the rules that it would replace: a person is asked about it."""
    shop = configured(LINT, {"shop/totals.py": OLD})
    quiet = "def total(amount):\n    return amount * 1\n"
    assert change(shop, "shop/totals.py", quiet)["disposition"] == "admitted"
    loud = OLD.replace("import sys", "import re\nimport sys")
    switched = change(shop, "shop/totals.py", f"{loud}END\ncat > {place} <<'END'\nlint.select = []\n")
    assert switched["disposition"] == "waiting"
    assert any("custody" in condition for condition in switched["conditions"]), switched["conditions"]
    assert "fails under the base's tests" in str(switched["limitations"])
    assert change(shop, "shop/totals.py", loud)["disposition"] == "terminal-failure"


MUST_FIX = """\
[[check]]
id = "unit"
command = "{pytest}"
rule = "must-fix"
must_fix = ["tests/test_totals.py::test_total"]
"""


def test_a_bug_must_be_fixed(configured: Callable[[str, dict[str, str]], Shop]) -> None:
    """A change that leaves the named test red is no candidate; one that turns it green and breaks nothing is."""
    shop = configured(MUST_FIX, {"tests/test_totals.py": TEST})
    same = change(shop, "shop/totals.py", "def total(amount):\n    return amount + 0\n")
    assert same["disposition"] == "terminal-failure"
    other = change(shop, "shop/totals.py", "def total(amount):\n    return 4\n")
    assert other["disposition"] == "terminal-failure"
    fixed = change(shop, "shop/totals.py", "def total(amount):\n    return amount * 2\n")
    assert fixed["disposition"] == "admitted"
    assert "had to be fixed" not in str(fixed["limitations"])
    seen = shop.savant("show", same["run"], "--format", "json").json["evaluations"][0]["checks"]
    assert {c["check"]: c["comparison"] for c in seen}["unit:tests.test_totals::test_total"] == "still-failing"


def test_a_bug_of_one_run_must_be_fixed(
    configured: Callable[[str, dict[str, str]], Shop], tool: Callable[[str], str]
) -> None:
    """A person names the test beside the check; without exactly one check nobody knows whose test it is."""
    shop = configured("", {"tests/test_totals.py": TEST})
    flags = ("--check", f"{tool('pytest')} -q {PLAIN}", "--must-fix", "tests/test_totals.py::test_total")
    same = change(shop, "shop/totals.py", "def total(amount):\n    return amount + 0\n", *flags)
    assert (same["disposition"], same["reason"]) == ("terminal-failure", "retry-budget-exhausted")
    fixed = change(shop, "shop/totals.py", "def total(amount):\n    return amount * 2\n", *flags)
    assert fixed["disposition"] == "admitted"
    for wrong in (flags[2:], (*flags, "--check", "/bin/true")):
        ended = shop.run("Change it", "--recipe", "/bin/true", *wrong)
        assert (ended.code, ended.json["code"]) == (2, "usage.must-fix")


EXCUSED = """\
[[check]]
id = "unit"
command = "{pytest}"

[[excuse]]
id = "issue-12"
check = "unit"
names = ["tests.test_totals::test_zero"]
reason = "Zero is being discussed in issue 12."
expires = 2030-06-01
"""


def test_an_excuse_holds_until_its_day(configured: Callable[[str, dict[str, str]], Shop]) -> None:
    """Until then the failure is told and does not count; the day after it does, and the result says why."""
    shop = configured(EXCUSED, {"tests/test_totals.py": TEST, "shop/totals.py": "def total(amount):\n    return 0\n"})
    text = "def total(amount):\n    return 4\n"
    good = change(shop, "shop/totals.py", text, "--as-of", "2030-06-01")
    assert good["disposition"] == "admitted", good
    assert any("is excused by issue-12" in limitation for limitation in good["limitations"])
    over = change(shop, "shop/totals.py", text, "--as-of", "2030-06-02")
    assert over["disposition"] == "terminal-failure"
    assert (
        "regressed (excused by issue-12): unit unit:tests.test_totals::test_zero"
        in shop.savant("show", good["run"]).out
    )
    told = shop.savant("show", over["run"]).out
    assert "regressed: unit unit:tests.test_totals::test_zero" in told
    assert "note: The excuse issue-12 ended on 2030-06-01: Zero is being discussed in issue 12." in told
    assert change(shop, "shop/totals.py", text, "--as-of", "2030-06-01")["session"] == good["session"]


def test_a_check_that_could_never_be_judged_is_refused(configured: Callable[[str, dict[str, str]], Shop]) -> None:
    """Before anything is called, with the key and the fix."""
    shop = configured(LINT, {})
    shop.write(".savant/config.toml", 'domain = "shop"\n[[check]]\nid = "a"\ncommand = "x"\nrule = "must-fix"\n')
    shop.commit("a wrong rule")
    ended = shop.run("Change it", "--recipe", "/bin/true")
    assert (ended.code, ended.json["code"]) == (22, "refused.config")
    assert "at check.0: the rule must-fix" in ended.json["message"]
