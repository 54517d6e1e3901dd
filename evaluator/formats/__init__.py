"""How results are read: exit status and JUnit XML. Pure; what is read is untrusted."""

from __future__ import annotations

from evaluator.formats.junit import TestCase, parse_junit

__all__ = (
    "TestCase",
    "parse_junit",
)
