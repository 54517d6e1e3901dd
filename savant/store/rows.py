"""What a table of the run database holds: one frozen class for each kind of row."""

from __future__ import annotations

import msgspec


class RunRow(msgspec.Struct, frozen=True):
    """One run as the index shows it.

    :param phase: the session's last recorded phase.
    :param application_digest: the newest application that no verification followed yet, and how it ended.
    :param accounting: the document by which the run's calls are counted, as JSON; None where nothing is limited.
    """

    run_id: str
    started_at_ms: int
    """Wall clock, milliseconds since the Unix epoch."""
    objective: str
    base_commit: str
    disposition: str | None
    """How it ended; None while it has not."""
    candidate_digest: str | None
    ledger_first_seq: int
    ledger_last_seq: int | None
    session_digest: str | None = None
    phase: str | None = None
    application_digest: str | None = None
    application: str | None = None
    accounting: str | None = None


class Position(msgspec.Struct, frozen=True):
    """How far the ledger was read: which one, the next record, and the digest of the last line that was read."""

    ledger: str
    next_seq: int
    last_line: str


class TemplateRow(msgspec.Struct, frozen=True):
    """What a provider is made from; ``profile_digest`` is None for the host's own kinds."""

    template_id: str
    provider_kind: str
    name: str
    profile_digest: str | None


class ConfigurationRow(msgspec.Struct, frozen=True):
    """A provider's configuration; ``model`` is None where it names none, ``body`` is the document."""

    config_digest: str
    template_id: str
    provider: str
    provider_kind: str
    model: str | None
    body: str


class ClaimRow(msgspec.Struct, frozen=True):
    """What a provider said it is; ``config_digest`` is the configuration that it names as its identity."""

    capabilities_digest: str
    config_digest: str | None
    provider: str
    provider_kind: str
    model: str
    reports_usage: bool


class SessionRow(msgspec.Struct, frozen=True):
    """A session document; several runs of the same work share one."""

    session_digest: str
    config_digest: str | None
    repository_domain: str
    base_commit: str
    objective: str
    body: str


class PlanRow(msgspec.Struct, frozen=True):
    """A plan of a run; ``status`` is ``draft`` until its review, then the review's outcome."""

    run_id: str
    plan_digest: str
    seq: int
    generation: int
    status: str
    body: str


class UsageRow(msgspec.Struct, frozen=True):
    """One provider call, by the number of the record that began it. None is what nobody reported.

    :param capabilities_digest: what the provider said it is; None while the call has not ended.
    :param outcome: None for a call that was begun and never ended.
    :param tokens_in: with the cached ones. :param tokens_cached: those of them that came from a cache.
    :param cost_microunits: as the provider reported it. :param priced_microunits: from tokens and the price in force.
    :param is_notional: whether a subscription pays; None when nothing was reported.
    """

    seq: int
    run_id: str
    request_digest: str
    capabilities_digest: str | None
    operation: str
    at_ms: int
    duration_ms: int | None = None
    outcome: str | None = None
    failure_kind: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    cost_microunits: int | None = None
    priced_microunits: int | None = None
    is_notional: bool | None = None


class MessageRow(msgspec.Struct, frozen=True):
    """One line that a provider said during the call ``seq``; numbered from 1."""

    seq: int
    number: int
    text: str
