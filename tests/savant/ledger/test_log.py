"""The append path: what it adds, what it refuses, and what a crash leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from savant.contracts.document import accept, seal
from savant.contracts.errors import (
    CommittedButIncomplete,
    Conflict,
    PortError,
    RefusedInput,
    SavantError,
    Unverifiable,
    UsageError,
    VerificationError,
)
from savant.contracts.scalars import as_set
from savant.ledger import Ed25519Signer, Ledger, MemoryStore, Mode, Pin, RunClose, RunOpen, SqliteStore
from savant.ledger import log as module
from savant.ledger.authority import KEYRING_NAMESPACE, RECOVERY_NAMESPACE
from savant.ledger.checkpoint import verify_checkpoint
from savant.ledger.documents import Head, Keyring, ModeName
from savant.ledger.keyring import key_entry
from savant.ledger.merkle import leaf_hash, tree_root
from savant.ledger.port import Store, Transaction
from savant.ledger.record import line_digest


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path, create=True)
    yield made
    made.close()


def code_of(call: Callable[..., object]) -> str:
    with pytest.raises(SavantError) as caught:
        call()
    return caught.value.code


def append(kit: Any, ledger: Ledger, text: str = "hello") -> Any:
    return ledger.append("driver", kit.note(text), run=None, observed=kit.observed)


def test_records_follow_each_other_and_verify(kit: Any, store: Store) -> None:
    """Numbers without a gap, references that name the lines, and a report without a flaw."""
    _, ledger = kit.ledger(store)
    refs = [append(kit, ledger, str(number)) for number in range(4)]
    assert [ref.seq for ref in refs] == [1, 2, 3, 4]
    lines = list(store.lines(0, 9))
    assert [ref.line_digest for ref in refs] == [line_digest(line) for line in lines[1:]]
    assert ledger.ledger_id == line_digest(lines[0])
    assert ledger.verify(kit.registry).outcome == "incomplete"
    ledger.checkpoint()
    assert ledger.verify(kit.registry).outcome == "self-consistent"
    assert ledger.verify(kit.registry, ledger.pin).outcome == "verified"


def test_a_new_ledger_has_a_checkpoint_and_a_head_at_once(kit: Any, store: Store) -> None:
    """So a missing head never is an honest state."""
    _, ledger = kit.ledger(store)
    evidence = kit.evidence(store)
    assert [size for size, _ in evidence.checkpoints] == [1]
    assert (evidence.head.size, evidence.head.ledger) == (1, ledger.ledger_id)


def test_run_open_run_close_and_an_intent(kit: Any, store: Store) -> None:
    """The log role opens and closes; a close is covered by a checkpoint without asking."""
    _, ledger = kit.ledger(store)
    run = "0f" * 16
    ledger.append("log", seal(RunOpen(mode="enforce")), run=run, observed=kit.observed)
    append(kit, ledger)
    close = seal(RunClose(disposition="completed", records=2, failed_appends=0))
    ledger.append("log", close, run=run, observed=kit.observed)
    report = ledger.verify(kit.registry, ledger.pin)
    assert (report.outcome, report.covered) == ("verified", 4)
    assert kit.payload(next(iter(store.lines(1, 2))))["predicate"]["run"] == run


def test_a_checkpoint_follows_after_so_many_records(kit: Any, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted from the last one, also by a process that opened the ledger later."""
    monkeypatch.setattr(module, "CHECKPOINT_EVERY", 5)
    _, ledger = kit.ledger(store)
    kit.fill(ledger, 7)
    kit.fill(kit.open(store), 6, start=7)
    assert [size for size, _ in store.checkpoints()] == [1, 6, 11]


def test_the_checkpoint_covers_everything_and_is_made_once(kit: Any, store: Store) -> None:
    """Its root is that of the lines; asking again gives the same note."""
    _, ledger = kit.ledger(store)
    kit.fill(ledger, 3)
    checkpoint = ledger.checkpoint()
    assert (checkpoint.size, checkpoint.root) == (4, tree_root(map(leaf_hash, store.lines(0, 4))))
    log = kit.signers()["log"]
    verify_checkpoint(checkpoint.note, origin=ledger.authority.origin, public_raw=log.public_raw, verifier=kit.verifier)
    assert ledger.checkpoint() == checkpoint
    assert kit.open(store).checkpoint() == checkpoint


