"""The console script: commands found by name and imported only when they are called.

Start-up checks that every package of ours comes from one installation, because our stage packages have ordinary names
and Savant runs inside foreign repositories.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from savant.cli.exits import EXITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VERSION: Final = "0.1.0"
PACKAGES: Final = (
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

COMMANDS: Final[Mapping[str, tuple[str, str, str]]] = MappingProxyType(
    {
        "run": ("cmd_run", "run", "Run one task: generate, seal, evaluate, decide; apply only when told to."),
        "diff": ("cmd_show", "diff", "Show the candidate of a run as a diff."),
        "patch": ("cmd_show", "patch", "Write the candidate of a run as a patch that git applies."),
        "show": ("cmd_show", "show", "Show a run: its steps, checks, decision."),
        "runs": ("cmd_show", "runs", "List the runs of this repository."),
        "apply": ("cmd_apply", "apply", "Apply an admitted candidate into a dedicated worktree."),
        "undo": ("cmd_apply", "undo", "Restore the base in a target, byte for byte."),
        "verify": ("cmd_apply", "verify", "Look at a target independently and record what is there."),
        "admit": ("cmd_admit", "admit", "Decide the admission of a run's candidate again, and explain it."),
        "acknowledge": ("cmd_admit", "acknowledge", "Sign that a condition was seen, with your own SSH key."),
        "trust": ("cmd_admit", "trust", "Trust this repository's check commands, by policy digest."),
        "replay": ("cmd_ledger", "replay", "Decide a recorded run again from its records."),
        "ledger": ("cmd_ledger", "ledger", "Read and verify the ledger."),
        "gate": ("cmd_gate", "gate", "Say whether an admitted and verified candidate explains a commit."),
        "init": ("cmd_init", "init", "Write commented .savant files to review and commit."),
        "doctor": ("cmd_init", "doctor", "Say what is here and what is missing."),
        "contracts": ("cmd_meta", "contracts", "List document kinds; print one schema."),
        "exit-codes": ("cmd_meta", "exit_codes", "List every exit code."),
        "demo": ("cmd_demo", "demo", "Run the whole chain on a small repository made for it."),
    }
)
"""Command name: module, function, one line of help."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {f"synthesis-{name}": name for name in ("run", "apply", "admit", "verify", "undo")}
)
"""The names that documents use."""


class LazyGroup(click.Group):
    """Lists commands from the table and imports a command's module only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click gives it
        """The names, in the table's order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click gives it
        """The command of a name or alias."""
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[name]
        command: click.Command = getattr(importlib.import_module(f"savant.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """The table as help, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, row[2]) for name, row in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, "--version", prog_name="savant", message="%(prog)s %(version)s")
def cli() -> None:
    """Savant: a change by a machine, decided by rules, proven by a signed chain."""


def untrusted_packages() -> list[str]:
    """Our packages that do not come from this installation."""
    root = Path(__file__).resolve().parents[2]
    foreign = []
    for name in PACKAGES:
        module = sys.modules.get(name)
        origin = getattr(module, "__file__", None) if module is not None else None
        if origin is None:
            spec = importlib.util.find_spec(name)
            origin = None if spec is None else spec.origin
        if origin is None or Path(origin).resolve().parent != root / name:
            foreign.append(name)
    return foreign


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script.

    :raises SystemExit: always, with the code of :data:`savant.cli.exits.EXITS`.
    """
    foreign = untrusted_packages()
    if foreign:
        click.echo(
            f"savant: untrusted import path: {', '.join(foreign)} would be imported from outside the installation.\n"
            "Nothing was run. Start savant by its console script, or with python -P.",
            err=True,
        )
        raise SystemExit(EXITS["usage"].code)
    raise SystemExit(run_command(arguments))


def run_command(arguments: Sequence[str] | None) -> int:
    """Run one command in this process; its exit code. Errors become words on stderr."""
    try:
        outcome: Any = cli.main(args=None if arguments is None else list(arguments), standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("savant: interrupted.", err=True)
        return EXITS["interrupted"].code
    except click.ClickException as error:
        error.show()
        return EXITS["usage"].code
    except BrokenPipeError:
        return EXITS["ok"].code
    except Exception as error:  # noqa: BLE001 - the last place where an error can become words and a code
        from savant.cli.failure import report_failure

        return report_failure(error, arguments if arguments is not None else sys.argv[1:])
    return outcome if isinstance(outcome, int) else EXITS["ok"].code
