"""Roles, raw keys, validity by sequence number, and rotation that forgets nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest

from savant.contracts.errors import SavantError, VerificationError
from savant.contracts.signing import Signer
from savant.contracts.twins import CountingEntropy
from savant.ledger import DOCUMENTS, ROLES, Ed25519Signer, Ed25519Verifier, signers_of
from savant.ledger.documents import KeyEntry, Role
from savant.ledger.keyring import SIGNERS_BY_KIND, ValidKeys, key_entry, open_keys, replace_keys, verify_role
from savant.ledger.sshkey import PublicKey

NONCE = "ab" * 16
ROOT_SIGNER = Ed25519Signer(b"\x09" * 32)
ROOT = PublicKey(ROOT_SIGNER.public_raw)
VERIFIER = Ed25519Verifier()


def signer(name: str) -> Ed25519Signer:
    return Ed25519Signer.generate(CountingEntropy(name.encode()))


def entry(role: Role, name: str = "", *, from_seq: int = 0, until: int | None = None, key: Signer | None = None) -> Any:
    made = key_entry(key or signer(name or role), role, nonce=NONCE, from_seq=from_seq)
    return msgspec.structs.replace(made, until_seq=until)


def opened(*entries: KeyEntry) -> ValidKeys:
    return open_keys(entries, epoch=0, root=ROOT, nonce=NONCE, verifier=VERIFIER)


def code_of(call: Any) -> str:
    with pytest.raises(SavantError) as caught:
        call()
    return caught.value.code


def test_every_kind_has_its_role_and_no_other() -> None:
    """The table, read as the design states it."""
    expected: dict[str, set[str]] = {
        "savant.synthesis.session/v1": {"driver"},
        "savant.providerport.request/v1": {"provider-host"},
        "savant.runner.receipt/v1": {"runner"},
        "savant.evaluator.receipt/v1": {"evaluator"},
        "savant.admission.decision/v1": {"admission"},
        "savant.admission.acknowledgement/v1": {"admission"},
        "savant.admission.verification/v1": {"verify"},
        "savant.candidateapply.receipt/v1": {"apply"},
        "savant.candidateapply.undo-receipt/v1": {"apply"},
        "savant.candidateapply.verification-record/v1": {"verify"},
        "savant.driver.savepoint/v1": {"driver"},
        "savant.identity.task/v1": {"driver"},
        "savant.ledger.root-statement/v1": {"log"},
        "savant.ledger.run-open/v1": {"log"},
        "savant.ledger.intent/v2": set(ROLES),
        "savant.ledger.genesis/v1": set(),
        "savant.store.anything/v1": set(),
        "savant/v1": set(),
    }
    assert {kind: set(signers_of(kind)) for kind in expected} == expected
    for kind, roles in expected.items():
        for role in ROLES:
            if role in roles:
                verify_role(role, kind)
            else:
                assert code_of(partial(verify_role, role, kind)) == "unverified.role"


def test_only_this_packages_inner_documents_have_no_signer() -> None:
    """Genesis, keyring, recovery and head are no bodies of their own; every other ledger document is in the table."""
    silent = {"savant.ledger.genesis", "savant.ledger.head", "savant.ledger.keyring", "savant.ledger.recovery"}
    kinds = {str(type_.__struct_config__.tag) for type_ in DOCUMENTS}
    assert {kind.partition("/")[0] for kind in kinds if not signers_of(kind)} == silent
    assert all(SIGNERS_BY_KIND.values())


def test_a_key_is_found_by_its_id_and_only_inside_its_range() -> None:
    """Both ends are inclusive, and one key may return after a pause."""
    key = signer("driver")
    keys = opened(entry("driver", key=key, from_seq=3, until=5), entry("driver", key=key, from_seq=8), entry("log"))
    assert [keys.key_of(key.keyid, seq).from_seq for seq in (3, 5, 8, 900)] == [3, 3, 8, 8]
    for seq in (2, 6, 7):
        assert code_of(lambda s=seq: keys.key_of(key.keyid, s)) == "unverified.key-expired"
    assert code_of(lambda: keys.key_of(signer("nobody").keyid, 3)) == "unverified.unknown-key"
    assert len(keys.keys_of("driver", 4)) == 1


def test_there_is_exactly_one_log_key() -> None:
    """It signs the checkpoints."""
    assert opened(entry("log")).log_key(7) == signer("log").public_raw
    assert code_of(lambda: opened(entry("driver")).log_key(0)) == "unverified.log-key"
    assert code_of(lambda: opened(entry("log"), entry("log", "second")).log_key(0)) == "unverified.log-key"


def replaced(**changes: Any) -> KeyEntry:
    changed: KeyEntry = msgspec.structs.replace(entry("driver"), **changes)
    return changed


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ([entry("driver", "one"), entry("runner", "one")], "refused.shared-key"),
        ([entry("driver", key=ROOT_SIGNER)], "refused.shared-key"),
        ([replaced(keyid=signer("x").keyid)], "refused.keyid"),
        ([replaced(public_key=signer("x").public_raw.hex())], "refused.keyid"),
        ([entry("driver", from_seq=5, until=4)], "refused.key-range"),
        ([replaced(possession="AAAA")], "unverified.possession"),
        ([replaced(role="runner")], "unverified.possession"),
        ([replaced(from_seq=1)], "unverified.possession"),
        ([replaced(possession="AA=A")], "refused.base64"),
    ],
)
def test_a_keyring_that_breaks_a_rule_is_refused(entries: list[KeyEntry], code: str) -> None:
    """Beside the sound one: shared keys, the root's key, foreign ids, empty ranges, unproven possession."""
    assert opened(entry("driver"), entry("runner"), entry("log")).epoch == 0
    assert code_of(lambda: opened(*entries)) == code


