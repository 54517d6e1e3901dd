"""Agents as data: how each is started, probed, read and understood when it fails.

Owns the profiles and the pure functions that render them. Never starts anything and never holds a credential.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from commandprovider.profiles.acp import CLAUDE_ACP, CODEX_ACP
from commandprovider.profiles.aider import AIDER
from commandprovider.profiles.claude import CLAUDE
from commandprovider.profiles.codex import CODEX
from commandprovider.profiles.gemini import GEMINI
from commandprovider.profiles.llm import LLM
from commandprovider.profiles.minisweagent import MINI_SWE_AGENT
from commandprovider.profiles.model import OUTCOMES, RETRYABLE, Capability, Invocation, Profile, Source
from commandprovider.profiles.opencode import OPENCODE
from commandprovider.profiles.render import Rendered, invocation_of, render

_ALL: Final = (CLAUDE, CODEX, GEMINI, CLAUDE_ACP, CODEX_ACP, OPENCODE, AIDER, MINI_SWE_AGENT, LLM)

PROFILES: Final[Mapping[str, Profile]] = MappingProxyType({profile.name: profile for profile in _ALL})
"""Every profile by its name, the first-class ones first."""

__all__ = (
    "AIDER",
    "CLAUDE",
    "CLAUDE_ACP",
    "CODEX",
    "CODEX_ACP",
    "GEMINI",
    "LLM",
    "MINI_SWE_AGENT",
    "OPENCODE",
    "OUTCOMES",
    "PROFILES",
    "RETRYABLE",
    "Capability",
    "Invocation",
    "Profile",
    "Rendered",
    "Source",
    "invocation_of",
    "render",
)
