"""How results are read: exit status, JUnit XML, SARIF, TAP. Pure; what is read is untrusted."""

from __future__ import annotations

from evaluator.formats.cases import TestCase
from evaluator.formats.junit import parse_junit
from evaluator.formats.sarif import parse_sarif
from evaluator.formats.tap import parse_tap

__all__ = (
    "TestCase",
    "parse_junit",
    "parse_sarif",
    "parse_tap",
)
