"""Claude Code: one JSON object on standard output, also for failures; ``is_error`` decides, never ``subtype``."""

from __future__ import annotations

from typing import Final

from commandprovider.profiles.model import Failure, Invocation, Is, Native, Pick, Probe, Profile, Reader, Source, Words

FAILURES: Final = (
    Failure("event", "429", "rate-limited", "api_error_status"),
    Failure("event", "5[0-9][0-9]", "overloaded", "api_error_status"),
    Failure("event", "401|403", "auth", "api_error_status"),
    Failure("event", "408", "timeout", "api_error_status"),
    Failure("event", "413", "context-overflow", "api_error_status"),
    Failure("event", "prompt_too_long", "context-overflow", "terminal_reason"),
    Failure("event", "connection_failed", "network", "api_error"),
    Failure("event", "max_output_tokens", "output-too-long", "api_error"),
    Failure("event", "aborted_[a-z_]+", "cancelled", "terminal_reason"),
    Failure("event", "error_max_turns", "turn-limit", "subtype"),
    Failure("event", "error_max_budget_usd", "budget", "subtype"),
    Failure("event", "error_max_structured_output_retries", "malformed-output", "subtype"),
    Failure("error", r"^(API Error: )?Prompt is too long", "context-overflow"),
    Failure(
        "error", r"^Not logged in|^Invalid API key|^OAuth token|^Please run /login|^Failed to authenticate", "auth"
    ),
    Failure("error", r"^You've hit your .*limit|^Claude (AI|Code) usage limit reached", "rate-limited"),
    Failure("error", r"^Credit balance is too low", "budget"),
    Failure("error", r"^(API Error: )?Request timed out", "timeout"),
    Failure("error", r"^API Error: .*exceeded the [0-9]+ output token maximum", "output-too-long"),
    Failure("error", r"^API Error: .*(malformed response|Failed to parse JSON)", "bad-gateway"),
    Failure(
        "error", r"^API Error: .*(Connection error|Unable to connect|ECONNREFUSED|ENOTFOUND|ECONNRESET)", "network"
    ),
    Failure("event", "400", "bad-request", "api_error_status"),
    Failure("stderr", r"^error: unknown option|^Error: Input must be provided", "config-error"),
)
"""A status beside an error stands before its text: the text is for people and changes between versions."""

SOURCES: Final = (
    Source(
        kind="environment",
        name="ANTHROPIC_API_KEY",
        target="ANTHROPIC_API_KEY",
        help="export ANTHROPIC_API_KEY=...",
    ),
    Source(
        kind="environment",
        name="CLAUDE_CODE_OAUTH_TOKEN",
        target="CLAUDE_CODE_OAUTH_TOKEN",
        help="claude setup-token",
        billing="subscription",
    ),
    Source(
        kind="environment",
        name="ANTHROPIC_AUTH_TOKEN",
        target="ANTHROPIC_AUTH_TOKEN",
        help="export ANTHROPIC_AUTH_TOKEN=...",
    ),
    Source(
        kind="file",
        name=".claude/.credentials.json",
        target=".claude/.credentials.json",
        help="claude, then /login",
        billing="subscription",
    ),
    Source(
        kind="cloud",
        name="CLAUDE_CODE_USE_BEDROCK",
        target="CLAUDE_CODE_USE_BEDROCK",
        help="export CLAUDE_CODE_USE_BEDROCK=1 and sign in to AWS",
        also=(
            "AWS_ACCESS_KEY_ID",
            "AWS_BEARER_TOKEN_BEDROCK",
            "AWS_PROFILE",
            "AWS_REGION",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
        ),
        files=(".aws/config", ".aws/credentials"),
    ),
    Source(
        kind="cloud",
        name="CLAUDE_CODE_USE_VERTEX",
        target="CLAUDE_CODE_USE_VERTEX",
        help="export CLAUDE_CODE_USE_VERTEX=1 and run: gcloud auth application-default login",
        also=("ANTHROPIC_VERTEX_PROJECT_ID", "CLOUD_ML_REGION"),
        files=(".config/gcloud/application_default_credentials.json",),
    ),
)

ENVIRONMENT: Final = (
    ("ANTHROPIC_BASE_URL", "{base_url}"),
    ("API_TIMEOUT_MS", "600000"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("CLAUDE_CODE_MAX_RETRIES", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
)

_HEADLESS: Final = Words(("-p", "--output-format", "json"))
_ALONE: Final = Words(("--strict-mcp-config", "--setting-sources", "", "--no-session-persistence"))
_BOUNDS: Final = (
    Words(("--disable-slash-commands",)),
    Words(("--model", "{model}")),
    Words(("--max-budget-usd", "{budget_usd}")),
)

CLAUDE: Final = Profile(
    name="claude",
    title="Claude Code",
    tier="first-class",
    executable="claude",
    native=Native("@anthropic-ai/claude-code", "@anthropic-ai/claude-code-{os}-{arch}/claude"),
    probe=Probe(("--version",), r"^(?P<version>[0-9]+\.[0-9]+\.[0-9]+) \(Claude Code\)", ("2.1.332", "2.2")),
    answer=Invocation(
        argv=(
            _HEADLESS,
            Words(("--tools", ""), without=("readable",)),
            Words(("--tools", "Read,Glob,Grep"), given=("readable",)),
            _ALONE,
            Words(("--max-turns", "30"), given=("readable",)),
            Words(("--json-schema", "{schema}")),
            *_BOUNDS,
        ),
        environment=ENVIRONMENT,
    ),
    workspace=Invocation(
        argv=(
            _HEADLESS,
            Words(("--tools", "Read,Edit,Write,Glob,Grep"), without=("contained",)),
            Words(("--tools", "Read,Edit,Write,Glob,Grep,Bash", "--allowedTools", "Bash"), given=("contained",)),
            Words(("--permission-mode", "acceptEdits")),
            _ALONE,
            Words(("--max-turns", "60")),
            *_BOUNDS,
        ),
        environment=ENVIRONMENT,
    ),
    acp=None,
    reader=Reader(
        form="json-object",
        terminal=(Is("type", "result"),),
        required=("is_error", "subtype", "session_id"),
        failed=(Is("is_error", "true"), Is("subtype", "success", negated=True)),
        errors=("result", "errors.*"),
        answer=Pick("result"),
        structured=Pick("structured_output"),
        session=Pick("session_id"),
        tokens_in=(
            Pick("modelUsage.*.inputTokens", take="sum"),
            Pick("modelUsage.*.cacheReadInputTokens", take="sum"),
            Pick("modelUsage.*.cacheCreationInputTokens", take="sum"),
        ),
        tokens_out=(Pick("modelUsage.*.outputTokens", take="sum"),),
        cached=(Pick("modelUsage.*.cacheReadInputTokens", take="sum"),),
        cost=(Pick("total_cost_usd"),),
    ),
    failures=FAILURES,
    sources=SOURCES,
    network_hosts=("api.anthropic.com",),
    own_retries=1,
    reports_usage=True,
    reports_cost=True,
    install="npm install -g @anthropic-ai/claude-code@2.1.332",
)
