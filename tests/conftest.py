"""What every test shares: Hypothesis draws the same examples in every run, without a time limit for each."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("savant", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("explore", deadline=None, derandomize=False, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("SAVANT_HYPOTHESIS_PROFILE", "savant"))
