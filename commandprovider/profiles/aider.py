"""aider: text for people, and exit status 0 for every failure, so the line that counts tokens is what ends a turn.

Example tier: its failures stand on standard output between its own lines; they are looked at only where no turn ended.
"""

from __future__ import annotations

from typing import Final

from commandprovider.profiles.model import Failure, Invocation, Pick, Probe, Profile, Reader, Setting, Source, Words

FAILURES: Final = (
    Failure("stdout", r"^litellm\.RateLimitError:", "rate-limited"),
    Failure("stdout", r"^litellm\.AuthenticationError:", "auth"),
    Failure("stdout", r"^litellm\.ContextWindowExceededError:|^Output tokens: ~0 of ", "context-overflow"),
    Failure("stdout", r"^Model [^\n]{1,200} has hit a token limit!", "output-too-long"),
    Failure("stdout", r"^litellm\.Timeout:", "timeout"),
    Failure("stdout", r"^litellm\.APIConnectionError:", "network"),
    Failure("stdout", r"^litellm\.(InternalServerError|ServiceUnavailableError):", "overloaded"),
    Failure("stdout", r"^litellm\.BadRequestError:", "bad-request"),
    Failure("stdout", r"^Empty response received", "malformed-output"),
    Failure("exit-status", "2", "config-error"),
)

_QUIET: Final = (
    Words(("--model", "{model}")),
    Words(("--yes-always", "--no-check-update", "--no-show-release-notes", "--analytics-disable")),
    Words(("--no-show-model-warnings", "--no-pretty", "--no-stream", "--no-gitignore", "--no-fancy-input")),
    Words(("--map-tokens", "0", "--no-detect-urls", "--no-suggest-shell-commands", "--disable-playwright")),
    Words(("--no-auto-lint", "--no-git", "--timeout", "600")),
    Words(("--chat-history-file", "{home}/aider.chat.md", "--input-history-file", "{home}/aider.input")),
    Words(("--message-file", "{prompt_file}")),
)
ENVIRONMENT: Final = (("LITELLM_LOCAL_MODEL_COST_MAP", "True"), ("OPENAI_API_BASE", "{base_url}"))
SETTINGS: Final = (Setting(".aider/caches/model_prices_and_context_window.json", '{"none": {}}'),)
"""A price list of its own, or it fetches one from another host first."""

AIDER: Final = Profile(
    name="aider",
    title="aider",
    tier="example",
    executable="aider",
    native=None,
    probe=Probe(("--version",), r"^aider (?P<version>[0-9]+\.[0-9]+\.[0-9]+)", ("0.86", "0.87")),
    answer=Invocation(
        argv=(*_QUIET, Words(("--chat-mode", "ask"))),
        settings=SETTINGS,
        environment=ENVIRONMENT,
        stdin="nothing",
    ),
    workspace=Invocation(
        argv=(*_QUIET, Words(("--edit-format", "diff"))),
        settings=SETTINGS,
        environment=ENVIRONMENT,
        stdin="nothing",
    ),
    acp=None,
    reader=Reader(
        form="text",
        terminal_pattern=(
            r"\A(?!.*^Model [^\n]{1,200} has hit a token limit!)"
            r"(?>(?:.*?^Repo-map: [^\n]*\n)?)(?!\s*Empty response received)(?P<answer>.*)^Tokens: "
            r"(?:(?P<tokens_in>[0-9]{1,3}) sent|[0-9.,]{1,12}[kM]? sent)[^\n]{0,80}?"
            r"(?:(?P<tokens_out>[0-9]{1,3}) received|[0-9.,]{1,12}[kM]? received)"
        ),
        answer=Pick("answer"),
        tokens_in=(Pick("tokens_in"),),
        tokens_out=(Pick("tokens_out"),),
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
    install="pip install aider-chat==0.86.2",
)
