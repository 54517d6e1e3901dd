"""The pydantic model of a person's ``config.toml``. Imported only when a person has one."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from savant.cli.person import AgentSettings, PersonConfig, Price, refused
from savant.contracts.errors import RefusedInput

MICRO: Final = 1_000_000

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
Model = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+\[\]-]{0,199}$")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}$")]
Executable = Annotated[str, Field(pattern=r"^(/[^\x00]{1,4095}|[A-Za-z0-9][A-Za-z0-9._+-]{0,199})$")]
Address = Annotated[str, Field(pattern=r"^https?://[A-Za-z0-9._~:/?#\[\]!&()*+,;=%-]{1,1000}$")]
Amount = Annotated[str, Field(pattern=r"^[0-9]{1,7}(\.[0-9]{1,6})?$")]
Source = Annotated[str, Field(pattern=r"^([A-Z][A-Z0-9_]{0,79}|~/[A-Za-z0-9._/-]{1,200}|none)$")]
Folder = Annotated[str, Field(pattern=r"^(/|~/)[^\x00]{0,4095}$")]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class _Agent(_Table):
    model: Model | None = None
    executable: Executable | None = None
    base_url: Address | None = None
    mode: Literal["answer", "workspace", "acp"] | None = None
    network: Literal["open", "none"] | None = None
    credential: Source | None = None
    environment: list[Variable] = []


class _Price(_Table):
    input_per_mtok: Amount
    output_per_mtok: Amount
    cached_per_mtok: Amount | None = None


class _Sandbox(_Table):
    read: list[Folder] = []


class _Config(_Table):
    agents: dict[Name, _Agent] = {}
    prices: dict[Model, _Price] = {}
    sandbox: _Sandbox = _Sandbox()


_HINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "base_url": "it is an address that begins with http:// or https:// and holds no user or password",
        "executable": "it is a bare name or an absolute path",
        "environment": "it is the name of a variable, not NAME=value",
        "credential": 'it is the name of a source (a variable, or a file such as "~/.codex/auth.json"), never a key',
        "input_per_mtok": 'it is a decimal in quotes, such as "3.00"',
        "output_per_mtok": 'it is a decimal in quotes, such as "15.00"',
        "cached_per_mtok": 'it is a decimal in quotes, such as "0.30"',
        "read": "it is an absolute path, or one that begins with ~/",
        "allow_unsandboxed": "that is said for one run, on its command line: --allow-unsandboxed",
        "api_key": 'keys do not belong into files: name where it comes from, credential = "VARIABLE"',
    }
)
"""What a key wants, said in words where its pattern would be no help."""


def parse_person(data: dict[str, Any], path: Path, home: Path) -> PersonConfig:
    """The configuration of parsed TOML; ``~/`` is the home.

    :raises RefusedInput: ``refused.person-config`` naming the first wrong key.
    """
    try:
        model = _Config.model_validate(data)
    except ValidationError as error:
        raise _wrong(path, error) from error
    return PersonConfig(
        agents=MappingProxyType(
            {
                name: AgentSettings(
                    model=row.model,
                    executable=row.executable,
                    base_url=row.base_url,
                    mode=row.mode,
                    network=row.network,
                    credential=row.credential,
                    environment=tuple(row.environment),
                )
                for name, row in model.agents.items()
            }
        ),
        prices=MappingProxyType(
            {
                name: Price(
                    input_per_mtok=_microunits(row.input_per_mtok),
                    output_per_mtok=_microunits(row.output_per_mtok),
                    cached_per_mtok=_microunits(row.cached_per_mtok or row.input_per_mtok),
                )
                for name, row in model.prices.items()
            }
        ),
        sandbox_read=tuple(_folder(text, home) for text in model.sandbox.read),
    )


def _folder(text: str, home: Path) -> Path:
    return home / text[2:] if text.startswith("~/") else Path(text)


def _microunits(amount: str) -> int:
    return int(Decimal(amount) * MICRO)


def _wrong(path: Path, error: ValidationError) -> RefusedInput:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = [str(part) for part in first["loc"] if part != "[key]"]
    key = ".".join(where) or "the top level"
    name = next((part for part in reversed(where) if not part.isdigit()), "")
    if first["type"] == "extra_forbidden":
        known = _keys_beside(where)
        hint = _HINTS.get(name) or _suggestion(name, known)
        return refused(path, f"has an unknown key {key}: {hint}.", f"Correct or remove {key} in {path}.")
    hint = _HINTS.get(name, first["msg"])
    return refused(path, f"has a wrong value at {key}: {hint}.", f"Correct {key} in {path}.")


def _suggestion(name: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"


def _keys_beside(where: list[str]) -> tuple[str, ...]:
    """The keys that the table of an unknown key may hold."""
    match where[:-1]:
        case ["agents", _]:
            table: type[_Table] = _Agent
        case ["prices", _]:
            table = _Price
        case ["sandbox"]:
            table = _Sandbox
        case _:
            table = _Config
    return tuple(table.model_fields)
