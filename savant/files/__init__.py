"""Files: safe relative paths, the one pattern matcher, durable writes, and work inside a tree without following links.

:mod:`~savant.files.paths` and :mod:`~savant.files.patterns` are pure; :mod:`~savant.files.atomic` works on absolute
paths of our own, :mod:`~savant.files.tree` inside a root that others wrote. It never follows a link that it was not
told to, never writes into an existing inode, and never decides what a path means.
"""

from __future__ import annotations

from savant.files.paths import check_path, collision_key, is_reserved, join, parents, to_raw, to_text
from savant.files.patterns import Pattern, PatternSet, literal, parse

__all__ = [
    "Pattern",
    "PatternSet",
    "check_path",
    "collision_key",
    "is_reserved",
    "join",
    "literal",
    "parents",
    "parse",
    "to_raw",
    "to_text",
]