def test_a_role_signs_its_own_kinds_only(kit: Any, store: Store) -> None:
    """The runner may not sign a driver's document, nor the driver a runner's; nothing is added."""
    _, ledger = kit.ledger(store)
    for role, body in (("runner", kit.note()), ("driver", kit.runner_note()), ("log", kit.note())):
        assert code_of(lambda r=role, b=body: ledger.append(r, b, run=None, observed=kit.observed)) == "unverified.role"
    ledger.append("runner", kit.runner_note(), run=None, observed=kit.observed)
    assert len(list(store.lines(0, 9))) == 2


def test_a_missing_key_stops_and_a_foreign_one_is_refused(kit: Any, store: Store) -> None:
    """Never another key in its place."""
    kit.ledger(store)
    signers = kit.signers()
    driver = signers.pop("driver")
    ledger = kit.open(store, signers=signers)
    assert code_of(lambda: append(kit, ledger)) == "unverifiable.key-missing"
    assert code_of(lambda: kit.open(store, signers={"driver": signers["runner"]})) == "refused.foreign-key"
    assert code_of(lambda: kit.open(store, signers={"driver": Ed25519Signer(b"\x44" * 32)})) == "refused.foreign-key"
    append(kit, kit.open(store, signers={"driver": driver}))


def test_an_empty_store_is_no_ledger(kit: Any, store: Store) -> None:
    """Opening never begins one; beginning twice is refused."""
    with pytest.raises(Unverifiable):
        kit.open(store)
    kit.begin(store)
    kit.open(store)
    with pytest.raises(Conflict) as caught:
        kit.begin(store, nonce=b"second")
    assert caught.value.code == "conflict.ledger-exists"


def test_a_ledger_begins_with_a_log_key(kit: Any) -> None:
    """And with keys that are told apart."""
    from savant.contracts.twins import CountingEntropy
    from savant.ledger.place import begin

    signers = kit.signers()
    options = {"entropy": CountingEntropy(), "observed": kit.observed, "verifier": kit.verifier}
    with pytest.raises(UsageError):
        begin(MemoryStore(), {"driver": signers["driver"]}, kit.root(), **options)
    with pytest.raises(RefusedInput) as caught:
        begin(MemoryStore(), {**signers, "driver": signers["runner"]}, kit.root(), **options)
    assert caught.value.code == "refused.shared-key"


def test_the_pin_of_the_configuration_is_compared(kit: Any, store: Store) -> None:
    """A ledger in the place of another is not appended to."""
    _, ledger = kit.ledger(store)
    kit.open(store, pin=ledger.pin)
    kit.open(store, pin=Pin())
    for pin in (Pin(ledger="blake3:" + "0" * 64), Pin(root_keyid="SHA256:" + "A" * 43)):
        assert code_of(lambda p=pin: kit.open(store, pin=p)) == "conflict.foreign-ledger"


