"""What each document adds to the rows of the run database: the run as it is afterwards, and rows of other tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from admission.documents import Verification
from candidateapply.documents import Receipt as ApplyReceipt
from commandprovider.documents import Config
from driver.documents import Accounting, RunDisposition
from driver.documents import Receipt as RunReceipt
from driver.history import HistoryEntry
from driver.money import priced
from providerport.documents import Capabilities, Observations
from providerport.documents import Receipt as CallReceipt
from providerport.port import Usage
from runner.documents import Candidate
from savant.contracts.document import Document, accept, kind_of
from savant.contracts.errors import Unverifiable
from savant.ledger.documents import Intent, RunOpen
from savant.ledger.record import Bodies, Observed
from savant.store.database import Writer
from savant.store.rows import (
    ClaimRow,
    ConfigurationRow,
    MessageRow,
    PlanRow,
    RunRow,
    SessionRow,
    TemplateRow,
    UsageRow,
)
from synthesis.documents import Plan, PlanReview, Session, Transition

CALL_INTENT: Final = "provider."
"""How the operations of a provider call's intent begin."""

NOTES: Final = "observations"
"""The attachment of a call's receipt that holds what the provider said."""

DRAFT: Final = "draft"
"""The status of a plan that no review followed yet."""


READ: Final[tuple[type[Document], ...]] = (
    RunOpen,
    Session,
    Config,
    Capabilities,
    Accounting,
    Transition,
    Plan,
    PlanReview,
    Intent,
    CallReceipt,
    Candidate,
    RunReceipt,
    ApplyReceipt,
    Verification,
)
"""The documents that the rows follow from."""

KINDS: Final[frozenset[str]] = frozenset(kind_of(type_) for type_ in READ)
"""Their kinds; the bodies of other records are not even parsed."""


def index_entry(writer: Writer, run: RunRow, entry: HistoryEntry, bodies: Bodies) -> RunRow:
    """Put the rows that a record adds, beside the run's own row; the run as it is after the record."""
    _put_rows(writer, run, entry, bodies)
    digest = entry.body.digest
    match entry.body.document:
        case Session() as session:
            objective, commit = session.objective, session.base_commit
            return replace(run, session_digest=digest, objective=objective, base_commit=commit)
        case Accounting():
            return replace(run, accounting=_json(entry))
        case Transition() as transition:
            return replace(run, phase=transition.phase_after)
        case Candidate():
            return replace(run, candidate_digest=digest)
        case RunReceipt() as ended:
            return replace(run, disposition=ended.disposition)
        case ApplyReceipt() as applied:
            return replace(run, application_digest=digest, application=applied.disposition)
        case Verification() as seen if run.application and seen.application_receipt_digest == run.application_digest:
            # the verification that belongs to the application decides what the run came to; a later one does not
            ending = disposition_after(run.application, seen.status)
            return replace(run, disposition=ending, application_digest=None, application=None)
        case _:
            return run


def _put_rows(writer: Writer, run: RunRow, entry: HistoryEntry, bodies: Bodies) -> None:
    digest = entry.body.digest
    match entry.body.document:
        case Session() as session:
            _put_session(writer, session, digest, _json(entry))
        case Config() as config:
            _put_configuration(writer, config, digest, _json(entry))
        case Capabilities() as claim:
            _put_claim(writer, claim, digest)
        case Plan() as plan:
            writer.put(PlanRow(run.run_id, digest, entry.seq, plan.generation, DRAFT, _json(entry)))
        case PlanReview() as review:
            reviewed = writer.get(PlanRow, run.run_id, review.plan_digest)
            if reviewed is not None:
                writer.put(replace(reviewed, status=review.outcome))
        case Intent() as intent:
            _begin_call(writer, run, entry, intent)
        case CallReceipt() as receipt:
            _end_call(writer, run, entry, receipt, bodies)
        case _:
            pass


def _json(entry: HistoryEntry) -> str:
    return entry.body.raw.decode("utf-8")


def _put_session(writer: Writer, session: Session, digest: str, body: str) -> None:
    known = writer.get(ConfigurationRow, session.provider_config_digest)
    writer.put(
        SessionRow(
            session_digest=digest,
            config_digest=None if known is None else known.config_digest,
            repository_domain=session.repository_domain,
            base_commit=session.base_commit,
            objective=session.objective,
            body=body,
        )
    )


