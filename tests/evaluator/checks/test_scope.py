"""The built-in evaluators: promised scope and forbidden paths."""

from __future__ import annotations

import pytest

from evaluator.checks.scope import check_forbidden_paths, check_scope
from runner.documents import CandidateOperation
from savant.contracts.errors import RefusedInput
from synthesis.documents import IntendedChange
from tests.evaluator.kit import built_in, plan_of


def operation(path: str, kind: str = "create") -> CandidateOperation:
    return CandidateOperation(
        path=path,
        kind=kind,
        source=None,
        before=None,
        after=None,
        policy_change=False,  # type: ignore[arg-type]
    )


SRC = plan_of(change=IntendedChange(pattern="src/**", operations=("create",)))


def test_inside_the_promise_passes() -> None:
    """Operations that were promised pass without a finding."""
    case = check_scope(built_in(), [operation("src/a.py")], SRC)
    assert (case.status, case.findings) == ("passed", ())


def test_each_operation_outside_is_a_finding() -> None:
    """Each operation outside the promise is told with its path and kind; the others are not."""
    done = [operation("src/a.py"), operation("src/b.py", "delete"), operation("README.md")]
    case = check_scope(built_in("within"), done, SRC)
    assert case.status == "failed"
    assert [(f.check, f.path, f.message) for f in case.findings] == [
        ("within", "src/b.py", "delete was not promised by the plan"),
        ("within", "README.md", "create was not promised by the plan"),
    ]


def test_without_a_promise_there_is_nothing_to_break() -> None:
    """A change that existed before its plan was promised nothing, and is judged by policy alone."""
    assert check_scope(built_in(), [operation("README.md")], plan_of(promise="none")).status == "passed"


def test_a_forbidden_path_is_a_finding() -> None:
    """A path that a pattern forbids fails, whatever is done to it; names that differ in odd bytes are matched raw."""
    config = built_in("keep-out", "forbidden-paths", patterns=("secrets/**", "*.pem"))
    assert check_forbidden_paths(config, [operation("src/a.py")]).status == "passed"
    case = check_forbidden_paths(config, [operation("src/a.py"), operation("secrets/%FF", "delete")])
    assert [(f.path, f.message) for f in case.findings] == [("secrets/%FF", "delete touches a forbidden path")]
    assert check_forbidden_paths(built_in(kind="forbidden-paths"), [operation("secrets/a")]).status == "passed"


def test_a_pattern_that_is_none_is_refused() -> None:
    """A pattern that cannot be read matches nothing and everything: it is refused."""
    with pytest.raises(RefusedInput):
        check_forbidden_paths(built_in(kind="forbidden-paths", patterns=("a//b",)), [operation("a")])