class Broken:
    """A store whose named calls fail, once for each name given."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.fails: set[str] = set()
        self.transactions = 0

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        self.transactions += 1
        self.check(f"transaction {self.transactions}")
        with self.inner.transaction() as transaction:
            yield cast("Transaction", BrokenTransaction(self, transaction))
            self.check("commit")

    def check(self, name: str) -> None:
        if name in self.fails:
            self.fails.discard(name)
            raise PortError("port.ledger", f"{name} failed")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class BrokenTransaction:
    def __init__(self, owner: Broken, inner: Transaction) -> None:
        self.owner = owner
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        self.owner.check(name)
        return getattr(self.inner, name)


@pytest.mark.parametrize("point", ["insert", "commit", "read_head"])
def test_a_failed_append_adds_nothing_and_the_next_one_works(kit: Any, store: Store, point: str) -> None:
    """The store failed before or at the commit."""
    broken = Broken(store)
    _, ledger = kit.ledger(broken)
    append(kit, ledger, "one")
    broken.fails = {point}
    with pytest.raises(PortError):
        append(kit, ledger, "two")
    assert append(kit, ledger, "three").seq == 2
    ledger.checkpoint()
    assert ledger.verify(kit.registry, ledger.pin).outcome == "verified"


@pytest.mark.parametrize("point", ["insert_checkpoint", "write_head", "commit"])
def test_a_crash_around_the_head_leaves_a_ledger_that_goes_on(kit: Any, store: Store, point: str) -> None:
    """Records are longer than the head, or the head names a checkpoint that the store lost: both are fine."""
    broken = Broken(store)
    _, ledger = kit.ledger(broken)
    append(kit, ledger, "one")
    broken.fails = {point}
    with pytest.raises(PortError):
        ledger.checkpoint()
    again = kit.open(store)
    append(kit, again, "two")
    again.checkpoint()
    assert again.verify(kit.registry, again.pin).outcome == "verified"
    append(kit, ledger, "three")
    ledger.checkpoint()
    assert ledger.verify(kit.registry, again.pin).outcome == "verified"


def test_a_record_whose_checkpoint_failed_is_kept_and_said_to_be(kit: Any, store: Store) -> None:
    """Committed but incomplete: do not append it again."""
    broken = Broken(store)
    _, ledger = kit.ledger(broken)
    broken.fails = {"write_head"}
    close = seal(RunClose(disposition="completed", records=0, failed_appends=0))
    with pytest.raises(CommittedButIncomplete) as caught:
        ledger.append("log", close, run=None, observed=kit.observed)
    assert caught.value.code == "incomplete.checkpoint"
    assert len(list(store.lines(0, 9))) == 2
    ledger.checkpoint()
    assert ledger.verify(kit.registry, ledger.pin).outcome == "verified"


def test_a_crash_after_the_genesis_is_healed_by_opening(kit: Any, store: Store) -> None:
    """The head is made before anything else is added."""
    kit.begin(store)
    ledger = kit.open(store)
    append(kit, ledger)
    append(kit, kit.open(store))
    assert kit.evidence(store).head.size == 1


def copied(store: Store, size: int, *, head: bool = True) -> MemoryStore:
    """A store that lost everything from ``size`` on, but not its head."""
    copy = MemoryStore()
    marked = store.authority_records(0)
    with store.transaction() as old:
        raw = old.read_head()
    with copy.transaction() as transaction:
        for seq, line in enumerate(store.lines(0, size)):
            transaction.insert(seq, line, is_authority=seq in marked)
        for covered, note in store.checkpoints():
            if covered <= size:
                transaction.insert_checkpoint(covered, note)
        if head and raw is not None:
            transaction.write_head(raw)
    return copy


def lost(kit: Any) -> tuple[MemoryStore, Ledger]:
    """Seven of twelve records are left; checkpoints were at 1, 6 and 12."""
    store, ledger = kit.ledger()
    kit.fill(ledger, 5)
    ledger.checkpoint()
    kit.fill(ledger, 6)
    ledger.checkpoint()
    return copied(store, 7), ledger


def test_a_shorter_store_refuses_to_append(kit: Any) -> None:
    """Also for a process that had it open; nothing is added, no checkpoint is signed."""
    short, _ = lost(kit)
    assert code_of(lambda: kit.open(short)) == "conflict.ledger-shorter"
    ledger = kit.open(short, is_recovering=True)
    assert code_of(lambda: append(kit, ledger)) == "conflict.ledger-shorter"
    assert code_of(ledger.checkpoint) == "conflict.ledger-shorter"
    assert len(list(short.lines(0, 99))) == 7


def test_a_different_foreign_or_missing_head_refuses_too(kit: Any) -> None:
    """Each with its own code, and the unchanged store goes on."""
    store, ledger = kit.ledger()
    kit.fill(ledger, 3)
    ledger.checkpoint()
    append(kit, kit.open(copied(store, 4)))
    head = kit.evidence(store).head
    for changes, code in (
        ({"last": "blake3:" + "0" * 64}, "conflict.ledger-different"),
        ({"ledger": "blake3:" + "0" * 64}, "conflict.foreign-ledger"),
    ):
        copy = copied(store, 4)
        copy.write_head(seal(msgspec.structs.replace(head, **changes)).raw)
        assert code_of(lambda c=copy: kit.open(c)) == code
    damaged = copied(store, 4)
    damaged.write_head(b"{")
    assert code_of(lambda: kit.open(damaged)) == "conflict.head-damaged"
    assert code_of(lambda: kit.open(copied(store, 4, head=False))) == "conflict.head-missing"


def statement(kit: Any, document: Any, namespace: str) -> Any:
    return kit.root().statement(document.raw, namespace)


def test_a_root_signed_recovery_goes_on_and_stays_visible(kit: Any) -> None:
    """It names what is left and what was lost; the void checkpoint is gone, the earlier ones stay."""
    short, _ = lost(kit)
    ledger = kit.open(short, is_recovering=True)
    document = ledger.recovery_statement("the disk lost its tail")
    assert (document.document.store_size, document.document.lost_size) == (7, 12)
    ref = ledger.recover(statement(kit, document, RECOVERY_NAMESPACE), observed=kit.observed)
    assert ref.seq == 7
    append(kit, ledger)
    again = kit.open(short)
    append(kit, again)
    again.checkpoint()
    report = again.verify(kit.registry, again.pin)
    assert (report.outcome, report.recoveries) == ("verified", (7,))
    assert [size for size, _ in short.checkpoints()] == [1, 6, 8, 10]


def test_a_recovery_after_a_changed_record_voids_what_no_longer_fits(kit: Any) -> None:
    """Another record 4 by a key holder: the checkpoint of 1 stays, those of 6 and 12 are void."""
    store, ledger = kit.ledger()
    kit.fill(ledger, 5)
    ledger.checkpoint()
    other = copied(store, 4)
    line = kit.forge(
        next(iter(store.lines(4, 5))), kit.signers()["driver"], lambda p: p["predicate"].update(run="1" * 32)
    )
    with other.transaction() as transaction:
        transaction.insert(4, kit.relink((*other.lines(0, 4), line), 4, kit.signers())[4], is_authority=False)
        transaction.insert(5, kit.relink((*other.lines(0, 5), line), 5, kit.signers())[5], is_authority=False)
        transaction.insert_checkpoint(6, list(store.checkpoints())[1][1])
    assert code_of(lambda: kit.open(other)) == "conflict.ledger-different"
    ledger = kit.open(other, is_recovering=True)
    ledger.recover(statement(kit, ledger.recovery_statement("changed"), RECOVERY_NAMESPACE), observed=kit.observed)
    assert [size for size, _ in other.checkpoints()] == [1, 7]


def test_a_recovery_must_name_this_loss_and_be_the_roots(kit: Any) -> None:
    """Another reason for it is fine; another size, head, purpose or root is not, nor one without a loss."""
    short, whole = lost(kit)
    ledger = kit.open(short, is_recovering=True)
    good = ledger.recovery_statement("reason")

    def go(document: Any, namespace: str = RECOVERY_NAMESPACE, seed: bytes = b"") -> Any:
        return ledger.recover(kit.root(seed).statement(document.raw, namespace), observed=kit.observed)

    for changes in ({"store_size": 6}, {"lost_size": 11}, {"lost_last": None, "lost_size": None}):
        changed = seal(msgspec.structs.replace(good.document, **changes))
        assert code_of(lambda c=changed: go(c)) == "unverified.foreign-statement"
    assert code_of(lambda: go(good, KEYRING_NAMESPACE)) == "unverified.sshsig-namespace"
    assert code_of(lambda: go(good, seed=b"mallory")) == "unverified.sshsig-key"
    no_recovery = seal(ledger.authority.genesis)
    assert code_of(lambda: go(no_recovery)) == "unverified.foreign-statement"
    plain = statement(kit, good, RECOVERY_NAMESPACE)
    assert code_of(lambda: ledger.append("log", plain, run=None, observed=kit.observed)) == "usage.recovery"
    assert code_of(lambda: whole.recover(plain, observed=kit.observed)) == "conflict.nothing-lost"
    go(good)


@pytest.mark.parametrize("seq", [7, 8])
def test_a_crash_between_a_recovery_and_its_checkpoint_is_healed(kit: Any, seq: int) -> None:
    """The recovery is the last record and names the old head: opening, or the next append, makes the checkpoint."""
    short, _ = lost(kit)
    broken = Broken(short)
    ledger = kit.open(broken, is_recovering=True)
    body = statement(kit, ledger.recovery_statement("disk"), RECOVERY_NAMESPACE)
    broken.fails = {"write_head"}
    with pytest.raises(CommittedButIncomplete):
        ledger.recover(body, observed=kit.observed)
    reopened = kit.open(short) if seq == 7 else ledger
    append(kit, reopened)
    reopened.checkpoint()
    report = reopened.verify(kit.registry, reopened.pin)
    assert (report.outcome, report.recoveries) == ("verified", (7,))


def keyring(kit: Any, ledger: Ledger, signer: Ed25519Signer, seq: int) -> Any:
    """The driver's key ends at the keyring record, and another one follows."""
    authority = ledger.authority
    old = [
        msgspec.structs.replace(entry, until_seq=seq) if entry.role == "driver" else entry
        for entry in authority.keys.entries
    ]
    new = key_entry(signer, "driver", nonce=authority.genesis.nonce, from_seq=seq + 1)
    document = seal(Keyring(ledger=authority.ledger, epoch=1, entries=as_set([*old, new])))
    return statement(kit, document, KEYRING_NAMESPACE)


