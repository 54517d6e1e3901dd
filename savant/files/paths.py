"""Repository paths: raw bytes in code, one text spelling in documents, and the rules a path must keep.

**Raw** is what git stores: bytes, components separated by ``/``, relative to the root of the tree.

**Text** is what a document holds: the UTF-8 characters of the raw bytes, except that these are written as ``%XX``
(two upper-case hexadecimal digits) for each byte of their UTF-8 form: ``%``, backslash, every control character
(C0, DEL, C1), the line and paragraph separators, the directional formatting characters (which make a name look
like another one), and every byte that is not part of valid UTF-8. Each raw value has exactly one text, and
:func:`to_raw` accepts no other.

All functions are pure.
"""

from __future__ import annotations

import re
import unicodedata
from types import MappingProxyType
from typing import Final

from savant.contracts.errors import RefusedInput

MAX_PATH_BYTES: Final = 4096
MAX_COMPONENT_BYTES: Final = 255

_UNPRINTABLE: Final = (
    "\\x00-\\x1f\\x7f-\\x9f"  # C0, DEL, C1
    "\\u2028\\u2029"  # line and paragraph separator
    "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069"  # directional formatting
)
_ESCAPED: Final = re.compile(f"[%\\\\{_UNPRINTABLE}\\udc80-\\udcff]")
_ESCAPE: Final = re.compile(rb"%([0-9A-F]{2})")
_STRAY_PERCENT: Final = re.compile(rb"%(?![0-9A-F]{2})")

_SHORT_NAME: Final = re.compile(r"git~[0-9]+")
_HFS_IGNORED: Final = MappingProxyType(
    dict.fromkeys(
        [
            *range(0x200C, 0x2010),
            *range(0x202A, 0x202F),
            *range(0x2060, 0x2070),
            0x00AD,
            0x034F,
            0x061C,
            0x180E,
            0x200B,
            0xFEFF,
        ]
    )
)
"""Code points that HFS+ drops when it compares names, and the other invisible ones."""


def _escape(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match.group().encode("utf-8", "surrogateescape"))


def to_text(raw: bytes) -> str:
    """The one text spelling of raw bytes; total, also for bytes that are no valid path."""
    return _ESCAPED.sub(_escape, raw.decode("utf-8", "surrogateescape"))


def to_raw(text: str) -> bytes:
    """The raw bytes of a text; the inverse of :func:`to_text`.

    :raises RefusedInput: ``refused.bad-path`` if the text is not the one spelling of its bytes.
    """
    try:
        encoded = text.encode()
    except UnicodeEncodeError as error:
        raise RefusedInput("refused.bad-path", "A path text holds a lone surrogate.") from error
    if _STRAY_PERCENT.search(encoded):
        raise RefusedInput(
            "refused.bad-path",
            f"In the path text {text!r} a percent sign is not followed by two upper-case hexadecimal digits.",
            fix="Write a literal percent sign as %25.",
        )
    raw = _ESCAPE.sub(lambda match: bytes.fromhex(match.group(1).decode()), encoded)
    if to_text(raw) != text:
        raise RefusedInput(
            "refused.bad-path",
            f"The path text {text!r} is not the one spelling of its bytes.",
            fix=f"Write it as {to_text(raw)!r}.",
        )
    return raw


def check_path(raw: bytes) -> None:
    """Refuse what is no safe relative path; names that git itself owns are :func:`is_reserved`'s business.

    :raises RefusedInput: ``refused.absolute-path`` (starts with a slash), ``refused.path-traversal`` (a ``..``
        component), ``refused.bad-path`` (empty, an empty or ``.`` component, a trailing slash, NUL, more than 4096
        bytes, a component of more than 255 bytes). Nothing is normalised: that would change what a digest covers.
    """
    if not raw:
        raise RefusedInput("refused.bad-path", "A path is empty.")
    if raw.startswith(b"/"):
        raise RefusedInput("refused.absolute-path", f"The path {_shown(raw)} is absolute.")
    components = raw.split(b"/")
    if b".." in components:
        raise RefusedInput("refused.path-traversal", f"The path {_shown(raw)} has a '..' component.")
    if b"\0" in raw:
        raise RefusedInput("refused.bad-path", f"The path {_shown(raw)} holds a NUL byte.")
    if len(raw) > MAX_PATH_BYTES:
        raise RefusedInput("refused.bad-path", f"The path {_shown(raw)} is longer than {MAX_PATH_BYTES} bytes.")
    for component in components:
        if component in (b"", b"."):
            raise RefusedInput("refused.bad-path", f"The path {_shown(raw)} has an empty or '.' component.")
        if len(component) > MAX_COMPONENT_BYTES:
            raise RefusedInput(
                "refused.bad-path",
                f"The path {_shown(raw)} has a component longer than {MAX_COMPONENT_BYTES} bytes.",
            )


def is_reserved(raw: bytes) -> bool:
    """Whether a component, at any depth, is git's control folder under any disguise some file system sees through.

    The disguises: letter case; trailing dots and spaces (Windows); an NTFS stream after ``:``; the short name
    ``git~1``; a backslash as separator (Windows); invisible code points (HFS+); any Unicode normal form.
    """
    text = raw.decode("utf-8", "surrogateescape").translate(_HFS_IGNORED)
    return any(_is_control_name(component) for component in re.split(r"[/\\]", text))


def _is_control_name(component: str) -> bool:
    name = _folded(component).partition(":")[0].rstrip(". ")
    return name == ".git" or _SHORT_NAME.fullmatch(name) is not None


def collision_key(raw: bytes) -> bytes:
    """A key that is equal for paths which some file system cannot tell apart.

    Full Unicode case folding and NFC, per component (the canonical caseless match of the Unicode standard, D145);
    bytes that are not UTF-8 are kept. Independent of the locale: dotless i and i stay apart.
    """
    return b"/".join(
        _folded(component.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        for component in raw.split(b"/")
    )


def _folded(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def parents(raw: bytes) -> tuple[bytes, ...]:
    """The folders above a path, outermost first; empty for a path at the root."""
    components = raw.split(b"/")
    return tuple(b"/".join(components[:depth]) for depth in range(1, len(components)))


def join(*parts: bytes) -> bytes:
    """The path made of the parts, each a relative path; checked.

    :raises RefusedInput: as :func:`check_path`, for each part and for the whole.
    """
    for part in parts:
        check_path(part)
    whole = b"/".join(parts)
    check_path(whole)
    return whole


def _shown(raw: bytes) -> str:
    text = to_text(raw[:200])
    return f"'{text}...'" if len(raw) > 200 else f"'{text}'"
