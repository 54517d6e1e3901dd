"""The built-in starter policy: in force where a base has none, and what ``savant init`` writes.

It asks rather than refuses: what a person may well want is a condition. Secrets in added lines are refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from admission.documents import CompanionRule, GatePolicy, Limits, PathRule, Policy, Sandboxes
from evaluator.gatefiles import CONTINUOUS_INTEGRATION, TESTS
from savant.contracts.scalars import as_set
from synthesis.documents import OperationKind

TEST_PATTERNS: Final = TESTS
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
        CONTINUOUS_INTEGRATION,
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