def test_a_rotation_changes_the_key_for_every_process(kit: Any, store: Store) -> None:
    """The old key stops here and in a process that was open before; old records stay good."""
    _, ledger = kit.ledger(store)
    append(kit, ledger)
    elsewhere = kit.open(store)
    new = Ed25519Signer(b"\x33" * 32)
    ledger.append("log", keyring(kit, ledger, new, 2), run=None, observed=kit.observed)
    for old in (ledger, elsewhere):
        assert code_of(lambda o=old: append(kit, o)) == "unverified.key-expired"
    assert code_of(lambda: kit.open(store)) == "refused.foreign-key"
    fresh = kit.open(store, signers={**kit.signers(), "driver": new})
    append(kit, fresh)
    fresh.checkpoint()
    assert kit.payload(next(iter(store.lines(3, 4))))["predicate"]["ledger"]["epoch"] == 1
    report = fresh.verify(kit.registry, fresh.pin)
    assert (report.outcome, report.records, report.recoveries) == ("verified", 4, ())


def test_a_process_that_was_open_before_follows_a_rotation_to_its_checkpoint(kit: Any, store: Store) -> None:
    """The log key of the new epoch is looked up, not remembered."""
    _, ledger = kit.ledger(store)
    elsewhere = kit.open(store)
    ledger.append("log", keyring(kit, ledger, Ed25519Signer(b"\x33" * 32), 1), run=None, observed=kit.observed)
    assert elsewhere.checkpoint().size == 2
    assert elsewhere.authority.keys.epoch == 1


