"""The command line: the composition root, what people read, and exit codes.

Owns rendering and the wiring of adapters; it is the only package that reads the environment. Holds no decision.
"""

from __future__ import annotations

__all__: tuple[str, ...] = ()
