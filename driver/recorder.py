"""The one path by which a run reaches the ledger: intents before effects, documents after them, counted failures.

Mode ``off`` records nothing; ``record`` counts what could not be recorded; ``enforce`` lets the failure stop the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from providerport.port import Usage
from savant.contracts.containment import Containment
from savant.contracts.document import Document, Sealed, seal
from savant.contracts.effects import Clock
from savant.contracts.errors import CommittedButIncomplete, SavantError
from savant.ledger.documents import Intent, Role, RunClose, RunOpen
from savant.ledger.log import Ledger
from savant.ledger.record import observation

ModeName = Literal["off", "record", "enforce"]
MAX_DETAIL: Final = 2_000
PLAYED: Final = "answered from a cassette; nothing was started, no agent ran"
"""How the remark of a run begins whose provider calls were played."""


class Recorder:
    """Writes one run's records under one random run id.

    :param remark: what every record of the provider's host says beside the rest: that its calls were played. Nobody
        pays for those.
    """

    def __init__(
        self,
        ledger: Ledger | None,
        *,
        run_id: str,
        mode: ModeName,
        clock: Clock,
        host: str,
        tool: str,
        remark: str = "",
    ) -> None:
        self._ledger = ledger
        self.run_id = run_id
        self.mode: ModeName = mode
        self._clock = clock
        self._host = host
        self._tool = tool
        self._remark = remark
        self.records = 0
        self.failures = 0
        self.first_seq: int | None = None
        self.last_seq: int | None = None
        self._seen: set[tuple[str, str]] = set()

    def of_run(self, run_id: str) -> Recorder:
        """A recorder that goes on with another run of the same ledger."""
        return Recorder(
            self._ledger, run_id=run_id, mode=self.mode, clock=self._clock, host=self._host, tool=self._tool
        )

    @property
    def ledger_id(self) -> str | None:
        """The ledger's id, None in mode ``off``."""
        return None if self._ledger is None else self._ledger.ledger_id

    def record(
        self,
        role: Role,
        body: Sealed[Document],
        *,
        duration_ms: int | None = None,
        usage: Usage | None = None,
        containment: Containment | None = None,
        detail: str | None = None,
        attachments: Mapping[str, str] | None = None,
        candidate_raw: bytes | None = None,
    ) -> None:
        """Append one document as a role.

        :param containment: what the foreign commands behind the document had at least.
        :raises SavantError: in mode ``enforce``, when it could not be made durable.
        """
        if self._ledger is None or self.mode == "off":
            return
        used = usage or Usage()
        played = bool(self._remark) and role == "provider-host"
        said = "; ".join(text for text in (self._remark if played else "", detail) if text)
        observed = observation(
            self._clock.now_ms(),
            duration_ms=duration_ms,
            host=self._host,
            tool=self._tool,
            tokens_in=used.tokens_in,
            tokens_out=used.tokens_out,
            tokens_cached=used.tokens_cached,
            cost_microunits=used.cost_microunits,
            cost_notional=None if usage is None else usage.is_notional or played,
            containment=containment,
            detail=said[:MAX_DETAIL] or None,
            attachments=attachments,
        )
        try:
            reference = self._ledger.append(role, body, run=self.run_id, observed=observed, candidate_raw=candidate_raw)
        except SavantError as error:
            self.failures += 1
            self.records += isinstance(error, CommittedButIncomplete)
            if self.mode == "enforce":
                raise
            return
        self.records += 1
        self.first_seq = reference.seq if self.first_seq is None else self.first_seq
        self.last_seq = reference.seq

    def record_once(self, role: Role, body: Sealed[Document], *, containment: Containment | None = None) -> None:
        """Append a document unless this run already did, as the same role."""
        if (role, body.digest) not in self._seen:
            self._seen.add((role, body.digest))
            self.record(role, body, containment=containment)

    def intent(
        self, role: Role, operation: str, *, subject: str | None, deadline_ms: int | None = None, detail: str = ""
    ) -> None:
        """Say durably that an effect is about to happen."""
        self.record(
            role,
            seal(Intent(operation=operation, subject_digest=subject, deadline_ms=deadline_ms, detail=detail)),
        )

    def open_run(self) -> None:
        """The run's first record."""
        self.record("log", seal(RunOpen(mode=self.mode)))

    def close_run(self, disposition: str) -> None:
        """The run's last record, with its counts; a checkpoint follows."""
        self.record("log", seal(RunClose(disposition=disposition, records=self.records, failed_appends=self.failures)))

    def checkpoint(self) -> None:
        """Cover every record by a signed checkpoint: asked for before any verdict is returned."""
        if self._ledger is None or self.mode == "off":
            return
        try:
            self._ledger.checkpoint()
        except SavantError:
            self.failures += 1
            if self.mode == "enforce":
                raise
