"""The session as the driver holds it: the state, and the record of every command that the machine accepted."""

from __future__ import annotations

from driver.recorder import Recorder
from savant.contracts.document import Sealed, seal
from synthesis.commands import Command
from synthesis.documents import Session, State
from synthesis.machine import Refusal, start, transition
from synthesis.replay import document_of, transition_document


class SessionHost:
    """The one place that moves a session. A refused command changes nothing and records nothing."""

    def __init__(self, session: Sealed[Session], recorder: Recorder) -> None:
        self._recorder = recorder
        self.session = session
        self.state: State = start(session.document)
        self.transitions = 0

    @property
    def digest(self) -> str:
        """The digest of the state as it is now."""
        return seal(self.state).digest

    def send(self, command: Command) -> Refusal | None:
        """Give the machine a command; record the document it carries, then the transition. The refusal, or None.

        :raises SavantError: in mode ``enforce``, when a record cannot be made durable; the state is then unchanged.
        """
        outcome = transition(self.state, command)
        if isinstance(outcome, Refusal):
            return outcome
        carried = document_of(command)
        if carried is not None:
            self._recorder.record_once("driver", seal(carried))
        self._recorder.record(
            "driver",
            seal(transition_document(self.state, command, outcome.state, self.transitions, outcome.events)),
        )
        self.state = outcome.state
        self.transitions += 1
        if outcome.state.receipt is not None:
            self._recorder.record_once("driver", seal(outcome.state.receipt))
        return None
