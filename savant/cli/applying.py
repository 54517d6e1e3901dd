"""Applying from the command line: the apply step of a run."""

from __future__ import annotations
