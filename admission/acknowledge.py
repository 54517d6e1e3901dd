"""Acknowledgements: what a person signs with their own SSH key, and what makes one count. Pure."""

from __future__ import annotations

from typing import Final

from admission.decide import VerifiedAcknowledgement
from admission.documents import Acknowledgement, AcknowledgementStatement, Decision
from savant.contracts.canonical import encode_struct
from savant.contracts.document import Sealed
from savant.contracts.errors import RefusedInput, UsageError
from savant.contracts.signing import Verifier
from savant.identity.people import People
from savant.ledger.sshkey import PublicKey, parse_public_line
from savant.ledger.sshsig import verify_sshsig

NAMESPACE: Final = "savant-acknowledgement"
"""The SSHSIG namespace: a signature for any other purpose never counts."""


def statement_bytes(statement: AcknowledgementStatement) -> bytes:
    """The exact bytes that a person signs."""
    return encode_struct(statement)


def statement_for(decision: Sealed[Decision], condition: str, *, by: str, note: str = "") -> AcknowledgementStatement:
    """The statement that acknowledges one condition of a decision.

    :param decision: the decision without acknowledgements.
    :raises UsageError: ``usage.unknown-condition``, ``usage.acknowledged-decision``.
    """
    document = decision.document
    if document.unacknowledged_digest is not None:
        raise UsageError("usage.acknowledged-decision", "People sign the decision without acknowledgements.")
    if condition not in {item.id for item in document.conditions}:
        known = ", ".join(item.id for item in document.conditions) or "none"
        raise UsageError(
            "usage.unknown-condition",
            f"The decision has no condition {condition!r}; it has: {known}.",
            untouched="Nothing was signed.",
            fix="savant admit --explain lists the conditions.",
        )
    return AcknowledgementStatement(
        decision_digest=decision.digest,
        condition=condition,
        candidate_digest=document.candidate_digest,
        by=by,
        note=note,
    )


def verify_acknowledgement(
    sealed: Sealed[Acknowledgement], *, requester: str, verifier: Verifier, people: People | None = None
) -> VerifiedAcknowledgement:
    """The acknowledgement, if the key it names made its signature over exactly its statement.

    A key that is not listed, or that signs under the name of somebody else, is no error: the decision refuses it.

    :param requester: who asked for the change: a name or a key fingerprint.
    :param people: who may acknowledge, as listed at the base; None where nobody is listed.
    :raises RefusedInput: ``refused.ssh-key``, ``refused.sshsig``.
    :raises VerificationError: ``unverified.sshsig-key``, ``unverified.sshsig-namespace``, ``unverified.signature``.
    """
    document = sealed.document
    public = parse_public_line(document.public_key)
    if public.line != document.public_key:
        raise RefusedInput("refused.ssh-key", "The public key of an acknowledgement carries more than the key.")
    verify_sshsig(
        document.sshsig, statement_bytes(document.statement), namespace=NAMESPACE, public=public, verifier=verifier
    )
    person = None if people is None else people.find(public.keyid)
    return VerifiedAcknowledgement(
        statement=document.statement,
        digest=sealed.digest,
        keyid=public.keyid,
        is_requester=is_same_person(document.statement.by, public, requester, people),
        is_listed=is_listed(document.statement.by, public, people),
        handle=None if person is None else person.handle,
    )


def is_same_person(by: str, public: PublicKey, requester: str, people: People | None = None) -> bool:
    """Whether whoever signs is whoever asked, as far as names and keys can tell. An unknown requester is nobody."""
    person = None if people is None else people.find(public.keyid)
    names = frozenset((by, public.keyid)) if person is None else person.names | {by}
    return bool(requester) and requester in names


def is_listed(by: str, public: PublicKey, people: People | None) -> bool:
    """Whether a key may acknowledge under a name: its person's handle or a fingerprint of one of their keys.

    Where there is no list, anybody may.
    """
    if people is None:
        return True
    person = people.find(public.keyid)
    return person is not None and by in person.names
