"""O5B: application.

Owns the writing of exactly the admitted bytes into a dedicated target, its journal and recovery, undo, and the
verification record. Never commits, pushes or merges, never touches the checkout that a command was started for, and
never rewrites a receipt. Import its modules by name; the package itself imports nothing.
"""

from __future__ import annotations

__all__: tuple[str, ...] = ()
