"""The matrix is proven by the same person at the same shell as the end-to-end tests."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.matrix.shell", "tests.matrix.proofs_seed", "tests.matrix.proofs_added")

from tests.e2e.conftest import home, shop, tool  # noqa: E402 - after the rewriting was asked for

__all__ = ["home", "shop", "tool"]
