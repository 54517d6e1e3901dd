"""The promise against what really changed."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.documents import CandidateOperation, FileState
from runner.promise import is_promised, promise_of, promised_kinds, unpromised
from savant.contracts.digest import digest
from savant.contracts.scalars import as_set
from synthesis.documents import IntendedChange, OperationKind, Plan, PlanStep

KINDS: tuple[OperationKind, ...] = get_args(OperationKind)


def state(mode: str = "regular", data: bytes = b"x") -> FileState:
    return FileState(mode=mode, content_digest=digest(data), size_bytes=len(data))  # type: ignore[arg-type]


def operation(path: str, kind: str, source: str | None = None, **states: FileState | None) -> CandidateOperation:
    return CandidateOperation(
        path=path,
        kind=kind,  # type: ignore[arg-type]
        source=source,
        before=states.get("before"),
        after=states.get("after"),
        policy_change=False,
    )


def change(pattern: str, *kinds: str) -> IntendedChange:
    return IntendedChange(pattern=pattern, operations=as_set(kinds))  # type: ignore[arg-type]


def plan(*steps: tuple[IntendedChange, ...], promise: str = "declared") -> Plan:
    return Plan(
        interpretation_digest=digest(b""),
        generation=1,
        promise=promise,  # type: ignore[arg-type]
        steps=tuple(
            PlanStep(
                id=f"s{n}",
                description="",
                intended_changes=changes,
                symbols=(),
                expected_evidence=(),
                discharges=(),
                declares_gate_changes=False,
            )
            for n, changes in enumerate(steps)
        ),
        assumptions=(),
        risks=(),
        stop_conditions=(),
    )


def test_the_promise_is_the_union_of_all_steps() -> None:
    """Every step's changes are promised; for a change that existed there is no promise, not an empty one."""
    a, b = change("a", "create"), change("b", "delete")
    assert promise_of(plan((a,), (b,))) == (a, b)
    assert promise_of(plan()) == ()
    assert promise_of(plan((a,), promise="none")) is None


def test_kinds_at_a_path_add_up() -> None:
    """Every pattern that matches a path adds its kinds; a path in document text is matched as its bytes."""
    promise = (change("src/**", "modify"), change("src/*.py", "create", "delete"), change("docs/**", "copy"))
    assert promised_kinds("src/a.py", promise) == {"modify", "create", "delete"}
    assert promised_kinds("src/deep/a.txt", promise) == {"modify"}
    assert promised_kinds("other", promise) == frozenset()
    assert promised_kinds("src/%FF", promise) == {"modify"}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("rename", "copy", "modify")])
def test_a_plain_kind_needs_its_own_name(kind: str) -> None:
    """Each kind is promised by exactly its own name, at its own path."""
    one = operation("a", kind)
    for other in KINDS:
        assert is_promised(one, (change("a", other),)) is (other == kind)
    assert not is_promised(one, (change("b", kind),))


@pytest.mark.parametrize("kind", ["rename", "copy"])
def test_a_label_stands_on_a_create(kind: str) -> None:
    """A rename or copy is promised by a create, or by its own name, and by nothing else."""
    one = operation("new", kind, "old", after=state())
    assert {other for other in KINDS if is_promised(one, (change("new", other),))} == {"create", kind}


def test_the_source_of_a_rename_may_go() -> None:
    """Promising a rename at the source's path lets the source go, but only as the source of a rename."""
    moved = operation("new", "rename", "old", after=state())
    deleted = operation("old", "delete", before=state())
    promise = (change("**", "rename"),)
    assert unpromised((moved, deleted), promise) == ()
    assert unpromised((deleted,), promise) == (deleted,)
    assert unpromised((operation("new", "copy", "old", after=state()), deleted), promise)[-1] == deleted
    assert unpromised((moved, deleted), (change("new", "rename"),)) == (deleted,)
    assert unpromised((moved, deleted), (change("new", "create"), change("old", "delete"))) == ()


def test_content_and_mode_changed_together_need_both() -> None:
    """A modify that also flips the executable bit needs modify and mode-change."""
    both = operation("a", "modify", before=state(data=b"1"), after=state("executable", b"2"))
    content = operation("a", "modify", before=state(data=b"1"), after=state(data=b"2"))
    only = (change("a", "modify"),)
    assert is_promised(content, only)
    assert not is_promised(both, only)
    assert is_promised(both, (change("a", "modify"), change("a", "mode-change")))


PATHS = st.sampled_from(["a", "b", "c/d"])
OPERATIONS = st.lists(st.builds(operation, PATHS, st.sampled_from(KINDS), PATHS | st.none()), max_size=4)
PROMISES = st.lists(
    st.builds(lambda pattern, kinds: change(pattern, *kinds), PATHS | st.just("**"), st.sets(st.sampled_from(KINDS))),
    max_size=3,
)


@given(OPERATIONS, PROMISES, PROMISES)
def test_a_greater_promise_leaves_no_more_outside(
    done: list[CandidateOperation], less: list[IntendedChange], more: list[IntendedChange]
) -> None:
    """Adding to a promise never puts an operation outside it; an empty one has everything outside, ``**`` nothing."""
    outside = unpromised(done, less)
    assert set(unpromised(done, [*less, *more])) <= set(outside)
    assert [one for one in done if one in outside] == list(outside)
    assert unpromised(done, []) == tuple(done)
    assert unpromised(done, [change("**", *KINDS)]) == ()
