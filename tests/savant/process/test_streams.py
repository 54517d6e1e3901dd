"""The descriptors of one command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from savant.contracts.errors import PortError
from savant.process.streams import Streams


def test_blobs_can_be_read_and_the_report_told(tmp_path: Path) -> None:
    """Each blob is read from its start, and what was reported is there when everybody has let go of it."""
    with Streams(tmp_path, b"in", (b"first", b"second"), has_report=True) as streams:
        *_, first, second, report = streams.theirs
        assert len(streams.theirs) == 6
        assert (os.read(first, 99), os.read(second, 99)) == (b"first", b"second")
        assert os.read(streams.theirs[0], 99) == b"in"
        os.write(report, b"told")
        assert streams.report() == b"told"


def test_asking_for_a_report_never_waits(tmp_path: Path) -> None:
    """Nothing was reported and somebody still could: that is an empty report; so is having none."""
    with Streams(tmp_path, b"", has_report=True) as streams:
        assert streams.report() == b""
    with Streams(tmp_path, b"") as streams:
        assert streams.report() == b""
        assert len(streams.theirs) == 3


def test_a_report_has_a_limit(tmp_path: Path) -> None:
    """A report that is longer than any of ours is cut."""
    with Streams(tmp_path, b"", has_report=True) as streams:
        os.set_blocking(streams.theirs[-1], False)
        written = 0
        while written <= 65_536:
            try:
                written += os.write(streams.theirs[-1], bytes(4096))
            except BlockingIOError:
                break
        assert len(streams.report()) == 65_536


def test_nothing_stays_open(tmp_path: Path) -> None:
    """Every descriptor is closed at the end and when something failed in the middle, and no file is left."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    with Streams(tmp_path, b"x", (b"y",), has_report=True):
        pass
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(PortError) as caught:
        Streams(tmp_path / "file" / "scratch", b"")
    assert caught.value.code == "port.disk"
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
