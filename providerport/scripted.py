"""A provider that follows a script, and the smallest honest documents it may answer with.

For tests of everything above the port, and for offline demonstrations. It is a real provider: it runs through
:func:`providerport.execute.execute`, edits through the workspace it is handed, and passes the conformance suite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, assert_never

import msgspec

from providerport.documents import Capabilities, GenerationClaim, Request, Result
from providerport.outcome import OPERATIONS, Payload, result_of
from providerport.port import Call, ProviderFailure, Usage, Workspace
from savant.contracts.digest import digest
from savant.contracts.document import Sealed, digest_of
from savant.contracts.scalars import as_set
from synthesis.documents import (
    IntendedChange,
    Interpretation,
    Operation,
    OperationKind,
    Plan,
    PlanReview,
    PlanStep,
    Session,
)

BLOCK_MS = 3_600_000
"""How long a blocked step waits for a cancellation that never comes."""


class Answer(msgspec.Struct, frozen=True):
    """Complete with a payload, or with what a function makes of the call."""

    payload: Payload | Callable[[Call], Payload]
    usage: Usage | None = None


class Edit(msgspec.Struct, frozen=True):
    """Edit the workspace, then complete a generation with a summary."""

    edit: Callable[[Workspace], None]
    summary: str = "edited"
    usage: Usage | None = None


class Fail(msgspec.Struct, frozen=True):
    """Raise a :class:`~providerport.port.ProviderFailure` with these words."""

    outcome: str
    failure_kind: str
    detail: str = ""


class Raise(msgspec.Struct, frozen=True):
    """Raise any exception, as a broken provider does."""

    error: BaseException


class Block(msgspec.Struct, frozen=True):
    """Say a line, wait until cancelled, then fail as ``cancelled``."""

    note: str = "blocked"


class Verbatim(msgspec.Struct, frozen=True):
    """Return exactly what a function makes of the call, valid or not."""

    make: Callable[[Call], object]


Step: TypeAlias = Answer | Edit | Fail | Raise | Block | Verbatim
"""What one call does."""


def write_files(files: Mapping[bytes, bytes | None]) -> Callable[[Workspace], None]:
    """An edit that writes each path's content and deletes the paths whose content is None."""

    def edit(workspace: Workspace) -> None:
        for path, data in files.items():
            if data is None:
                workspace.delete(path)
            else:
                workspace.write(path, data)

    return edit


class ScriptedProvider:
    """Answers the calls of each operation with its steps, in order; a call past the end is ``unavailable``.

    :param script: the steps of each operation. The operations that have any are the ones it claims.
    :param default: answers a claimed operation whose steps are used up, and claims every operation.
    :param name: who it claims to be; its identity digest is made of it.
    :param reports_usage: whether it claims to report usage.
    """

    def __init__(
        self,
        script: Mapping[Operation, Iterable[Step]],
        *,
        default: Step | None = None,
        name: str = "scripted",
        reports_usage: bool = False,
    ) -> None:
        self._steps: dict[Operation, list[Step]] = {operation: list(steps) for operation, steps in script.items()}
        self._default = default
        claimed: Iterable[Operation] = OPERATIONS if default is not None else self._steps
        self._claimed = as_set(claimed)
        self._name = name
        self._reports_usage = reports_usage
        self.requests: list[Sealed[Request]] = []
        """Every request it was handed, in order, whatever became of it."""

    def calls(self, operation: Operation | None = None) -> int:
        """How many calls it was handed, of one operation or of all."""
        return sum(operation in {None, request.document.operation} for request in self.requests)

    def describe(self) -> Capabilities:
        """Its claims: the same on every call."""
        return Capabilities(
            provider=self._name,
            provider_kind="scripted",
            model="",
            identity_digest=digest(b"scripted provider\0" + self._name.encode()),
            operations=self._claimed,
            reports_usage=self._reports_usage,
        )

    def execute(self, call: Call) -> Result:
        """The next step of the request's operation.

        :raises ProviderFailure: as the script says; ``unsupported-capability`` for an operation it does not claim,
            ``unavailable``/``config-error`` when the script has ended, ``cancelled`` when it was cancelled before.
        """
        operation = call.request.document.operation
        self.requests.append(call.request)
        if operation not in self._claimed:
            raise ProviderFailure("unsupported-capability", "config-error", f"The script has no {operation}.")
        if call.cancellation.is_set():
            raise ProviderFailure("cancelled", "cancelled", "Cancelled before the step began.")
        steps = self._steps.get(operation, [])
        step = steps.pop(0) if steps else self._default
        if step is None:
            raise ProviderFailure("unavailable", "config-error", f"The script of {operation} has ended.")
        return _play(step, call)


