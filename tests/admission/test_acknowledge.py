"""Acknowledgements as people sign them: with ``ssh-keygen -Y sign`` and with a key file, verified both ways."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from msgspec import structs

from admission.acknowledge import (
    NAMESPACE,
    is_listed,
    is_same_person,
    statement_bytes,
    statement_for,
    verify_acknowledgement,
)
from admission.decide import decide
from admission.documents import Acknowledgement, AcknowledgementStatement, Decision
from admission.policy import starter_policy
from savant.contracts.document import Sealed, accept, seal
from savant.contracts.errors import RefusedInput, SavantError, UsageError, VerificationError
from savant.identity.keys import encode_private, load_private_key
from savant.identity.people import People, Person
from savant.ledger.ed25519 import Ed25519Signer, Ed25519Verifier
from savant.ledger.sshkey import PublicKey
from savant.ledger.sshsig import sign_sshsig
from tests.admission.kit import Tree, f, make_request, named

BASE: Tree = {b"app.py": f(b"a\n"), b"tests/test_app.py": f(b"t\n")}
AFTER: Tree = {b"app.py": f(b"b\n"), b"tests/test_app.py": f(b"u\n")}
POLICY = seal(starter_policy())
REQUEST = make_request(BASE, AFTER)
BARE: Sealed[Decision] = seal(decide(REQUEST, POLICY))
SEED = bytes(range(32))
SIGNER = Ed25519Signer(SEED)
PUBLIC = PublicKey(SIGNER.public_raw)
VERIFIER = Ed25519Verifier()

needs_ssh_keygen = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")


def signed(
    statement: AcknowledgementStatement | None = None,
    *,
    namespace: str = NAMESPACE,
    over: AcknowledgementStatement | None = None,
    signer: Ed25519Signer = SIGNER,
    public_key: str = PUBLIC.line,
) -> Sealed[Acknowledgement]:
    said = statement or statement_for(BARE, "existing-tests", by="Grace", note="seen")
    signature = sign_sshsig(signer, namespace, statement_bytes(over or said))
    return seal(Acknowledgement(statement=said, public_key=public_key, sshsig=signature))


def refused(acknowledgement: Sealed[Acknowledgement]) -> str:
    with pytest.raises(SavantError) as error:
        verify_acknowledgement(acknowledgement, requester="Ada", verifier=VERIFIER)
    assert isinstance(error.value, RefusedInput | VerificationError)
    return error.value.code


def test_a_signed_statement_counts_and_admits() -> None:
    """What verification returns is what the decision needs: statement, digest, key, and whether it is the requester."""
    acknowledgement = signed()
    verified = verify_acknowledgement(acknowledgement, requester="Ada", verifier=VERIFIER)
    assert (verified.statement, verified.digest) == (acknowledgement.document.statement, acknowledgement.digest)
    assert (verified.keyid, verified.is_requester) == (SIGNER.keyid, False)
    decision = decide(REQUEST, POLICY, [verified])
    assert decision.outcome == "admitted-with-conditions"
    assert decision.acknowledged[0].keyid == SIGNER.keyid
    assert accept(acknowledgement.raw, Acknowledgement) == acknowledgement


def test_people_sign_exactly_the_canonical_statement() -> None:
    """Decision, condition, candidate, name and note, as canonical JSON without a line end."""
    statement = statement_for(BARE, "existing-tests", by="Grace", note="seen")
    assert json.loads(statement_bytes(statement)) == {
        "decision_digest": BARE.digest,
        "condition": "existing-tests",
        "candidate_digest": BARE.document.candidate_digest,
        "by": "Grace",
        "note": "seen",
    }
    assert not statement_bytes(statement).endswith(b"\n")


@pytest.mark.parametrize(
    "change",
    [
        {"condition": "ci"},
        {"decision_digest": named("another decision")},
        {"candidate_digest": named("another candidate")},
        {"by": "Ada"},
        {"note": ""},
    ],
)
def test_a_signature_over_another_statement_is_refused(change: dict[str, str]) -> None:
    """Every member is signed."""
    good = signed()
    verify_acknowledgement(good, requester="", verifier=VERIFIER)
    statement = good.document.statement
    assert refused(signed(structs.replace(statement, **change), over=statement)) == "unverified.signature"


def test_a_signature_for_another_purpose_is_refused() -> None:
    """A signature over the same bytes as a file, a commit or anything else does not acknowledge."""
    assert refused(signed(namespace="file")) == "unverified.sshsig-namespace"


def test_a_signature_of_another_key_is_refused() -> None:
    """The key that an acknowledgement names made it, and no other."""
    assert refused(signed(signer=Ed25519Signer(bytes(32)))) == "unverified.sshsig-key"


def test_the_public_key_has_one_spelling() -> None:
    """A comment after the key would give the same acknowledgement another digest."""
    assert refused(signed(public_key=f"{PUBLIC.line} grace@example.org")) == "refused.ssh-key"
    assert refused(signed(public_key="ssh-rsa AAAA")) in ("refused.ssh-key", "refused.base64")
    assert refused(seal(structs.replace(signed().document, sshsig="no signature"))) == "refused.sshsig"


def test_only_a_condition_of_an_unacknowledged_decision_can_be_signed() -> None:
    """An unknown condition is refused with the ones there are; an acknowledged decision is not what people sign."""
    with pytest.raises(UsageError) as unknown:
        statement_for(BARE, "ci", by="Grace")
    assert unknown.value.code == "usage.unknown-condition"
    assert "existing-tests" in str(unknown.value)
    admitted = seal(decide(make_request(BASE, {**BASE, b"app.py": f(b"b\n")}), POLICY))
    with pytest.raises(UsageError) as none:
        statement_for(admitted, "ci", by="Grace")
    assert "none" in str(none.value)
    verified = verify_acknowledgement(signed(), requester="Ada", verifier=VERIFIER)
    with pytest.raises(UsageError) as acknowledged:
        statement_for(seal(decide(REQUEST, POLICY, [verified])), "existing-tests", by="Grace")
    assert acknowledged.value.code == "usage.acknowledged-decision"


def test_who_asked_is_recognised_by_name_or_key() -> None:
    """An unknown requester is nobody."""
    assert is_same_person("Ada", PUBLIC, "Ada")
    assert is_same_person("somebody else", PUBLIC, SIGNER.keyid)
    assert not is_same_person("Grace", PUBLIC, "Ada")
    assert not is_same_person("", PUBLIC, "")


OTHER = PublicKey(Ed25519Signer(bytes(32)).public_raw)
PEOPLE = People((Person("Grace", (), (PUBLIC,)), Person("Ada", (), (OTHER,))))


def test_where_people_are_listed_only_they_count() -> None:
    """A listed key under its person's name admits; an unlisted key, or one under another's name, refuses."""
    stranger = Ed25519Signer(bytes([7]) * 32)
    for acknowledgement, people, outcome in (
        (signed(), None, "admitted-with-conditions"),
        (signed(), PEOPLE, "admitted-with-conditions"),
        (signed(statement_for(BARE, "existing-tests", by=PUBLIC.keyid)), PEOPLE, "admitted-with-conditions"),
        (signed(), People(()), "refused"),
        (signed(statement_for(BARE, "existing-tests", by="Ada")), PEOPLE, "refused"),
        (signed(statement_for(BARE, "existing-tests", by="Somebody")), PEOPLE, "refused"),
        (signed(signer=stranger, public_key=PublicKey(stranger.public_raw).line), PEOPLE, "refused"),
    ):
        verified = verify_acknowledgement(acknowledgement, requester="Ada", verifier=VERIFIER, people=people)
        decision = decide(REQUEST, POLICY, [verified])
        assert decision.outcome == outcome
        if outcome == "refused":
            assert [(r.code, r.rule) for r in decision.reasons] == [
                ("admission.acknowledgement.stranger", "existing-tests")
            ]


def test_a_listed_key_may_sign_under_its_persons_names_only() -> None:
    """Handle and fingerprints; without a list anybody may, under any name."""
    assert is_listed("Grace", PUBLIC, PEOPLE)
    assert is_listed(PUBLIC.keyid, PUBLIC, PEOPLE)
    assert not is_listed("Grace", OTHER, PEOPLE)
    assert not is_listed(OTHER.keyid, PUBLIC, PEOPLE)
    assert is_listed("anything", PUBLIC, None)


def test_who_asked_is_recognised_under_another_name_where_people_are_listed() -> None:
    """Whichever of the person's names and keys the request has, and whichever the statement."""
    two = People((Person("Grace", (), (PUBLIC, OTHER)),))
    for requester in ("Grace", PUBLIC.keyid, OTHER.keyid):
        assert is_same_person("under another name", PUBLIC, requester, two)
    assert not is_same_person("under another name", PUBLIC, "Grace")
    assert not is_same_person("Grace", PUBLIC, "Ada", PEOPLE)
    assert is_same_person("Ada", PUBLIC, "Ada", PEOPLE)
    assert not is_same_person("", PUBLIC, "", PEOPLE)


