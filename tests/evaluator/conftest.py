"""Fixtures of the evaluator's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.evaluator.kit import Bench, bench

FILES = {
    "calc.py": "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a + b  # wrong\n",
    "conftest.py": "import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parent))\n",
    "tests/test_add.py": (
        "import pytest\nimport calc\n\n\n"
        "@pytest.mark.parametrize('pair', [(1, 2), (3, 4)], ids=['small one', 'big'])\n"
        "def test_add(pair):\n    assert calc.add(*pair) == sum(pair)\n"
    ),
    "tests/test_sub.py": "import calc\n\n\ndef test_sub():\n    assert calc.sub(3, 1) == 2\n",
    "README.md": "# calc\n",
}
"""A small project with a red test."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """A bench whose repository holds FILES: one test is red."""
    with bench(tmp_path_factory.mktemp("project"), FILES) as made:
        yield made
