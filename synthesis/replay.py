"""Replay: a ledger's transitions and the documents they name are enough to run the machine again.

A transition names its command, the digest of the document that the command carried and the word that it carried. The
fold asks for those documents, rebuilds each command, runs the machine, and compares the whole transition: what was
recorded must be what the machine says today.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias, assert_never

from savant.contracts.document import Document, accept, digest_of
from savant.contracts.errors import RefusedInput, VerificationError
from synthesis.commands import (
    Abort,
    Command,
    Escalate,
    EvaluatorUnavailable,
    RecordAttempt,
    RecordCall,
    RecordEvaluation,
    RecordInterpretation,
    RecordPlan,
    RecordPlanReview,
    Resume,
    StartAttempt,
    StartPlanning,
    TripBreaker,
)
from synthesis.documents import (
    Attempt,
    Evaluation,
    Interpretation,
    ObservedIdentities,
    Plan,
    PlanReview,
    Session,
    State,
    Transition,
)
from synthesis.events import Event
from synthesis.machine import Refusal, start, transition

Lookup: TypeAlias = Callable[[str], bytes]
"""The stored bytes of a digest. MUST raise a SavantError when it has none; its errors pass through."""

_CARRIED: Final[Mapping[str, tuple[type[Document], Callable[[Any], Command]]]] = MappingProxyType(
    {
        "RecordInterpretation": (Interpretation, RecordInterpretation),
        "RecordPlan": (Plan, RecordPlan),
        "RecordPlanReview": (PlanReview, RecordPlanReview),
        "RecordAttempt": (Attempt, RecordAttempt),
        "RecordEvaluation": (Evaluation, RecordEvaluation),
        "Resume": (ObservedIdentities, Resume),
    }
)
_SPOKEN: Final[Mapping[str, Callable[[Any], Command]]] = MappingProxyType(
    {
        "RecordCall": RecordCall,
        "EvaluatorUnavailable": EvaluatorUnavailable,
        "TripBreaker": TripBreaker,
        "Escalate": Escalate,
        "Abort": Abort,
    }
)
_BARE: Final[Mapping[str, Callable[[], Command]]] = MappingProxyType(
    {"StartPlanning": StartPlanning, "StartAttempt": StartAttempt}
)


def document_of(command: Command) -> Document | None:
    """The document that a command carries: what must be stored so that the transition can be replayed."""
    match command:
        case RecordInterpretation(document):
            return document
        case RecordPlan(document):
            return document
        case RecordPlanReview(document):
            return document
        case RecordAttempt(document):
            return document
        case RecordEvaluation(document):
            return document
        case Resume(document):
            return document
        case (
            RecordCall()
            | StartPlanning()
            | StartAttempt()
            | EvaluatorUnavailable()
            | TripBreaker()
            | Escalate()
            | Abort()
        ):
            return None
        case _:
            assert_never(command)


def word_of(command: Command) -> str:
    """The word that a command carries outside any document; empty when it carries none."""
    match command:
        case RecordCall(word):
            return word
        case TripBreaker(word):
            return word
        case EvaluatorUnavailable(word) | Escalate(word) | Abort(word):
            return word
        case _:
            return ""


def transition_document(
    state_before: State, command: Command, state_after: State, index: int, events: tuple[Event, ...]
) -> Transition:
    """The record of one accepted command.

    :param index: its place among the session's transitions, from 0.
    """
    carried = document_of(command)
    return Transition(
        session_digest=digest_of(state_before.session),
        index=index,
        command=type(command).__name__,
        argument_digest=None if carried is None else digest_of(carried),
        argument=word_of(command),
        phase_before=state_before.phase,
        phase_after=state_after.phase,
        events=events,
        state_digest=digest_of(state_after),
    )


def command_of(recorded: Transition, documents: Lookup) -> Command:
    """The command that a transition recorded, its document accepted again from stored bytes.

    :raises VerificationError: ``unverified.state-fold`` when the transition names no command of this version, or names
        a document where there is none; ``unverified.digest`` when the stored bytes are not the named document's.
    :raises RefusedInput: when the stored bytes are not a canonical document of the command's kind.
    """
    name, digest = recorded.command, recorded.argument_digest
    if name in _CARRIED and digest is not None:
        kind, make = _CARRIED[name]
        return make(accept(documents(digest), kind, declared_digest=digest).document)
    if name in _SPOKEN and digest is None:
        return _SPOKEN[name](recorded.argument)
    if name in _BARE and digest is None:
        return _BARE[name]()
    raise VerificationError(
        "unverified.state-fold", f"Transition {recorded.index} names {name!r} with {digest}: not a command."
    )


def fold(session: Session, transitions: Iterable[Transition], lookup: Lookup) -> State:
    """The state that the recorded transitions lead to, by running the machine over them again.

    :raises VerificationError: ``unverified.state-fold`` naming the first index where the record and the machine differ.
    """
    state = start(session)
    for index, recorded in enumerate(transitions):
        try:
            command = command_of(recorded, lookup)
        except (RefusedInput, VerificationError) as error:
            raise _diverged(index, error.message) from error
        outcome = transition(state, command)
        if isinstance(outcome, Refusal):
            raise _diverged(index, f"the machine refuses it as {outcome.code}.")
        again = transition_document(state, command, outcome.state, index, outcome.events)
        differing = [name for name in Transition.__struct_fields__ if getattr(again, name) != getattr(recorded, name)]
        if differing:
            raise _diverged(index, f"the record and the machine differ in {', '.join(differing)}.")
        state = outcome.state
    return state


def _diverged(index: int, why: str) -> VerificationError:
    return VerificationError("unverified.state-fold", f"The recorded session diverges at transition {index}: {why}")
