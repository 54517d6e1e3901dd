"""Verification of a target: each violation by its code, and what makes it stale or uncertifiable."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from admission.decide import decide
from admission.documents import Decision, Verification
from admission.verify import VIOLATIONS, verify_target
from runner.change import change_set
from runner.documents import Candidate
from savant.contracts.document import Sealed, digest_of, seal
from savant.repository import diff
from tests.admission.kit import COMMIT, Tree, f, link, make_chain, make_request, manifest_of, named, submodule, x

BASE: Tree = {
    b"a.py": f(b"a\n"),
    b"gone.py": f(b"g\n"),
    b"run": f(b"r\n"),
    b"same.py": f(b"s\n"),
    b"sub": submodule("1"),
}
FINAL: Tree = {
    b"a.py": f(b"b\n"),
    b"new.py": f(b"n\n"),
    b"run": x(b"r\n"),
    b"same.py": f(b"s\n"),
    b"sub": submodule("1"),
}
CHAIN = make_chain(BASE, FINAL)
APPLICATION = named("application")


def decided(outcome: str = "admitted") -> Sealed[Decision]:
    request = make_request(BASE, FINAL)
    policy = CHAIN.policy
    return seal(structs.replace(decide(request, policy), outcome=outcome))


def look(target: Tree, **changes: Any) -> Verification:
    """What verification says about a target, with the base's HEAD unless told otherwise."""
    base, observed = manifest_of(BASE), manifest_of(target)
    change = change_set(diff(base, observed), lambda p: len(BASE[p][1]), lambda p: len(target[p][1]))
    given_: dict[str, Any] = {
        "decision": decided(),
        "candidate": CHAIN.candidate,
        "base": base,
        "observed": observed,
        "observed_change_digest": digest_of(change),
        "head_commit": COMMIT,
        **changes,
    }
    decision, candidate = given_.pop("decision"), given_.pop("candidate")
    return seal(verify_target(decision, candidate, APPLICATION, **given_)).document


def found(verification: Verification) -> list[tuple[str, str | None]]:
    return [(violation.code.rpartition(".")[2], violation.path) for violation in verification.violations]


def test_the_admitted_bytes_comply() -> None:
    """The target equals the candidate: both digests are the candidate's, and nothing is violated."""
    verification = look(FINAL)
    document = CHAIN.candidate.document
    assert (verification.status, found(verification)) == ("scope-compliant", [])
    assert verification.observed_final_digest == document.final_digest
    assert verification.observed_change_digest == document.change_digest
    assert (verification.decision_digest, verification.candidate_digest) == (decided().digest, CHAIN.candidate.digest)
    assert (verification.application_receipt_digest, verification.head_commit) == (APPLICATION, COMMIT)
    assert look(FINAL, decision=decided("admitted-with-conditions")).status == "scope-compliant"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({b"a.py": f(b"x\n")}, [("target-bytes-differ", "a.py")]),
        ({b"a.py": x(b"b\n")}, [("mode-differs", "a.py")]),
        ({b"run": f(b"r\n")}, [("missing", "run")]),
        ({b"run": link(b"a.py")}, [("target-bytes-differ", "run")]),
        ({b"a.py": None}, [("missing", "a.py")]),
        ({b"new.py": None}, [("missing", "new.py")]),
        ({b"gone.py": f(b"g\n")}, [("not-removed", "gone.py")]),
        ({b"gone.py": f(b"other\n")}, [("not-removed", "gone.py")]),
        ({b"same.py": f(b"x\n")}, [("path-outside-envelope", "same.py")]),
        ({b"same.py": None}, [("path-outside-envelope", "same.py")]),
        ({b"sub": submodule("2")}, [("path-outside-envelope", "sub")]),
        ({b"odd\xff%": f(b"x\n")}, [("path-outside-envelope", "odd%FF%25")]),
        ({b"a.py": f(b"x\n"), b"z": f(b"z\n")}, [("target-bytes-differ", "a.py"), ("path-outside-envelope", "z")]),
    ],
)
def test_each_difference_has_its_code(
    change: dict[bytes, tuple[str, bytes] | None], expected: list[tuple[str, str]]
) -> None:
    """A target changed after the application is a recorded violation, by code and path, in path order."""
    target = {path: value for path, value in {**FINAL, **change}.items() if value is not None}
    verification = look(target)
    assert (verification.status, found(verification)) == ("scope-violated", expected)
    assert all(violation.detail == VIOLATIONS[violation.code] for violation in verification.violations)


def test_every_violation_code_can_occur() -> None:
    """The table holds no code that nothing raises."""
    codes = {
        code
        for tree in (
            {**FINAL, b"a.py": f(b"x\n")},
            {**FINAL, b"a.py": x(b"b\n")},
            {path: value for path, value in FINAL.items() if path != b"new.py"},
            {**FINAL, b"gone.py": f(b"g\n")},
            {**FINAL, b"z": f(b"z\n")},
        )
        for code, _ in found(look(tree))
    }
    assert codes == {code.rpartition(".")[2] for code in VIOLATIONS}


def test_the_unchanged_base_violates() -> None:
    """Nothing was applied: every operation is missing or not undone."""
    assert found(look(BASE)) == [
        ("missing", "a.py"),
        ("not-removed", "gone.py"),
        ("missing", "new.py"),
        ("missing", "run"),
    ]


def test_another_head_is_stale_and_still_says_what_it_saw() -> None:
    """The violations are data, whatever the status."""
    moved = "sha1:" + "2" * 40
    assert look(FINAL, head_commit=moved).status == "stale"
    verification = look({**FINAL, b"z": f(b"z\n")}, head_commit=moved)
    assert (verification.status, found(verification)) == ("stale", [("path-outside-envelope", "z")])


def test_a_change_digest_that_does_not_fit_violates() -> None:
    """Equal trees with another recorded change are not compliant."""
    assert look(FINAL, observed_change_digest=named("x")).status == "scope-violated"


def _candidate(**changes: Any) -> Sealed[Candidate]:
    return seal(structs.replace(CHAIN.candidate.document, **changes))


@pytest.mark.parametrize(
    "change",
    [
        {"observed": None, "observed_change_digest": None},
        {"head_commit": None},
        {"decision": decided("waiting")},
        {"decision": decided("refused")},
        {"decision": decided("uncertifiable")},
        {"decision": seal(structs.replace(decided().document, envelope=()))},
        {"candidate": _candidate(attempt_number=2)},
        {"base": manifest_of(FINAL)},
    ],
)
def test_what_cannot_be_compared_is_uncertifiable(change: dict[str, Any]) -> None:
    """Unreadable, not admitted, another candidate, another base: no status is claimed and nothing is listed."""
    assert look(FINAL).status == "scope-compliant"
    verification = look(FINAL, **change)
    assert (verification.status, verification.violations) == ("uncertifiable", ())


TREES = st.dictionaries(
    st.sampled_from((b"a.py", b"gone.py", b"new.py", b"run", b"same.py", b"x/y")),
    st.sampled_from((f(b"a\n"), f(b"b\n"), x(b"r\n"), link(b"a.py"))),
)


@given(TREES)
def test_only_the_admitted_tree_complies(changes: Tree) -> None:
    """Every other tree has a violation, and each violation is about a path where the trees differ."""
    target = {**FINAL, **changes}
    verification = look(target)
    differing = {path.decode() for path in {*target, *FINAL} if target.get(path) != FINAL.get(path)}
    assert (verification.status == "scope-compliant") == (not differing)
    assert {path for _, path in found(verification)} == differing
