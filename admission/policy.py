"""The admission policy: the built-in starter, its commented TOML, and strict reading of a project's own.

The starter equals what ``savant init`` writes. It asks rather than refuses: what a person may well want is a condition.
Detection of secrets in added lines is not part of it yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, Literal

from admission.documents import CompanionRule, GatePolicy, Limits, PathRule, Policy, Sandboxes
from savant.contracts.containment import LEVEL_WORDS
from savant.contracts.errors import RefusedInput
from savant.contracts.scalars import as_set
from synthesis.documents import OperationKind

POLICY_PATH: Final = b".savant/policy.toml"
MAX_POLICY_BYTES: Final = 1024 * 1024

TEST_PATTERNS: Final = (
    "tests/**",
    "test/**",
    "**/tests/**",
    "**/test/**",
    "**/__tests__/**",
    "test_*.py",
    "*_test.py",
    "*_test.go",
    "*.test.js",
    "*.test.ts",
    "*.test.tsx",
    "*.spec.js",
    "*.spec.ts",
    "*.spec.tsx",
)
MANIFESTS: Final = (
    "pyproject.toml",
    "setup.py",
    "requirements*.txt",
    "requirements/**",
    "constraints*.txt",
    "Pipfile",
    "environment.yml",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "Gemfile",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "composer.json",
)
LOCKS: Final = (
    "uv.lock",
    "poetry.lock",
    "Pipfile.lock",
    "pdm.lock",
    "pylock*.toml",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "bun.lock",
    "bun.lockb",
    "pnpm-lock.yaml",
    "yarn.lock",
    "Cargo.lock",
    "go.sum",
    "Gemfile.lock",
    "composer.lock",
)
SOURCES: Final = (".npmrc", ".yarnrc.yml", "pip.conf", "uv.toml")
"""Where dependencies come from."""

CHANGED: Final[tuple[OperationKind, ...]] = (
    "modify",
    "delete",
    "rename",
    "mode-change",
    "symlink-change",
    "type-change",
)
"""Every kind that touches something that was there."""


def _rule(id_: str, patterns: Iterable[str], reason: str, operations: Iterable[OperationKind] = ()) -> PathRule:
    return PathRule(
        id=id_, patterns=as_set(patterns), operations=as_set(operations), reason=reason, enforcement="enforce"
    )


_REFUSE: Final = (
    _rule("savant-rules", ("/.savant", ".savant/**"), "The rules of judgement cannot be changed by what they judge."),
    _rule("submodules", (".gitmodules",), "Submodules are not supported."),
)
_ASK: Final = (
    _rule(
        "ci",
        (
            ".github/**",
            ".gitlab-ci.yml",
            ".gitlab/**",
            ".circleci/**",
            ".ci/**",
            "Jenkinsfile",
            "azure-pipelines.yml",
            ".travis.yml",
            ".buildkite/**",
            "bitbucket-pipelines.yml",
            ".drone.yml",
            ".woodpecker/**",
            ".woodpecker.yml",
            "cloudbuild.yaml",
        ),
        "It changes continuous integration.",
    ),
    _rule(
        "containers",
        (
            "Dockerfile",
            "Dockerfile.*",
            "*.Dockerfile",
            "Containerfile",
            "docker-compose*.yml",
            "docker-compose*.yaml",
            "compose*.yml",
            "compose*.yaml",
            ".devcontainer/**",
        ),
        "It changes a container.",
    ),
    _rule(
        "build",
        ("Makefile", "makefile", "GNUmakefile", "*.mk", "CMakeLists.txt", "justfile", "Taskfile.y*ml", "noxfile.py"),
        "It changes how things are built.",
    ),
    _rule("owners", ("CODEOWNERS",), "It changes who must review."),
    _rule(
        "agent-instructions",
        (
            "CLAUDE.md",
            "CLAUDE.local.md",
            "AGENTS.md",
            "AGENTS.override.md",
            "GEMINI.md",
            "**/.cursor/**",
            ".cursorrules",
            "**/.claude/**",
            "**/.codex/**",
            "**/.gemini/**",
            "**/.windsurf/**",
            ".windsurfrules",
            ".clinerules",
            "**/.clinerules/**",
            ".aider*",
            ".mcp.json",
        ),
        "It changes what agents are told.",
    ),
    _rule(
        "test-configuration",
        (
            ".pre-commit-config.yaml",
            "conftest.py",
            "pytest.ini",
            ".pytest.ini",
            "pytest.toml",
            ".pytest.toml",
            "tox.ini",
            "setup.cfg",
            ".coveragerc",
            "jest.config.*",
            "vitest.config.*",
            ".mocharc*",
            "karma.conf.*",
            "sitecustomize.py",
            "usercustomize.py",
            "*.pth",
        ),
        "It changes how tests are run.",
    ),
    _rule("migrations", ("**/migrations/**", "migrations/**", "alembic/**"), "It changes a migration."),
    _rule("dependencies", (*MANIFESTS, *LOCKS, *SOURCES), "It changes dependencies."),
    _rule("existing-tests", TEST_PATTERNS, "It changes or removes tests that exist.", CHANGED),
)
_COMPANIONS: Final = (
    CompanionRule(
        id="lock-python",
        when=as_set(("pyproject.toml",)),
        need=as_set(("uv.lock", "poetry.lock", "pdm.lock", "pylock*.toml", "requirements*.txt", "requirements/**")),
        reason="A dependency manifest changed without its lock.",
        enforcement="enforce",
    ),
    CompanionRule(
        id="lock-node",
        when=as_set(("package.json",)),
        need=as_set(
            ("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb")
        ),
        reason="A dependency manifest changed without its lock.",
        enforcement="enforce",
    ),
    CompanionRule(
        id="lock-rust",
        when=as_set(("Cargo.toml",)),
        need=as_set(("Cargo.lock",)),
        reason="A dependency manifest changed without its lock.",
        enforcement="enforce",
    ),
    CompanionRule(
        id="lock-go",
        when=as_set(("go.mod",)),
        need=as_set(("go.sum",)),
        reason="A dependency manifest changed without its lock.",
        enforcement="enforce",
    ),
)
_FACTOR: Final = 5
_LIMITS: Final = Limits(
    files_ask=40,
    files_refuse=40 * _FACTOR,
    added_lines_ask=800,
    added_lines_refuse=800 * _FACTOR,
    deletions_ask=20,
    deletions_refuse=20 * _FACTOR,
)

SANDBOXES: Final = Sandboxes(recipe="S0", command="S0", agent="S2", check="S0")
"""What the starter demands, and the least that a policy may: it can demand more, never less."""

GATE: Final = GatePolicy(mode="report", custody="A", evaluate=True)
"""What the gate does under the starter, and where a policy does not say."""


def starter_policy(origin: Literal["starter", "repository"] = "starter") -> Policy:
    """The policy in force where the base has none."""
    return Policy(
        origin=origin,
        allow=("**",),
        refuse=as_set(_REFUSE),
        ask=as_set(_ASK),
        companions=as_set(_COMPANIONS),
        limits=_LIMITS,
        no_required_check="ask",
        new_links="ask",
        new_executables="ask",
        secrets="refuse",
        codeowners="ignore",
        amendment="refuse",
        self_acknowledgement="allow",
        gate_accepts_starter=False,
        gate=GATE,
        staged=(),
        exceptions=(),
        extends=None,
        sandbox=SANDBOXES,
    )


def policy_toml(policy: Policy) -> str:
    """The policy as commented TOML; reading it gives the same policy, of origin ``repository``."""
    limits = policy.limits
    lines = [
        "# Savant: what may be applied to this repository. Read from the base revision of a run:",
        "# an uncommitted edit of this file is not in force. A plain name matches at any depth.",
        "",
        "# Paths a candidate may touch at all, inside what its plan promised.",
        f"allow = {_list(policy.allow)}",
        "",
        "# No required check configured: ask a person, refuse, or allow.",
        f"no_required_check = {_text(policy.no_required_check)}",
        f"new_links = {_text(policy.new_links)}",
        f"new_executables = {_text(policy.new_executables)}",
        "# May whoever asked for a change also acknowledge its conditions? It is marked as such.",
        f"self_acknowledgement = {_text(policy.self_acknowledgement)}",
        "# Does the gate accept candidates that were judged under the built-in starter policy?",
        f"gate_accepts_starter = {'true' if policy.gate_accepts_starter else 'false'}",
        "",
        "# Sizes: above the first a person is asked, above the second it is refused.",
        "[limits]",
        f"files = [{limits.files_ask}, {limits.files_refuse}]",
        f"added_lines = [{limits.added_lines_ask}, {limits.added_lines_refuse}]",
        f"deletions = [{limits.deletions_ask}, {limits.deletions_refuse}]",
        "",
        "# The least that contains each kind of command: full, reduced, weak or none. Below it a run refuses to start",
        "# unless a person passes --allow-unsandboxed. Every command gets the most that can be had anyway.",
        "# check: and formatters. Those that this repository names need reduced until a person trusted them.",
        "[sandbox]",
        *(f"{name} = {_text(LEVEL_WORDS[getattr(policy.sandbox, name)])}" for name in Sandboxes.__struct_fields__),
    ]
    for name, words, rules in (
        ("refuse", "Never applied.", policy.refuse),
        ("ask", "Applied once a person acknowledged it.", policy.ask),
    ):
        lines += ["", f"# {words}"]
        for rule in rules:
            lines += [f"[[{name}]]", f"id = {_text(rule.id)}", f"patterns = {_list(rule.patterns)}"]
            if rule.operations:
                lines.append(f"operations = {_list(rule.operations)}")
            lines += [f"reason = {_text(rule.reason)}", ""]
    lines += ["# When the first changes, one of the second must change too, else a person is asked."]
    for companion in policy.companions:
        lines += [
            "[[companion]]",
            f"id = {_text(companion.id)}",
            f"when = {_list(companion.when)}",
            f"need = {_list(companion.need)}",
            f"reason = {_text(companion.reason)}",
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def _text(value: str) -> str:
    """A TOML basic string. JSON's escapes are TOML's, except that TOML knows no surrogate pairs and escapes DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")


def _list(values: Iterable[str]) -> str:
    return "[" + ", ".join(_text(value) for value in values) + "]"


def read_policy(raw: bytes) -> Policy:
    """The policy of a project, as committed at the base.

    :raises RefusedInput: ``refused.policy`` naming file, key and fix.
    """
    import tomllib

    if len(raw) > MAX_POLICY_BYTES:
        raise refused_policy("the file", f"has {len(raw)} bytes; {MAX_POLICY_BYTES} are allowed")
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a number of thousands of digits, deep nesting
        raise refused_policy("the file", f"is not TOML: {error}") from error
    from admission.policy_schema import parse_policy

    return parse_policy(data)


def refused_policy(key: str, problem: str) -> RefusedInput:
    """The refusal of one key of a policy file."""
    return RefusedInput(
        "refused.policy",
        f".savant/policy.toml at the base: {key} {problem}",
        untouched="No provider was called and nothing was written.",
        fix="Correct .savant/policy.toml and commit it.",
    )
