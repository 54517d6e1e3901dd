"""What identifies a call of a cassette, and what may be kept of it: private paths and credentials are taken out.

Pure but for the files in a private HOME that an argument names.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import msgspec

from savant.contracts.digest import digest
from savant.contracts.errors import RefusedInput
from savant.contracts.scalars import as_set
from savant.files.paths import check_path, to_raw, to_text
from savant.files.tree import lstat_at, open_root, read_file_at
from savant.process.conversation import escaped, unescaped
from savant.process.difference import Node
from savant.process.documents import AskedCall, ChangeKind, KeptPart, NamedFile, Program
from savant.process.port import Command, Mount

Programs: TypeAlias = Mapping[str, Program]
"""What the configuration names, by the absolute path that a command starts."""

CWD: Final = b"{cwd}"
HOME: Final = b"{home}"
MAX_ARGUMENT: Final = 16_384
MAX_NAMED_BYTES: Final = 64 * 1024 * 1024
_SHOWN: Final = 120
_SECRET_NAME: Final = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)
"""Of the variables that come from the person, those whose values are never kept, wherever their name stands."""


class Redaction(Protocol):
    """Takes credentials out of bytes. What it gave back, it gives back unchanged."""

    def redact(self, data: bytes, *, truncated: bool = False) -> bytes:
        """Without any credential, and without what follows a name that says it is one."""
        ...

    def redact_values(self, data: bytes, *, truncated: bool = False) -> bytes:
        """Without any credential."""
        ...


class Cleaner:
    """What may be kept of the bytes of a call.

    :param personal: the variables that come from the person, as :func:`name_text` spells them.
    """

    def __init__(self, redaction: Redaction, personal: Iterable[str]) -> None:
        self.personal = frozenset(personal)
        self._redaction = redaction
        secret = sorted(name for name in self.personal if _SECRET_NAME.search(name))
        names = b"|".join(re.escape(to_raw(name)) for name in secret)
        self._by_name = (
            re.compile(
                rb"((?<![A-Za-z0-9_])(?:" + names + rb")(?:=|\\{0,4}[\"']\s{0,8}:\s{0,8})\\{0,4}[\"']?)"
                rb"(?![$<{%]|\[redacted)[^\s\"'\\]{8,}"
            )
            if names
            else None
        )

    def said(self, data: bytes, *, truncated: bool = False) -> bytes:
        """Of a message, an argument or an input: without credentials by value and by any name."""
        return self._named(self._redaction.redact(data, truncated=truncated))

    def own(self, data: bytes, *, truncated: bool = False) -> bytes:
        """Of an answer or a file: without credentials by value, and by the names of the person's secret variables."""
        return self._named(self._redaction.redact_values(data, truncated=truncated))

    def path(self, raw: bytes) -> str:
        """A path as documents spell it.

        :raises RefusedInput: ``refused.cassette-secret`` when it holds a credential.
        """
        if self._redaction.redact_values(raw) != raw:
            raise holds_credential("a path that a command left")
        return to_text(raw)

    def _named(self, data: bytes) -> bytes:
        return data if self._by_name is None else self._by_name.sub(rb"\1[redacted-by-savant]", data)


class Call:
    """A command and where its private paths are on the host."""

    def __init__(self, command: Command) -> None:
        mounts = command.sandbox.mounts if command.sandbox.level == "S3" else ()
        home = dict(command.env).get("HOME", "")
        self.command = command
        self.directory = _on_host(command.cwd, mounts)
        self.home = _on_host(Path(home), mounts) if home.startswith("/") else None
        self._home = os.fsencode(home).rstrip(b"/")
        private = {self._home: HOME, os.fsencode(command.cwd): CWD}
        self._private = sorted((item for item in private.items() if len(item[0]) > 1), key=lambda item: -len(item[0]))

    def without_private_paths(self, data: bytes) -> bytes:
        """The bytes with ``{cwd}`` and ``{home}`` for the directories of this one call."""
        for path, token in self._private:
            data = data.replace(path, token)
        return data

    def spelt(self, data: bytes) -> bytes:
        """What is said in a conversation, without private paths; :meth:`said` gives it back."""
        return self.without_private_paths(escaped(data))

    def said(self, data: bytes) -> bytes:
        """What was said in a conversation, with the private paths of this call."""
        return unescaped(data, cwd=os.fsencode(self.command.cwd), home=self._home)

    def named_files(self) -> Mapping[bytes, tuple[Node, bytes]]:
        """The files below HOME that an argument names, with their content.

        :raises RefusedInput: ``refused.too-large`` and what is not a file or lies behind a link.
        """
        wanted = [] if self.home is None or len(self._home) < 2 else list(self._names())
        if self.home is None or not wanted:
            return {}
        found = {}
        with open_root(self.home) as root:
            for name in wanted:
                facts = lstat_at(root, name)
                if facts is not None and stat.S_ISREG(facts.st_mode):
                    data = read_file_at(root, name, max_bytes=MAX_NAMED_BYTES)
                    kind: ChangeKind = "executable" if facts.st_mode & stat.S_IXUSR else "regular"
                    found[name] = (Node(kind, digest(data)), data)
        return found

    def _names(self) -> Iterator[bytes]:
        for word in map(os.fsencode, self.command.argv[1:]):
            for text in (word, word.partition(b"=")[2]):
                if text.startswith(self._home + b"/"):
                    name = text.removeprefix(self._home + b"/")
                    try:
                        check_path(name)
                    except RefusedInput:
                        continue
                    yield name


