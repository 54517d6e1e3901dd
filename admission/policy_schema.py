"""The pydantic model of ``.savant/policy.toml`` and of the floor under it. Imported only when a base has one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from admission.documents import (
    Choice,
    CompanionRule,
    CustodyLevel,
    Enforcement,
    Exemption,
    GateMode,
    GatePolicy,
    Limits,
    PathRule,
    Policy,
    Sandboxes,
    Staged,
)
from admission.floor import Refuse, Written
from admission.rules import RESERVED
from admission.staging import STAGEABLE
from admission.starter import SANDBOXES
from savant.contracts.containment import LEVEL_WORDS, LEVELS_BY_WORD
from savant.contracts.errors import RefusedInput
from savant.contracts.scalars import as_set
from savant.files.patterns import PatternSet
from synthesis.documents import OperationKind

Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
PathPattern = Annotated[str, Field(min_length=1, max_length=4_096)]
Patterns = Annotated[list[PathPattern], Field(min_length=1)]
Words = Annotated[str, Field(min_length=1, max_length=1_000)]
Count = Annotated[int, Field(ge=0, le=2**53 - 1)]
Digest = Annotated[str, Field(pattern=r"^blake3:[0-9a-f]{64}$")]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Rule(_Table):
    id: Identifier
    patterns: Patterns
    operations: list[OperationKind] = []
    reason: Words
    enforcement: Enforcement = "enforce"


class _Companion(_Table):
    id: Identifier
    when: Patterns
    need: Patterns
    reason: Words
    enforcement: Enforcement = "enforce"


class _Exception(_Table):
    id: Identifier
    rule: Identifier
    patterns: Patterns
    reason: Words
    expires: dt.date | None = None


class _Extends(_Table):
    bundle: Annotated[str, Field(pattern=r"^\.savant(/[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}){1,8}$")]
    digest: Digest


class _Gate(_Table):
    mode: GateMode = "report"
    custody: CustodyLevel = "A"
    evaluate: bool = True


Limit = Annotated[list[Count], Field(min_length=2, max_length=2)]


class _Limits(_Table):
    files: Limit = [40, 200]
    added_lines: Limit = [800, 4_000]
    deletions: Limit = [20, 100]

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name in ("files", "added_lines", "deletions"):
            ask, refuse = getattr(self, name)
            if ask > refuse:
                raise ValueError(f"{name}: the first number asks, the second refuses, and is not smaller")
        return self


Word = Literal["full", "reduced", "weak", "none"]


class _Sandbox(_Table):
    recipe: Word = "none"
    command: Word = "none"
    agent: Word = "reduced"
    check: Word = "none"

    @model_validator(mode="after")
    def _no_less(self) -> Self:
        for name in type(self).model_fields:
            least = getattr(SANDBOXES, name)
            if LEVELS_BY_WORD[getattr(self, name)] < least:
                raise ValueError(f"{name}: no policy may demand less than {LEVEL_WORDS[least]}")
        return self


class _Policy(_Table):
    extends: _Extends | None = None
    allow: Patterns = ["**"]
    no_required_check: Choice = "ask"
    new_links: Choice = "ask"
    new_executables: Choice = "ask"
    secrets: Choice = "refuse"
    codeowners: Literal["ignore", "ask"] = "ignore"
    amendment: Literal["refuse", "ask"] = "refuse"
    self_acknowledgement: Literal["allow", "refuse"] = "allow"
    gate_accepts_starter: bool = False
    limits: _Limits = _Limits()
    sandbox: _Sandbox = _Sandbox()
    gate: _Gate = _Gate()
    enforcement: dict[str, Enforcement] = {}
    refuse: list[_Rule] = []
    ask: list[_Rule] = []
    companion: list[_Companion] = []
    exception: list[_Exception] = []

    @model_validator(mode="after")
    def _unique(self) -> Self:
        ids = [*(row.id for row in self.refuse), *(row.id for row in self.ask), *(row.id for row in self.companion)]
        repeated = {id_ for id_ in ids if ids.count(id_) > 1}
        if repeated:
            raise ValueError(f"two rules are called {min(repeated)!r}")
        if reserved := RESERVED.intersection(ids):
            raise ValueError(f"{min(reserved)!r} is the name of a built-in rule")
        if unknown := set(self.enforcement) - STAGEABLE:
            raise ValueError(f"enforcement: {min(unknown)!r} is no built-in rule that can be staged")
        exceptions = [row.id for row in self.exception]
        if twice := {id_ for id_ in exceptions if exceptions.count(id_) > 1}:
            raise ValueError(f"two exceptions are called {min(twice)!r}")
        return self


def parse_policy(data: dict[str, Any], refuse: Refuse) -> tuple[Written, tuple[str, str] | None]:
    """The policy of parsed TOML, the keys that it wrote, and the path and digest of the floor that it names.

    An exception is of a rule of this file or of a built-in one; those of a floor's rules are refused in the same words.

    :raises RefusedInput: as ``refuse`` makes it, for the first wrong key.
    """
    try:
        model = _Policy.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "the top level"
        raise refuse(key, f"has a wrong value: {first['msg']}") from error
    own = {rule.id for rule in (*model.refuse, *model.ask)} | {companion.id for companion in model.companion}
    for number, row in enumerate(model.exception):
        if row.rule not in own | STAGEABLE:
            raise refuse(f"exception.{number}.rule", f"has a wrong value: this file has no rule {row.rule!r}")
    for key, patterns in _patterns(model):
        try:
            PatternSet.parse(patterns)
        except RefusedInput as error:
            raise refuse(key, f"has a wrong value: {error} {error.fix}".rstrip()) from error
    extends = None if model.extends is None else (model.extends.bundle, model.extends.digest)
    return Written(_document(model), frozenset(_keys(model))), extends


def _keys(model: _Policy) -> Iterator[str]:
    """The dotted keys that the file wrote; rules apart."""
    for name in model.model_fields_set:
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from (f"{name}.{member}" for member in value.model_fields_set)
        elif isinstance(value, dict):
            yield from (f"{name}.{member}" for member in value)
        else:
            yield name


def _document(model: _Policy) -> Policy:
    limits = model.limits
    return Policy(
        origin="repository",
        allow=as_set(model.allow),
        refuse=as_set(_path_rule(row) for row in model.refuse),
        ask=as_set(_path_rule(row) for row in model.ask),
        companions=as_set(
            CompanionRule(
                id=row.id, when=as_set(row.when), need=as_set(row.need), reason=row.reason, enforcement=row.enforcement
            )
            for row in model.companion
        ),
        limits=Limits(
            files_ask=limits.files[0],
            files_refuse=limits.files[1],
            added_lines_ask=limits.added_lines[0],
            added_lines_refuse=limits.added_lines[1],
            deletions_ask=limits.deletions[0],
            deletions_refuse=limits.deletions[1],
        ),
        no_required_check=model.no_required_check,
        new_links=model.new_links,
        new_executables=model.new_executables,
        secrets=model.secrets,
        codeowners=model.codeowners,
        amendment=model.amendment,
        self_acknowledgement=model.self_acknowledgement,
        gate_accepts_starter=model.gate_accepts_starter,
        gate=GatePolicy(mode=model.gate.mode, custody=model.gate.custody, evaluate=model.gate.evaluate),
        staged=as_set(Staged(rule=rule, enforcement=stage) for rule, stage in model.enforcement.items()),
        exceptions=as_set(
            Exemption(
                id=row.id,
                rule=row.rule,
                patterns=as_set(row.patterns),
                reason=row.reason,
                expires=None if row.expires is None else row.expires.isoformat(),
            )
            for row in model.exception
        ),
        extends=None,
        sandbox=Sandboxes(
            recipe=LEVELS_BY_WORD[model.sandbox.recipe],
            command=LEVELS_BY_WORD[model.sandbox.command],
            agent=LEVELS_BY_WORD[model.sandbox.agent],
            check=LEVELS_BY_WORD[model.sandbox.check],
        ),
    )


def _patterns(model: _Policy) -> Iterator[tuple[str, list[str]]]:
    yield "allow", model.allow
    for name, rules in (("refuse", model.refuse), ("ask", model.ask)):
        for number, rule in enumerate(rules):
            yield f"{name}.{number}.patterns", rule.patterns
    for number, row in enumerate(model.companion):
        yield f"companion.{number}.when", row.when
        yield f"companion.{number}.need", row.need
    for number, exemption in enumerate(model.exception):
        yield f"exception.{number}.patterns", exemption.patterns


def _path_rule(row: _Rule) -> PathRule:
    return PathRule(
        id=row.id,
        patterns=as_set(row.patterns),
        operations=as_set(row.operations),
        reason=row.reason,
        enforcement=row.enforcement,
    )
