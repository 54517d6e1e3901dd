"""What a commit says of itself."""

from __future__ import annotations

import pytest

from savant.repository.message import message_of, trailers


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("subject\n\nSavant-Run: 0123\n", (("savant-run", "0123"),)),
        ("subject\n\nbody\n\nA-B: c\nD: e f \n\n", (("a-b", "c"), ("d", "e f"))),
        ("subject\r\n\r\nA: b\r\n", (("a", "b"),)),
        ("Savant-Run: 0123\n", ()),
        ("subject\n\nSavant-Run: 0123\nand more\n", ()),
        ("subject\n\nSavant-Run: 0123\n\nlater words\n", ()),
        ("subject\n\nSavant-Run:\n", ()),
        ("", ()),
    ],
)
def test_trailers_are_the_lines_of_the_last_paragraph(message: str, found: tuple[tuple[str, str], ...]) -> None:
    """Every line must be one; the subject is none."""
    assert trailers(message) == found


def test_the_message_of_a_raw_commit() -> None:
    """It begins after the first empty line; what is not UTF-8 is replaced."""
    assert message_of(b"tree x\nauthor y\n\nsub\xffject\n\nA: b\n") == "sub\ufffdject\n\nA: b\n"
    assert message_of(b"tree x") == ""
