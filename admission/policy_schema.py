"""The pydantic model of ``.savant/policy.toml``. Imported only when a base has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from admission.documents import CompanionRule, Limits, PathRule, Policy, Sandboxes
from admission.policy import GATE, SANDBOXES, refused_policy
from admission.rules import RESERVED
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
Choice = Literal["allow", "ask", "refuse"]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Rule(_Table):
    id: Identifier
    patterns: Patterns
    operations: list[OperationKind] = []
    reason: Words


class _Companion(_Table):
    id: Identifier
    when: Patterns
    need: Patterns
    reason: Words


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
    allow: Patterns = ["**"]
    no_required_check: Choice = "ask"
    new_links: Choice = "ask"
    new_executables: Choice = "ask"
    self_acknowledgement: Literal["allow", "refuse"] = "allow"
    gate_accepts_starter: bool = False
    limits: _Limits = _Limits()
    sandbox: _Sandbox = _Sandbox()
    refuse: list[_Rule] = []
    ask: list[_Rule] = []
    companion: list[_Companion] = []

    @model_validator(mode="after")
    def _unique(self) -> Self:
        ids = [*(row.id for row in self.refuse), *(row.id for row in self.ask), *(row.id for row in self.companion)]
        repeated = {id_ for id_ in ids if ids.count(id_) > 1}
        if repeated:
            raise ValueError(f"two rules are called {min(repeated)!r}")
        if reserved := RESERVED.intersection(ids):
            raise ValueError(f"{min(reserved)!r} is the name of a built-in rule")
        return self


def parse_policy(data: dict[str, Any]) -> Policy:
    """The policy of parsed TOML.

    :raises RefusedInput: ``refused.policy`` naming the first wrong key.
    """
    try:
        model = _Policy.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        key = ".".join(str(part) for part in first["loc"]) or "the top level"
        raise refused_policy(key, f"has a wrong value: {first['msg']}") from error
    for key, patterns in _patterns(model):
        try:
            PatternSet.parse(patterns)
        except RefusedInput as error:
            raise refused_policy(key, f"has a wrong value: {error} {error.fix}".rstrip()) from error
    limits = model.limits
    return Policy(
        origin="repository",
        allow=as_set(model.allow),
        refuse=as_set(_path_rule(row) for row in model.refuse),
        ask=as_set(_path_rule(row) for row in model.ask),
        companions=as_set(
            CompanionRule(
                id=row.id, when=as_set(row.when), need=as_set(row.need), reason=row.reason, enforcement="enforce"
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
        secrets="refuse",
        codeowners="ignore",
        amendment="refuse",
        self_acknowledgement=model.self_acknowledgement,
        gate_accepts_starter=model.gate_accepts_starter,
        gate=GATE,
        staged=(),
        exceptions=(),
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


def _path_rule(row: _Rule) -> PathRule:
    return PathRule(
        id=row.id,
        patterns=as_set(row.patterns),
        operations=as_set(row.operations),
        reason=row.reason,
        enforcement="enforce",
    )
