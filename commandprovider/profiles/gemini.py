"""Gemini CLI: one JSON object on standard output, or a failure as the last JSON object of standard error.

It exits with the HTTP status modulo 256, so 429 is 173: no signal, although it looks like one.
"""

from __future__ import annotations

from typing import Final

import msgspec

from commandprovider.profiles.model import (
    Failure,
    Flag,
    Invocation,
    Opening,
    Pick,
    Probe,
    Profile,
    Reader,
    Setting,
    Source,
    Words,
)

FAILURES: Final = (
    Failure("error", r"exceeds the maximum number of tokens", "context-overflow"),
    Failure("event", "429|RESOURCE_EXHAUSTED", "rate-limited", "error.code"),
    Failure("event", "5[0-9][0-9]", "overloaded", "error.code"),
    Failure("event", "401|403|41", "auth", "error.code"),
    Failure("event", "42|44|52|55", "config-error", "error.code"),
    Failure("event", "53", "turn-limit", "error.code"),
    Failure("event", "400", "bad-request", "error.code"),
    Failure("event", "130", "cancelled", "error.code"),
    Failure("error", r"ECONNREFUSED|ENOTFOUND|ECONNRESET|fetch failed|^terminated$", "network"),
    Failure("error", r"not valid JSON|Unexpected token|Incomplete JSON|Failed to parse|stream ended", "bad-gateway"),
    Failure("exit-status", "173", "rate-limited"),
    Failure("exit-status", "24[4-9]|25[0-4]|17", "overloaded"),
    Failure("exit-status", "145|147|41", "auth"),
    Failure("exit-status", "42|44|52|55", "config-error"),
    Failure("exit-status", "53", "turn-limit"),
    Failure("exit-status", "144", "bad-request"),
    Failure("exit-status", "130", "cancelled"),
    Failure("stderr", r"\AUnknown arguments?: ", "config-error"),
)

_READ_TOOLS: Final = ("read_file", "read_many_files", "list_directory", "glob", "grep_search")
_EDIT_TOOLS: Final = (*_READ_TOOLS, "replace", "write_file")


def _settings(tools: tuple[str, ...] | None) -> str:
    """The settings file: an API key and no traffic of its own; with a list, no other tool is sent to the model.

    Its loop detection is off: it takes a long answer that repeats itself for a loop and gives an empty one instead.
    """
    members: dict[str, object] = {
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False, "maxAttempts": 2},
        "model": {"disableLoopDetection": True},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "telemetry": {"enabled": False},
    }
    if tools is not None:
        members["tools"] = {"core": tools}
    return msgspec.json.encode(members).decode()


def _file(tools: tuple[str, ...] | None, given: tuple[Flag, ...] = (), without: tuple[Flag, ...] = ()) -> Setting:
    return Setting(".gemini/settings.json", _settings(tools), given, without)


ENVIRONMENT: Final = (
    ("GEMINI_CLI_NO_RELAUNCH", "true"),
    ("GOOGLE_GEMINI_BASE_URL", "{base_url}"),
    ("NO_COLOR", "1"),
)

_HEADLESS: Final = (Words(("--skip-trust", "--output-format", "json")), Words(("-m", "{model}")))

GEMINI: Final = Profile(
    name="gemini",
    title="Gemini CLI",
    tier="first-class",
    executable="gemini",
    native=None,
    probe=Probe(("--version",), r"^(?P<version>[0-9]+\.[0-9]+\.[0-9]+)", ("0.61", "0.62")),
    answer=Invocation(
        argv=_HEADLESS,
        settings=(
            _file(("none",), without=("readable",)),
            _file(_READ_TOOLS, given=("readable",)),
        ),
        environment=ENVIRONMENT,
    ),
    workspace=Invocation(
        argv=(
            *_HEADLESS,
            Words(("--approval-mode", "auto_edit"), without=("contained",)),
            Words(("--approval-mode", "yolo"), given=("contained",)),
        ),
        settings=(
            _file(_EDIT_TOOLS, without=("contained",)),
            _file(None, given=("contained",)),
        ),
        environment=ENVIRONMENT,
    ),
    acp=Invocation(
        argv=(Words(("--acp", "--skip-trust")), Words(("-m", "{model}"))),
        settings=(_file(_READ_TOOLS, given=("readable",)), _file(_EDIT_TOOLS, without=("readable",))),
        environment=ENVIRONMENT,
        stdin="protocol",
        openings=(Opening(serves_reads=False),),
    ),
    reader=Reader(
        form="json-object",
        required=("session_id", "response", "stats"),
        errors=("error.message",),
        error_object="stderr",
        answer=Pick("response"),
        session=Pick("session_id"),
        tokens_in=(Pick("stats.models.*.tokens.prompt", take="sum"),),
        tokens_out=(
            Pick("stats.models.*.tokens.candidates", take="sum"),
            Pick("stats.models.*.tokens.thoughts", take="sum"),
        ),
        cached=(Pick("stats.models.*.tokens.cached", take="sum"),),
    ),
    failures=FAILURES,
    sources=(
        Source(kind="environment", name="GEMINI_API_KEY", target="GEMINI_API_KEY", help="export GEMINI_API_KEY=..."),
        Source(kind="environment", name="GOOGLE_API_KEY", target="GEMINI_API_KEY", help="export GOOGLE_API_KEY=..."),
    ),
    network_hosts=("generativelanguage.googleapis.com",),
    own_retries=1,
    reports_usage=True,
    reports_cost=False,
    install="npm install -g @google/gemini-cli@0.61.0",
)
