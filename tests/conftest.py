"""What every test shares: Hypothesis draws the same examples in every run, without a time limit for each.

What the machine that runs the tests says of itself decides nothing here: the variables that the product reads are taken
away before the first module is imported.

Modules beside the tests that assert themselves are rewritten by pytest, so that a failure says what was compared.
"""

from __future__ import annotations

import os
from typing import Final

import pytest
from hypothesis import settings

AMBIENT: Final = ("CI", "SAVANT_HOME", "SAVANT_TRACEBACK", "XDG_CONFIG_HOME", "XDG_DATA_HOME")

for variable in AMBIENT:
    os.environ.pop(variable, None)

settings.register_profile("savant", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, derandomize=False, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("SAVANT_HYPOTHESIS_PROFILE", "savant"))

pytest.register_assert_rewrite("tests.matrix.shell", "tests.matrix.proofs_seed", "tests.matrix.proofs_added")
