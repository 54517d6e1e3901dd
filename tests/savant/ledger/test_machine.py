"""Any history of appends, checkpoints, reopenings, crashes and rotations verifies; one changed byte never does."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from savant.contracts.document import seal
from savant.contracts.errors import CommittedButIncomplete, PortError
from savant.contracts.scalars import as_set
from savant.ledger import Ed25519Signer, MemoryStore, RunClose
from savant.ledger.authority import KEYRING_NAMESPACE
from savant.ledger.documents import Keyring
from savant.ledger.keyring import key_entry
from savant.ledger.verify import Pin, PinnedCheckpoint


def _kit() -> Any:
    spec = importlib.util.spec_from_file_location("ledger_kit", Path(__file__).with_name("conftest.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.Kit()


class FailingStore(MemoryStore):
    """Fails to save its head when told to: the process died before it could."""

    fails = False

    def write_head(self, raw: bytes) -> None:
        if self.fails:
            raise PortError("port.disk", "no head today")
        super().write_head(raw)


class LedgerMachine(RuleBasedStateMachine):
    kit = _kit()

    @initialize()
    def begin(self) -> None:
        self.store = FailingStore()
        self.kit.begin(self.store)
        self.signers = self.kit.signers()
        self.ledgers = [self.kit.open(self.store)]
        self.pin = self.ledgers[0].pin
        self.texts: list[str] = []
        self.seen = [self.ledgers[0].checkpoint()]
        self.rotations = 0

    @rule(text=st.text(max_size=40), which=st.integers(0, 3))
    def append(self, text: str, which: int) -> None:
        ledger = self.ledgers[which % len(self.ledgers)]
        ref = ledger.append("driver", self.kit.note(text), run=None, observed=self.kit.observed)
        assert ref.seq == self.size() - 1
        self.texts.append(text)

    @rule(which=st.integers(0, 3))
    def checkpoint(self, which: int) -> None:
        checkpoint = self.ledgers[which % len(self.ledgers)].checkpoint()
        assert checkpoint.size == self.size()
        self.seen.append(checkpoint)

    @precondition(lambda self: len(self.ledgers) < 3)
    @rule()
    def open_another(self) -> None:
        self.ledgers.append(self.kit.open(self.store, signers=self.signers, pin=self.pin))

    @rule()
    def restart(self) -> None:
        self.ledgers = [self.kit.open(self.store, signers=self.signers, pin=self.pin)]

    @rule()
    def close_a_run_and_crash(self) -> None:
        self.store.fails = True
        body = seal(RunClose(disposition="crashed", records=0, failed_appends=0))
        try:
            self.ledgers[0].append("log", body, run=None, observed=self.kit.observed)
        except CommittedButIncomplete:
            self.store.fails = False
        else:
            raise AssertionError
        self.texts.append("")
        self.restart()

    @precondition(lambda self: self.rotations < 3)
    @rule()
    def rotate_the_driver(self) -> None:
        self.rotations += 1
        ledger, seq = self.ledgers[0], self.size()
        ledger.checkpoint()
        authority = ledger.authority
        new = Ed25519Signer(bytes([self.rotations]) * 32)
        old = [
            msgspec.structs.replace(entry, until_seq=seq)
            if entry.role == "driver" and entry.until_seq is None
            else entry
            for entry in authority.keys.entries
        ]
        entry = key_entry(new, "driver", nonce=authority.genesis.nonce, from_seq=seq + 1)
        document = Keyring(ledger=authority.ledger, epoch=authority.keys.epoch + 1, entries=as_set([*old, entry]))
        body = self.kit.root().statement(seal(document).raw, KEYRING_NAMESPACE)
        ledger.append("log", body, run=None, observed=self.kit.observed)
        self.signers = {**self.signers, "driver": new}
        self.texts.append("")
        self.restart()

    @precondition(lambda self: len(self.texts) > 0)
    @rule(data=st.data())
    def one_changed_byte_is_detected(self, data: st.DataObject) -> None:
        self.ledgers[0].checkpoint()
        evidence = self.kit.evidence(self.store)
        which = data.draw(st.integers(0, len(evidence.lines) - 1))
        line = evidence.lines[which]
        at = data.draw(st.integers(0, len(line) - 1))
        byte = data.draw(st.integers(0, 255).filter(lambda value: value != line[at]))
        changed = (*evidence.lines[:which], line[:at] + bytes([byte]) + line[at + 1 :], *evidence.lines[which + 1 :])
        report = self.kit.verify(type(evidence)(changed, evidence.checkpoints, evidence.head), self.pin)
        assert report.outcome == "failed"

    @precondition(lambda self: len(self.texts) > 0)
    @rule(data=st.data())
    def a_cut_tail_is_detected(self, data: st.DataObject) -> None:
        self.ledgers[0].checkpoint()
        evidence = self.kit.evidence(self.store)
        left = data.draw(st.integers(0, len(evidence.lines) - 1))
        report = self.kit.verify(type(evidence)(evidence.lines[:left], evidence.checkpoints, evidence.head), self.pin)
        assert report.outcome == "failed"

    def size(self) -> int:
        with self.store.transaction() as transaction:
            return transaction.tail().size

    @invariant()
    def the_whole_verifies_and_extends_every_checkpoint_that_was_ever_handed_out(self) -> None:
        if not hasattr(self, "store"):
            return
        assert self.size() == len(self.texts) + 1
        evidence = self.kit.evidence(self.store)
        last = self.seen[-1]
        pin = Pin(self.pin.ledger, self.pin.root_keyid, PinnedCheckpoint(last.size, last.root))
        report = self.kit.verify(evidence, pin)
        assert report.outcome in {"verified", "incomplete"}, report.first_failure
        assert (report.outcome == "verified") == (report.covered == self.size())


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=20, stateful_step_count=15, deadline=None)
