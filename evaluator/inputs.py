"""What is evaluated, and by which precommitted rules; with what follows from them, worked out once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from evaluator.checks.change import ChangedFile, changed_files
from evaluator.custody import Held, hold, undeclared
from evaluator.documents import EvaluatorConfig, Input, Policy
from runner.content import CandidateTree
from runner.documents import Candidate, CandidateOperation
from runner.documents import Receipt as RunnerReceipt
from runner.snapshot import BaseSnapshot
from savant.contracts.document import Sealed
from synthesis.documents import Attempt, IntendedChange, Plan


class EvaluationInputs(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What is evaluated, and by which precommitted rules.

    :param obligations: proof obligations with the evaluator that discharges each; None where no check can.
    :param objective: what was asked for, for those who audit.
    :param amendment: what the plan's promise was widened by before the seal.
    """

    session_digest: str
    attempt: Sealed[Attempt]
    plan: Sealed[Plan]
    runner_receipt: Sealed[RunnerReceipt]
    candidate: Sealed[Candidate]
    policy: Sealed[Policy]
    snapshot: BaseSnapshot
    tree: CandidateTree
    obligations: Mapping[str, str | None]
    objective: str = ""
    amendment: tuple[IntendedChange, ...] = ()

    @property
    def operations(self) -> tuple[CandidateOperation, ...]:
        """What the candidate changes."""
        return self.candidate.document.operations

    @cached_property
    def files(self) -> tuple[ChangedFile, ...]:
        """What the candidate changes, with contents. Errors as reading a tree."""
        return tuple(changed_files(self.operations, self.snapshot, self.tree))

    @cached_property
    def held(self) -> Held:
        """What is judged in the candidate's place. Errors as reading a tree."""
        return hold(self.policy.document.custody, self.snapshot, self.tree, self.operations)

    @cached_property
    def undeclared(self) -> tuple[str, ...]:
        """The changed paths of custody that the plan does not declare."""
        return undeclared(self.held.kept, self.operations, self.plan.document)

    @property
    def is_declared(self) -> bool:
        """Whether the candidate changes what judges, and the plan declares all of it."""
        return bool(self.held.kept) and not self.undeclared


def input_of(config: EvaluatorConfig, inputs: EvaluationInputs) -> Input:
    """What an evaluator is given that looks at the candidate alone, as it is, and runs nothing."""
    candidate = inputs.candidate.document
    return Input(
        evaluator=config.id,
        session_digest=inputs.session_digest,
        attempt_digest=inputs.attempt.digest,
        candidate_digest=inputs.candidate.digest,
        policy_digest=inputs.policy.digest,
        base_commit=candidate.base_commit,
        base_manifest_digest=candidate.input_digest,
        final_digest=candidate.final_digest,
        judged_digest=candidate.final_digest,
        restored=(),
        measures_base=False,
        toolchain_digest=None,
        prepared_digest=None,
        base_prepared_digest=None,
    )