def test_a_rotation_that_breaks_a_rule_adds_nothing(kit: Any, store: Store) -> None:
    """A keyring for another place, or of another root; a ledger that holds one fails verification."""
    _, ledger = kit.ledger(store)
    new = Ed25519Signer(b"\x33" * 32)
    late = keyring(kit, ledger, new, 0)
    assert code_of(lambda: ledger.append("log", late, run=None, observed=kit.observed)) == "refused.keyring-backdated"
    good = keyring(kit, ledger, new, 1)
    foreign = kit.root(b"mallory").statement(good.document.statement.encode(), KEYRING_NAMESPACE)
    assert code_of(lambda: ledger.append("log", foreign, run=None, observed=kit.observed)) == "unverified.sshsig-key"
    assert len(list(store.lines(0, 9))) == 1
    for body, check, code in (
        (late, "schema", "refused.keyring-backdated"),
        (foreign, "signatures", "unverified.sshsig-key"),
    ):
        forged = kit.evidence(store)
        line = forge_root_statement(kit, ledger, forged.lines[0], body)
        report = kit.verify(type(forged)((*forged.lines, line), forged.checkpoints, forged.head), ledger.pin)
        assert (report.outcome, report[check].code) == ("failed", code)


def forge_root_statement(kit: Any, ledger: Ledger, genesis: bytes, body: Any) -> bytes:
    payload = kit.payload(genesis)
    payload["predicate"]["ledger"] = {"id": ledger.ledger_id, "seq": 1, "prev": line_digest(genesis), "epoch": 0}
    payload["predicate"]["body"] = msgspec.json.decode(body.raw)
    payload["predicate"]["body_blake3"] = body.digest
    from savant.contracts.digest import sha256_hex

    payload["subject"][0]["digest"]["sha256"] = sha256_hex(body.raw)
    line: bytes = kit.sign(payload, kit.signers()["log"])
    return line


