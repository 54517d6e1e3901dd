"""A proposed policy over the candidates that were judged: which verdicts would flip. Nothing is recorded.

Verdicts are compared without acknowledgements: what people signed was signed for the decision as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, TypeAlias

import msgspec
from msgspec import structs

from admission.decide import decide
from admission.documents import Decision, Owned, Policy, Request
from admission.facts import can_expire
from admission.owners import owned_paths
from driver.history import RunHistory
from driver.prepare import owners_at, people_at
from runner.documents import Candidate
from runner.snapshot import BaseSnapshot
from savant.contracts.document import Sealed, seal
from savant.contracts.errors import PortError, RefusedInput

Verdict: TypeAlias = Literal["same", "flips", "unknown"]
ReadBase = Callable[[str], BaseSnapshot]
"""The base of a candidate by its commit.

:raises PortError: when it is not in this repository.
"""


class Judged(msgspec.Struct, frozen=True):
    """One candidate under both policies.

    :param before: the decision by the policy that it was judged by.
    :param after: the decision by the proposed one; None where it could not be made, and ``why`` says why.
    """

    run_id: str
    candidate_digest: str
    before: Decision
    after: Decision | None
    why: str = ""

    @property
    def verdict(self) -> Verdict:
        """Whether the outcome would be another one."""
        if self.after is None:
            return "unknown"
        return "same" if self.after.outcome == self.before.outcome else "flips"


class Proposal(msgspec.Struct, frozen=True):
    """What a proposed policy would do. ``unjudged`` counts sealed candidates that admission never saw."""

    judged: tuple[Judged, ...]
    unjudged: int

    @property
    def flips(self) -> tuple[Judged, ...]:
        """The candidates whose verdict would be another one."""
        return tuple(item for item in self.judged if item.verdict == "flips")

    @property
    def unknown(self) -> tuple[Judged, ...]:
        """The candidates that could not be judged by the proposed policy."""
        return tuple(item for item in self.judged if item.verdict == "unknown")


def propose(histories: Iterable[RunHistory], proposed: Sealed[Policy], read_base: ReadBase, *, as_of: str) -> Proposal:
    """Every sealed candidate of some runs, judged by the policy of its session and by a proposed one.

    :param as_of: the day on which exceptions of the proposed policy are judged.
    """
    judged: list[Judged] = []
    unjudged = 0
    for history in histories:
        requests = {request.document.candidate_digest: request for request in history.all(Request)}
        unjudged += sum(candidate.digest not in requests for candidate in history.all(Candidate))
        judged += [_judge(history, request, proposed, read_base, as_of) for request in requests.values()]
    return Proposal(tuple(judged), unjudged)


def _judge(
    history: RunHistory, request: Sealed[Request], proposed: Sealed[Policy], read_base: ReadBase, as_of: str
) -> Judged:
    document = request.document
    before = decide(request, history.by_digest(Policy, document.policy_digest))
    try:
        owners = _owned(document, proposed.document, read_base)
    except (PortError, RefusedInput) as error:
        return Judged(history.run_id, document.candidate_digest, before, None, error.message)
    moved = structs.replace(
        document,
        policy_digest=proposed.digest,
        owners=owners,
        as_of=as_of if can_expire(proposed.document) else None,
    )
    return Judged(history.run_id, document.candidate_digest, before, decide(seal(moved), proposed))


def _owned(request: Request, policy: Policy, read_base: ReadBase) -> tuple[Owned, ...]:
    """Who owns the changed paths, if the proposed policy asks: the policy in force may not have."""
    if policy.codeowners == "ignore":
        return ()
    base = read_base(request.base_commit)
    return owned_paths(request.scope, owners_at(base, policy), people_at(base), request.requester)
