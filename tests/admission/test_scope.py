"""The real scope: every operation with its line counts, from contents alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from admission import scope
from runner.change import change_set, operations
from savant.files.paths import to_raw
from savant.repository import diff
from tests.admission.kit import Tree, f, link, make_chain, manifest_of, scope_of, submodule, x


def counts(before: tuple[str, bytes] | None, after: tuple[str, bytes] | None) -> tuple[int, int, bool]:
    trees: list[Tree] = [{b"a": item} if item is not None else {} for item in (before, after)]
    (entry,) = scope_of(*trees)
    return entry.added_lines, entry.removed_lines, entry.binary


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, f(b"1\n2\n"), (2, 0, False)),
        (f(b"1\n2\n"), None, (0, 2, False)),
        (f(b"1\n2\n3\n"), f(b"1\nx\n3\n"), (1, 1, False)),
        (f(b"1\n2\n"), f(b"2\n1\n"), (0, 0, False)),
        (f(b"1\n"), f(b"1\n1\n1\n"), (2, 0, False)),
        (f(b"1\n"), x(b"1\n"), (0, 0, False)),
        (f(b"1\r\n2\r\n"), f(b"1\n2\n"), (0, 0, False)),
        (f(b"a"), link(b"elsewhere"), (0, 1, False)),
        (link(b"elsewhere"), f(b"1\n2\n"), (2, 0, False)),
        (link(b"a"), link(b"b"), (0, 0, False)),
        (f(b"1\n2\n"), f(b"\0"), (0, 2, True)),
        (f(b"\0"), f(b"1\n2\n"), (2, 0, True)),
        (f(b"\0\n"), f(b"\0\n\n"), (0, 0, True)),
        (submodule("1"), submodule("2"), (0, 0, False)),
        (submodule("1"), f(b"1\n"), (1, 0, False)),
    ],
)
def test_lines_are_counted_as_multisets(
    before: tuple[str, bytes] | None, after: tuple[str, bytes] | None, expected: tuple[int, int, bool]
) -> None:
    """Text lines of either side; links, submodules and binary contents have none."""
    assert counts(before, after) == expected


def test_a_rename_adds_no_lines_and_its_source_loses_them() -> None:
    """The label is on the new path; the delete stands for itself."""
    deleted, renamed = scope_of({b"a": f(b"1\n2\n")}, {b"b": f(b"1\n2\n")})
    assert (deleted.kind, deleted.added_lines, deleted.removed_lines) == ("delete", 0, 2)
    assert (renamed.kind, renamed.source, renamed.added_lines, renamed.removed_lines) == ("rename", "a", 0, 0)


def test_a_text_too_large_to_compare_counts_every_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Size is no way around the limit on added lines."""
    assert counts(f(b"1\n2\n"), f(b"1\n2\n3\n")) == (1, 0, False)
    monkeypatch.setattr(scope, "MAX_COUNTED_BYTES", 5)
    assert counts(f(b"1\n2\n"), f(b"1\n2\n3\n")) == (3, 2, False)
    assert counts(f(b"1\n2\n3\n"), f(b"1\n2\n")) == (2, 3, False)


KEY = b"TOKEN = 'ghp_k3Jx9Qw7Zr2Lm5Vt8Bn4Ca6Df1Gh0Sp2Yu7'\n"


def secrets(before: Tree, after: Tree, *known: str) -> dict[str, int]:
    base, final = manifest_of(before), manifest_of(after)
    change = change_set(diff(base, final), lambda p: len(before[p][1]), lambda p: len(after[p][1]))
    found = scope.derive_scope(
        operations(change, base),
        lambda operation, _: before[to_raw(operation.path)][1],
        lambda operation, _: after[to_raw(operation.path)][1],
        known=known,
    )
    return {entry.path: entry.added_secrets for entry in found}


def test_secrets_are_counted_in_added_lines_only() -> None:
    """Not what was there, not what moved along, not in a binary content or a link; and not where they are known."""
    one = {b"a.py": f(KEY), b"b.py": f(b"b\n")}
    assert secrets({b"b.py": f(b"b\n")}, one) == {"a.py": 1}
    assert secrets(one, {b"a.py": f(KEY + b"more\n"), b"b.py": f(b"z\n")}) == {"a.py": 0, "b.py": 0}
    assert secrets(one, {b"a.py": f(KEY + KEY), b"b.py": f(KEY)}) == {"a.py": 1, "b.py": 1}
    assert secrets(one, {b"c.py": f(KEY), b"b.py": f(b"b\n")}) == {"a.py": 0, "c.py": 0}
    assert secrets(one, {**one, b"b.py": f(b"\0" + KEY)}) == {"b.py": 0}
    assert secrets({}, one, "a.py") == {"a.py": 0, "b.py": 0}


def test_the_paths_of_known_secrets_come_from_the_evaluator() -> None:
    """Of the evaluators of secrets alone."""
    policy = make_chain({b"a": f(b"1\n")}, {b"a": f(b"2\n")}).evaluator_policy.document
    assert scope.known_secrets(policy) == ()
    other = structs.replace(policy.evaluators[0], patterns=("y",))
    looking = structs.replace(other, id="secrets", evaluator="secrets", patterns=("tests/keys/**",))
    assert scope.known_secrets(structs.replace(policy, evaluators=(other, looking))) == ("tests/keys/**",)


LINES = st.lists(st.sampled_from((b"a", b"b", b"c", b"")), max_size=8)


@given(LINES, LINES)
def test_the_difference_of_the_counts_is_the_difference_of_the_lengths(old: list[bytes], new: list[bytes]) -> None:
    """Added minus removed is what the file grew by, and swapping the sides swaps the counts."""
    before, after = (b"".join(line + b"\n" for line in lines) for lines in (old, new))
    if before != after:
        added, removed, _ = counts(f(before), f(after))
        assert added - removed == len(new) - len(old)
        assert counts(f(after), f(before)) == (removed, added, False)