def _put_configuration(writer: Writer, config: Config, digest: str, body: str) -> None:
    agent, kind = config.agent, config.provider_kind
    if agent is None:
        template = TemplateRow(kind, kind, kind, None)
    else:
        name = f"{kind}/{agent.profile}@{agent.profile_digest}"
        template = TemplateRow(name, kind, agent.profile, agent.profile_digest)
    model = None if agent is None else agent.model or None
    writer.put(template, ConfigurationRow(digest, template.template_id, config.provider, kind, model, body))


def _put_claim(writer: Writer, claim: Capabilities, digest: str) -> None:
    known = writer.get(ConfigurationRow, claim.identity_digest)
    writer.put(
        ClaimRow(
            capabilities_digest=digest,
            config_digest=None if known is None else known.config_digest,
            provider=claim.provider,
            provider_kind=claim.provider_kind,
            model=claim.model,
            reports_usage=claim.reports_usage,
        )
    )


def _begin_call(writer: Writer, run: RunRow, entry: HistoryEntry, intent: Intent) -> None:
    if not intent.operation.startswith(CALL_INTENT) or intent.subject_digest is None:
        return
    writer.put(
        UsageRow(
            seq=entry.seq,
            run_id=run.run_id,
            request_digest=intent.subject_digest,
            capabilities_digest=None,
            operation=intent.operation.removeprefix(CALL_INTENT),
            at_ms=entry.observed.at_ms,
        )
    )


def _end_call(writer: Writer, run: RunRow, entry: HistoryEntry, receipt: CallReceipt, bodies: Bodies) -> None:
    """A call that ended: the row that its intent began, or one of its own where the intent was lost."""
    claim = writer.get(ClaimRow, receipt.capabilities_digest)
    begun = writer.open_call(run.run_id, receipt.request_digest)
    seen = entry.observed
    accounting = None if run.accounting is None else accept(run.accounting.encode("utf-8"), Accounting).document
    row = UsageRow(
        seq=entry.seq if begun is None else begun.seq,
        run_id=run.run_id,
        request_digest=receipt.request_digest,
        capabilities_digest=None if claim is None else claim.capabilities_digest,
        operation=receipt.operation,
        at_ms=seen.at_ms if begun is None else begun.at_ms,
        duration_ms=seen.duration_ms,
        outcome=receipt.outcome,
        failure_kind=receipt.failure_kind,
        tokens_in=seen.tokens_in,
        tokens_out=seen.tokens_out,
        tokens_cached=seen.tokens_cached,
        cost_microunits=seen.cost_microunits,
        priced_microunits=priced(usage_of(seen), "" if claim is None else claim.model, accounting),
        is_notional=seen.cost_notional,
    )
    writer.put(row)
    for attachment in seen.attachments:
        if attachment.name == NOTES:
            writer.put(*_messages(row.seq, attachment.digest, bodies))


def usage_of(seen: Observed) -> Usage | None:
    """The usage that a record observed; None where the provider reported none."""
    if seen.cost_notional is None:
        return None
    return Usage(
        tokens_in=seen.tokens_in,
        tokens_out=seen.tokens_out,
        cost_microunits=seen.cost_microunits,
        tokens_cached=seen.tokens_cached,
        is_notional=seen.cost_notional,
    )


def _messages(seq: int, digest: str, bodies: Bodies) -> Iterator[MessageRow]:
    """What a provider said, while it is kept: transcripts may be thrown away before the records are."""
    try:
        raw = bodies.get(digest)
    except Unverifiable:
        return
    for item in accept(raw, Observations, declared_digest=digest).document.items:
        yield MessageRow(seq, item.sequence, item.text)


def disposition_after(application: str, status: str) -> RunDisposition:
    """What a run came to by an application and the verification that followed it."""
    if application == "mismatch-restored":
        return "apply-failed"
    match status:
        case "scope-compliant" if application == "applied":
            return "applied-compliant"
        case "uncertifiable" | "stale":
            return "verification-failed"
        case _:
            return "applied-violated"
