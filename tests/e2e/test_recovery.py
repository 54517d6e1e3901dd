"""A crash in the middle of an application, and what the next command makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.conftest import Shop

CRASH = """
import os, sys
import candidateapply.writing as writing
def die(*_, **__):
    os._exit(137)
writing.write_file_at = die
from savant.cli.app import run_command
run_command(sys.argv[1:])
"""


def test_the_next_command_finishes_an_interrupted_application_in_its_own_run(shop: Shop) -> None:
    """A process that dies at its first write leaves a journal; the next apply finishes and records it in its run."""
    first = shop.admitted()
    second = shop.admitted(script="echo y >> README.txt")
    target = shop.root / "target"
    died = subprocess.run(
        [sys.executable, "-P", "-c", CRASH, "apply", first, str(target), "--repo", str(shop.path)],
        check=False,
        capture_output=True,
        cwd=shop.root,
    )
    assert died.returncode == 137, died.stderr
    assert (target / "shop/totals.py").read_text() == "def total(amount):\n    return amount\n"
    other = shop.savant("apply", second, str(shop.root / "other"))
    assert other.code == 0, other.err
    assert str(target) in other.err
    assert "# more" in (target / "shop/totals.py").read_text()
    undone = shop.savant("undo", str(target), "--format", "json")
    assert (undone.code, json.loads(undone.out)["run"]) == (0, first), undone.out + undone.err
    assert (target / "shop/totals.py").read_text() == "def total(amount):\n    return amount\n"
    assert Path(shop.root / "other/README.txt").read_text() == "A shop.\ny\n"
    assert shop.savant("replay", first).code == 0
