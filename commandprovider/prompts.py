"""Prompts: pure, from a request's documents and what of the repository is shown, to the bytes an agent reads.

A prompt is the same bytes for the same work on every machine: it names no folder of the machine, no time and no run.
Everything that others wrote stands in a block whose marks it cannot forge, because the mark is a digest of all of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import msgspec

from commandprovider.templates import ORDER, PROMPTS_VERSION, SECTIONS, Ask
from commandprovider.wire import WireAudit, WireGeneration, WireInterpretation, WirePlan
from providerport.documents import AuditedChange, AuditReport, Prior
from savant.contracts import canonical
from savant.contracts.digest import digest
from synthesis.documents import Interpretation, Plan

ANSWERS: Final[Mapping[Ask, type[msgspec.Struct] | None]] = MappingProxyType(
    {
        "interpretation-answer": WireInterpretation,
        "interpretation-workspace": WireInterpretation,
        "planning-answer": WirePlan,
        "planning-workspace": WirePlan,
        "generation-answer": WireGeneration,
        "generation-workspace": None,
        "audit-answer": WireAudit,
        "audit-workspace": WireAudit,
        "examine-answer": WireAudit,
        "examine-workspace": WireAudit,
    }
)
"""The wire value that an agent must answer with; None where its edits are the answer."""

RECORDS: Final = (
    "applicable_intent",
    "binding_invariants",
    "relevant_contracts",
    "authority_boundaries",
    "known_failure_modes",
    "forbidden_fixes",
    "assumptions",
    "unresolved_questions",
)
"""The members of an interpretation that a planner reads."""

_HOLE: Final = re.compile(r"\{([a-z_]+)\}")
_MARK_DIGITS: Final = 16


class Shown(msgspec.Struct, frozen=True):
    """A file of the repository as it is shown: its path as text, and its content."""

    path: str
    text: str


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """What one prompt is made of.

    :param listing: paths of the repository, as text; ``unlisted`` counts those that did not fit.
    :param files: contents; ``left_out`` names wanted files that did not fit or are no text.
    :param instructions: the repository's own instruction files for agents, where they were disclosed.
    :param places: folders of this machine that may occur in findings and are taken out.
    :param changes: what an auditor looks at; ``audited`` is what an adversary examines.
    """

    objective: str = ""
    interpretation: Interpretation | None = None
    plan: Plan | None = None
    scope: tuple[str, ...] = ()
    prior: Prior | None = None
    listing: tuple[str, ...] = ()
    unlisted: int = 0
    files: tuple[Shown, ...] = ()
    left_out: tuple[str, ...] = ()
    instructions: tuple[Shown, ...] = ()
    places: tuple[str, ...] = ()
    changes: tuple[AuditedChange, ...] = ()
    audited: AuditReport | None = None


class _Block(msgspec.Struct, frozen=True):
    """Data that others wrote, with a name that is ours."""

    name: str
    text: str


def render_prompt(ask: Ask, material: Material) -> bytes:
    """The prompt of one call, in UTF-8."""
    blocks = _blocks(material)
    texts = [block.text for group in blocks.values() for block in group]
    mark = _mark(texts)
    values = {name: "\n\n".join(_fenced(block, mark) for block in group) for name, group in blocks.items()}
    values["mark"] = mark
    schema = answer_schema(ask)
    if schema is not None:
        values["schema"] = schema
    sections = (_filled(SECTIONS[name], values) for name in ORDER[ask])
    return ("\n\n".join(section for section in sections if section) + "\n").encode("utf-8", "replace")


def _blocks(material: Material) -> Mapping[str, tuple[_Block, ...]]:
    """The blocks of each section that has any."""
    places = material.places
    interpretation = material.interpretation
    objective = material.objective if interpretation is None else interpretation.objective
    blocks = {
        "objective": (_Block("task", without_places(objective, places)),) if objective else (),
        "scope": (_Block("scope", "\n".join(material.scope)),) if material.scope else (),
        "listing": (_Block("paths", _listing(material)),) if material.listing else (),
        "files": tuple(_file(shown) for shown in material.files),
        "instructions": tuple(_file(shown) for shown in material.instructions),
        "records": (),
        "obligations": (),
        "plan": (),
        "prior": (),
        "changes": tuple(_change(change) for change in material.changes),
        "audited": (),
    }
    if material.files and material.left_out:
        blocks["files"] += (_Block("files that are not shown", "\n".join(material.left_out)),)
    if interpretation is not None:
        records = {name: getattr(interpretation, name) for name in RECORDS if getattr(interpretation, name)}
        blocks["records"] = (_data("records", records, places),) if records else ()
        obligations = interpretation.required_proof_obligations
        blocks["obligations"] = (_data("obligations", obligations, places),) if obligations else ()
    if material.plan is not None:
        members = {name: getattr(material.plan, name) for name in ("steps", "assumptions", "risks", "stop_conditions")}
        blocks["plan"] = (_data("plan", members, places),)
    if material.audited is not None:
        blocks["audited"] = (_data("findings", material.audited.findings, places),)
    if material.prior is not None:
        blocks["prior"] = (_data("findings", _prior(material.prior), places),)
    return blocks


def _prior(prior: Prior) -> dict[str, Any]:
    """What a retry is told, without the digests that only the host needs."""
    ended = {"outcome": prior.outcome, "failure_kind": prior.failure_kind}
    told: dict[str, Any] = {name: value for name, value in ended.items() if value not in (None, "completed")}
    if prior.findings:
        told["findings"] = prior.findings
    if prior.review_findings:
        told["findings_about_the_plan"] = prior.review_findings
    if prior.dropped:
        told["findings_that_did_not_fit"] = prior.dropped
    return told


def _listing(material: Material) -> str:
    more = (f"... and {material.unlisted} more",) if material.unlisted else ()
    return "\n".join((*material.listing, *more))


def _file(shown: Shown) -> _Block:
    ends = "" if shown.text.endswith("\n") or not shown.text else " (no newline at its end)"
    return _Block(f"file {shown.path}{ends}", shown.text)


def _change(change: AuditedChange) -> _Block:
    if change.diff is None:
        return _Block(f"change of {change.path} (not shown: too long, or no text)", "")
    return _Block(f"change of {change.path}", change.diff)


def _data(name: str, value: object, places: Sequence[str]) -> _Block:
    plain = _scrubbed(msgspec.to_builtins(value), places)
    return _Block(name, json.dumps(plain, indent=1, ensure_ascii=False))


def _scrubbed(value: Any, places: Sequence[str]) -> Any:
    match value:
        case str():
            return without_places(value, places)
        case list() | tuple():
            return [_scrubbed(item, places) for item in value]
        case dict():
            return {name: _scrubbed(item, places) for name, item in value.items()}
        case _:
            return value


def without_places(text: str, places: Sequence[str]) -> str:
    """The text with every folder of the machine replaced by ``<place>``: whole path components, longest first."""
    known = sorted({place.rstrip("/") for place in places} - {""}, key=len, reverse=True)
    if not known or not any(place in text for place in known):
        return text
    return _matcher(tuple(known)).sub("<place>", text)


@lru_cache(maxsize=8)
def _matcher(places: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(r"(?<![\w.-])(?:" + "|".join(re.escape(place) for place in places) + r")(?![\w-])")


def _mark(texts: Sequence[str]) -> str:
    """A mark that no block holds, because it is made of all of them."""
    whole = canonical.encode([text.encode("utf-8", "replace").decode() for text in texts])
    return digest(whole).partition(":")[2][:_MARK_DIGITS]


def _fenced(block: _Block, mark: str) -> str:
    end = "" if block.text.endswith("\n") else "\n"
    return f"BEGIN {mark} {block.name}\n{block.text}{end}END {mark}"


def _filled(template: str, values: Mapping[str, str]) -> str:
    """The section, empty when it has a value that is."""
    if any(not values.get(name) for name in _HOLE.findall(template)):
        return ""
    return _HOLE.sub(lambda hole: values[hole.group(1)], template)


@lru_cache(maxsize=16)
def answer_schema(ask: Ask) -> str | None:
    """The JSON Schema of the answer as compact text, None where no JSON is asked for.

    Made from the wire's own type: closed, without references, every member required (null where it may be left out),
    because that is what agents that enforce a schema accept.
    """
    type_ = ANSWERS[ask]
    if type_ is None:
        return None
    whole = msgspec.json.schema(type_)
    return json.dumps(_closed(whole, whole["$defs"]), separators=(",", ":"), sort_keys=True)


def _closed(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _closed(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    made = {name: value for name, value in schema.items() if name not in ("title", "default", "$defs", "description")}
    if "enum" in made:
        made["type"] = "string"
    if "anyOf" in made:
        made["anyOf"] = [_closed(item, definitions) for item in made["anyOf"]]
    if "items" in made:
        made["items"] = _closed(made["items"], definitions)
    if "properties" in made:
        made["properties"] = {name: _closed(item, definitions) for name, item in made["properties"].items()}
        made["required"] = sorted(made["properties"])
    return made


@lru_cache(maxsize=1)
def prompts_digest() -> str:
    """The digest of everything that decides how a prompt is made of its data: templates, order and answer schemas."""
    return digest(canonical.encode(list(_parts())))


def _parts() -> Iterator[list[str]]:
    yield ["version", PROMPTS_VERSION]
    for name, text in SECTIONS.items():
        yield ["section", name, text]
    for ask, sections in ORDER.items():
        yield ["prompt", ask, *sections]
        yield ["schema", ask, answer_schema(ask) or ""]