def test_a_weak_key_is_refused() -> None:
    """Even with its true fingerprint."""
    raw = bytes(32)
    weak = replaced(public_key=raw.hex(), keyid=PublicKey(raw).keyid)
    assert code_of(lambda: opened(weak)) == "refused.weak-key"


OLD = opened(entry("log"), entry("driver", "a"), entry("driver", "ended", until=4))
KEPT = (entry("log"), entry("driver", "ended", until=4))


def rotated(*entries: KeyEntry, epoch: int = 1, seq: int = 10) -> ValidKeys:
    return replace_keys(OLD, entries, epoch=epoch, seq=seq, root=ROOT, nonce=NONCE, verifier=VERIFIER)


def test_a_rotation_ends_the_old_key_and_begins_the_new_one() -> None:
    """From the next record on; the old entry stays for the old records."""
    keys = rotated(*KEPT, entry("driver", "a", until=10), entry("driver", "b", from_seq=11))
    assert keys.epoch == 1
    assert keys.key_of(signer("a").keyid, 10).role == "driver"
    assert keys.key_of(signer("b").keyid, 11).role == "driver"
    assert code_of(lambda: keys.key_of(signer("a").keyid, 11)) == "unverified.key-expired"


@pytest.mark.parametrize(
    ("entries", "options", "code"),
    [
        ((*KEPT, entry("driver", "a")), {"epoch": 2}, "refused.keyring-epoch"),
        ((*KEPT, entry("driver", "a")), {"epoch": 0}, "refused.keyring-epoch"),
        (KEPT, {}, "refused.keyring-forgets"),
        ((*KEPT, entry("runner", "a")), {}, "refused.keyring-forgets"),
        ((*KEPT, entry("driver", "a", until=9)), {}, "refused.keyring-backdated"),
        ((entry("log"), entry("driver", "a"), entry("driver", "ended")), {}, "refused.keyring-backdated"),
        ((entry("log"), entry("driver", "a"), entry("driver", "ended", until=20)), {}, "refused.keyring-backdated"),
        ((*KEPT, entry("driver", "a"), entry("driver", "b", from_seq=10)), {}, "refused.keyring-backdated"),
    ],
)
def test_a_rotation_that_rewrites_the_past_is_refused(
    entries: tuple[KeyEntry, ...], options: dict[str, int], code: str
) -> None:
    """Skipped epochs, forgotten keys, moved ends, new keys for old records."""
    assert rotated(*KEPT, entry("driver", "a")).epoch == 1
    assert code_of(lambda: rotated(*entries, **options)) == code


def test_errors_are_verification_errors() -> None:
    """A role that may not sign is a failed check, not a malformed input."""
    with pytest.raises(VerificationError):
        verify_role("driver", "savant.runner.receipt/v1")
