"""Agents that only speak the Agent Client Protocol: Claude Code's and Codex's adapters.

Their failures are error objects of the protocol: rules for ``event`` look at the members of its ``data``, rules for
``error`` at its message. Gemini CLI and OpenCode speak the protocol themselves; see their profiles.
"""

from __future__ import annotations

from typing import Final

import msgspec

from commandprovider.profiles import claude, codex
from commandprovider.profiles.model import Failure, Flag, Invocation, Native, Opening, Probe, Profile

INITIALIZE: Final = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":'
    '{"fs":{"readTextFile":false,"writeTextFile":false},"terminal":false}}}\n'
)
INFO: Final = r'"agentInfo":\{[^{}]*"version":"(?P<version>[0-9]+\.[0-9]+\.[0-9]+)"'
"""Neither has a switch that prints its version; both say it when the protocol begins."""


def _claude(tools: tuple[str, ...], *, given: tuple[Flag, ...] = (), without: tuple[Flag, ...] = ()) -> Opening:
    """A session with these tools that takes no settings from anywhere: hooks in them are commands."""
    options: dict[str, object] = {
        "settingSources": (),
        "strictMcpConfig": True,
        "persistSession": False,
        "maxTurns": 60,
        "tools": tools,
    }
    meta = msgspec.json.encode({"claudeCode": {"options": options}}).decode()
    return Opening(meta=meta, given=given, without=without)


CLAUDE_ACP: Final = Profile(
    name="claude-acp",
    title="Claude Agent (ACP)",
    tier="first-class",
    executable="claude-agent-acp",
    native=None,
    probe=Probe((), INFO, ("0.49", "0.50"), INITIALIZE),
    answer=None,
    workspace=None,
    acp=Invocation(
        argv=(),
        environment=(*claude.ENVIRONMENT, ("ANTHROPIC_MODEL", "{model}")),
        stdin="protocol",
        openings=(
            _claude(("Read", "Glob", "Grep"), given=("readable",)),
            _claude(("Read", "Edit", "Write", "Glob", "Grep"), without=("readable",)),
        ),
    ),
    reader=None,
    failures=(
        Failure("event", "rate_limit", "rate-limited", "data.errorKind"),
        Failure("event", "overloaded|server_error", "overloaded", "data.errorKind"),
        Failure("event", "authentication_failed|oauth_org_not_allowed", "auth", "data.errorKind"),
        Failure("event", "billing_error", "budget", "data.errorKind"),
        Failure("event", "max_output_tokens", "output-too-long", "data.errorKind"),
        Failure("event", "-32000", "auth", "code"),
        *(rule for rule in claude.FAILURES if rule.where == "error"),
        Failure("event", "invalid_request|model_not_found", "bad-request", "data.errorKind"),
    ),
    sources=claude.SOURCES,
    network_hosts=claude.CLAUDE.network_hosts,
    own_retries=1,
    reports_usage=True,
    reports_cost=True,
    install="npm install -g @agentclientprotocol/claude-agent-acp@0.49.0",
)

CODEX_ACP: Final = Profile(
    name="codex-acp",
    title="Codex (ACP)",
    tier="first-class",
    executable="codex-acp",
    native=Native("@zed-industries/codex-acp", "@zed-industries/codex-acp-{os}-{arch}/bin/codex-acp"),
    probe=Probe((), INFO, ("0.16", "0.17"), INITIALIZE),
    answer=None,
    workspace=None,
    acp=Invocation(
        argv=(*codex.QUIET, *codex.MODEL),
        stdin="protocol",
        openings=(
            Opening(mode="read-only", given=("readable",), without=("contained",)),
            Opening(mode="full-access", given=("contained",)),
            Opening(mode="auto"),
        ),
    ),
    reader=None,
    failures=(
        Failure("event", "usage_limit_exceeded", "rate-limited", "data.codex_error_info"),
        Failure("event", "unauthorized", "auth", "data.codex_error_info"),
        Failure("event", "context_window_exceeded", "context-overflow", "data.codex_error_info"),
        Failure("event", "bad_request", "bad-request", "data.codex_error_info"),
        Failure("event", "-32000", "auth", "code"),
        Failure("event", "server_overloaded", "overloaded", "data.codex_error_info"),
        Failure("event", "response_stream_disconnected", "bad-gateway", "data.codex_error_info"),
        *(rule for rule in codex.FAILURES if rule.where == "error"),
        Failure("event", "(http|response_stream)_connection_failed", "network", "data.codex_error_info"),
        Failure("event", "internal_server_error", "overloaded", "data.codex_error_info"),
    ),
    sources=codex.SOURCES,
    network_hosts=codex.CODEX.network_hosts,
    own_retries=1,
    reports_usage=False,  # it tells how full the context is, and not what the turn used
    reports_cost=False,
    install="npm install -g @zed-industries/codex-acp@0.16.0",
)
