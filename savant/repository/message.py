"""What a commit says of itself: the trailers at the end of its message. Pure. A claim, and no more."""

from __future__ import annotations

import re
from typing import Final

MAX_TRAILERS: Final = 100
_TRAILER: Final = re.compile(r"^(?P<key>[A-Za-z][A-Za-z0-9-]{0,60}):[ \t]+(?P<value>\S.{0,1000})$")


def message_of(commit: bytes) -> str:
    """The message in a raw commit object; what is not UTF-8 is replaced."""
    return commit.partition(b"\n\n")[2].decode("utf-8", "replace")


def trailers(message: str) -> tuple[tuple[str, str], ...]:
    """The trailers of a message, ``(key in lower case, value)``, in order: the lines of its last paragraph.

    A last paragraph with a line that is none has no trailers; nor has a message of one paragraph.
    """
    paragraphs = [part for part in message.strip().replace("\r\n", "\n").split("\n\n") if part.strip()]
    if len(paragraphs) < 2:
        return ()
    found = [_TRAILER.match(line.rstrip()) for line in paragraphs[-1].split("\n")][:MAX_TRAILERS]
    if not all(found):
        return ()
    return tuple((match["key"].lower(), match["value"].strip()) for match in found if match)
