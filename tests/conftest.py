"""What every test shares: Hypothesis draws the same examples in every run, without a time limit for each.

Modules beside the tests that assert themselves are rewritten by pytest, so that a failure says what was compared.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

settings.register_profile("savant", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, derandomize=False, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("SAVANT_HYPOTHESIS_PROFILE", "savant"))

pytest.register_assert_rewrite("tests.matrix.shell", "tests.matrix.proofs_seed", "tests.matrix.proofs_added")
