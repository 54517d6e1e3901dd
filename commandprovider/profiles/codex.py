"""Codex CLI: one JSON event a line; only ``turn.completed`` and ``turn.failed`` say how a turn ended.

Its built-in model provider cannot be bounded, so a provider of our own stands in its place. Without a base URL that one
still takes Codex's own addresses and login.
"""

from __future__ import annotations

from typing import Final

from commandprovider.profiles.model import Failure, Invocation, Is, Native, Pick, Probe, Profile, Reader, Source, Words

FAILURES: Final = (
    Failure("error", r"last status: 429|^You've hit your usage limit|^Rate limit reached", "rate-limited"),
    Failure("error", r"last status: 401|401 Unauthorized|403 Forbidden|^Not logged in", "auth"),
    Failure("error", r"ran out of room in the model's context window|context_length_exceeded", "context-overflow"),
    Failure("error", r"^Incomplete response returned, reason: max_output_tokens", "output-too-long"),
    Failure("error", r"experiencing high demand|last status: 5[0-9][0-9]|unexpected status 5[0-9][0-9]", "overloaded"),
    Failure("error", r"stream (closed|disconnected) before (response\.completed|completion)", "bad-gateway"),
    Failure("error", r"idle timeout waiting|^request timed out", "timeout"),
    Failure("error", r"^Connection failed|error sending request|connection refused", "network"),
    Failure("error", r"^Quota exceeded", "budget"),
    Failure("error", r"unexpected status 4[0-9][0-9]|\"invalid_request_error\"", "bad-request"),
    Failure("exit-status", "2", "config-error"),
    Failure("stderr", r"input_too_large", "context-overflow"),
    Failure("stderr", r"^Error loading config|^Not inside a trusted directory|^No prompt provided", "config-error"),
)

SOURCES: Final = (
    Source(kind="environment", name="CODEX_API_KEY", target="CODEX_API_KEY", help="export CODEX_API_KEY=..."),
    Source(kind="environment", name="OPENAI_API_KEY", target="CODEX_API_KEY", help="export OPENAI_API_KEY=..."),
    Source(
        kind="file",
        name=".codex/auth.json",
        target=".codex/auth.json",
        help="codex login",
        billing="subscription",
    ),
)

QUIET: Final = (
    Words(("-c", "analytics.enabled=false")),
    Words(("-c", "check_for_update_on_startup=false")),
    Words(("-c", "web_search=disabled")),
)
MODEL: Final = (
    Words(("-c", "model={model}")),
    Words(("-c", "model_provider=savant")),
    Words(
        (
            "-c",
            'model_providers.savant={name="savant",wire_api="responses",requires_openai_auth=true,'  # noqa: ISC004
            "request_max_retries=1,stream_max_retries=1,stream_idle_timeout_ms=120000}",
        )
    ),
    Words(("-c", 'model_providers.savant.base_url="{base_url}"')),
)

_TURN: Final = (
    Words(("exec", "--json", "--ephemeral", "--ignore-user-config", "--ignore-rules", "--skip-git-repo-check")),
    Words(("--color", "never")),
    Words(
        tuple(
            word
            for feature in (
                "plugins",
                "apps",
                "remote_plugin",
                "multi_agent",
                "goals",
                "unbounded_connection_retries",
            )
            for word in ("--disable", feature)
        )
    ),
    *QUIET,
    *MODEL,
)
_NO_TOOLS: Final = ("--disable", "shell_tool", "--disable", "unified_exec", "--disable", "view_image")

CODEX: Final = Profile(
    name="codex",
    title="Codex CLI",
    tier="first-class",
    executable="codex",
    native=Native("@openai/codex", "@openai/codex-{os}-{arch}/vendor/*/bin/codex"),
    probe=Probe(("--version",), r"^codex-cli (?P<version>[0-9]+\.[0-9]+\.[0-9]+)", ("0.171", "0.172")),
    answer=Invocation(
        argv=(
            *_TURN,
            Words(("--sandbox", "read-only", *_NO_TOOLS), without=("readable",)),
            Words(("--sandbox", "danger-full-access"), given=("contained", "readable")),
            Words(("--sandbox", "read-only"), given=("readable",), without=("contained",)),
            Words(("--output-schema", "{schema_file}")),
            Words(("-",)),
        ),
    ),
    workspace=Invocation(
        argv=(
            *_TURN,
            Words(("--sandbox", "danger-full-access"), given=("contained",)),
            Words(("--sandbox", "workspace-write"), without=("contained",)),
            Words(("-",)),
        ),
    ),
    acp=None,
    reader=Reader(
        form="json-lines",
        terminal=(Is("type", "turn.completed"), Is("type", "turn.failed")),
        failed=(Is("type", "turn.failed"),),
        errors=("error.message",),
        answer=Pick("item.text", of=(Is("type", "item.completed"), Is("item.type", "agent_message"))),
        session=Pick("thread_id", of=(Is("type", "thread.started"),)),
        tokens_in=(Pick("usage.input_tokens", take="sum"),),
        tokens_out=(Pick("usage.output_tokens", take="sum"),),
        cached=(Pick("usage.cached_input_tokens", take="sum"),),
    ),
    failures=FAILURES,
    sources=SOURCES,
    network_hosts=("api.openai.com", "chatgpt.com"),
    own_retries=1,
    reports_usage=True,
    reports_cost=False,
    install="npm install -g @openai/codex@0.171.0",
)
