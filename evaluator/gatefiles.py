"""Which files judge, by default: tables as data. A project may say otherwise, in ``[custody]`` of its configuration."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

TESTS: Final = (
    "tests/**",
    "test/**",
    "**/tests/**",
    "**/test/**",
    "**/__tests__/**",
    "**/spec/**",
    "test_*.py",
    "*_test.py",
    "*_test.go",
    "*.test.js",
    "*.test.jsx",
    "*.test.ts",
    "*.test.tsx",
    "*.spec.js",
    "*.spec.jsx",
    "*.spec.ts",
    "*.spec.tsx",
)
"""Where tests are, by default."""

CONTINUOUS_INTEGRATION: Final = (
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
)
"""What pipelines are made of."""

GATES: Final = (
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "tox.ini",
    "noxfile.py",
    "setup.cfg",
    "pyproject.toml",
    "package.json",
    ".coveragerc",
    "ruff.toml",
    ".ruff.toml",
    ".flake8",
    "mypy.ini",
    ".mypy.ini",
    "pyrightconfig.json",
    "pylintrc",
    ".pylintrc",
    ".bandit",
    ".eslintrc*",
    ".eslintignore",
    "eslint.config.*",
    "biome.json*",
    ".golangci.*",
    ".rubocop.yml",
    "clippy.toml",
    ".clippy.toml",
    ".semgrep.yml",
    ".semgrepignore",
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
    "jest.config.*",
    "vitest.config.*",
    ".mocharc*",
    "karma.conf.*",
    "playwright.config.*",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    ".pre-commit-config.yaml",
    *CONTINUOUS_INTEGRATION,
)
"""What decides how checks run, by default."""

SECTIONS: Final[Mapping[bytes, tuple[str, ...]]] = MappingProxyType(
    {
        b"pyproject.toml": (
            *("tool.pytest", "tool.coverage", "tool.tox", "tool.nox", "tool.hatch.envs"),
            *("tool.ruff", "tool.mypy", "tool.pyright", "tool.pylint"),
        ),
        b"setup.cfg": ("tool:pytest", "aliases", "coverage", "mypy", "flake8", "tox"),
        b"package.json": ("scripts", "jest", "mocha", "vitest", "ava", "nyc", "c8", "eslintConfig"),
    }
)
"""Base names of gate files of which only these parts are gates."""
