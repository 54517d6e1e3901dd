"""Patches that git itself applies, back to the sealed bytes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runner.documents import CandidateOperation, FileState, Mode
from runner.patch import patch_of
from savant.contracts.digest import digest
from savant.files.paths import to_text

Files = dict[bytes, tuple[Mode, bytes]]
ENV = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}


def write(root: Path, files: Files) -> None:
    for path, (mode, data) in files.items():
        target = root / path.decode("utf-8", "surrogateescape")
        target.parent.mkdir(parents=True, exist_ok=True)
        if mode == "symlink":
            target.symlink_to(data.decode())
        else:
            target.write_bytes(data)
            target.chmod(0o755 if mode == "executable" else 0o644)


def read(root: Path) -> Files:
    found: Files = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root)).encode("utf-8", "surrogateescape")
        if path.is_symlink():
            found[name] = ("symlink", str(path.readlink()).encode())
        elif path.is_file():
            found[name] = ("executable" if path.stat().st_mode & 0o100 else "regular", path.read_bytes())
    return found


def operations(before: Files, after: Files) -> tuple[list[CandidateOperation], dict[str, bytes]]:
    contents = {digest(data): data for files in (before, after) for _, data in files.values()}

    def state(files: Files, path: bytes) -> FileState | None:
        if path not in files:
            return None
        mode, data = files[path]
        return FileState(mode=mode, content_digest=digest(data), size_bytes=len(data))

    made = [
        CandidateOperation(
            path=to_text(path),
            kind="modify",
            source=None,
            before=state(before, path),
            after=state(after, path),
            policy_change=False,
        )
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    ]
    return made, contents


def round_trip(tmp_path: Path, before: Files, after: Files) -> Files:
    write(tmp_path, before)
    made, contents = operations(before, after)
    patch = patch_of(made, lambda state: contents[state.content_digest], object_format="sha1")
    if patch:
        subprocess.run(["git", "apply", "-"], cwd=tmp_path, env=ENV, input=patch, check=True, capture_output=True)
    return read(tmp_path)


CASES: dict[str, tuple[Files, Files]] = {
    "modify": ({b"a": ("regular", b"1\n2\n3\n")}, {b"a": ("regular", b"1\nx\n3\n")}),
    "no newline": ({b"a": ("regular", b"1\n2")}, {b"a": ("regular", b"1\n2\n")}),
    "newline lost": ({b"a": ("regular", b"1\n2\n")}, {b"a": ("regular", b"1\n2")}),
    "create": ({}, {b"d/a": ("regular", b"x\n")}),
    "create empty": ({}, {b"a": ("regular", b"")}),
    "delete": ({b"a": ("regular", b"x\n"), b"b": ("regular", b"")}, {}),
    "mode": ({b"a": ("regular", b"x\n")}, {b"a": ("executable", b"x\n")}),
    "mode and content": ({b"a": ("regular", b"x\n")}, {b"a": ("executable", b"y\n")}),
    "binary": ({b"a": ("regular", b"\0\1\2")}, {b"a": ("regular", bytes(range(256)) * 9)}),
    "binary create": ({}, {b"a": ("regular", b"\0" * 1000)}),
    "link": ({}, {b"l": ("symlink", b"a/b")}),
    "link moved": ({b"l": ("symlink", b"a")}, {b"l": ("symlink", b"b")}),
    "file to link": ({b"a": ("regular", b"x\n")}, {b"a": ("symlink", b"b")}),
    "carriage returns": ({b"a": ("regular", b"1\r\n2\r\n")}, {b"a": ("regular", b"1\r\n3\r\n")}),
    "odd names": ({b"a b": ("regular", b"1\n"), b'q"\t\n\xc3\xa9': ("regular", b"1\n")},
                  {b"a b": ("regular", b"2\n"), b'q"\t\n\xc3\xa9': ("regular", b"2\n")}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_git_applies_the_patch_to_the_sealed_bytes(tmp_path: Path, name: str) -> None:
    """What git makes of the patch equals the candidate, byte and mode."""
    before, after = CASES[name]
    assert round_trip(tmp_path, before, after) == after


def test_a_rename_is_written_as_one() -> None:
    """A labelled rename is one header, and the deleted source is not told twice."""
    state = FileState(mode="regular", content_digest=digest(b"x\n"), size_bytes=2)
    made = [
        CandidateOperation(path="a", kind="delete", source=None, before=state, after=None, policy_change=False),
        CandidateOperation(path="b", kind="rename", source="a", before=None, after=state, policy_change=False),
    ]
    patch = patch_of(made, lambda _: b"x\n", object_format="sha1")
    assert patch == b"diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n"


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    old=st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30), new=st.lists(st.sampled_from("abc"), max_size=30)
)
def test_any_text_round_trips(tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str]) -> None:
    """Property: whatever the two texts, git arrives at the new one."""
    before: Files = {b"f": ("regular", "\n".join(old).encode())}
    after: Files = {b"f": ("regular", "\n".join(new).encode() + b"\n")}
    assert round_trip(tmp_path_factory.mktemp("p"), before, after) == after
