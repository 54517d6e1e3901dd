"""The README's first minutes, typed line by line in a repository, by somebody who has only the README."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Shop, git

README = Path(__file__).resolve().parents[2] / "README.md"
BLOCK = re.compile(r"^```\n(savant doctor.*?)^```$", re.MULTILINE | re.DOTALL)


def lines() -> list[list[str]]:
    """The commands of the block, without their comments, split as a shell would."""
    (block,) = BLOCK.findall(README.read_text("utf-8"))
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    return [words[1:] for words in commands if words]


def test_the_first_minutes_work_as_they_are_written(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of the block ends with 0, in order, and the checkout is as it was."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    shop.write("shop/totals.py", "import os\n\n\ndef total(amount):\n    return amount\n")
    test = "from shop.totals import total\n\n\ndef test_total():\n    assert total(2) == 2\n"
    shop.write("tests/test_totals.py", test)
    shop.write("pyproject.toml", '[tool.pytest.ini_options]\npythonpath = ["."]\n')
    shop.commit("something to tidy up")
    git(shop.path, "checkout", "-q", "-b", "work")
    shop.write("shop/totals.py", "import os\n\n\ndef total(amount):\n    return amount + 0\n")
    shop.commit("work")
    monkeypatch.chdir(shop.path)
    before = shop.state()
    commands = lines()
    assert [words[0] for words in commands] == ["doctor", "run", "diff", "apply", "undo", "run"]
    for words in commands:
        ended = shop.savant(*words, repo=False)
        assert ended.code == 0, f"savant {shlex.join(words)}\n{ended.out}{ended.err}"
    after = shop.state()
    assert (after.files, after.control.refs, after.control.index) == (
        before.files,
        before.control.refs,
        before.control.index,
    )
