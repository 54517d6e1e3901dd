"""The console script: a start-up check, and commands found by name and imported only when they are called.

Start-up proves that every package of ours comes from one installation, because our stage packages have ordinary names
and Savant runs inside foreign repositories. This module imports nothing that is slow to import: not even ``typing``.
"""

# ruff: noqa: PTH118, PTH120 - pathlib costs half of the start

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from types import MappingProxyType

from savant import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = __version__
PACKAGES = (
    "savant",
    "synthesis",
    "providerport",
    "runner",
    "evaluator",
    "admission",
    "candidateapply",
    "commandprovider",
    "driver",
)

COMMANDS = MappingProxyType(
    {
        "run": ("cmd_run", "run", "Run one task: generate, seal, evaluate, decide; apply only when told to."),
        "diff": ("cmd_show", "diff", "Show the candidate of a run as a diff."),
        "patch": ("cmd_show", "patch", "Write the candidate of a run as a patch that git applies."),
        "show": ("cmd_show", "show", "Show a run: its steps, checks, decision."),
        "usage": ("cmd_usage", "usage", "Show tokens and cost by run, provider, model or day."),
        "runs": ("cmd_show", "runs", "List the runs of this repository."),
        "apply": ("cmd_apply", "apply", "Apply an admitted candidate into a dedicated worktree."),
        "undo": ("cmd_apply", "undo", "Restore the base in a target, byte for byte."),
        "verify": ("cmd_apply", "verify", "Look at a target independently and record what is there."),
        "admit": ("cmd_admit", "admit", "Decide the admission of a run's candidate again, and explain it."),
        "acknowledge": ("cmd_admit", "acknowledge", "Sign that a condition was seen, with your own SSH key."),
        "policy": ("cmd_policy", "policy", "Show the policy in force; try a proposed one on what was judged."),
        "trust": ("cmd_admit", "trust", "Trust this repository's check commands, by policy digest."),
        "replay": ("cmd_ledger", "replay", "Decide a recorded run again from its records."),
        "ledger": ("cmd_ledger", "ledger", "Read and verify the ledger."),
        "bundle": ("cmd_bundle", "bundle", "Write the evidence of a run for a pipeline or an auditor elsewhere."),
        "coverage": ("cmd_coverage", "coverage", "Say what stands behind each commit of a range."),
        "keys": ("cmd_keys", "keys", "List and export the public keys of a ledger."),
        "gate": ("cmd_gate", "gate", "Say whether admitted candidates explain a commit, a range or a pull request."),
        "providers": ("cmd_providers", "providers", "List the coding agents, and what is found of them here."),
        "init": ("cmd_init", "init", "Write commented .savant files to review and commit."),
        "doctor": ("cmd_init", "doctor", "Say what is here and what is missing."),
        "contracts": ("cmd_meta", "contracts", "List document kinds; print one schema."),
        "exit-codes": ("cmd_meta", "exit_codes", "List every exit code."),
        "demo": ("cmd_demo", "demo", "Run the whole chain on a small repository made for it."),
    }
)
"""Command name: module, function, one line of help."""

ALIASES = MappingProxyType({f"synthesis-{name}": name for name in ("run", "apply", "admit", "verify", "undo")})
"""The names that documents use."""


def untrusted_packages() -> list[str]:
    """Our packages that do not come from this installation."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    foreign = []
    for name in PACKAGES:
        module = sys.modules.get(name)
        spec = PathFinder.find_spec(name) if module is None else None
        origin = getattr(module, "__file__", None) if spec is None else spec.origin
        if origin is None or os.path.dirname(os.path.realpath(origin)) != os.path.join(root, name):
            foreign.append(name)
    return foreign


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script.

    :raises SystemExit: always, with the code of :data:`savant.cli.exits.EXITS`.
    """
    foreign = untrusted_packages()
    if foreign:
        sys.stderr.write(
            f"savant: untrusted import path: {', '.join(foreign)} would be imported from outside the installation.\n"
            "Nothing was run. Start savant by its console script, or with python -P.\n"
        )
        raise SystemExit(2)
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words == ["--version"]:
        sys.stdout.write(f"savant {VERSION}\n")
        raise SystemExit(0)
    raise SystemExit(run_command(words))


def run_command(words: Sequence[str]) -> int:
    """Run one command in this process; its exit code. Errors become words on stderr."""
    from savant.cli.group import run_group

    return run_group(words)
