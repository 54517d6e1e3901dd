"""What the gate asks about, read from a repository's own objects: two trees, the change between them, the rules."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from admission.decide import decide
from admission.documents import Decision, Policy, Request
from admission.facts import can_expire
from admission.owners import owned_paths
from admission.scope import derive_scope, known_secrets
from driver.config import evaluator_policy
from driver.gate import Match, Question, explains
from driver.prepare import owners_at, people_at, read_rules
from evaluator.custody import custody_paths
from runner.change import change_set, operations
from runner.content import change_set_of
from runner.documents import Candidate, CandidateOperation, ChangeSet, FileState
from runner.snapshot import BaseSnapshot
from savant.contracts.document import Sealed, digest_of, kind_of, seal
from savant.contracts.envelope import parse_envelope
from savant.contracts.registry import Registry
from savant.contracts.scalars import as_set
from savant.files.paths import to_raw
from savant.ledger.record import Bodies, accept_body, parse_statement
from savant.repository.manifest import diff


def ask(base: BaseSnapshot, head: BaseSnapshot, policy: Sealed[Policy] | None = None) -> Question:
    """The question about a commit on a base. The rules come from the base alone, or from the branch it goes to.

    :param policy: the rules of that branch.

    :raises RefusedInput: as :func:`driver.prepare.read_rules`.
    """
    change = change_between(base, head)
    return Question(
        commit=head.document.document.base_commit,
        base_commit=base.document.document.base_commit,
        base_digest=base.manifest.digest,
        head_digest=head.manifest.digest,
        change_digest=digest_of(change),
        policy=policy or read_rules(base).admission,
        changes=change.changes,
    )


def change_between(base: BaseSnapshot, head: BaseSnapshot) -> ChangeSet:
    """The change set from one commit to another, computed from their manifests."""
    return change_set(
        diff(base.manifest, head.manifest), lambda path: len(base.read(path)), lambda path: len(head.read(path))
    )


def judge_again(
    question: Question,
    base: BaseSnapshot,
    head: BaseSnapshot,
    match: Match,
    decision: Decision,
    *,
    as_of: str | None = None,
) -> Decision:
    """Admission decided again about a candidate's change on another base, by the rules of that base.

    The labels and line counts are derived on that base. Acknowledgements do not move: people signed another decision.
    The checks are not run again: they ran on the base that the candidate was made from.

    :param as_of: the day on which exceptions are judged; that of the request when None.
    """
    request = match.history.by_digest(Request, decision.request_digest).document
    moved_operations = operations(change_set_of(match.candidate.document), base.manifest)

    def before(operation: CandidateOperation, state: FileState) -> bytes:
        del state
        return base.read(to_raw(operation.path))

    def after(operation: CandidateOperation, state: FileState) -> bytes:
        del state
        return head.read(to_raw(operation.path))

    judging = evaluator_policy(read_rules(base).config, ())
    scope = derive_scope(moved_operations, before, after, known=known_secrets(judging))
    policy = question.policy.document
    moved = structs.replace(
        request,
        policy_digest=question.policy.digest,
        base_commit=question.base_commit,
        input_digest=question.base_digest,
        final_digest=question.head_digest,
        scope=scope,
        custody=as_set(custody_paths(judging.custody, moved_operations, before, after)),
        owners=owned_paths(scope, owners_at(base, policy), people_at(base), request.requester),
        as_of=(as_of or request.as_of) if can_expire(policy) else None,
    )
    return decide(seal(moved), question.policy)


def runs_about(question: Question, lines: Iterable[bytes], registry: Registry, bodies: Bodies | None) -> list[str]:
    """The ids of the runs whose candidate could explain the commit, or has its tree or its base, in ledger order.

    :raises SavantError: when a candidate's record cannot be accepted; never for a ledger that was verified.
    """
    kind = kind_of(Candidate)
    found: dict[str, None] = {}
    for line in lines:
        payload, _, _ = parse_envelope(line)
        statement = parse_statement(payload)
        run = statement.predicate.run
        if run is None or statement.predicate.body_kind != kind:
            continue
        body = accept_body(statement, registry, bodies)
        if body is None or not isinstance(body.document, Candidate):
            continue
        candidate = body.document
        is_near = candidate.final_digest == question.head_digest or candidate.input_digest == question.base_digest
        if is_near or explains(question, candidate):
            found.setdefault(run)
    return list(found)
