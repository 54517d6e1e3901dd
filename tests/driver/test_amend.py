"""The amendment of a promise: exactly what lies beside it, and only where it may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from admission.documents import PathRule, Policy
from admission.facts import operation_of
from admission.policy import policy_toml, starter_policy
from driver.amend import amend
from driver.documents import Amendment
from driver.history import HistoryEntry, RunHistory
from runner.documents import Candidate, CandidateOperation
from runner.promise import is_promised, unpromised
from savant.contracts.document import Sealed, seal
from synthesis.documents import IntendedChange, Plan
from tests.admission.kit import Tree, f, link, make_chain, scope_of, x
from tests.driver.runkit import FILES, Recorded, changed, forge, record_run, replay
from tests.matrix.shell import foreign

ASK = structs.replace(starter_policy("repository"), amendment="ask")
BASE: Tree = {b"a.py": f(b"a\n"), b"b.py": f(b"b\n"), b"c d[1]*.txt": f(b"c\n")}
PROMISE = (IntendedChange(pattern="a.py", operations=("modify",)),)


def operations(after: Tree) -> tuple[CandidateOperation, ...]:
    return tuple(operation_of(entry) for entry in scope_of(BASE, after))


def plan(promise: tuple[IntendedChange, ...] | None = PROMISE) -> Sealed[Plan]:
    return make_chain(BASE, {**BASE, b"a.py": f(b"z\n")}, promise=promise).plan


def made(after: Tree, policy: Policy = ASK, scope: tuple[str, ...] = (), **more: Any) -> Amendment | None:
    return amend(plan(**more), operations(after), policy, scope, attempt_number=1, change_digest="blake3:" + "1" * 64)


BESIDE: Tree = {**BASE, b"a.py": f(b"z\n"), b"b.py": f(b"y\n")}


def test_only_what_lies_beside_the_promise_is_added() -> None:
    """The path and its kind, exactly; nothing where all of it was promised."""
    amendment = made(BESIDE)
    assert amendment is not None
    assert amendment.changes == (IntendedChange(pattern="/b.py", operations=("modify",)),)
    assert amendment.plan_digest == plan().digest
    assert made({**BASE, b"a.py": f(b"z\n")}) is None


@pytest.mark.parametrize(
    ("policy", "scope", "promise"),
    [
        (starter_policy("repository"), (), PROMISE),
        (ASK, ("a.py",), PROMISE),
        (ASK, (), None),
        (
            structs.replace(
                ASK,
                refuse=(PathRule(id="own", patterns=("b.py",), operations=(), reason="r", enforcement="enforce"),),
            ),
            (),
            PROMISE,
        ),
    ],
    ids=["refused by policy", "outside the task", "nothing promised", "a refusing rule"],
)
def test_it_is_not_made_where_it_may_not_be(
    policy: Policy, scope: tuple[str, ...], promise: tuple[IntendedChange, ...] | None
) -> None:
    """Each alone; without it, it is made."""
    assert made(BESIDE) is not None
    assert made(BESIDE, ASK, ("*.py",)) is not None
    assert made(BESIDE, policy, scope, promise=promise) is None


WRITES_BESIDE = foreign(
    'plan("a.py") if request["operation"] == "planning" else answer(generation={"edits": ['
    '{"op": "write", "path": "a.py", "text": "x"}, {"op": "write", "path": "beside.txt", "text": "x"}]})',
    "planning",
    "generation",
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """A run whose promise was widened; it waits for a person."""
    root = tmp_path_factory.mktemp("amended")
    files = {**FILES, ".savant/policy.toml": policy_toml(ASK).encode()}
    run = ("run", "Change it", *WRITES_BESIDE, "--must-pass", "/bin/true", "--quiet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAVANT_HOME", str(root / "home"))
        yield record_run(root, files, run, expected=10)


def failing(recorded: Recorded, history: RunHistory) -> list[str]:
    return [step.name for step in replay(recorded, history).steps if step.status == "fail"]


def test_a_replay_makes_the_amendment_again(recorded: Recorded) -> None:
    """It is recorded before its candidate; another one, a second one or a later one is found."""
    history = recorded.history()
    kinds = [type(entry.body.document) for entry in history.entries]
    place, sealed = kinds.index(Amendment), kinds.index(Candidate)
    assert place < sealed
    assert failing(recorded, history) == []
    forged = forge(history, Amendment, changed(changes=(IntendedChange(pattern="**", operations=("create",)),)))
    assert "candidate" in failing(recorded, forged)
    twice = [*history.entries]
    twice.insert(place, history.entries[place])
    assert "candidate" in failing(recorded, RunHistory(history.run_id, twice))
    moved = [entry for entry in history.entries if entry is not history.entries[place]]
    last = history.entries[-1].seq + 1
    entry = history.entries[place]
    late = HistoryEntry(last, entry.role, entry.kind, entry.body, entry.observed)
    assert "candidate" in failing(recorded, RunHistory(history.run_id, [*moved, late]))


AFTERS = st.dictionaries(
    st.sampled_from((b"a.py", b"b.py", b"c d[1]*.txt", b"n/new.py", b"caf\xe9", b"m.py")),
    st.sampled_from((f(b"z\n"), x(b"z\n"), x(b"a\n"), link(b"a.py"), BASE[b"b.py"], None)),
)


@given(AFTERS)
def test_a_widened_promise_covers_the_candidate_and_nothing_else(changed: dict[bytes, Any]) -> None:
    """Whatever changed, renamed and oddly named: each operation is promised afterwards, and no other path is."""
    after = {path: entry for path, entry in {**BASE, **changed}.items() if entry is not None}
    found = operations(after)
    amendment = made(after)
    outside = unpromised(found, PROMISE)
    assert (amendment is None) == (not outside)
    if amendment is not None:
        seal(amendment)
        assert unpromised(found, (*PROMISE, *amendment.changes)) == ()
        assert len(amendment.changes) == len(outside)
        for other in ("elsewhere.py", "n/a.py", "c d[1]x.txt"):
            operation = structs.replace(found[0], path=other, kind="modify")
            assert not is_promised(operation, amendment.changes)
