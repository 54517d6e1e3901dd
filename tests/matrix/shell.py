"""What proofs share: ways to ask for a run, a foreign program on the wire, faults at the ports, forged ledgers."""

from __future__ import annotations

import json
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import structs

from admission.policy import policy_toml, starter_policy
from tests.e2e.conftest import GIT_ENV, Ended, Shop

WRITES = "echo x >> README.txt"
GREEN = ("--must-pass", "/bin/true")
BASE_TEXT = "A shop.\n"

PROLOGUE = """
import json, os, subprocess, sys, time
asked = json.load(sys.stdin)
request = asked["request"]
def answer(**m):
    print(json.dumps({"wire": asked["wire"], "request_digest": asked["request_digest"], **m}))
def write(path, text):
    answer(generation={"edits": [{"op": "write", "path": path, "text": text}]})
def plan(*patterns):
    changes = [{"pattern": p, "operations": ["create", "modify"]} for p in patterns]
    answer(plan={"steps": [{"id": "one", "intended_changes": changes}]})
"""


def shell(script: str) -> tuple[str, ...]:
    """A recipe of one shell command."""
    return ("--recipe", f"/bin/sh -c {shlex.quote(script)}")


def foreign(program: str, *operations: str) -> tuple[str, ...]:
    """A provider on the wire: this Python program, for these operations (generation when none is named)."""
    words = shlex.join((sys.executable, "-I", "-c", PROLOGUE + program))
    return ("--provider", words, *(word for name in operations for word in ("--provider-operation", name)))


def run(shop: Shop, *flags: str, code: int = 0, objective: str = "Change") -> dict[str, Any]:
    """A run that must end with this code; what it said."""
    ended = shop.run(objective, *flags)
    assert ended.code == code, (ended.code, ended.out, ended.err)
    return ended.json


def said(shop: Shop, *words: str, code: int = 0) -> dict[str, Any]:
    """A command with JSON output that must end with this code; what it said."""
    ended = shop.savant(*words, "--format", "json")
    assert ended.code == code, (ended.code, ended.out, ended.err)
    return ended.json


def refused(shop: Shop, run_id: str, *, code: int, name: str) -> None:
    """An application into a fresh place is refused under this code, and nothing at all is changed."""
    before = shop.state()
    place = shop.root / "refused"
    answer = said(shop, "apply", run_id, str(place), "--new", code=code)
    assert answer["code"] == name, answer
    assert shop.state() == before
    assert not place.exists()


def rules(shop: Shop, **changes: Any) -> None:
    """Commit a policy of the project's own: the starter with these members changed."""
    shop.write(".savant/policy.toml", policy_toml(structs.replace(starter_policy(), **changes)))
    shop.commit("rules")


def tamper(shop: Shop, change: Callable[[sqlite3.Connection], object]) -> None:
    """Change the ledger's database behind everybody's back, its triggers taken away first."""
    database = shop.path / ".git" / "savant" / "ledger.sqlite3"
    with closing(sqlite3.connect(database)) as connection:
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f'DROP TRIGGER "{name}"')
        change(connection)
        connection.commit()


def records(shop: Shop) -> list[dict[str, Any]]:
    """Every record of the ledger: its number, kind and what was observed."""
    from savant.contracts.envelope import parse_envelope
    from savant.ledger.record import parse_statement
    from savant.ledger.sqlitestore import SqliteStore

    with closing(SqliteStore(shop.path / ".git" / "savant")) as store:
        lines = list(store.lines(0, store.tail().size))
    found = []
    for seq, line in enumerate(lines):
        predicate = parse_statement(parse_envelope(line)[0]).predicate
        found.append(
            {"seq": seq, "kind": predicate.body_kind, "role": predicate.role, "detail": predicate.observed.detail}
        )
    return found


def in_another_process(shop: Shop, patch: str, words: Sequence[str]) -> int:
    """Run a command in a process of its own in which something was patched first; its exit status."""
    program = f"{patch}\nimport sys\nfrom savant.cli.app import run_command\nsys.exit(run_command({list(words)!r}))\n"
    env = {"PATH": GIT_ENV["PATH"], "SAVANT_HOME": str(shop.root / "home")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=shop.root, env=env, check=False, capture_output=True
    )
    assert b"Traceback" not in done.stderr, done.stderr
    return done.returncode


def is_gone(pid: int) -> bool:
    """Whether a process is no more."""
    return not Path(f"/proc/{pid}").exists()


def ended_json(ended: Ended) -> dict[str, Any]:
    return dict(json.loads(ended.out))