class Asked(msgspec.Struct, frozen=True):
    """What identifies a call, the input that its digest names, and the parts that credentials were taken from."""

    document: AskedCall
    stdin: bytes
    redacted: frozenset[KeptPart]


def ask(
    call: Call, programs: Programs, cleaner: Cleaner, tree_digest: str, named: Mapping[bytes, tuple[Node, bytes]]
) -> Asked:
    """What identifies a call.

    :param tree_digest: of the working directory before it.
    :param named: the call's :meth:`Call.named_files` before it.
    :raises RefusedInput: ``refused.cassette-secret``.
    """
    command = call.command
    path = command.argv[0]
    words = [call.without_private_paths(os.fsencode(word)) for word in command.argv[1:]]
    clean = [cleaner.said(word) for word in words]
    given = call.without_private_paths(command.stdin)
    stdin = cleaner.said(given)
    redacted: set[KeptPart] = set()
    if clean != words:
        redacted.add("arguments")
    if stdin != given:
        redacted.add("stdin")
    names = as_set(name_text(name) for name, _ in command.env)
    files = {}
    for name, (_, data) in named.items():
        given = call.without_private_paths(data)
        files[cleaner.path(name)] = digest(cleaner.said(given))
    document = AskedCall(
        program=programs.get(path) or Program(name=to_text(os.fsencode(Path(path).name)), content_digest=None),
        arguments=tuple(map(_argument, clean)),
        files=as_set(NamedFile(path=path, content_digest=content) for path, content in files.items()),
        stdin_digest=digest(stdin),
        environment=tuple(name for name in names if name not in cleaner.personal),
        tree_digest=tree_digest,
    )
    return Asked(document, stdin, frozenset(redacted))


def differing(recorded: AskedCall, asked: AskedCall) -> Mapping[str, str]:
    """The parts in which two calls differ, with a word about each; empty for the same call."""
    parts = {}
    if (recorded.program, recorded.arguments) != (asked.program, asked.arguments):
        parts["argv"] = f"recorded {_shown(recorded)}, asked for {_shown(asked)}"
    if recorded.files != asked.files:
        paths = sorted({file.path for file in set(recorded.files) ^ set(asked.files)})
        parts["files"] = f"other content or names: {', '.join(paths)[:_SHOWN]}"
    if recorded.stdin_digest != asked.stdin_digest:
        parts["stdin"] = "other input"
    if recorded.environment != asked.environment:
        names = sorted(set(recorded.environment) ^ set(asked.environment))
        parts["environment"] = f"not in both: {', '.join(names)[:_SHOWN]}"
    if recorded.tree_digest != asked.tree_digest:
        parts["tree"] = "other files in the working directory"
    return parts


def name_text(name: str) -> str:
    """A variable's name as a cassette spells it."""
    return to_text(os.fsencode(name))


def holds_credential(what: str) -> RefusedInput:
    """Why something cannot be kept."""
    return RefusedInput(
        "refused.cassette-secret",
        f"A credential is part of {what}; a cassette cannot hold it.",
        untouched="It was not written into the cassette, which stays incomplete.",
        fix="Give the credential through a variable or a file.",
    )


def _on_host(path: Path, mounts: Iterable[Mount]) -> Path:
    for mount in reversed(tuple(mounts)):
        if path.is_relative_to(mount.target):
            return mount.source / path.relative_to(mount.target)
    return path


def _argument(word: bytes) -> str:
    text = to_text(word)
    return text if len(text) <= MAX_ARGUMENT else f"%{digest(word)}"


def _shown(asked: AskedCall) -> str:
    words = " ".join((asked.program.name, *asked.arguments))
    return repr(words if len(words) <= _SHOWN else words[:_SHOWN] + "...")
