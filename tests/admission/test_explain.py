"""The explanation: every path of the scope, with the rule that decided it."""

from __future__ import annotations

from msgspec import structs

from admission.decide import decide
from admission.explain import PathExplanation, explain
from admission.policy import starter_policy
from savant.contracts.document import seal
from tests.admission.kit import Tree, acknowledge, f, make_request, named

BASE: Tree = {b"app.py": f(b"a\n"), b"tests/conftest.py": f(b"c\n"), b"tests/test_app.py": f(b"t\n")}
AFTER: Tree = {b"app.py": f(b"b\n"), b"tests/conftest.py": f(b"d\n"), b"tests/test_app.py": f(b"u\n")}
POLICY = seal(starter_policy())


def rows(after: Tree, *acknowledged: str, **options: object) -> list[PathExplanation]:
    request = make_request(BASE, after, **options)  # type: ignore[arg-type]
    bare = decide(request, POLICY)
    decision = decide(request, POLICY, [acknowledge(bare, name) for name in acknowledged])
    found = explain(request.document, decision, POLICY.document)
    assert {row.path for row in found} == {entry.path for entry in request.document.scope}
    return found


def short(found: list[PathExplanation]) -> list[tuple[str, str, str]]:
    return [(row.path, row.verdict, row.rule) for row in found]


def test_every_path_has_its_rule() -> None:
    """An allowed path once; a path that several rules ask about once for each."""
    assert short(rows(AFTER)) == [
        ("app.py", "allowed", "allow"),
        ("tests/conftest.py", "asks", "existing-tests"),
        ("tests/conftest.py", "asks", "test-configuration"),
        ("tests/test_app.py", "asks", "existing-tests"),
    ]


def test_an_acknowledged_condition_says_by_whom() -> None:
    """The others still ask."""
    found = rows(AFTER, "existing-tests")
    assert [(row.verdict, "Acknowledged by Grace." in row.why) for row in found if row.rule == "existing-tests"] == [
        ("acknowledged", True),
        ("acknowledged", True),
    ]
    assert [row.verdict for row in found if row.rule == "test-configuration"] == ["asks"]


def test_a_stale_acknowledgement_is_not_shown_as_one() -> None:
    """What does not count is not counted in words either."""
    request = make_request(BASE, AFTER)
    bare = decide(request, POLICY)
    stale = acknowledge(bare, "existing-tests", decision_digest=named("earlier"))
    decision = decide(request, POLICY, [stale])
    assert decision.outcome == "refused"
    assert "acknowledged" not in {row.verdict for row in explain(request.document, decision, POLICY.document)}


def test_a_refused_path_comes_with_its_rule_first() -> None:
    """The others keep their own verdict, so that a person sees what to take out."""
    found = rows({**AFTER, b".savant/x": f(b"x\n")})
    assert short(found)[0] == (".savant/x", "refused", "savant-rules")
    assert ("app.py", "allowed", "allow") in short(found)


def test_nothing_is_explained_as_allowed_when_nothing_was_decided() -> None:
    """An uncertifiable chain leaves every path undecided, with the check that failed."""
    request = make_request(BASE, AFTER)
    other = seal(starter_policy("repository"))
    found = explain(request.document, decide(request, other), other.document)
    assert {(row.verdict, row.rule) for row in found} == {("undecided", "o5.policy")}
    assert len(found) == len(request.document.scope)


def test_the_words_name_the_policy_and_whether_anything_was_promised() -> None:
    """Starter or the repository's own; promised or not."""
    after = {**BASE, b"app.py": f(b"b\n")}
    (row,) = rows(after)
    assert row.why == "Promised, and allowed by the starter policy."
    (row,) = rows(after, promise=None)
    assert row.why == "Not promised beforehand; allowed by the starter policy."
    own = seal(structs.replace(starter_policy("repository"), ask=()))
    request = make_request(BASE, after, policy=own.document)
    (row,) = explain(request.document, decide(request, own), own.document)
    assert (row.kind, row.why) == ("modify", "Promised, and allowed by .savant/policy.toml.")
