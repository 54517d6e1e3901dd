"""``bundle``: the evidence of a run as a folder or one archive, for a pipeline or an auditor elsewhere."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from savant.cli.options import format_option, repository_option, run_argument
from savant.cli.render import Output

if TYPE_CHECKING:
    from driver.history import RunHistory
    from savant.cli.workbench import Workbench
    from savant.ledger.port import Source

BRANCHES: Final = "savant-evidence"
"""Where pipelines look for evidence: a branch of this name, a slash and the run's id."""


@click.command("bundle", help="Write the evidence of a run: a folder, or an archive where the name ends in .tar.")
@run_argument
@repository_option
@click.option("--output", "output_path", type=click.Path(), metavar="PATH", help="Where (default: savant-RUN.tar).")
@click.option("--branch", is_flag=True, help="Print the git commands that put it on a branch, for you to run.")
@format_option
def bundle(run: str, repo: str, output_path: str | None, branch: bool, format_: str) -> int:
    """Write it, and say how the gate elsewhere comes to accept it."""
    from savant.cli.lookup import find_run, ledger_store
    from savant.cli.workbench import Workbench
    from savant.store.bundle import ARCHIVE_SUFFIX, write_files

    output = Output(as_json=format_ == "json")
    with Workbench(repo) as bench:
        history = find_run(bench, run).history
        suffix = "" if branch else ARCHIVE_SUFFIX
        target = Path(output_path or f"savant-{history.run_id[:12]}{suffix}").absolute()
        verify_target(target, is_folder=branch)
        with ledger_store(bench) as store:
            write_files(target, _files(bench, store, history))
            ledger, root = _identity(store)
    commands = branch_commands(target, history.run_id) if branch else ()
    members = {"run": history.run_id, "bundle": str(target), "ledger": ledger, "root": root, "commands": list(commands)}
    output.document("bundle", "ok", 0, members)
    if not output.as_json:
        output.say(f"The evidence of run {history.run_id[:12]} is in {target}.")
        output.say("It counts where .savant/ledgers.toml, on the branch that a change goes to, lists its ledger:")
        output.say("  [[ledger]]", f'  id = "{ledger}"', f'  root = "{root}"')
        output.say("  next: savant gate COMMIT --evidence " + shlex.quote(str(target)) if not branch else "  next:")
        output.say(*(f"    {command}" for command in commands))
    return 0


def verify_target(target: Path, *, is_folder: bool) -> None:
    """Return if a bundle can be written there.

    :raises UsageError: ``usage.bundle``.
    """
    from savant.contracts.errors import UsageError
    from savant.store.bundle import ARCHIVE_SUFFIX

    if not target.parent.is_dir():
        why, fix = f"There is no folder {target.parent}.", "Make it, or name another place: --output PATH"
    elif is_folder and target.suffix == ARCHIVE_SUFFIX:
        why, fix = "A branch is made of a folder, not of an archive.", "Name a folder: --output PATH"
    else:
        return
    raise UsageError("usage.bundle", why, untouched="Nothing was written.", fix=fix)


def branch_commands(folder: Path, run_id: str) -> tuple[str, ...]:
    """What a person types to put a bundle on a branch of its own: neither checkout nor index of theirs is touched."""
    place, name = shlex.quote(str(folder)), f"{BRANCHES}/{run_id}"
    index = f"GIT_INDEX_FILE={shlex.quote(str(folder) + '.index')}"
    return (
        f"{index} git --work-tree={place} add --all --force .",
        f"git branch {name} $(git commit-tree -m 'evidence of run {run_id}' $({index} git write-tree))",
        f"git push origin {name}",
    )


def _files(bench: Workbench, store: Source, history: RunHistory) -> Iterator[tuple[str, bytes]]:
    """The files of a bundle in the order of their names.

    :raises Unverifiable: ``unverifiable.no-checkpoint``; a body that is not there.
    """
    from savant.contracts.errors import Unverifiable
    from savant.ledger.head import parse_head
    from savant.store.bundle import CHECKPOINT, HEAD, LINES, object_name

    raw = store.read_head()
    head = None if raw is None else parse_head(raw)
    if raw is None or head is None:
        raise Unverifiable(
            "unverifiable.no-checkpoint",
            "No signed checkpoint covers this ledger.",
            untouched="Nothing was written.",
            fix="Find out why: savant ledger verify",
        )
    lines = list(store.lines(0, head.size))
    yield CHECKPOINT, head.checkpoint.encode("utf-8")
    yield HEAD, raw
    yield LINES, b"".join(line + b"\n" for line in lines)
    for digest in sorted({*_bodies(lines), *_blobs(bench, history)}):
        yield object_name(digest), bench.store.get(digest)


def _bodies(lines: list[bytes]) -> Iterator[str]:
    """What the records have beside the ledger: an auditor is shown all of it, or the ledger is not whole."""
    from savant.contracts.envelope import parse_envelope
    from savant.ledger.record import parse_statement

    for line in lines:
        payload, _, _ = parse_envelope(line)
        statement = parse_statement(payload)
        if statement.predicate.body_ref:
            yield statement.predicate.body_blake3


def _blobs(bench: Workbench, history: RunHistory) -> Iterator[str]:
    """The contents of every candidate of the run, as far as they are here."""
    from runner.documents import Candidate

    for candidate in history.all(Candidate):
        for operation in candidate.document.operations:
            after = operation.after
            if after is not None and after.mode != "gitlink" and bench.store.has(after.content_digest):
                yield after.content_digest


def _identity(store: Source) -> tuple[str, str]:
    """The ledger's id and the fingerprint of its root key."""
    from savant.ledger.authority import open_genesis
    from savant.ledger.ed25519 import Ed25519Verifier

    authority, _ = open_genesis(store.line(0) or b"", Ed25519Verifier())
    return authority.ledger, authority.root.keyid