def _play(step: Step, call: Call) -> Result:
    match step:
        case Answer(payload, usage):
            _report(call, usage)
            return result_of(call.request, "completed", payload=payload(call) if callable(payload) else payload)
        case Edit(edit, summary, usage):
            if call.workspace is None:
                raise ProviderFailure("unavailable", "config-error", "There is no workspace to edit.")
            edit(call.workspace)
            _report(call, usage)
            return result_of(call.request, "completed", payload=claim(summary))
        case Fail(outcome, failure_kind, detail):
            raise ProviderFailure(outcome, failure_kind, detail)
        case Raise(error):
            raise error
        case Block(note):
            call.observer.note(note)
            call.cancellation.wait(BLOCK_MS)
            raise ProviderFailure("cancelled", "cancelled", "Cancelled while blocked.")
        case Verbatim(make):
            return make(call)  # type: ignore[return-value]  # a broken provider returns anything
        case _:
            assert_never(step)


def _report(call: Call, usage: Usage | None) -> None:
    if usage is not None:
        call.observer.usage(usage)


def claim(summary: str = "done") -> GenerationClaim:
    """A claim that declares nothing."""
    return GenerationClaim(summary=summary, declared_change_digest=None, declared_final_digest=None)


def minimal_interpretation(session: Session) -> Interpretation:
    """The smallest interpretation the machine accepts: the session's objective and obligations, and nothing else."""
    return Interpretation(
        session_digest=digest_of(session),
        objective=session.objective,
        applicable_intent=(),
        binding_invariants=(),
        relevant_contracts=(),
        authority_boundaries=(),
        known_failure_modes=(),
        forbidden_fixes=(),
        required_proof_obligations=session.proof_obligations,
        assumptions=(),
        unresolved_questions=(),
        source_references=(),
        limitations=(),
    )


def minimal_plan(
    interpretation: Interpretation,
    generation: int = 1,
    *,
    patterns: Iterable[str] = ("**",),
    operations: Iterable[OperationKind] = ("create", "modify", "delete"),
) -> Plan:
    """A plan of one step that promises these operations on these patterns and discharges every obligation."""
    kinds = as_set(operations)
    step = PlanStep(
        id="step-1",
        description=interpretation.objective,
        intended_changes=tuple(IntendedChange(pattern=pattern, operations=kinds) for pattern in patterns),
        symbols=(),
        expected_evidence=(),
        discharges=interpretation.required_proof_obligations,
        declares_gate_changes=False,
    )
    return Plan(
        interpretation_digest=digest_of(interpretation),
        generation=generation,
        promise="declared",
        steps=(step,),
        assumptions=(),
        risks=(),
        stop_conditions=(),
    )


def converged_review(plan: Plan, *, reviewer: str = "scripted") -> PlanReview:
    """A review without findings."""
    return PlanReview(plan_digest=digest_of(plan), findings=(), reviewers=(reviewer,), outcome="converged")


def _interpret(call: Call) -> Payload:
    session = call.request.document.session
    if session is None:
        raise ProviderFailure("invalid-output", "bad-request", "The request carries no session.")
    return minimal_interpretation(session)


def _plan(call: Call) -> Payload:
    interpretation, generation = call.request.document.interpretation, call.request.document.generation
    if interpretation is None or generation is None:
        raise ProviderFailure("invalid-output", "bad-request", "The request carries no interpretation or generation.")
    return minimal_plan(interpretation, generation)


ANSWERS_INTERPRETATION = Answer(_interpret)
"""Answers an interpretation call with :func:`minimal_interpretation` of the session it carries."""

ANSWERS_PLANNING = Answer(_plan)
"""Answers a planning call with :func:`minimal_plan` of the interpretation it carries."""
