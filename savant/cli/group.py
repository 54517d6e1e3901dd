"""The click group behind the console script, and the one place where an error becomes an exit code."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import click

from savant.cli.app import ALIASES, COMMANDS, VERSION
from savant.cli.exits import EXITS


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


def run_group(words: Sequence[str]) -> int:
    """Run one command line; its exit code."""
    try:
        outcome: Any = cli.main(args=list(words), standalone_mode=False)
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

        return report_failure(error, words)
    return outcome if isinstance(outcome, int) else EXITS["ok"].code
