"""``contracts`` and ``exit-codes``: what documents and scripts can rely on."""

from __future__ import annotations

import json

import click

from savant.cli.exits import EXITS
from savant.cli.options import format_option
from savant.cli.render import Output, table


@click.command("contracts", help="List the document kinds, or print the JSON Schema of one.")
@click.argument("kind", required=False)
@format_option
def contracts(kind: str | None, format_: str) -> int:
    """Print kinds or one schema."""
    from savant.cli.kinds import registry

    output = Output(as_json=format_ == "json")
    known = registry()
    if kind is not None:
        schema = known.schema(kind)
        output.document("contracts", "ok", 0, {"schema": schema})
        if not output.as_json:
            output.say(json.dumps(schema, indent=2, sort_keys=True))
        return 0
    output.document("contracts", "ok", 0, {"kinds": list(known)})
    if not output.as_json:
        output.say(*known, "", "savant contracts KIND prints the schema of one.")
    return 0


@click.command("exit-codes", help="List every way a command can end, with its exit code.")
@format_option
def exit_codes(format_: str) -> int:
    """Print the table of endings."""
    output = Output(as_json=format_ == "json")
    output.document(
        "exit-codes",
        "ok",
        0,
        {"exits": [{"name": name, "code": row.code, "words": row.words} for name, row in EXITS.items()]},
    )
    if not output.as_json:
        output.say(*table((str(row.code), name, row.words) for name, row in EXITS.items()))
    return 0
