"""mini-swe-agent: its result is the trajectory file that it was told to write, and ``info.exit_status`` in it.

Example tier: it works by a shell alone, and takes its task as an argument only, so a task has 128 KiB at most.
"""

from __future__ import annotations

from typing import Final

from commandprovider.profiles.model import Failure, Invocation, Is, Pick, Probe, Profile, Reader, Source, Words

FAILURES: Final = (
    Failure("error", r"^litellm\.InternalServerError: .* - Connection error\.$", "network"),
    Failure("error", r"^litellm\.InternalServerError: .* - Missing credentials", "auth"),
    Failure("error", r"^litellm\.InternalServerError: .* - Empty or invalid response", "bad-gateway"),
    Failure("event", "RateLimitError", "rate-limited", "info.exit_status"),
    Failure("event", "InternalServerError|ServiceUnavailableError", "overloaded", "info.exit_status"),
    Failure("event", "AuthenticationError|PermissionDeniedError", "auth", "info.exit_status"),
    Failure("event", "ContextWindowExceededError", "context-overflow", "info.exit_status"),
    Failure("event", "APIConnectionError", "network", "info.exit_status"),
    Failure("event", "Timeout|TimeoutError|TimeExceeded", "timeout", "info.exit_status"),
    Failure("event", "BadRequestError|NotFoundError|UnsupportedParamsError", "bad-request", "info.exit_status"),
    Failure("event", "RepeatedFormatError|FormatError", "malformed-output", "info.exit_status"),
    Failure("event", "LimitsExceeded", "turn-limit", "info.exit_status"),
    Failure("event", "UserInterruption|KeyboardInterrupt", "cancelled", "info.exit_status"),
    Failure("exit-status", "2", "config-error"),
)
"""Its library calls much an internal server error that is none; the text of the exception tells them apart."""

MINI_SWE_AGENT: Final = Profile(
    name="mini-swe-agent",
    title="mini-swe-agent",
    tier="example",
    executable="mini",
    native=None,
    probe=Probe(("--help",), r"mini-swe-agent version (?P<version>[0-9]+\.[0-9]+\.[0-9]+)", ("2.4", "2.5")),
    answer=None,
    workspace=Invocation(
        argv=(
            Words(("-y", "--exit-immediately", "-o", "{answer_file}", "-c", "mini.yaml")),
            Words(("-c", "model.model_kwargs.timeout=600", "-c", "agent.step_limit=60")),
            Words(("-c", "model.model_kwargs.api_base={base_url}")),
            Words(("-m", "{model}")),
            Words(("-t", "{prompt}")),
        ),
        environment=(
            ("LITELLM_LOCAL_MODEL_COST_MAP", "True"),
            ("MSWEA_CONFIGURED", "true"),
            ("MSWEA_COST_TRACKING", "ignore_errors"),
            ("MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT", "2"),
            ("MSWEA_SILENT_STARTUP", "1"),
        ),
        stdin="nothing",
    ),
    acp=None,
    reader=Reader(
        form="json-file",
        required=("info.exit_status",),
        failed=(Is("info.exit_status", "Submitted", negated=True),),
        errors=("info.exit_status", "messages.*.extra.exception_str"),
        answer=Pick("info.exit_status"),
        cost=(),
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
    ),
    network_hosts=("api.openai.com", "api.anthropic.com"),
    own_retries=None,
    reports_usage=False,
    reports_cost=False,
    install="pip install mini-swe-agent==2.4.6",
)