def test_a_record_that_is_falsely_marked_as_a_root_statement_is_noticed(kit: Any) -> None:
    """The mark in the store is an index, never an authority."""
    store, ledger = kit.ledger()
    kit.fill(ledger, 2)
    ledger.checkpoint()
    store._authority.add(1)
    assert code_of(lambda: kit.open(store)) == "conflict.ledger-different"


def test_an_altered_line_is_never_laundered_by_a_checkpoint(kit: Any) -> None:
    """The lines are hashed again, and must lead to the last checkpoint before the next is signed."""
    store, ledger = kit.ledger()
    kit.fill(ledger, 5)
    ledger.checkpoint()
    append(kit, ledger)
    altered = copied(store, 7)
    altered._lines[3] = altered._lines[3].replace(b"a", b"b", 1)
    with pytest.raises(VerificationError) as caught:
        kit.open(altered).checkpoint()
    assert caught.value.code == "unverified.consistency"
    gap = copied(store, 7)
    del gap._lines[6 - 1]
    assert code_of(lambda: kit.open(gap)) == "conflict.ledger-different"
    hole = copied(store, 7)
    append(kit, kit.open(hole))
    del hole._lines[6]
    assert code_of(kit.open(hole).checkpoint) == "conflict.ledger-gap"
    kit.open(copied(store, 7)).checkpoint()


def test_a_checkpoint_that_is_not_ours_is_not_built_upon(kit: Any) -> None:
    """A note of another log in the store stops the next one."""
    store, ledger = kit.ledger()
    other, _ = kit.ledger(nonce=b"another")
    append(kit, ledger)
    store._checkpoints = dict(other.checkpoints())
    assert code_of(ledger.checkpoint) == "unverified.origin"


def test_a_large_body_needs_a_place(kit: Any, store: Store) -> None:
    """Refused without one; with one the line holds its digest only."""
    kept: dict[str, bytes] = {}

    class Shelf:
        def put(self, raw: bytes) -> str:
            kept[kit.note().digest] = raw
            return ""

        def get(self, digest: str) -> bytes:
            return kept[digest]

    _, ledger = kit.ledger(store)
    assert code_of(lambda: append(kit, ledger, "x" * 50_000)) == "refused.record-too-large"
    append(kit, kit.open(store, bodies=Shelf()), "x" * 50_000)
    assert len(kept) == 1
    assert len(next(iter(store.lines(1, 2)))) < 4_000


def test_modes_are_those_that_a_run_records() -> None:
    """The enumeration and the document agree."""
    from typing import get_args

    assert {mode.value for mode in Mode} == set(get_args(ModeName))


def test_the_saved_head_names_the_last_checkpoint(kit: Any, store: Store) -> None:
    """Size, last line and note."""
    _, ledger = kit.ledger(store)
    kit.fill(ledger, 2)
    checkpoint = ledger.checkpoint()
    with store.transaction() as transaction:
        raw = transaction.read_head()
    assert raw is not None
    head = accept(raw, Head).document
    assert (head.size, head.checkpoint) == (3, checkpoint.note)
    assert head.last == line_digest(next(iter(store.lines(2, 3))))