def ssh_keygen(*arguments: object, stdin: bytes = b"") -> bytes:
    done = subprocess.run(["ssh-keygen", *map(str, arguments)], input=stdin, capture_output=True, check=True)
    return done.stdout


@needs_ssh_keygen
def test_what_ssh_keygen_signs_counts(tmp_path: Path) -> None:
    """``ssh-keygen -Y sign`` over the statement's bytes, with a key that ssh-keygen made."""
    key = tmp_path / "id"
    ssh_keygen("-q", "-t", "ed25519", "-N", "", "-C", "grace", "-f", key)
    statement = statement_for(BARE, "existing-tests", by="Grace")
    message = tmp_path / "statement"
    message.write_bytes(statement_bytes(statement))
    ssh_keygen("-q", "-Y", "sign", "-f", key, "-n", NAMESPACE, message)
    signature = (tmp_path / "statement.sig").read_text()
    public = PublicKey(load_private_key(key).public_raw)
    assert key.with_suffix(".pub").read_text().startswith(public.line)
    document = seal(Acknowledgement(statement=statement, public_key=public.line, sshsig=signature))
    verified = verify_acknowledgement(document, requester="Ada", verifier=VERIFIER)
    assert decide(REQUEST, POLICY, [verified]).outcome == "admitted-with-conditions"
    ssh_keygen("-q", "-Y", "sign", "-f", key, "-n", "file", message, stdin=b"y\n")
    other = structs.replace(document.document, sshsig=(tmp_path / "statement.sig").read_text())
    assert refused(seal(other)) == "unverified.sshsig-namespace"


