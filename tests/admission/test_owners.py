"""Conditions that come with the request: who owns a path, what judges, and secrets in added lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from admission.decide import VerifiedAcknowledgement, decide
from admission.documents import Decision, Owned, PathRule, Policy, Request
from admission.owners import owned_paths
from admission.policy import starter_policy
from admission.rules import owners_condition
from savant.contracts.document import Sealed, digest_of, seal
from savant.contracts.scalars import as_set
from savant.identity.owners import read_owners
from savant.identity.people import read_people
from savant.ledger.ed25519 import Ed25519Signer
from savant.ledger.sshkey import PublicKey
from tests.admission.kit import Tree, acknowledge, conditions, f, make_request, refusals, scope_of

BASE: Tree = {b"a.py": f(b"a\n"), b"b.py": f(b"b\n"), b"conftest.py": f(b"c\n")}
AFTER: Tree = {b"a.py": f(b"z\n"), b"b.py": f(b"z\n"), b"conftest.py": f(b"z\n")}
OWNED = structs.replace(starter_policy("repository"), codeowners="ask", ask=())
CONDITION = "required-reviewers:@ada"


def owned(*paths: str, owners: tuple[str, ...] = ("@ada",), reviewers: tuple[str, ...] | None = ("ada",)) -> Owned:
    return Owned(owners=owners, paths=as_set(paths), reviewers=reviewers)


def request(policy: Policy, *, requester: str = "Bob", **members: object) -> Sealed[Request]:
    made = make_request(BASE, AFTER, policy=policy, requester=requester)
    return seal(structs.replace(made.document, **members))


def met(bare: Decision, handle: str | None, *, is_requester: bool = False) -> VerifiedAcknowledgement:
    return structs.replace(
        acknowledge(bare, CONDITION, requester=""), handle=handle, is_requester=is_requester, is_listed=True
    )


def test_owners_are_asked_where_the_policy_says_so() -> None:
    """One condition for each set of owners, with its paths and reviewers; none where they are ignored."""
    owners = as_set((owned("a.py"), owned("b.py", owners=("@ada", "@org/team"), reviewers=("ada", "grace"))))
    decision = decide(request(OWNED, owners=owners), seal(OWNED))
    assert {(c.id, c.paths, c.reviewers) for c in decision.conditions} == {
        ("required-reviewers:@ada", ("a.py",), ("ada",)),
        ("required-reviewers:@ada+@org/team", ("b.py",), ("ada", "grace")),
    }
    assert all(c.code == "admission.ask.owners" for c in decision.conditions)
    ignored = structs.replace(OWNED, codeowners="ignore")
    assert decide(request(ignored, owners=owners), seal(ignored)).outcome == "admitted"


@pytest.mark.parametrize(
    ("reviewers", "handle", "is_requester", "outcome", "code"),
    [
        (("ada",), "ada", False, "admitted-with-conditions", "admission.acknowledged"),
        (("ada",), "grace", False, "refused", "admission.acknowledgement.not-a-reviewer"),
        (("ada",), "ada", True, "refused", "admission.acknowledgement.self"),
        ((), "grace", False, "refused", "admission.acknowledgement.not-a-reviewer"),
        (None, None, False, "admitted-with-conditions", "admission.acknowledged"),
        (None, None, True, "refused", "admission.acknowledgement.self"),
    ],
)
def test_only_a_reviewer_counts_and_never_the_requester(
    reviewers: tuple[str, ...] | None, handle: str | None, is_requester: bool, outcome: str, code: str
) -> None:
    """Also where the policy lets the requester acknowledge everything else."""
    assert OWNED.self_acknowledgement == "allow"
    asked = request(OWNED, owners=(owned("a.py", reviewers=reviewers),))
    bare = decide(asked, seal(OWNED))
    assert bare.outcome == "waiting"
    decision = decide(asked, seal(OWNED), [met(bare, handle, is_requester=is_requester)])
    assert (decision.outcome, [reason.code for reason in decision.reasons]) == (outcome, [code])


def test_where_nobody_knows_who_asked_no_owner_counts() -> None:
    """It may be whoever acknowledges; the condition says so and what to do."""
    asked = request(OWNED, requester="", owners=(owned("a.py"),))
    bare = decide(asked, seal(OWNED))
    assert "--requester" in bare.conditions[0].reason
    assert [r.code for r in decide(asked, seal(OWNED), [met(bare, "ada")]).reasons] == [
        "admission.acknowledgement.self"
    ]


def test_the_words_say_who_is_waited_for() -> None:
    """The reviewers by handle; that anybody may; that nobody listed can."""
    words = {}
    for reviewers in (("ada", "grace"), None, ()):
        decision = decide(request(OWNED, owners=(owned("a.py", reviewers=reviewers),)), seal(OWNED))
        words[reviewers] = decision.conditions[0].reason
    assert "ada, grace" in words["ada", "grace"]
    assert "anybody but the requester" in words[None]
    assert "people.toml" in words[()]


def test_staging_and_exceptions_reach_the_owners_too() -> None:
    """Under the one name of the rule, whatever the owners are called."""
    from admission.documents import Exemption, Staged

    owners = (owned("a.py"),)
    warned = structs.replace(OWNED, staged=(Staged(rule="required-reviewers", enforcement="warn"),))
    decision = decide(request(warned, owners=owners), seal(warned))
    assert (decision.outcome, decision.observed[0].rule) == ("admitted", CONDITION)
    hidden = Exemption(id="e", rule="required-reviewers", patterns=("a.py",), reason="r", expires=None)
    excepted = structs.replace(OWNED, exceptions=(hidden,))
    assert decide(request(excepted, owners=owners), seal(excepted)).outcome == "admitted"


NAMES = st.sampled_from(("@a", "@b", "@a+@b", "@org/team", "a+b@x.org", "a@x.org", "ä@x.org", "@" + "n" * 130, "@a b"))


@given(first=st.sets(NAMES, min_size=1), second=st.sets(NAMES, min_size=1))
def test_each_set_of_owners_has_a_condition_of_its_own(first: set[str], second: set[str]) -> None:
    """Different owners never share an id, and every id can stand in a document."""
    ids = [owners_condition(as_set(owners)) for owners in (first, second)]
    assert (ids[0] == ids[1]) == (first == second)
    for id_, owners in zip(ids, (first, second), strict=True):
        entry = Owned(owners=as_set(owners), paths=("a.py",), reviewers=())
        decision = seal(decide(request(OWNED, owners=(entry,)), seal(OWNED))).document
        assert conditions(decision) == {id_}


def test_what_judges_is_asked_about_unless_a_rule_asks_already() -> None:
    """A rule that only warns does not ask, so custody does."""
    plain = structs.replace(starter_policy("repository"), ask=())
    assert decide(request(plain), seal(plain)).outcome == "admitted"
    decision = decide(request(plain, custody=("conftest.py",)), seal(plain))
    assert [(c.id, c.code, c.paths) for c in decision.conditions] == [
        ("custody", "admission.ask.custody", ("conftest.py",))
    ]
    for enforcement, asked in (("enforce", {"own"}), ("warn", {"custody"})):
        rule = PathRule(id="own", patterns=("conftest.py",), operations=(), reason="r", enforcement=enforcement)  # type: ignore[arg-type]
        policy = structs.replace(plain, ask=(rule,))
        assert conditions(decide(request(policy, custody=("conftest.py",)), seal(policy))) == asked


@pytest.mark.parametrize(("choice", "outcome"), [("allow", "admitted"), ("ask", "waiting"), ("refuse", "refused")])
def test_secrets_are_allowed_asked_about_or_refused(choice: str, outcome: str) -> None:
    """By the path that holds them; a path without any is never named."""
    policy = structs.replace(starter_policy("repository"), ask=(), secrets=choice)
    clean = request(policy)
    assert decide(clean, seal(policy)).outcome == "admitted"
    scope = tuple(structs.replace(entry, added_secrets=int(entry.path == "b.py")) for entry in clean.document.scope)
    decision = decide(request(policy, scope=scope), seal(policy))
    assert decision.outcome == outcome
    if choice == "ask":
        assert decision.conditions[0].paths == ("b.py",)
    if choice == "refuse":
        assert refusals(decision) == [("admission.secret.refused", "b.py")]


@given(st.permutations(range(4)), st.permutations(range(3)))
def test_a_decision_does_not_depend_on_the_order_of_what_was_signed(order: list[int], paths: list[int]) -> None:
    """Acknowledgements in any order give the same bytes; the sets of a request have one order only."""
    policy = structs.replace(starter_policy("repository"), codeowners="ask")
    owners = as_set(owned(("a.py", "b.py", "conftest.py")[n], owners=(f"@o{n}",), reviewers=None) for n in paths)
    asked = request(policy, owners=owners, custody=("conftest.py",))
    bare = decide(asked, seal(policy))
    signed = [acknowledge(bare, c.id, requester="Bob") for c in bare.conditions]
    assert len(signed) == 4
    first, second = (decide(asked, seal(policy), given) for given in (signed, [signed[n] for n in order]))
    assert digest_of(first) == digest_of(second)
    assert first.outcome == "admitted-with-conditions"


CODEOWNERS = b"* @ada\n*.md\n/b.py @org/team grace@example.org\n"
PEOPLE = (
    '[[person]]\nhandle = "ada"\nkeys = ["{ada}"]\n'
    '[[person]]\nhandle = "grace"\nemails = ["grace@example.org"]\nkeys = ["{grace}"]\n'
    '[[person]]\nhandle = "linus"\nteams = ["team"]\nkeys = ["{linus}"]\n'
)
KEYS = {name: PublicKey(Ed25519Signer(bytes([n]) * 32).public_raw) for n, name in enumerate(("ada", "grace", "linus"))}


def test_changed_paths_are_grouped_by_their_owners() -> None:
    """Each set once; a path that is nobody's is in none; reviewers are the people who stand for any of the owners."""
    people = read_people(PEOPLE.format(**{name: key.line for name, key in KEYS.items()}).encode())
    owners = read_owners(CODEOWNERS, b"CODEOWNERS")
    before = {**BASE, b"doc.md": f(b"d\n")}
    scope = scope_of(before, {**AFTER, b"doc.md": f(b"e\n")})
    found = {entry.owners: entry for entry in owned_paths(scope, owners, people, "Bob")}
    assert found["@ada",] == Owned(owners=("@ada",), paths=("a.py", "conftest.py"), reviewers=("ada",))
    both = ("@org/team", "grace@example.org")
    assert found[both] == Owned(owners=both, paths=("b.py",), reviewers=("grace", "linus"))
    assert len(found) == 2
    assert owned_paths(scope, None, people, "Bob") == ()
    assert {entry.reviewers for entry in owned_paths(scope, owners, None, "Bob")} == {None}


def test_the_requester_is_never_a_reviewer() -> None:
    """By handle or by a key of theirs; a name that nobody has takes nobody away."""
    people = read_people(PEOPLE.format(**{name: key.line for name, key in KEYS.items()}).encode())
    owners = read_owners(b"* @ada @grace\n", b"CODEOWNERS")
    for requester, reviewers in (
        ("ada", ("grace",)),
        (KEYS["grace"].keyid, ("ada",)),
        ("Bob", ("ada", "grace")),
        ("", ("ada", "grace")),
    ):
        (entry,) = owned_paths(scope_of(BASE, AFTER), owners, people, requester)
        assert entry.reviewers == reviewers
