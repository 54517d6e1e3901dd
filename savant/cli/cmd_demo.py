"""``demo``: the whole chain, run through the same commands that a person types, on a repository made for it.

The repository has one test that is red. The provider is ruff: its first attempt only formats, so the test stays red and
the attempt is sent back; the second attempt's request holds the finding, which adds a fixing step, and the test passes.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import click

from savant.cli.exits import exit_code
from savant.contracts.errors import InternalError, PortError

FILES: Final = MappingProxyType(
    {
        "pyproject.toml": b'[project]\nname = "shop"\nversion = "1"\n\n[tool.pytest.ini_options]\npythonpath = ["."]\n',
        "shop/__init__.py": b'"""A shop."""\n',
        "shop/totals.py": (
            b'"""Totals."""\n\n\n'
            b"def total( kind, amount ):\n"
            b'    """The amount to pay; members get a tenth off."""\n'
            b'    if kind is "member":\n'
            b"        return amount  *  9 // 10\n"
            b"    return amount\n"
        ),
        "tests/test_totals.py": (
            b'"""Members pay less."""\n\n'
            b"from shop.totals import total\n\n\n"
            b"def test_a_member_gets_a_tenth_off():\n"
            b'    assert total("".join(["mem", "ber"]), 100) == 90\n\n\n'
            b"def test_a_guest_pays_everything():\n"
            b'    assert total("guest", 100) == 100\n'
        ),
    }
)
OBJECTIVE: Final = "Members get a tenth off"


@click.command("demo", help="Run the whole chain on a small repository made for it. Needs ruff and pytest.")
@click.option(
    "--directory", type=click.Path(), help="Where to make it (default: a new folder under the temporary one)."
)
def demo(directory: str | None) -> int:
    """Run the chain and show every command; the exit code of the first step that did not end as it should."""
    import tempfile

    from savant.repository.sample import create_sample

    root = Path(directory).absolute() if directory else Path(tempfile.mkdtemp(prefix="savant-demo-"))
    tools = {name: _tool(name) for name in ("ruff", "pytest")}
    repo, target = root / "shop", root / "shop-applied"
    os.environ["SAVANT_HOME"] = str(root / "home")
    create_sample(repo, FILES, message="A shop whose members pay too much")
    click.echo(f"A repository with one red test: {repo}")
    steps: tuple[tuple[str, Sequence[str], str], ...] = (
        (
            "Run: the first attempt only formats and is sent back; the second one's request holds the failed test.",
            (
                "run",
                OBJECTIVE,
                "--repo",
                str(repo),
                "--scope",
                "shop/**",
                "--recipe",
                f"{tools['ruff']} format shop",
                "--on-failure",
                f"pytest={tools['ruff']} check --isolated --select F632 --fix --quiet shop",
                "--must-pass",
                f"{tools['pytest']} -q",
            ),
            "admitted",
        ),
        ("The candidate as a diff.", ("diff", "--repo", str(repo)), "ok"),
        ("Why each path may be applied.", ("admit", "--explain", "--repo", str(repo)), "admitted"),
        ("Apply it into a new worktree.", ("apply", "--repo", str(repo), "--new", str(target)), "applied-compliant"),
        ("Look at the target independently.", ("verify", "--repo", str(repo), str(target)), "ok"),
        ("The record.", ("ledger", "verify", "--repo", str(repo)), "ok"),
        ("Decide everything again from the record.", ("replay", "--repo", str(repo)), "ok"),
    )
    for words, arguments, expected in steps:
        code = _step(words, arguments)
        if code != exit_code(expected):
            click.echo(f"demo: that step should have ended with {exit_code(expected)}.", err=True)
            return code or exit_code("internal")
    copy = _tampered(repo / ".git" / "savant", root / "tampered")
    code = _step(
        "A copy of the ledger in which one record was changed.",
        ("ledger", "verify", "--repo", str(repo), "--ledger", str(copy)),
    )
    if code != exit_code("unverified"):
        click.echo("demo: the tampered copy was not refused.", err=True)
        return exit_code("internal")
    click.echo("\nThe tampered copy was REFUSED. Everything above is in " + str(root))
    return 0


def _step(words: str, arguments: Sequence[str]) -> int:
    from savant.cli.app import run_command

    click.echo(f"\n# {words}")
    click.echo("$ savant " + " ".join(f"'{word}'" if " " in word else word for word in arguments))
    sys.stdout.flush()
    return run_command(arguments)


def _tool(name: str) -> Path:
    """A tool beside this interpreter, or on the PATH.

    :raises PortError: ``port.demo-tool``.
    """
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise PortError(
            "port.demo-tool", f"The demo needs {name}.", untouched="Nothing was made.", fix=f"pip install {name}"
        )
    return Path(found)


def _tampered(ledger: Path, copy: Path) -> Path:
    """A copy of a ledger in which one byte of the middle record is different."""
    shutil.copytree(ledger, copy)
    with sqlite3.connect(copy / "ledger.sqlite3") as connection:
        (count,) = connection.execute("SELECT count(*) FROM record").fetchone()
        (line,) = connection.execute("SELECT line FROM record WHERE seq = ?", (count // 2,)).fetchone()
        changed = bytearray(line)
        changed[len(changed) // 2] ^= 1
        for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f'DROP TRIGGER "{trigger}"')
        connection.execute("UPDATE record SET line = ? WHERE seq = ?", (bytes(changed), count // 2))
    if bytes(changed) == line:  # pragma: no cover - one bit was flipped
        raise InternalError("internal.demo", "The copy was not changed.")
    return copy