@needs_ssh_keygen
def test_what_we_sign_ssh_keygen_verifies(tmp_path: Path) -> None:
    """An auditor needs no tool of ours: allowed signers, namespace, statement and signature are OpenSSH's."""
    document = signed().document
    (tmp_path / "allowed").write_text(f"grace {document.public_key}\n")
    (tmp_path / "signature").write_text(document.sshsig)
    arguments = ("-Y", "verify", "-f", tmp_path / "allowed", "-I", "grace", "-s", tmp_path / "signature", "-n")
    assert b"Good" in ssh_keygen(*arguments, NAMESPACE, stdin=statement_bytes(document.statement))
    with pytest.raises(subprocess.CalledProcessError):
        ssh_keygen(*arguments, NAMESPACE, stdin=statement_bytes(document.statement) + b"\n")
    with pytest.raises(subprocess.CalledProcessError):
        ssh_keygen(*arguments, "file", stdin=statement_bytes(document.statement))


@needs_ssh_keygen
def test_the_same_key_gives_the_same_signature(tmp_path: Path) -> None:
    """Ours is byte for byte what ssh-keygen makes: Ed25519 leaves nothing to chance."""
    key = tmp_path / "id"
    key.write_bytes(encode_private(SEED))
    key.chmod(0o600)
    document = signed().document
    out = ssh_keygen("-q", "-Y", "sign", "-f", key, "-n", NAMESPACE, stdin=statement_bytes(document.statement))
    assert out.decode() == document.sshsig
