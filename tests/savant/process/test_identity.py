"""The digest of an executable: of its bytes, read once for as long as nobody can have changed it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from savant.contracts.digest import digest
from savant.contracts.errors import PortError
from savant.process import identity
from savant.process.identity import executable_digest


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What is read from the disk."""
    seen: list[Path] = []
    real = identity._read

    def read(path: Path) -> str:
        seen.append(path)
        return real(path)

    monkeypatch.setattr(identity, "_read", read)
    return seen


def test_it_is_the_digest_of_the_bytes_behind_a_link(tmp_path: Path) -> None:
    """A tool is named by what runs, in any size."""
    tool = tmp_path / "tool"
    tool.write_bytes(b"x" * (2 * 1024 * 1024 + 1))
    (tmp_path / "link").symlink_to("tool")
    assert executable_digest(tmp_path / "link") == executable_digest(tool) == digest(tool.read_bytes())


def test_a_file_that_just_changed_is_read_again(tmp_path: Path, reads: list[Path]) -> None:
    """Within the resolution of time stamps a change may not show in them, so a young file is never taken as known."""
    tool = tmp_path / "tool"
    for content in (b"one", b"two", b"two"):
        tool.write_bytes(content)
        assert executable_digest(tool) == digest(content)
    assert len(reads) == 3


def test_a_settled_file_is_read_once(tmp_path: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The next look costs a system call; content, mode, size, another file and a set-back time are all seen."""
    monkeypatch.setattr(identity, "_SETTLED_NS", -(10**18))
    tool = tmp_path / "tool"
    tool.write_bytes(b"one")
    stamps = tool.stat()
    assert {executable_digest(tool) for _ in range(3)} == {digest(b"one")}
    assert len(reads) == 1
    tool.write_bytes(b"two")
    os.utime(tool, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
    assert executable_digest(tool) == digest(b"two")
    (tmp_path / "other").write_bytes(b"six")
    (tmp_path / "other").rename(tool)
    assert executable_digest(tool) == digest(b"six")
    tool.chmod(0o755)
    assert executable_digest(tool) == digest(b"six")
    assert len(reads) == 4


def test_what_cannot_be_read_is_a_failed_port(tmp_path: Path) -> None:
    """A missing file, also one that was known before."""
    tool = tmp_path / "tool"
    tool.write_bytes(b"x")
    executable_digest(tool)
    tool.unlink()
    with pytest.raises(PortError) as caught:
        executable_digest(tool)
    assert caught.value.code == "port.executable"
