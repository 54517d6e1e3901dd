"""The registry: kinds to types, acceptance by the kind inside the bytes, and published schemas."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts import canonical, document, scalars
from savant.contracts.document import Document, Part, accept, seal
from savant.contracts.errors import InternalError, RefusedInput, VerificationError
from savant.contracts.registry import SCHEMA_DIALECT, Registry


class Step(Part, frozen=True, kw_only=True):
    id: scalars.Name
    paths: scalars.Set[scalars.PathText]


class Plan(Document, frozen=True, kw_only=True, tag="savant.test.plan/v1"):
    title: scalars.NonEmptyText
    base: scalars.GitId
    parent_digest: scalars.Digest | None
    due: scalars.Date | None
    retries: scalars.Count
    steps: tuple[Step, ...]


class Note(Document, frozen=True, kw_only=True, tag="savant.test.note/v1"):
    text: scalars.Text


REGISTRY = Registry((Plan, Note))
HEX = "0123456789abcdef" * 4
VALID: dict[str, Any] = {
    "kind": "savant.test.plan/v1",
    "title": "t",
    "base": f"sha1:{HEX[:40]}",
    "parent_digest": f"blake3:{HEX}",
    "due": "2026-02-03",
    "retries": 2,
    "steps": [{"id": "s1", "paths": ["a", "b"]}, {"id": "s2", "paths": []}],
}
CHANGED: list[Any] = [
    *({k: v for k, v in VALID.items() if k != dropped} for dropped in VALID),
    VALID,
    {**VALID, "extra": 1},
    {**VALID, "kind": "savant.test.note/v1"},
    {**VALID, "title": ""},
    {**VALID, "title": 3},
    {**VALID, "title": "\u00e9\U0001f600" * 5},
    {**VALID, "title": "x" * 65_536},
    {**VALID, "title": "\U0001f600" * 65_536},
    {**VALID, "title": "x" * 65_537},
    {**VALID, "base": f"sha1:{HEX[:40]}\n"},
    {**VALID, "base": f"sha256:{HEX}"},
    {**VALID, "base": f"md5:{HEX[:32]}"},
    {**VALID, "parent_digest": None},
    {**VALID, "parent_digest": f"blake3:{HEX}\n"},
    {**VALID, "parent_digest": f"blake3:{HEX[1:]}"},
    {**VALID, "due": None},
    {**VALID, "due": "2026-02-30"},
    {**VALID, "due": "2026-13-01"},
    {**VALID, "due": "\u0662\u0660\u0662\u0666-02-03"},
    {**VALID, "retries": -1},
    {**VALID, "retries": 2**53 - 1},
    {**VALID, "retries": 2**53},
    {**VALID, "retries": True},
    {**VALID, "retries": None},
    {**VALID, "steps": []},
    {**VALID, "steps": {}},
    {**VALID, "steps": [{"id": "s1"}]},
    {**VALID, "steps": [{"id": "s1", "paths": [], "more": 1}]},
    {**VALID, "steps": [{"id": "s1", "paths": ["a", "a"]}]},
    {**VALID, "steps": [{"id": "s1", "paths": [""]}]},
    [],
    None,
    "savant.test.plan/v1",
]


def is_accepted(value: object) -> bool:
    try:
        accept(canonical.encode(value), Plan)
    except RefusedInput:
        return False
    return True


@pytest.mark.parametrize("value", CHANGED)
def test_the_published_schema_and_acceptance_agree(value: object) -> None:
    """An independent JSON Schema validator answers as our decoder does."""
    validator = jsonschema_rs.Draft202012Validator(REGISTRY.schema("savant.test.plan/v1"))
    try:
        canonical.encode(value)
    except InternalError:
        assert not validator.is_valid(value)
        return
    assert validator.is_valid(value) == is_accepted(value)


@given(
    st.fixed_dictionaries(
        {
            key: st.just(value) | st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3)
            for key, value in VALID.items()
        }
    )
)
def test_the_published_schema_and_acceptance_agree_on_what_comes(value: dict[str, Any]) -> None:
    """The same, on documents of which any member may be anything."""
    validator = jsonschema_rs.Draft202012Validator(REGISTRY.schema("savant.test.plan/v1"))
    assert validator.is_valid(value) == is_accepted(value)


def test_a_schema_is_closed_and_names_its_kind() -> None:
    """Every object forbids other members and requires all of its own, at every depth."""
    schema = REGISTRY.schema("savant.test.plan/v1")
    assert (schema["$schema"], schema["$id"]) == (SCHEMA_DIALECT, "savant.test.plan/v1")
    for part in (schema, *schema["$defs"].values()):
        assert part["additionalProperties"] is False
        assert sorted(part["required"]) == sorted(part["properties"])
    assert "$defs" not in REGISTRY.schema("savant.test.note/v1")


def test_the_kinds_are_listed_in_order() -> None:
    """The registry is a sorted, immutable listing."""
    assert list(REGISTRY) == ["savant.test.note/v1", "savant.test.plan/v1"]
    assert len(REGISTRY) == 2
    assert REGISTRY["savant.test.plan/v1"] is Plan


def test_bytes_are_accepted_as_the_kind_they_name() -> None:
    """The kind inside chooses the type; the rest is acceptance as ever."""
    sealed = seal(Note(text="x"))
    assert REGISTRY.accept(sealed.raw, declared_digest=sealed.digest) == sealed
    with pytest.raises(VerificationError):
        REGISTRY.accept(sealed.raw, declared_digest=seal(Note(text="y")).digest)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b'{"kind":"savant.test.other/v1"}', "refused.unknown-kind"),
        (b'{"kind":7}', "refused.malformed"),
        (b"{}", "refused.malformed"),
        (b"[]", "refused.malformed"),
        (b"\xff", "refused.malformed"),
        (b'{"kind":"savant.test.note/v1","kind":"savant.test.plan/v1"}', "refused.malformed"),
        (b'{"kind":"savant.test.note/v1", "text":"x"}', "refused.not-canonical"),
    ],
)
def test_bytes_of_no_known_kind_are_refused(raw: bytes, code: str) -> None:
    """Unknown, missing, mistyped and doubled kinds do not pass."""
    with pytest.raises(RefusedInput) as refused:
        REGISTRY.accept(raw)
    assert refused.value.code == code


def test_the_size_is_checked_before_the_kind_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of an input beyond the limit is parsed."""
    monkeypatch.setattr(document, "MAX_DOCUMENT_BYTES", 10)
    with pytest.raises(RefusedInput) as refused:
        REGISTRY.accept(b"\x00" * 11)
    assert refused.value.code == "refused.too-large"


def test_a_kind_is_declared_once_and_well_formed() -> None:
    """Two types of one kind and a class without a kind cannot be registered; an open type does not pass the check."""
    twin = msgspec.defstruct("Twin", [("text", str)], bases=(Note,), frozen=True, kw_only=True)
    open_ = msgspec.defstruct(
        "Open", [("size", int)], bases=(Document,), frozen=True, kw_only=True, tag="savant.test.open/v1"
    )
    untagged = msgspec.defstruct("Untagged", [("text", str)], bases=(Document,), frozen=True, kw_only=True)
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((Note, twin), "internal.kind"),
        ((open_,), "internal.open-type"),
        ((untagged,), "internal.kind"),
    ]
    for types, code in cases:
        with pytest.raises(InternalError) as refused:
            Registry(types).check()
        assert refused.value.code == code
    assert len(Registry(())) == 0
