"""The replay of held-out suites: what was revealed is what the session committed to, and nothing ran unrevealed."""

from __future__ import annotations

from driver.replay_evidence import Evidence, verify_same
from evaluator.documents import Descriptor, Suite
from evaluator.documents import Policy as EvaluatorPolicy
from evaluator.documents import Result as EvaluatorResult


def suites_follow(evidence: Evidence) -> None:
    """Return if each recorded suite is one that the policy names, and each whose command has run was recorded.

    :raises VerificationError: ``unverified.replay-evaluation``.
    """
    policy = evidence.one(EvaluatorPolicy, evidence.session.document.evaluator_policy_digest).document
    committed = {config.id: config.suite_digest for config in policy.evaluators if config.suite_digest is not None}
    revealed = {suite.digest for suite in evidence.history.all(Suite)}
    verify_same("evaluation", "the suites that nobody committed to", set(), revealed - set(committed.values()))
    for entry in evidence.history.entries:
        document = entry.body.document
        if isinstance(document, EvaluatorResult) and entry.observed.containment is not None:
            descriptor = evidence.one(Descriptor, document.descriptor_digest).document
            if descriptor.evaluator_kind == "held-out":
                verify_same("evaluation", "the suite that has run", committed.get(document.evaluator) in revealed, True)
