"""The tables of the run database, as migrations: one row of SQL statements for each version of the file.

``PRAGMA user_version`` says how far a file has come; opening it applies what is missing, in order, in one transaction.
A published row never changes: a new shape of the file is a new row. Everything in the file follows from the ledger, so
a migration moves what a reader sees meanwhile, and the next reading of the ledger writes the rest.
"""

from __future__ import annotations

import sqlite3
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_RUN_INDEX: Final = (
    """create table run (
        run_id text primary key, started_at_ms integer not null, objective text not null, base_commit text not null,
        disposition text, candidate_digest text, ledger_first_seq integer not null, ledger_last_seq integer
    ) without rowid""",
    "create index run_by_start on run (started_at_ms, run_id)",
)

_RUN_DATABASE: Final = (
    # Where the reading of the ledger stands: at most one row.
    """create table ledger_position (
        one integer primary key check (one = 1), ledger text not null, next_seq integer not null check (next_seq > 0),
        last_line text not null
    ) strict""",
    # What a provider is made from: an agent's profile, or one of the host's own kinds.
    """create table provider_templates (
        template_id text primary key, provider_kind text not null, name text not null, profile_digest text
    ) strict, without rowid""",
    # A template as one run was given it: executables, arguments, model.
    """create table provider_configurations (
        config_digest text primary key, template_id text not null references provider_templates, provider text not null,
        provider_kind text not null, model text, body text not null check (json_valid(body))
    ) strict, without rowid""",
    "create index configuration_by_template on provider_configurations (template_id)",
    # What a provider said it is, when it was called.
    """create table provider_claims (
        capabilities_digest text primary key, config_digest text references provider_configurations,
        provider text not null, provider_kind text not null, model text not null,
        reports_usage integer not null check (reports_usage in (0, 1))
    ) strict, without rowid""",
    "create index claim_by_configuration on provider_claims (config_digest)",
    """create table sessions (
        session_digest text primary key, config_digest text references provider_configurations,
        repository_domain text not null, base_commit text not null, objective text not null,
        body text not null check (json_valid(body))
    ) strict, without rowid""",
    "create index session_by_configuration on sessions (config_digest)",
    """create table runs (
        run_id text primary key, started_at_ms integer not null, objective text not null, base_commit text not null,
        disposition text, candidate_digest text, ledger_first_seq integer not null, ledger_last_seq integer,
        session_digest text references sessions, phase text, application_digest text, application text,
        accounting text check (accounting is null or json_valid(accounting))
    ) strict, without rowid""",
    "create index run_by_time on runs (started_at_ms, run_id)",
    "create index run_by_session on runs (session_digest)",
    # The plan is the document that has to converge before code exists; its status is its last review.
    """create table plan_documents (
        run_id text not null references runs on delete cascade, plan_digest text not null, seq integer not null,
        generation integer not null, status text not null, body text not null check (json_valid(body)),
        primary key (run_id, plan_digest)
    ) strict, without rowid""",
    # One row for each call, from its intent on; everything that was not reported is null.
    """create table usage (
        seq integer primary key, run_id text not null references runs on delete cascade, request_digest text not null,
        capabilities_digest text references provider_claims, operation text not null, at_ms integer not null,
        duration_ms integer, outcome text, failure_kind text, tokens_in integer check (tokens_in >= 0),
        tokens_out integer check (tokens_out >= 0), tokens_cached integer check (tokens_cached >= 0),
        cost_microunits integer check (cost_microunits >= 0), priced_microunits integer check (priced_microunits >= 0),
        is_notional integer check (is_notional in (0, 1))
    ) strict""",
    "create index usage_by_run on usage (run_id, request_digest)",
    "create index usage_by_claim on usage (capabilities_digest)",
    "create index usage_by_time on usage (at_ms)",
    # What the provider said during a call, bounded and redacted before it was recorded.
    """create table messages (
        seq integer not null references usage on delete cascade, number integer not null, text text not null,
        primary key (seq, number)
    ) strict, without rowid""",
    """insert into runs (
        run_id, started_at_ms, objective, base_commit, disposition, candidate_digest, ledger_first_seq, ledger_last_seq
    ) select
        run_id, started_at_ms, objective, base_commit, disposition, candidate_digest, ledger_first_seq, ledger_last_seq
    from run""",
    "drop table run",
)

MIGRATIONS: Final[Mapping[int, tuple[str, ...]]] = MappingProxyType({1: _RUN_INDEX, 2: _RUN_DATABASE})
"""Version of the file: the statements that lead to it from the version before."""

VERSION: Final = max(MIGRATIONS)
"""What this version of Savant reads and writes."""

TABLES: Final = (
    "messages",
    "usage",
    "plan_documents",
    "runs",
    "sessions",
    "provider_claims",
    "provider_configurations",
    "provider_templates",
    "ledger_position",
)
"""Every table, in an order in which they can be emptied."""


def migrate(database: sqlite3.Connection) -> None:
    """Bring a file to :data:`VERSION`, within the transaction that the caller has begun.

    :raises sqlite3.DatabaseError: when the file is of a later version, or is not ours.
    """
    version = int(database.execute("pragma user_version").fetchone()[0])
    if not 0 <= version <= VERSION:
        raise sqlite3.DatabaseError(f"it has the version {version}, and this Savant knows {VERSION}")
    for target in range(version + 1, VERSION + 1):
        for statement in MIGRATIONS[target]:
            database.execute(statement)
    if version != VERSION:
        database.execute(f"pragma user_version = {VERSION}")
