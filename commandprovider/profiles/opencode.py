"""OpenCode: one JSON event a line. It repeats failed requests without end, so only a deadline bounds it.

Example tier: it also asks the npm registry for its provider package, and a dropped stream sends it round in circles.
"""

from __future__ import annotations

from typing import Final

import msgspec

from commandprovider.profiles.model import (
    Failure,
    Flag,
    Invocation,
    Is,
    Native,
    Pick,
    Probe,
    Profile,
    Reader,
    Setting,
    Source,
    Words,
)

FAILURES: Final = (
    Failure("event", "429", "rate-limited", "error.data.statusCode"),
    Failure("event", "5[0-9][0-9]", "overloaded", "error.data.statusCode"),
    Failure("event", "401|403", "auth", "error.data.statusCode"),
    Failure("event", "ProviderAuthError", "auth", "error.name"),
    Failure("event", "ContextOverflowError", "context-overflow", "error.name"),
    Failure("event", "MessageOutputLengthError", "output-too-long", "error.name"),
    Failure("event", "MessageAbortedError", "cancelled", "error.name"),
    Failure("event", "length", "output-too-long", "part.reason"),
    Failure("event", "400|404|422", "bad-request", "error.data.statusCode"),
    Failure("error", r"^JSON [Pp]arse|^JSON parsing failed|^Unexpected token", "bad-gateway"),
    Failure("error", r"^Unable to connect|ECONNREFUSED|ENOTFOUND|ECONNRESET|^Cannot connect", "network"),
    Failure("event", "UnknownError", "bad-gateway", "error.name"),
    Failure("stderr", r"\Aopencode run \[message|ConfigInvalidError", "config-error"),
)

_PATH: Final = ".config/opencode/opencode.json"
_READ_ONLY: Final = {"bash": "deny", "edit": "deny", "webfetch": "deny"}


def _files(
    members: dict[str, object], given: tuple[Flag, ...] = (), without: tuple[Flag, ...] = ()
) -> tuple[Setting, ...]:
    """The settings file as plain as it can be, with the model, and with an address of its own; the last one holds."""
    plain: dict[str, object] = {"autoupdate": False, "share": "disabled", **members}
    own: dict[str, object] = {
        "savant": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"apiKey": "{env:OPENAI_API_KEY}", "baseURL": "{base_url}"},
            "models": {"{model}": {"limit": {"context": 128_000, "output": 8_000}}},
        }
    }
    named = "savant/{model}"
    return tuple(
        Setting(_PATH, msgspec.json.encode(content).decode(), given, without)
        for content in (
            plain,
            {**plain, "model": "{model}", "small_model": "{model}"},
            {**plain, "model": named, "small_model": named, "provider": own},
        )
    )


ENVIRONMENT: Final = (
    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
    ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
    ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
    ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
)
_RUN: Final = (Words(("run", "--format", "json")),)

OPENCODE: Final = Profile(
    name="opencode",
    title="OpenCode",
    tier="example",
    executable="opencode",
    native=Native("opencode-ai", "opencode-{os}-{arch}/bin/opencode"),
    probe=Probe(("--version",), r"^(?P<version>[0-9]+\.[0-9]+\.[0-9]+)", ("1.18", "1.19")),
    answer=Invocation(
        argv=_RUN,
        settings=(
            *_files({"tools": {"*": False}, "permission": _READ_ONLY}, without=("readable",)),
            *_files({"permission": _READ_ONLY}, given=("readable",)),
        ),
        environment=ENVIRONMENT,
    ),
    workspace=Invocation(
        argv=_RUN,
        settings=(
            *_files({"permission": {**_READ_ONLY, "edit": "allow"}}, without=("contained",)),
            *_files({"permission": {"bash": "allow", "edit": "allow", "webfetch": "deny"}}, given=("contained",)),
        ),
        environment=ENVIRONMENT,
    ),
    acp=Invocation(
        argv=(Words(("acp",)),),
        settings=(
            *_files({"permission": _READ_ONLY}, given=("readable",)),
            *_files({"permission": {**_READ_ONLY, "edit": "ask"}}, without=("readable",)),
        ),
        environment=ENVIRONMENT,
        stdin="protocol",
    ),
    reader=Reader(
        form="json-lines",
        terminal=(Is("part.reason", "stop"), Is("part.reason", "length"), Is("type", "error")),
        failed=(Is("type", "error"), Is("part.reason", "length")),
        errors=("error.data.message", "error.message"),
        answer=Pick("part.text", of=(Is("type", "text"),)),
        session=Pick("sessionID"),
        tokens_in=(
            Pick("part.tokens.input", of=(Is("type", "step_finish"),), take="sum"),
            Pick("part.tokens.cache.read", of=(Is("type", "step_finish"),), take="sum"),
        ),
        tokens_out=(
            Pick("part.tokens.output", of=(Is("type", "step_finish"),), take="sum"),
            Pick("part.tokens.reasoning", of=(Is("type", "step_finish"),), take="sum"),
        ),
        cached=(Pick("part.tokens.cache.read", of=(Is("type", "step_finish"),), take="sum"),),
        cost=(Pick("part.cost", of=(Is("type", "step_finish"),), take="sum"),),
    ),
    failures=FAILURES,
    sources=(
        Source(kind="environment", name="OPENAI_API_KEY", target="OPENAI_API_KEY", help="export OPENAI_API_KEY=..."),
        Source(
            kind="environment",
            name="ANTHROPIC_API_KEY",
            target="ANTHROPIC_API_KEY",
            help="export ANTHROPIC_API_KEY=...",
        ),
        Source(
            kind="file",
            name=".local/share/opencode/auth.json",
            target=".local/share/opencode/auth.json",
            help="opencode auth login",
        ),
    ),
    network_hosts=("api.openai.com", "api.anthropic.com"),
    own_retries=None,
    reports_usage=True,
    reports_cost=True,
    install="npm install -g opencode-ai@1.18.33",
)
