"""One record: an in-toto Statement v1 in a DSSE envelope, as one canonical JSON line of at most 32 KiB. Pure.

::

    {"_type": "https://in-toto.io/Statement/v1",
     "subject": [{"name": "body" | "candidate", "digest": {"sha256": ...}}],
     "predicateType": "https://savant-synthesis.invalid/<document kind>",
     "predicate": {"ledger": {"id", "seq", "prev", "epoch"}, "run", "role", "observed": {...},
                   "body_kind", "body": <the document> | null, "body_ref": false | true, "body_blake3"}}

``prev`` is the BLAKE3 of the previous line, signature included; in the genesis it is 64 zeros and ``id`` is null. The
``.invalid`` domain in the predicate type says that there is no page behind it. A large body is null here and lies in
the object store under ``body_blake3``. The subject carries SHA-256 alone: some verifiers reject every other name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Protocol, TypeAlias, cast

import msgspec
from msgspec import Meta, field
from msgspec.structs import replace

from savant.contracts import canonical
from savant.contracts.containment import Containment
from savant.contracts.digest import PREFIX, digest, sha256_hex
from savant.contracts.document import Check, D, Document, Part, Sealed, accept, kind_of, set_check
from savant.contracts.envelope import PAYLOAD_TYPE, encode_envelope, pae
from savant.contracts.errors import RefusedInput, VerificationError
from savant.contracts.registry import Registry
from savant.contracts.scalars import Count, Digest, Milliseconds, Name, Set, Sha256, as_set
from savant.contracts.signing import Signer
from savant.ledger.documents import Role

STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_PREFIX: Final = "https://savant-synthesis.invalid/"
MAX_LINE_BYTES: Final = 32 * 1024
NO_PREVIOUS: Final = PREFIX + "0" * 64
"""``prev`` of the genesis."""

_SURELY_LARGE_BYTES: Final = 24 * 1024
_NULL: Final = msgspec.Raw(b"null")

RunId: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}(?!\n)$", description="128 random bits, hex")]
Detail: TypeAlias = Annotated[str, Meta(max_length=2_048, description="an observation in words")]
Kind: TypeAlias = Annotated[
    str, Meta(pattern=r"^[a-z][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+/v[1-9][0-9]{0,3}(?!\n)$", description="document kind")
]


class Attachment(Part, frozen=True, kw_only=True):
    """Bytes beside the record, by name and digest: stderr, a transcript."""

    name: Name
    digest: Digest


class Observed(Part, frozen=True, kw_only=True):
    """What was seen while the document came to be. Informational: order is ``seq``, never ``at_ms``.

    What nobody reported is null. ``tokens_in`` counts the cached tokens too. Costs are millionths of the provider's
    currency unit; ``cost_notional`` says that a subscription pays for the call. ``containment`` is what the foreign
    commands behind the document had at least, null where there were none. ``attachments`` has at most 32 entries.
    """

    at_ms: Milliseconds
    duration_ms: Milliseconds | None
    host: Name | None
    tool: Name | None
    tokens_in: Count | None
    tokens_out: Count | None
    tokens_cached: Count | None
    cost_microunits: Count | None
    cost_notional: bool | None
    containment: Containment | None
    detail: Detail | None
    attachments: Set[Attachment]


class Position(Part, frozen=True, kw_only=True):
    """Where the record stands: in which ledger (null in its genesis), after which line, under which keyring."""

    id: Digest | None
    seq: Count
    prev: Digest
    epoch: Count


class SubjectDigest(Part, frozen=True, kw_only=True):
    """The one digest of a subject."""

    sha256: Sha256


class Subject(Part, frozen=True, kw_only=True):
    """What the statement is about: the sealed candidate document, or the record's own body."""

    name: Literal["body", "candidate"]
    digest: SubjectDigest


class Predicate(Part, frozen=True, kw_only=True):
    """The record itself."""

    ledger: Position
    run: RunId | None
    role: Role
    observed: Observed
    body_kind: Kind
    body: msgspec.Raw
    body_ref: bool
    body_blake3: Digest


class Statement(Part, frozen=True, kw_only=True):
    """An in-toto Statement v1 with one subject."""

    type: Literal["https://in-toto.io/Statement/v1"] = field(name="_type")
    subject: Annotated[tuple[Subject, ...], Meta(min_length=1, max_length=1)]
    predicate_type: str = field(name="predicateType")
    predicate: Predicate


_verify_sets: Final = cast("Check", set_check(Observed))
"""The only sets outside the body are in what was observed."""


class Bodies(Protocol):
    """Large bodies, content-addressed. MUST verify content on ``get``; MUST be durable when ``put`` returns."""

    def put(self, raw: bytes) -> str:
        """Keep the bytes; their ``blake3:`` digest."""
        ...

    def get(self, digest: str) -> bytes:
        """The bytes of a digest.

        :raises SavantError: any family, when they are missing or damaged.
        """
        ...


class RecordRef(msgspec.Struct, frozen=True):
    """Where a record stands: its sequence number and the digest of its line."""

    seq: int
    line_digest: str


class Draft(msgspec.Struct, frozen=True):
    """Everything of a record except its signature. ``by_reference``: the body is not in the line."""

    position: Position
    role: Role
    run: str | None
    observed: Observed
    body: Sealed[Document]
    candidate_raw: bytes | None
    by_reference: bool


