"""Closed documents: strict acceptance, one spelling, sets, and types that cannot leave the profile."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from savant.contracts import document, scalars
from savant.contracts.digest import digest
from savant.contracts.document import Document, Part, accept, check_type, digest_of, kind_of, seal, set_check
from savant.contracts.errors import InternalError, RefusedInput, VerificationError


class Leaf(Part, frozen=True, kw_only=True, tag="leaf"):
    names: scalars.Set[scalars.Name]


class Twig(Part, frozen=True, kw_only=True, tag="twig"):
    label: scalars.Text


class Tree(Document, frozen=True, kw_only=True, tag="savant.test.tree/v1"):
    title: scalars.Text
    size: scalars.Count
    tags: scalars.Set[scalars.Name]
    maybe_tags: scalars.Set[scalars.Name] | None
    maybe_leaf: Leaf | None
    parts: tuple[Leaf | Twig, ...]
    leaves: scalars.Set[Leaf]
    mood: Literal["calm", "wild"]


class Plain(Document, frozen=True, kw_only=True, tag="savant.test.plain/v1"):
    size: scalars.Count


NAME = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._]{0,5}", fullmatch=True)
LEAVES = st.builds(lambda names: Leaf(names=scalars.as_set(names)), st.lists(NAME, max_size=3))
TREES = st.builds(
    Tree,
    title=st.text(max_size=10),
    size=st.integers(0, 2**53 - 1),
    tags=st.lists(NAME, max_size=4).map(scalars.as_set),
    maybe_tags=st.none() | st.lists(NAME, max_size=4).map(scalars.as_set),
    maybe_leaf=st.none() | LEAVES,
    parts=st.lists(LEAVES | st.builds(Twig, label=st.text(max_size=5)), max_size=3).map(tuple),
    leaves=st.lists(LEAVES, max_size=3).map(scalars.as_set),
    mood=st.sampled_from(["calm", "wild"]),
)


def tree(**changes: Any) -> Tree:
    values: dict[str, Any] = {
        "title": "t",
        "size": 1,
        "tags": ("a", "b"),
        "maybe_tags": None,
        "maybe_leaf": None,
        "parts": (Leaf(names=("a",)), Twig(label="x")),
        "leaves": (),
        "mood": "calm",
    }
    return Tree(**{**values, **changes})


@given(TREES)
def test_a_sealed_document_is_accepted_as_itself(value: Tree) -> None:
    """Seal and accept agree on the value, the bytes and the digest."""
    sealed = seal(value)
    assert accept(sealed.raw, Tree, declared_digest=sealed.digest) == sealed
    assert sealed.document == value
    assert sealed.digest == digest(sealed.raw) == digest_of(value)


@given(TREES, TREES)
def test_a_digest_names_one_document(a: Tree, b: Tree) -> None:
    """Equal digests mean equal documents, and the other way round."""
    assert (digest_of(a) == digest_of(b)) == (a == b)


def test_a_declared_digest_must_be_the_computed_one() -> None:
    """A document under another's name fails verification."""
    sealed = seal(tree())
    with pytest.raises(VerificationError) as failed:
        accept(sealed.raw, Tree, declared_digest=digest(b""))
    assert failed.value.code == "unverified.digest"
    assert accept(sealed.raw, Tree, declared_digest=sealed.digest).document == tree()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b'"size":1', b'"size":1,"size":1', "refused.not-canonical"),
        (b'"size":1', b'"size":1.0', "refused.malformed"),
        (b'"size":1', b'"size":-1', "refused.malformed"),
        (b'"size":1', b'"size":9007199254740992', "refused.malformed"),
        (b'"size":1', b'"size":"1"', "refused.malformed"),
        (b'"size":1,', b"", "refused.malformed"),
        (b'"size":1', b'"size":1,"sized":1', "refused.malformed"),
        (b'"size":1', b'"size": 1', "refused.not-canonical"),
        (b'"maybe_leaf":null,', b"", "refused.malformed"),
        (b'"mood":"calm"', b'"mood":"calmer"', "refused.malformed"),
        (b"tree/v1", b"tree/v2", "refused.malformed"),
        (b'["a","b"]', b'["b","a"]', "refused.set-order"),
        (b'["a","b"]', b'["a","a"]', "refused.set-order"),
    ],
)
def test_bytes_that_are_not_the_document_are_refused(old: bytes, new: bytes, code: str) -> None:
    """Other spellings, ranges, members, kinds and orders of a set do not pass acceptance."""
    raw = seal(tree()).raw
    assert raw.count(old) == 1
    with pytest.raises(RefusedInput) as refused:
        accept(raw.replace(old, new), Tree)
    assert refused.value.code == code
    assert accept(raw, Tree).document == tree()


