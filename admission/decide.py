"""The decision: pure and total. The first outcome that holds wins, in this order.

===========================  ==========================================================================
uncertifiable                a check of the sealed chain failed, or request and policy cannot be read as rules
refused                      a refusing rule, or an acknowledgement that is unknown, stale or not allowed
waiting                      a condition that nobody acknowledged
admitted-with-conditions     every condition acknowledged, exactly
admitted                     none of the above
===========================  ==========================================================================

People sign the decision without acknowledgements; the decision that counts them names that one by its digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from admission.codes import reason
from admission.documents import (
    AcknowledgedCondition,
    AcknowledgementStatement,
    Condition,
    Decision,
    EnvelopeEntry,
    Outcome,
    Policy,
    Reason,
    Request,
)
from admission.facts import Facts, hidden_paths
from admission.rules import ASKING, REFUSING, check_readable
from admission.staging import OWNERS_RULE, Judged, exceptions, rule_of, stage, warnings
from savant.contracts.document import Sealed, digest_of
from savant.contracts.scalars import as_set
from synthesis.documents import Limitation


class VerifiedAcknowledgement(msgspec.Struct, frozen=True):
    """An acknowledgement whose signature was verified by :mod:`admission.acknowledge`.

    :param is_listed: whether its key is one that the base lists, under the name it signed with; true where the base
        lists nobody.
    :param handle: of the person whose key it is; None where the base lists nobody, or not this key.
    """

    statement: AcknowledgementStatement
    digest: str
    keyid: str
    is_requester: bool
    is_listed: bool = True
    handle: str | None = None


def decide(
    request: Sealed[Request], policy: Sealed[Policy], acknowledgements: Sequence[VerifiedAcknowledgement] = ()
) -> Decision:
    """The decision about a request under a policy. Raises nothing for any valid input."""
    bare = _decide(request, policy, (), None)
    if not acknowledgements:
        return bare
    return _decide(request, policy, tuple(acknowledgements), digest_of(bare))


def _decide(
    request: Sealed[Request],
    policy: Sealed[Policy],
    acknowledgements: tuple[VerifiedAcknowledgement, ...],
    bare_digest: str | None,
) -> Decision:
    facts = Facts(request.document, policy.document)
    unreadable = tuple(check_readable(facts))
    broken = (*_broken_chain(request.document, policy.digest), *unreadable)
    judged = Judged((), (), ()) if unreadable else _judge(facts)
    conditions = judged.conditions
    counted, bad = _count(facts, conditions, acknowledgements, bare_digest)
    refusals = (*judged.refusals, *bad)
    met = {item.statement.condition for item in counted}
    open_ = [condition for condition in conditions if condition.id not in met]
    outcome, reasons = _outcome(broken, refusals, open_, conditions)
    is_open = outcome in ("admitted", "admitted-with-conditions", "waiting")
    return Decision(
        request_digest=request.digest,
        policy_digest=policy.digest,
        candidate_digest=request.document.candidate_digest,
        outcome=outcome,
        reasons=reasons,
        conditions=as_set(conditions),
        acknowledged=as_set(
            AcknowledgedCondition(
                condition=item.statement.condition,
                by=item.statement.by,
                keyid=item.keyid,
                is_requester=item.is_requester,
                acknowledgement_digest=item.digest,
            )
            for item in counted
        ),
        envelope=tuple(
            EnvelopeEntry(path=entry.path, kind=entry.kind) for entry in (request.document.scope if is_open else ())
        ),
        observed=judged.observed,
        limitations=tuple(_limitations(facts, judged, is_readable=not unreadable)),
        unacknowledged_digest=bare_digest,
        scope_only=True,
        correctness_certified=False,
    )


def _judge(facts: Facts) -> Judged:
    refusals = (found for rule in REFUSING for found in rule(facts))
    return stage(facts.policy, refusals, (condition for rule in ASKING for condition in rule(facts)))


def _outcome(
    broken: tuple[Reason, ...], refusals: tuple[Reason, ...], open_: list[Condition], conditions: tuple[Condition, ...]
) -> tuple[Outcome, tuple[Reason, ...]]:
    if broken:
        return "uncertifiable", broken
    if refusals:
        return "refused", refusals
    if open_:
        return "waiting", tuple(reason("admission.waiting", item.id, None, item.reason) for item in open_)
    if conditions:
        return "admitted-with-conditions", (reason("admission.acknowledged", "conditions"),)
    return "admitted", (reason("admission.within", "envelope"),)


def _broken_chain(request: Request, policy_digest: str) -> Iterator[Reason]:
    for check in request.lineage:
        if not check.passed:
            yield reason("admission.lineage", check.name, None, check.detail)
    if request.policy_digest != policy_digest:
        yield reason("admission.lineage", "o5.policy", None, "The policy is not the one that the request names.")


def _count(
    facts: Facts,
    conditions: tuple[Condition, ...],
    acknowledgements: tuple[VerifiedAcknowledgement, ...],
    bare_digest: str | None,
) -> tuple[list[VerifiedAcknowledgement], list[Reason]]:
    """The acknowledgements that count, and why the others do not."""
    counted: dict[str, VerifiedAcknowledgement] = {}
    bad: list[Reason] = []
    known = {condition.id: condition for condition in conditions}
    candidate = facts.request.candidate_digest
    for item in acknowledgements:
        statement = item.statement
        name = statement.condition
        if (statement.decision_digest, statement.candidate_digest) != (bare_digest, candidate):
            bad.append(reason("admission.acknowledgement.stale", name))
        elif name not in known:
            bad.append(reason("admission.acknowledgement.unknown", name))
        elif name in counted:
            bad.append(reason("admission.acknowledgement.repeated", name))
        elif not item.is_listed:
            bad.append(reason("admission.acknowledgement.stranger", name))
        elif _is_self_forbidden(facts, known[name]) and (item.is_requester or not facts.request.requester):
            words = "" if item.is_requester else "Who asked is not known, so it may be whoever acknowledged."
            bad.append(reason("admission.acknowledgement.self", name, None, words))
        elif not _is_reviewer(item, known[name]):
            bad.append(reason("admission.acknowledgement.not-a-reviewer", name))
        else:
            counted[name] = item
    return list(counted.values()), bad


def _is_self_forbidden(facts: Facts, condition: Condition) -> bool:
    """Whether the requester may not acknowledge a condition: never what the owners of a path must see."""
    return facts.policy.self_acknowledgement == "refuse" or rule_of(condition) == OWNERS_RULE


def _is_reviewer(item: VerifiedAcknowledgement, condition: Condition) -> bool:
    return condition.reviewers is None or item.handle in condition.reviewers


def _limitations(facts: Facts, judged: Judged, *, is_readable: bool) -> Iterator[Limitation]:
    request, policy = facts.request, facts.policy
    if policy.origin == "starter":
        yield Limitation(
            source="admission.policy",
            text="The base has no .savant/policy.toml: the built-in starter policy decided.",
            blocking=False,
        )
    if request.promise is None:
        yield Limitation(
            source="admission.promise",
            text="The change existed before the plan: nothing was promised, policy alone decided.",
            blocking=False,
        )
    if not request.requester:
        yield Limitation(source="admission.requester", text="Who asked for the change is not known.", blocking=False)
    yield from warnings(judged.observed)
    if is_readable:
        yield from exceptions(policy, hidden_paths(facts), request.as_of)
    yield from request.limitations
