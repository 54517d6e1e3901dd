"""What a preparation left: bounded, and the same when it is used again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluator.outputs import inventory, is_folder, make_read_only, verify_outputs
from savant.contracts.errors import RefusedInput
from savant.process.port import Mount, Sandbox


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree/out/bin").mkdir(parents=True)
    (tmp_path / "tree/out/bin/tool").write_text("#!/bin/sh\n")
    (tmp_path / "tree/out/data").write_bytes(b"x" * 100)
    return tmp_path / "tree"


def test_more_than_the_bound_is_refused(tree: Path) -> None:
    """One file or one byte too many, and not one less: the output itself counts, and folders as large as they are."""
    size = sum(path.lstat().st_size for path in (tree / "out", *(tree / "out").rglob("*")))
    verify_outputs(tree, ["out"], [], max_entries=4, max_bytes=size)
    for few in ({"max_entries": 3}, {"max_bytes": size - 1}):
        with pytest.raises(RefusedInput, match="made more than"):
            verify_outputs(tree, ["out"], [], **few)


def test_a_link_may_lead_to_what_its_makers_saw_and_no_further(tree: Path, tmp_path: Path) -> None:
    """What they could write beside the tree is gone afterwards, so it is no place to lead to."""
    tools, home = tmp_path / "tools", tmp_path / "home"
    for place in (tools, home):
        place.mkdir()
    (tree / "out/link").symlink_to(tools / "python")
    seen = Sandbox(level="S3", mounts=(Mount(tools, tools), Mount(home, home, writable=True)))
    verify_outputs(tree, ["out"], [seen])
    with pytest.raises(RefusedInput, match="out/link leads to a place"):
        verify_outputs(tree, ["out"], [Sandbox(level="S3")])
    (tree / "out/link").unlink()
    (tree / "out/link").symlink_to(home)
    with pytest.raises(RefusedInput, match="out/link leads to a place"):
        verify_outputs(tree, ["out"], [seen])
    verify_outputs(tree, ["out"], [Sandbox(level="S0")])


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda out: (out / "data").write_bytes(b"y" * 100),
    "more": lambda out: (out / "more").write_text(""),
    "less": lambda out: (out / "data").unlink(),
    "mode": lambda out: (out / "data").chmod(0o777),
    "link": lambda out: ((out / "data").unlink(), (out / "data").symlink_to("bin")),
    "name": lambda out: (out / "data").rename(out / "date"),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_a_change_shows(tree: Path, name: str) -> None:
    """Also one that puts the time of the last change back; reading is none."""
    before, facts = inventory(tree), (tree / "out/data").stat()
    assert (tree / "out/data").read_bytes() == b"x" * 100
    assert inventory(tree) == before
    CHANGES[name](tree / "out")
    if (tree / "out/data").is_file():
        os.utime(tree / "out/data", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert inventory(tree) != before


def test_nothing_may_be_written_and_programs_still_run(tree: Path) -> None:
    """Every right to write goes, the others stay, and no link is followed."""
    outside = tree.parent / "outside"
    outside.write_text("")
    outside.chmod(0o666)
    (tree / "out/bin/tool").chmod(0o755)
    (tree / "out/link").symlink_to(outside)
    make_read_only(tree)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tree, outside, *(tree / "out").rglob("*"))}
    assert (modes["tree"] & 0o222, modes["tool"], modes["data"] & 0o222, modes["outside"]) == (0, 0o555, 0, 0o666)


def test_a_folder_is_no_link(tree: Path) -> None:
    """Neither itself nor any on the way to it."""
    (tree / "link").symlink_to("out")
    assert is_folder(tree, "out/bin")
    assert not any(is_folder(tree, name) for name in ("link", "link/bin", "out/data", "none"))
