"""The files that are served over a protocol: which path is whose, and what of a file is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from commandprovider.served import MAX_READ_BYTES, ServedFiles
from runner.snapshot import BaseSnapshot
from runner.workspace import CandidateWorkspace
from savant.contracts.errors import RefusedInput, SavantError


@pytest.fixture
def copy(workspace: CandidateWorkspace) -> Path:
    return workspace.materialise()


@pytest.fixture
def files(workspace: CandidateWorkspace, copy: Path) -> ServedFiles:
    return ServedFiles(copy, workspace, workspace=workspace, copy=copy, is_hidden=lambda path: path == b"hidden")


def code(call: object) -> str:
    assert callable(call)
    with pytest.raises(SavantError) as caught:
        call()
    return caught.value.code


@pytest.mark.parametrize(
    ("line", "limit", "expected"),
    [
        (None, None, "1\n2\n3"),
        (2, None, "2\n3"),
        (1, 1, "1\n"),
        (2, 1, "2\n"),
        (3, 5, "3"),
        (0, 2, "1\n2\n"),
        (9, None, ""),
        (1, 0, ""),
    ],
)
def test_lines_are_counted_from_one(
    files: ServedFiles, copy: Path, line: int | None, limit: int | None, expected: str
) -> None:
    """A part of a file is whole lines, each with its end where it has one."""
    files.write(f"{copy}/n.txt", "1\n2\n3")
    assert files.read(f"{copy}/n.txt", line, limit) == expected


def test_a_directory_behind_a_link_is_known_by_both_names(
    workspace: CandidateWorkspace, copy: Path, tmp_path: Path
) -> None:
    """Agents tell real paths where they were told others; a folder whose name only begins alike is another one."""
    link = tmp_path / "link"
    link.symlink_to(copy)
    files = ServedFiles(link, workspace)
    assert files.read(f"{link}/a.txt") == files.read(f"{copy}/a.txt") == "one\ntwo\n"
    assert [files.holds(f"{place}/a.txt") for place in (link, copy, f"{copy}x", "", "/")] == [
        True,
        True,
        False,
        False,
        False,
    ]


@pytest.mark.parametrize("name", ["a\ud800", "a\0b", "x/" * 3000, ".GIT/config", ""])
def test_paths_that_no_repository_has_are_refused(files: ServedFiles, copy: Path, name: str) -> None:
    """They are neither read nor written, and the candidate's own are."""
    for call in (lambda: files.read(f"{copy}/{name}"), lambda: files.write(f"{copy}/{name}", "x")):
        assert code(call) in {"refused.bad-path", "refused.control-path"}
    assert not files.holds(f"{copy}/{name}")
    assert files.holds(f"{copy}/a.txt")


def test_an_executable_stays_one(files: ServedFiles, workspace: CandidateWorkspace, copy: Path) -> None:
    """A write keeps the mode, in the candidate and in its directory."""
    workspace.set_mode(b"a.txt", executable=True)
    files.write(f"{copy}/a.txt", "x")
    assert workspace.mode(b"a.txt") == "executable"
    assert (copy / "a.txt").stat().st_mode & 0o111


def test_what_is_there_already_is_not_written(files: ServedFiles, workspace: CandidateWorkspace, copy: Path) -> None:
    """The same content is no change; the same content where a link stands is one."""
    files.write(f"{copy}/a.txt", "one\ntwo\n")
    assert workspace.changed() == ()
    workspace.symlink(b"l", b"a.txt")
    files.write(f"{copy}/l", "a.txt")
    assert workspace.mode(b"l") == "regular"


def test_text_is_utf_8(files: ServedFiles, copy: Path) -> None:
    """What cannot be written in UTF-8 is refused."""
    assert code(lambda: files.write(f"{copy}/a.txt", "\ud800")) == "refused.not-text"
    files.write(f"{copy}/a.txt", "ä")
    assert files.read(f"{copy}/a.txt") == "ä"


def test_a_large_file_is_not_given(files: ServedFiles, workspace: CandidateWorkspace, copy: Path) -> None:
    """One byte more than the limit is too much."""
    workspace.write(b"big", b"x" * MAX_READ_BYTES)
    assert len(files.read(f"{copy}/big")) == MAX_READ_BYTES
    workspace.write(b"big", b"x" * (MAX_READ_BYTES + 1))
    assert code(lambda: files.read(f"{copy}/big")) == "refused.too-large"


def test_a_link_that_was_put_in_the_way_is_not_followed(
    files: ServedFiles, workspace: CandidateWorkspace, copy: Path, tmp_path: Path
) -> None:
    """An agent that replaces a folder of its directory by a link outside gets an error, and nothing is there."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (copy / "new").symlink_to(outside)
    assert code(lambda: files.write(f"{copy}/new/x", "x")) == "refused.write-through-symlink"
    assert list(outside.iterdir()) == []
    with pytest.raises(RefusedInput):
        workspace.absorb()


def test_without_a_workspace_nothing_is_written_and_without_a_reader_nothing_is_read(
    snapshot: BaseSnapshot, tmp_path: Path
) -> None:
    """The base is read as it is."""
    files = ServedFiles(tmp_path, snapshot)
    assert (files.is_writable, files.read(f"{tmp_path}/a.txt")) == (False, "one\ntwo\n")
    assert code(lambda: files.write(f"{tmp_path}/a.txt", "x")) == "refused.read-only"
    assert code(lambda: ServedFiles(tmp_path, None).read(f"{tmp_path}/a.txt")) == "refused.no-such-path"
