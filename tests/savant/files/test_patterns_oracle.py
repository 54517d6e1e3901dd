"""The pattern language against ``git check-ignore``, where both mean the same.

Left out is what is different on purpose: a trailing slash, negation, escapes, names that are not ASCII. In git a
pattern that names a folder covers what lies in it; here folders have no dot and the last component of a pattern has
one, so that it names files only.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from savant.files.patterns import PatternSet

FOLDERS = ("a", "b", "ab", "Ab")
FILES = ("x.py", "xy.py", "X.py", "a.c", "b-1.c", "[.c")
folder_patterns = st.sampled_from((*FOLDERS, "*", "?", "a*", "[ab]", "[!a]", "**"))
file_patterns = st.sampled_from((*FILES[:5], "*.py", "?.py", "[a-c].c", "[!a-z].py", "*.*", "x*.py", "b-?.c"))
paths = st.tuples(st.lists(st.sampled_from(FOLDERS), max_size=3), st.sampled_from(FILES)).map(
    lambda parts: "/".join((*parts[0], parts[1]))
)


@st.composite
def patterns(draw: st.DrawFn) -> str:
    """A pattern that both languages know: anchored or not, and one for everything below a folder."""
    folders = draw(st.lists(folder_patterns, max_size=3))
    last = draw(file_patterns) if draw(st.booleans()) or not folders else "**"
    lead = draw(st.sampled_from(("", "/")))
    return lead + "/".join((*folders, last))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("oracle")
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    return place


def ignored(repository: Path, rules: list[str], names: list[str]) -> set[str]:
    (repository / ".gitignore").write_text("\n".join(rules) + "\n")
    words = ["git", "-C", str(repository), "check-ignore", "-z", "--stdin", "--no-index"]
    done = subprocess.run(words, input="\0".join(names).encode(), capture_output=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    return {name.decode() for name in done.stdout.split(b"\0") if name}


@given(rules=st.lists(patterns(), min_size=1, max_size=5), names=st.lists(paths, min_size=1, max_size=30, unique=True))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_git_ignores_is_what_matches(repository: Path, rules: list[str], names: list[str]) -> None:
    """The same paths for the same patterns."""
    ours = PatternSet.parse(rules)
    assert {name for name in names if ours.matches(name.encode())} == ignored(repository, rules, names)
