"""What the stages of Savant share: contracts, files, processes, git, the ledger, identity, stores and the command.

This package owns everything that more than one stage needs, and the composition root in :mod:`savant.cli`. It never
holds a stage's decision: those are the eight packages beside it.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
"""The version of the distribution ``savant-synthesis``; a test compares it with ``pyproject.toml``."""