def observation(
    at_ms: int,
    *,
    duration_ms: int | None = None,
    host: str | None = None,
    tool: str | None = None,
    tokens_in: int | None = None,
    tokens_out: int | None = None,
    cost_microunits: int | None = None,
    tokens_cached: int | None = None,
    cost_notional: bool | None = None,
    containment: Containment | None = None,
    detail: str | None = None,
    attachments: Mapping[str, str] | None = None,
) -> Observed:
    """An observation; ``attachments`` maps names to digests."""
    return Observed(
        at_ms=at_ms,
        duration_ms=duration_ms,
        host=host,
        tool=tool,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        tokens_cached=tokens_cached,
        cost_microunits=cost_microunits,
        cost_notional=cost_notional,
        containment=containment,
        detail=detail,
        attachments=as_set(Attachment(name=name, digest=value) for name, value in (attachments or {}).items()),
    )


def predicate_type(kind: str) -> str:
    """The predicate type URI of a document kind."""
    return PREDICATE_PREFIX + kind


def must_reference(body_size: int) -> bool:
    """Whether a body of so many bytes can never fit into a line."""
    return body_size > _SURELY_LARGE_BYTES


def build_statement(draft: Draft) -> bytes:
    """The exact bytes that will be signed."""
    candidate = draft.candidate_raw is not None
    subject = draft.body.raw if draft.candidate_raw is None else draft.candidate_raw
    kind = kind_of(draft.body.document)
    return canonical.encode_struct(
        Statement(
            type=STATEMENT_TYPE,
            subject=(
                Subject(name="candidate" if candidate else "body", digest=SubjectDigest(sha256=sha256_hex(subject))),
            ),
            predicate_type=predicate_type(kind),
            predicate=Predicate(
                ledger=draft.position,
                run=draft.run,
                role=draft.role,
                observed=draft.observed,
                body_kind=kind,
                body=_NULL if draft.by_reference else msgspec.Raw(draft.body.raw),
                body_ref=draft.by_reference,
                body_blake3=draft.body.digest,
            ),
        )
    )


def sign_line(payload: bytes, signer: Signer) -> bytes:
    """The line of a statement, without a newline. It may be longer than a line may be: the caller looks."""
    return encode_envelope(payload, keyid=signer.keyid, signature=signer.sign(pae(PAYLOAD_TYPE, payload)))


def make_line(draft: Draft, signer: Signer, bodies: Bodies | None) -> bytes:
    """The signed line of a draft; a body that does not fit is put into ``bodies`` first.

    :raises RefusedInput: ``refused.record-too-large`` when it does not fit even then, or has nowhere to go.
    """
    if not draft.by_reference:
        line = sign_line(build_statement(draft), signer)
        if len(line) <= MAX_LINE_BYTES:
            return line
    if bodies is None:
        raise RefusedInput(
            "refused.record-too-large", f"A body of {len(draft.body.raw)} bytes does not fit and has nowhere to go."
        )
    bodies.put(draft.body.raw)
    line = sign_line(build_statement(replace(draft, by_reference=True)), signer)
    if len(line) > MAX_LINE_BYTES:
        raise RefusedInput("refused.record-too-large", f"The record has {len(line)} bytes without its body.")
    return line


def parse_statement(payload: bytes) -> Statement:
    """The statement of a payload: closed, canonical, and true to itself.

    :raises RefusedInput: ``refused.malformed``, ``refused.not-canonical``, ``refused.set-order``,
        ``refused.predicate-type``, ``refused.body-reference``.
    """
    statement = canonical.decode(payload, Statement)
    predicate = statement.predicate
    _verify_sets(predicate.observed)
    if statement.predicate_type != predicate_type(predicate.body_kind):
        raise RefusedInput("refused.predicate-type", "The predicate type is not the one of the body's kind.")
    if predicate.body_ref != (bytes(predicate.body) == b"null"):
        raise RefusedInput("refused.body-reference", "A record holds its body or refers to it, not both or neither.")
    return statement


def accept_body(statement: Statement, registry: Registry, bodies: Bodies | None) -> Sealed[Document] | None:
    """The accepted body of a record, or None when it lies elsewhere and ``bodies`` is None.

    :raises RefusedInput: what :func:`savant.contracts.document.accept` refuses; ``refused.unknown-kind``.
    :raises VerificationError: ``unverified.digest``, ``unverified.subject``.
    """
    predicate = statement.predicate
    if not predicate.body_ref:
        raw = bytes(predicate.body)
    elif bodies is None:
        return None
    else:
        raw = bodies.get(predicate.body_blake3)
    sealed = accept(raw, registry[predicate.body_kind], declared_digest=predicate.body_blake3)
    subject = statement.subject[0]
    if subject.name == "body" and subject.digest.sha256 != sha256_hex(raw):
        raise VerificationError("unverified.subject", "The subject is not the SHA-256 of the body.")
    return sealed


def accept_inline(statement: Statement, type_: type[D]) -> D | None:
    """The body in the line, if it is of this type.

    :raises RefusedInput: when it says so but is malformed.
    :raises VerificationError: ``unverified.digest``.
    """
    predicate = statement.predicate
    if predicate.body_kind != kind_of(type_):
        return None
    return accept(bytes(predicate.body), type_, declared_digest=predicate.body_blake3).document


def line_digest(line: bytes) -> str:
    """The digest of a line: the next record's ``prev``; of the genesis: the ledger id."""
    return digest(line)
