"""The shop and its person, for the corpus."""

from __future__ import annotations

from tests.e2e.conftest import home, shop

__all__ = ("home", "shop")
