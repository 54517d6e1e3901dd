"""What a command says about the private directories of its call."""

from __future__ import annotations

from pathlib import Path

import pytest

from commandprovider.tool import by_short_names

CWD, HOME = Path("/scratch/copy-x1"), Path("/scratch/home-x2")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"/scratch/copy-x1/a/b.py:3: no", b"./a/b.py:3: no"),
        (b'{"cwd": "/scratch/copy-x1", "home": "/scratch/home-x2"}', b'{"cwd": ".", "home": "~"}'),
        (b"/scratch/home-x2/.config/x", b"~/.config/x"),
        (b"/scratch/copy-x1", b"."),
        (
            b"/scratch/copy-x12 /scratch/copy-x1.bak /scratch/copy",
            b"/scratch/copy-x12 /scratch/copy-x1.bak /scratch/copy",
        ),
    ],
)
def test_private_directories_have_short_names(said: bytes, told: bytes) -> None:
    """They are called ``.`` and ``~``; a path that only begins alike is another one."""
    assert by_short_names(said, CWD, HOME) == told


def test_one_directory_inside_the_other(tmp_path: Path) -> None:
    """The longer name counts, and the real path of a link is the same directory."""
    real, inner = tmp_path / "real", tmp_path / "link" / "work"
    (real / "work").mkdir(parents=True)
    (tmp_path / "link").symlink_to(real)
    said = f"{inner}/a {tmp_path}/link/b {real}/work/c {real}/d".encode()
    assert by_short_names(said, inner, tmp_path / "link") == b"./a ~/b ./c ~/d"