@pytest.mark.parametrize(
    "value",
    [
        tree(maybe_tags=("b", "a")),
        tree(maybe_leaf=Leaf(names=("b", "a"))),
        tree(parts=(Twig(label="x"), Leaf(names=("b", "a")))),
        tree(leaves=(Leaf(names=("b",)), Leaf(names=("a",)))),
        tree(leaves=(Leaf(names=("b", "a")),)),
        tree(tags=("a", "a")),
        tree(tags=["a", "b"]),
        tree(size=-1),
        tree(size=True),
        tree(title="\ud800"),
        tree(title=object()),
        tree(mood="other"),
    ],
)
def test_our_own_value_that_breaks_its_type_is_never_sealed(value: Tree) -> None:
    """Sets in every position, ranges, lists for tuples and foreign objects: our bug, found before it is written."""
    with pytest.raises(InternalError) as refused:
        seal(value)
    assert refused.value.code in {"internal.unsealable", "internal.not-canonical"}


def test_sets_are_checked_wherever_they_stand() -> None:
    """The positive control of the refusals above: sorted sets in every position are sealed."""
    leaf = Leaf(names=("a", "b"))
    leaves = scalars.as_set([leaf, Leaf(names=())])
    value = tree(maybe_tags=("a", "b"), maybe_leaf=leaf, parts=(Twig(label="x"), leaf), leaves=leaves)
    assert seal(value).document == value


def test_a_type_without_sets_has_no_check() -> None:
    """Acceptance walks nothing where there is nothing to walk."""
    assert set_check(Plain) is None
    assert seal(Plain(size=1)).document == Plain(size=1)


