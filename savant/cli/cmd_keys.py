"""``keys list`` and ``keys export``: the public keys of a ledger, for people and for tools that we did not write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from savant.cli.cmd_ledger import ledger_option, reading_of
from savant.cli.options import format_option, repository_option
from savant.cli.render import Output, table

if TYPE_CHECKING:
    from savant.ledger.authority import Authority

ROOT: Final = "root"
"""Who signs statements about keys, in ``allowed_signers``."""

_SPKI: Final = bytes.fromhex("302a300506032b6570032100")
"""What stands before the 32 bytes of an Ed25519 key in RFC 8410."""


@click.group("keys", help="Read the public keys of a ledger. Private keys are never shown.")
def keys() -> None:
    """The group."""


@keys.command("list", help="List who may sign what, from which record on: the root, and a key for each role.")
@repository_option
@ledger_option
@format_option
def list_keys(repo: str, directory: str | None, format_: str) -> int:
    """Print the keys in force at the end of the ledger, and those that ended."""
    output = Output(as_json=format_ == "json")
    authority, _ = _read(repo, directory)
    members: list[dict[str, Any]] = [
        {"role": entry.role, "keyid": entry.keyid, "from": entry.from_seq, "until": entry.until_seq}
        for entry in authority.keys.entries
    ]
    told = {"ledger": authority.ledger, "root": authority.root.keyid, "epoch": authority.keys.epoch, "keys": members}
    output.document("keys", "ok", 0, told)
    if not output.as_json:
        output.say(f"ledger {authority.ledger}", f"root   {authority.root.keyid}", "")
        rows = ((m["role"], m["keyid"], str(m["from"]), "" if m["until"] is None else str(m["until"])) for m in members)
        output.say(*table((("ROLE", "KEY", "FROM", "UNTIL"), *rows)))
    return 0


@keys.command("export", help="Write the public keys as PEM, and what ssh-keygen needs to check the root's statements.")
@click.argument("folder", type=click.Path())
@repository_option
@ledger_option
@format_option
def export(folder: str, repo: str, directory: str | None, format_: str) -> int:
    """Make the folder; docs/audit.md says what to do with it."""
    from savant.store.bundle import write_files

    output = Output(as_json=format_ == "json")
    authority, statements = _read(repo, directory)
    target = Path(folder).absolute()
    files = dict(sorted({**dict(_files(authority)), **dict(statements)}.items()))
    write_files(target, files.items())
    output.document("keys-export", "ok", 0, {"folder": str(target), "files": list(files)})
    if not output.as_json:
        output.say(f"{len(files)} files are in {target}; docs/audit.md says how others check with them.")
    return 0


def _read(repo: str, directory: str | None) -> tuple[Authority, list[tuple[str, bytes]]]:
    """The authority at the end of a ledger, and the root's statements as files."""
    from savant.ledger.authority import authority_of, root_statements
    from savant.ledger.ed25519 import Ed25519Verifier

    statements = []
    with reading_of(repo, directory) as reading:
        authority = authority_of(reading.lines(), Ed25519Verifier())
        for seq, _, statement in root_statements(reading.lines()):
            statements += [
                (f"statement-{seq}.json", statement.statement.encode("utf-8")),
                (f"statement-{seq}.sig", statement.sshsig.encode("utf-8")),
            ]
    return authority, statements


def _files(authority: Authority) -> Iterator[tuple[str, bytes]]:
    from savant.contracts.envelope import to_base64
    from savant.ledger.authority import GENESIS_NAMESPACE, KEYRING_NAMESPACE, RECOVERY_NAMESPACE

    namespaces = f"{GENESIS_NAMESPACE},{KEYRING_NAMESPACE},{RECOVERY_NAMESPACE}"
    yield "allowed_signers", f'{ROOT} namespaces="{namespaces}" {authority.root.line}\n'.encode("ascii")
    yield "ledger", f"{authority.ledger}\n".encode("ascii")
    seen: Counter[str] = Counter()
    for entry in authority.keys.entries:
        name = f"{entry.role}-{entry.from_seq}"
        seen[name] += 1
        body = to_base64(_SPKI + bytes.fromhex(entry.public_key))
        pem = f"-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n"
        yield f"{name}.pem" if seen[name] == 1 else f"{name}-{seen[name]}.pem", pem.encode("ascii")
