"""The rules one by one: sizes at their borders, labels that hide nothing, links, executables, companions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec import structs

from admission.codes import CONDITIONS, REASONS
from admission.documents import CompanionRule, PathRule, Policy
from admission.facts import Facts, matches, sizes
from admission.policy import starter_policy
from admission.verify import VIOLATIONS
from synthesis.documents import IntendedChange, OperationKind
from tests.admission.kit import (
    Choice,
    Tree,
    command_check,
    conditions,
    f,
    judge,
    link,
    make_request,
    refusals,
    scope_of,
    with_limits,
    x,
)

BASE: Tree = {b"a.py": f(b"a\n"), b"b.py": f(b"b\n"), b"c.py": f(b"c\n"), b"d.py": f(b"d\n")}
TEN = {b"n%d.py" % n: f(b"n\n" * (n + 1)) for n in range(10)}


def test_the_starters_limits_are_the_documented_ones() -> None:
    """40 files, 800 added lines and 20 deletions ask; five times that refuses."""
    limits = starter_policy().limits
    assert (limits.files_ask, limits.added_lines_ask, limits.deletions_ask) == (40, 800, 20)
    assert (limits.files_refuse, limits.added_lines_refuse, limits.deletions_refuse) == (200, 4000, 100)


@pytest.mark.parametrize(
    ("name", "tree", "size"),
    [
        ("files", {**BASE, b"x.py": f(b"x\n"), b"y.py": f(b"y\n"), b"z.py": f(b"z\n")}, 3),
        ("added_lines", {**BASE, b"a.py": f(b"a\nb\nc\n"), b"x.py": f(b"x\n")}, 3),
        ("deletions", {b"a.py": f(b"a\n")}, 3),
    ],
)
def test_a_limit_holds_at_its_number_and_not_above(name: str, tree: Tree, size: int) -> None:
    """At N nothing is asked or refused; one more than N asks, and one more than the second number refuses."""
    condition = "limit-" + name.replace("_", "-")

    def outcome(ask: int, refuse: int) -> tuple[str, set[str]]:
        limits = {f"{name}_ask": ask, f"{name}_refuse": refuse}
        decision = judge(BASE, tree, policy=with_limits(starter_policy(), **limits))
        return decision.outcome, conditions(decision)

    assert outcome(size, size) == ("admitted", set())
    assert outcome(size - 1, size) == ("waiting", {condition})
    assert outcome(size - 1, size - 1) == ("refused", {condition})
    assert judge(BASE, tree, policy=with_limits(starter_policy(), **{f"{name}_refuse": size - 1})).outcome == "refused"


def test_a_starter_limit_asks_at_its_border() -> None:
    """Forty new files pass, forty-one ask, two hundred and one are refused."""
    for count, outcome in ((40, "admitted"), (41, "waiting"), (200, "waiting"), (201, "refused")):
        tree = {**BASE, **{b"n%d.py" % n: f(b"%d\n" % n) for n in range(count)}}
        assert judge(BASE, tree).outcome == outcome, count


def test_a_rename_is_one_file_and_no_deletion() -> None:
    """Moving ten files counts ten, removes none and adds no line; removing ten removes ten."""
    before: Tree = {**BASE, **TEN}
    moved = {**BASE, **{b"m/" + path: content for path, content in TEN.items()}}
    assert counted(before, moved) == {"files": 10, "added-lines": 0, "deletions": 0}
    assert counted(before, BASE) == {"files": 10, "added-lines": 0, "deletions": 10}


def test_a_copy_is_a_file_without_written_lines() -> None:
    """What is equal to something in the base was not written anew."""
    assert counted(BASE, {**BASE, b"copy.py": BASE[b"a.py"]}) == {"files": 1, "added-lines": 0, "deletions": 0}
    assert counted(BASE, {**BASE, b"copy.py": f(b"z\n")}) == {"files": 1, "added-lines": 1, "deletions": 0}


def counted(before: Tree, after: Tree) -> dict[str, int]:
    facts = Facts(make_request(before, after).document, starter_policy())
    return {name: count for name, count, _, _ in sizes(facts)}


def rule(patterns: tuple[str, ...], operations: tuple[OperationKind, ...] = ()) -> PathRule:
    return PathRule(id="own", patterns=patterns, operations=operations, reason="r", enforcement="enforce")


@pytest.mark.parametrize(
    ("after", "path", "kinds"),
    [
        ({**BASE, b"new.py": f(b"n\n")}, "new.py", {"create"}),
        ({**BASE, b"copy.py": BASE[b"a.py"]}, "copy.py", {"copy", "create"}),
        ({b"moved.py": BASE[b"a.py"], b"b.py": BASE[b"b.py"]}, "moved.py", {"rename", "create"}),
        ({b"moved.py": BASE[b"a.py"], b"b.py": BASE[b"b.py"]}, "a.py", {"delete"}),
        ({**BASE, b"a.py": f(b"z\n")}, "a.py", {"modify"}),
        ({**BASE, b"a.py": x(b"z\n")}, "a.py", {"modify", "mode-change"}),
        ({**BASE, b"a.py": x(b"a\n")}, "a.py", {"mode-change"}),
        ({**BASE, b"new": link(b"a.py")}, "new", {"symlink-change"}),
        ({**BASE, b"a.py": link(b"b.py")}, "a.py", {"type-change"}),
    ],
)
def test_a_label_does_not_hide_what_it_stands_on(after: Tree, path: str, kinds: set[OperationKind]) -> None:
    """A rule about one kind decides exactly the entries that do that; without kinds it decides all."""
    entry = next(entry for entry in scope_of(BASE, after) if entry.path == path)
    every: tuple[OperationKind, ...] = (
        "create",
        "modify",
        "delete",
        "rename",
        "copy",
        "mode-change",
        "symlink-change",
        "type-change",
        "gitlink-change",
    )
    assert {kind for kind in every if matches(rule(("**",), (kind,)), entry)} == kinds
    assert matches(rule(("**",)), entry)
    assert not matches(rule(("elsewhere/**",)), entry)


def test_refusing_creation_also_refuses_a_copy() -> None:
    """What may not be created may not be copied there either."""
    policy = structs.replace(starter_policy(), refuse=(rule(("vendor/**",), ("create",)),))
    assert judge(BASE, {**BASE, b"lib/a.py": BASE[b"a.py"]}, policy=policy).outcome == "admitted"
    decision = judge(BASE, {**BASE, b"vendor/a.py": BASE[b"a.py"]}, policy=policy)
    assert refusals(decision) == [("admission.scope.refused", "vendor/a.py")]


def test_an_empty_change_is_refused() -> None:
    """There is nothing to apply."""
    assert refusals(judge(BASE, BASE)) == [("admission.scope.empty", None)]


def test_a_path_outside_the_promise_is_refused_by_name() -> None:
    """The promise is patterns and kinds; null promises nothing and refuses nothing."""
    promise = (IntendedChange(pattern="a.py", operations=("modify",)),)
    after = {**BASE, b"a.py": f(b"z\n"), b"b.py": f(b"y\n")}
    assert judge(BASE, {**BASE, b"a.py": f(b"z\n")}, promise=promise).outcome == "admitted"
    assert refusals(judge(BASE, after, promise=promise)) == [("admission.scope.outside-promise", "b.py")]
    assert refusals(judge(BASE, {**BASE, b"a.py": x(b"a\n")}, promise=promise)) == [
        ("admission.scope.outside-promise", "a.py")
    ]
    assert judge(BASE, after, promise=None).outcome == "admitted"


def test_a_rename_is_promised_by_its_name_alone() -> None:
    """Promising rename on both paths promises the create and the delete under it."""
    moved = {b"m.py": BASE[b"a.py"], **{path: BASE[path] for path in (b"b.py", b"c.py", b"d.py")}}
    promise = (IntendedChange(pattern="*.py", operations=("rename",)),)
    assert judge(BASE, moved, promise=promise).outcome == "admitted"
    assert judge(BASE, {**moved, b"m.py": f(b"z\n")}, promise=promise).outcome == "refused"


def test_a_path_outside_the_policy_is_refused_by_name() -> None:
    """The envelope is promise and policy."""
    policy = structs.replace(starter_policy(), allow=("a.py",))
    assert judge(BASE, {**BASE, b"a.py": f(b"z\n")}, policy=policy).outcome == "admitted"
    after = {**BASE, b"a.py": f(b"z\n"), b"b.py": f(b"y\n")}
    assert refusals(judge(BASE, after, policy=policy)) == [("admission.scope.outside-policy", "b.py")]


@pytest.mark.parametrize(
    ("member", "after", "condition", "code"),
    [
        ("new_links", {**BASE, b"l": link(b"a.py")}, "new-links", "admission.link.refused"),
        ("new_executables", {**BASE, b"e": x(b"e\n")}, "new-executables", "admission.executable.refused"),
    ],
)
def test_links_and_executables_are_allowed_asked_about_or_refused(
    member: str, after: Tree, condition: str, code: str
) -> None:
    """As the policy says, and the path is named."""
    path = next(path.decode() for path in after if path not in BASE)

    def decided(choice: Choice) -> tuple[str, set[str], list[tuple[str, str | None]]]:
        decision = judge(BASE, after, policy=structs.replace(starter_policy(), **{member: choice}))
        return decision.outcome, conditions(decision), refusals(decision)

    assert decided("allow") == ("admitted", set(), [("admission.within", None)])
    assert decided("ask") == ("waiting", {condition}, [("admission.waiting", None)])
    assert decided("refuse") == ("refused", set(), [(code, path)])


def test_moving_an_executable_is_nothing_new() -> None:
    """A copy of one is."""
    before = {**BASE, b"run": x(b"r\n")}
    assert judge(before, {**BASE, b"bin/run": x(b"r\n")}).outcome == "admitted"
    assert conditions(judge(before, {**before, b"bin/run": x(b"r\n")})) == {"new-executables"}


def test_no_required_check_is_allowed_asked_about_or_refused() -> None:
    """As the policy says."""
    after = {**BASE, b"a.py": f(b"z\n")}
    for choice, outcome in (("allow", "admitted"), ("ask", "waiting"), ("refuse", "refused")):
        policy = structs.replace(starter_policy(), no_required_check=choice)
        assert judge(BASE, after, policy=policy, checks=()).outcome == outcome
        assert judge(BASE, after, policy=policy, checks=(command_check(),)).outcome == "admitted"


def companion_policy() -> Policy:
    pair = CompanionRule(id="pair", when=("a.py",), need=("b.py",), reason="Both or none.", enforcement="enforce")
    return structs.replace(starter_policy(), companions=(pair,))


@pytest.mark.parametrize(
    ("after", "asked"),
    [
        ({**BASE, b"c.py": f(b"z\n")}, False),
        ({**BASE, b"a.py": f(b"z\n")}, True),
        ({**BASE, b"a.py": f(b"z\n"), b"b.py": f(b"y\n")}, False),
        ({**BASE, b"b.py": f(b"y\n")}, False),
        ({b"a.py": f(b"z\n"), b"c.py": BASE[b"c.py"]}, True),
        ({b"b.py": BASE[b"b.py"], b"c.py": BASE[b"c.py"]}, True),
        ({b"c.py": BASE[b"c.py"]}, False),
    ],
)
def test_what_goes_together_changes_together(after: Tree, asked: bool) -> None:
    """Changing the second satisfies the first; removing the second does so only when the first goes too."""
    assert conditions(judge(BASE, after, policy=companion_policy())) == ({"pair"} if asked else set())


def test_the_documentation_lists_exactly_the_codes() -> None:
    """The tables of docs/contracts/admission.md are those of the code, word for word."""
    text = (Path(__file__).resolve().parents[2] / "docs/contracts/admission.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(admission\.[a-z.-]+)` \| (.+?) \|$", text, re.MULTILINE))
    assert rows == {**REASONS, **CONDITIONS, **VIOLATIONS}
