"""The pydantic model of ``[judge]`` in ``.savant/config.toml``: the checks that look at the change itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field

from driver.built_ins import PLAIN, SECRETS
from evaluator.documents import ChangeSize, Companion, EvaluatorConfig, Signature
from savant.contracts.scalars import as_set

Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")]
PathPattern = Annotated[str, Field(min_length=1, max_length=4096)]
Patterns = Annotated[list[PathPattern], Field(min_length=1)]
Texts = Annotated[list[Annotated[str, Field(min_length=1, max_length=1_000)]], Field(min_length=1)]
Words = Annotated[str, Field(min_length=1, max_length=1_000)]
Ppm = Annotated[int, Field(ge=0, le=1_000_000)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Allowed(_Table):
    allow: list[PathPattern] = []
    required: bool = True


class _Size(_Table):
    file_ppm: Ppm = 1_000_000
    total_ppm: Ppm = 1_000_000
    new_files: Literal["ignore", "count", "refuse"] = "ignore"
    required: bool = True


class _Content(_Table):
    id: Identifier
    texts: Texts
    patterns: list[PathPattern] = []
    required: bool = True


class _KnownFailure(_Table):
    id: Identifier
    texts: Texts
    where: Literal["findings", "added-lines"] = "findings"
    concerning: bool = False
    reason: Words


class _Companion(_Table):
    when: Patterns
    need: Patterns


class Judge(_Table):
    """What the project's configuration says about the built-in checks."""

    secrets: _Allowed = _Allowed()
    blobs: _Allowed | None = None
    change_size: _Size | None = None
    content: list[_Content] = []
    known_failure: list[_KnownFailure] = []
    companion: list[_Companion] = []


def patterns_of(judge: Judge) -> Iterator[tuple[str, list[str]]]:
    """Every list of path patterns with its key."""
    yield "judge.secrets.allow", judge.secrets.allow
    if judge.blobs is not None:
        yield "judge.blobs.allow", judge.blobs.allow
    for number, row in enumerate(judge.content):
        yield f"judge.content.{number}.patterns", row.patterns
    for number, pair in enumerate(judge.companion):
        yield f"judge.companion.{number}.when", pair.when
        yield f"judge.companion.{number}.need", pair.need


def judges_of(judge: Judge) -> tuple[EvaluatorConfig, ...]:
    """The built-in evaluators that a project configures; the search for secrets is always one of them."""
    return tuple(_judges(judge))


def _judges(judge: Judge) -> Iterator[EvaluatorConfig]:
    yield replace(SECRETS, patterns=as_set(judge.secrets.allow), required=judge.secrets.required)
    if judge.blobs is not None:
        yield replace(
            PLAIN,
            id="blobs",
            evaluator="blobs",
            patterns=as_set(judge.blobs.allow),
            required=judge.blobs.required,
            failure_class="blob-added",
        )
    if judge.change_size is not None:
        size = judge.change_size
        yield replace(
            PLAIN,
            id="change-size",
            evaluator="change-size",
            change_size=ChangeSize(file_ppm=size.file_ppm, total_ppm=size.total_ppm, new_files=size.new_files),
            required=size.required,
            failure_class="change-cap-exceeded",
        )
    for row in judge.content:
        yield replace(
            PLAIN,
            id=f"content-{row.id}",
            evaluator="forbidden-content",
            texts=as_set(row.texts),
            patterns=as_set(row.patterns),
            required=row.required,
            failure_class="forbidden-content",
        )
    for concerning, id_, failure_class in (
        (False, "known-failures", "known-failure-match"),
        (True, "known-failures-concerning", "known-failure-concerning"),
    ):
        rows = [row for row in judge.known_failure if row.concerning is concerning]
        if rows:
            yield replace(
                PLAIN,
                id=id_,
                evaluator="known-failures",
                signatures=as_set(
                    Signature(id=row.id, where=row.where, texts=as_set(row.texts), reason=row.reason) for row in rows
                ),
                failure_class=failure_class,
            )
    if judge.companion:
        yield replace(
            PLAIN,
            id="companions",
            evaluator="companions",
            companions=as_set(Companion(when=as_set(row.when), need=as_set(row.need)) for row in judge.companion),
            failure_class="companion-missing",
        )
