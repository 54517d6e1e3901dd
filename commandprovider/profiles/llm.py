"""llm: the answer is standard output, and the line that counts tokens, on standard error, is what ends a turn.

Example tier: an answer that was cut off at the model's limit cannot be told from a whole one; only its JSON can.
"""

from __future__ import annotations

from typing import Final

from commandprovider.profiles.model import (
    Failure,
    Invocation,
    Pick,
    Probe,
    Profile,
    Reader,
    Setting,
    Source,
    Words,
)

FAILURES: Final = (
    Failure("stderr", r"\AError: Error code: 429\b", "rate-limited"),
    Failure("stderr", r"\AError: Error code: (401|403)\b|\AError: No key found", "auth"),
    Failure(
        "stderr", r"\AError: Error code: 400 - .*(context_length_exceeded|maximum context length)", "context-overflow"
    ),
    Failure("stderr", r"\AError: Error code: 4[0-9][0-9]\b", "bad-request"),
    Failure("stderr", r"\AError: Error code: 5[0-9][0-9]\b|\AError: Internal server error", "overloaded"),
    Failure("stderr", r"\AError: Request timed out", "timeout"),
    Failure("stderr", r"\AError: Connection error", "network"),
    Failure("stderr", r"\AError: Unknown model|\AUsage: ", "config-error"),
)

LLM: Final = Profile(
    name="llm",
    title="llm",
    tier="example",
    executable="llm",
    native=None,
    probe=Probe(("--version",), r"^llm, version (?P<version>[0-9]+\.[0-9]+(?:\.[0-9]+)?)", ("0.36", "0.37")),
    answer=Invocation(
        argv=(
            Words(("prompt", "--no-log", "-u", "--no-stream")),
            Words(("-m", "{model}")),
            Words(("--schema", "{schema}")),
        ),
        settings=(
            Setting(
                ".config/io.datasette.llm/extra-openai-models.yaml",
                '- {model_id: "{model}", model_name: "{model}", api_base: "{base_url}", supports_schema: true}\n',
            ),
        ),
    ),
    workspace=None,
    acp=None,
    reader=Reader(
        form="text",
        terminal_stream="stderr",
        terminal_pattern=r"^Token usage: (?P<tokens_in>[0-9,]+) input, (?P<tokens_out>[0-9,]+) output",
        answer=Pick("answer"),
        tokens_in=(Pick("tokens_in"),),
        tokens_out=(Pick("tokens_out"),),
    ),
    failures=FAILURES,
    sources=(
        Source(kind="environment", name="OPENAI_API_KEY", target="OPENAI_API_KEY", help="export OPENAI_API_KEY=..."),
        Source(
            kind="file",
            name=".config/io.datasette.llm/keys.json",
            target=".config/io.datasette.llm/keys.json",
            help="llm keys set openai",
        ),
    ),
    network_hosts=("api.openai.com",),
    own_retries=None,
    reports_usage=True,
    reports_cost=False,
    install="pip install llm==0.36",
)
