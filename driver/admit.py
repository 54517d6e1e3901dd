"""The admission step: compose the sealed chain, decide, record the decision and its receipt."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from admission.compose import Chain, compose_receipt, compose_request
from admission.decide import VerifiedAcknowledgement, decide
from admission.documents import Decision, Owned, Receipt, Request, ScopeEntry
from admission.scope import derive_scope, known_secrets
from evaluator.custody import custody_paths
from evaluator.documents import Policy as EvaluatorPolicy
from runner.content import CandidateTree, change_set_of
from runner.documents import Candidate, CandidateOperation, ChangeSet, FileState
from runner.snapshot import BaseSnapshot
from savant.contracts.document import Sealed, seal
from savant.contracts.errors import SavantError
from savant.contracts.scalars import as_set
from savant.files.paths import to_raw
from savant.store.port import ObjectStore


class Admission(msgspec.Struct, frozen=True):
    """A request, the decision about it, and the composition receipt."""

    request: Sealed[Request]
    decision: Sealed[Decision]
    receipt: Sealed[Receipt]


class Recomputed(msgspec.Struct, frozen=True):
    """What the candidate is when it is computed again: nothing of it when it cannot be."""

    change_set: ChangeSet | None
    final_digest: str | None
    scope: tuple[ScopeEntry, ...]
    custody: tuple[str, ...]
    """The changed paths that judge, a set."""


def recompute(snapshot: BaseSnapshot, candidate: Candidate, store: ObjectStore, judging: EvaluatorPolicy) -> Recomputed:
    """The change set, final digest and scope of a candidate, from the base's objects and the stored blobs.

    :param judging: the evaluator policy of the session: which files judge, and where secrets are none.
    """
    try:
        tree = CandidateTree(snapshot, candidate, store)

        def before(operation: CandidateOperation, _: FileState) -> bytes:
            return snapshot.read(to_raw(operation.path))

        def after(operation: CandidateOperation, _: FileState) -> bytes:
            return tree.read(to_raw(operation.path))

        scope = derive_scope(candidate.operations, before, after, known=known_secrets(judging))
        custody = as_set(custody_paths(judging.custody, candidate.operations, before, after))
    except SavantError:
        return Recomputed(None, None, (), ())
    return Recomputed(change_set_of(candidate), tree.manifest.digest, scope, custody)


def admit(
    chain: Callable[[Recomputed], Chain],
    recomputed: Recomputed,
    *,
    requester: str,
    owners: tuple[Owned, ...] = (),
    as_of: str | None = None,
    acknowledgements: Sequence[VerifiedAcknowledgement] = (),
) -> Admission:
    """Decide the admission of a candidate.

    :param chain: makes the chain from what was recomputed.
    :param owners: the changed paths by their owners at the base.
    :param as_of: the day on which exceptions are judged; it counts only where one can end.
    """
    composed = chain(recomputed)
    request = compose_request(
        composed, recomputed.scope, requester=requester, custody=recomputed.custody, owners=owners, as_of=as_of
    )
    decision = seal(decide(request, composed.policy, acknowledgements))
    return Admission(request, decision, compose_receipt(request, decision))