def test_an_input_beyond_the_limit_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is inclusive and comes first: even bytes that are no JSON are refused for their size."""
    raw = seal(Plain(size=1)).raw
    monkeypatch.setattr(document, "MAX_DOCUMENT_BYTES", len(raw))
    assert accept(raw, Plain).document == Plain(size=1)
    with pytest.raises(RefusedInput) as refused:
        accept(b"\x00" * (len(raw) + 1), Plain)
    assert refused.value.code == "refused.too-large"


def test_a_kind_has_one_form() -> None:
    """A class without a kind of its own, or with a misspelt one, has none."""

    class Untagged(Document, frozen=True, kw_only=True):
        size: scalars.Count

    class Numbered(Document, frozen=True, kw_only=True, tag=3):
        size: scalars.Count

    class Misspelt(Document, frozen=True, kw_only=True, tag="savant.test.plain"):
        size: scalars.Count

    assert kind_of(Plain) == kind_of(Plain(size=1)) == "savant.test.plain/v1"
    for type_ in (Untagged, Numbered, Misspelt):
        with pytest.raises(InternalError) as refused:
            kind_of(type_)
        assert refused.value.code == "internal.kind"


class Shade(enum.Enum):
    DARK = "dark"
    LIGHT = "light"


class Weight(enum.Enum):
    LIGHT = 1
    HEAVY = 2**53


def part(annotation: Any, **config: Any) -> type[msgspec.Struct]:
    return msgspec.defstruct(
        "Made", [("member", annotation)], bases=(Part,), frozen=True, kw_only=True, namespace={}, **config
    )


@pytest.mark.parametrize(
    "annotation",
    [
        str,
        bool,
        None,
        scalars.Count,
        scalars.Digest,
        Literal["a", 3],
        Shade,
        tuple[scalars.Count, ...],
        scalars.Set[scalars.Name] | None,
        Leaf | Twig | None,
        Annotated[int, Meta(ge=-(2**53) + 1, le=2**53 - 1)],
    ],
)
def test_a_type_inside_the_profile_passes(annotation: Any) -> None:
    """Text, truth, null, ranged integers, literals, lists, sets and unions of objects have a canonical form."""
    check_type(part(annotation))


@pytest.mark.parametrize(
    ("annotation", "where"),
    [
        (int, "Made.member"),
        (Annotated[int, Meta(ge=0)], "Made.member"),
        (Annotated[int, Meta(le=0)], "Made.member"),
        (Annotated[int, Meta(ge=0, le=2**53)], "Made.member"),
        (Annotated[int, Meta(ge=-(2**53), le=0)], "Made.member"),
        (float, "Made.member"),
        (bytes, "Made.member"),
        (Any, "Made.member"),
        (dict[str, str], "Made.member"),
        (list[str], "Made.member"),
        (tuple[str, str], "Made.member"),
        (tuple[float, ...], "Made.member[]"),
        (float | None, "Made.member"),
        (Literal[9007199254740992], "Made.member"),
        (Weight, "Made.member"),
        (part(float), "Made.member.member"),
    ],
)
def test_a_type_outside_the_profile_is_named(annotation: Any, where: str) -> None:
    """Floats, bytes, mappings and unbounded integers are refused at the declaration, with the member's place."""
    with pytest.raises(InternalError) as refused:
        check_type(part(annotation))
    assert refused.value.code == "internal.open-type"
    assert refused.value.message.startswith(f"{where}: ")


class Blend(enum.Enum):
    NAMED = "named"
    COUNTED = 1


def test_a_type_that_the_decoder_does_not_know_is_refused() -> None:
    """What cannot be decoded at all is an open type like any other, not an error of the decoder."""
    with pytest.raises(InternalError) as refused:
        check_type(part(Blend))
    assert refused.value.code == "internal.open-type"


class Open(msgspec.Struct, frozen=True, kw_only=True):
    member: str


class Defaulted(Part, frozen=True, kw_only=True):
    member: str | None = None


class Renamed(Part, frozen=True, kw_only=True, rename={"member": "m\u00e9mbre"}):
    member: str


class Array(Part, frozen=True, kw_only=True, array_like=True):
    member: str


@pytest.mark.parametrize(
    ("type_", "problem"),
    [
        (Open, "Open: accepts unknown members"),
        (Defaulted, "Defaulted.member: has a default; write null instead"),
        (Renamed, "Renamed.m\u00e9mbre: is not an ASCII name"),
        (Array, "Array: is written as an array"),
    ],
)
def test_an_object_that_is_not_closed_is_named(type_: type[msgspec.Struct], problem: str) -> None:
    """Unknown members, defaults, foreign names and arrays are refused at the declaration."""
    with pytest.raises(InternalError) as refused:
        check_type(type_)
    assert (refused.value.code, refused.value.message) == ("internal.open-type", problem)


class Endless(Part, frozen=True, kw_only=True):
    inner: Endless | None


class Mixed(Part, frozen=True, kw_only=True):
    member: scalars.Set[scalars.Name] | bool


@pytest.mark.parametrize(("type_", "code"), [(Endless, "internal.recursive-type"), (Mixed, "internal.union")])
def test_a_type_whose_sets_cannot_be_checked_is_refused(type_: type[msgspec.Struct], code: str) -> None:
    """A type that contains itself, and a set beside something that is neither null nor an object, are refused."""
    with pytest.raises(InternalError) as refused:
        check_type(type_)
    assert refused.value.code == code
