"""The matrix is proven by the same person at the same shell as the end-to-end tests."""

from __future__ import annotations

from tests.e2e.conftest import home, shop, tool

__all__ = ["home", "shop", "tool"]
