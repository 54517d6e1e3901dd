"""A small ledger with known keys, and the means to forge one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from savant.contracts import canonical
from savant.contracts.document import Document, Sealed, accept, seal
from savant.contracts.envelope import PAYLOAD_TYPE, encode_envelope, pae, parse_envelope
from savant.contracts.registry import Registry
from savant.contracts.scalars import Text
from savant.contracts.signing import Signer
from savant.contracts.twins import CountingEntropy
from savant.ledger import DOCUMENTS, ROLES, Ed25519Signer, Ed25519Verifier, Ledger, MemoryStore, Root, observation
from savant.ledger.documents import Head, Role
from savant.ledger.place import begin
from savant.ledger.port import Store
from savant.ledger.record import line_digest
from savant.ledger.verify import Pin, VerificationReport, verify_ledger


class DriverNote(Document, frozen=True, kw_only=True, tag="savant.driver.note/v1"):
    text: Text


class RunnerNote(Document, frozen=True, kw_only=True, tag="savant.runner.note/v1"):
    text: Text


class Evidence(msgspec.Struct, frozen=True):
    """What a verifier is handed."""

    lines: tuple[bytes, ...]
    checkpoints: tuple[tuple[int, str], ...]
    head: Head | None


@dataclass
class Kit:
    verifier: Ed25519Verifier = field(default_factory=Ed25519Verifier)
    registry: Registry = field(default_factory=lambda: Registry([*DOCUMENTS, DriverNote, RunnerNote]))

    def signers(self, seed: bytes = b"") -> dict[Role, Signer]:
        entropy = CountingEntropy(b"signers" + seed)
        return {role: Ed25519Signer.generate(entropy) for role in ROLES}

    def root_signer(self, seed: bytes = b"") -> Ed25519Signer:
        return Ed25519Signer.generate(CountingEntropy(b"root" + seed))

    def root(self, seed: bytes = b"") -> Root:
        return Root.of(self.root_signer(seed))

    observed = observation(1_700_000_000_000)

    def note(self, text: str = "hello") -> Sealed[Document]:
        return seal(DriverNote(text=text))

    def runner_note(self, text: str = "hello") -> Sealed[Document]:
        return seal(RunnerNote(text=text))

    def begin(self, store: Store, *, seed: bytes = b"", nonce: bytes = b"nonce", root_seed: bytes = b"") -> None:
        begin(
            store,
            self.signers(seed),
            self.root(root_seed),
            entropy=CountingEntropy(nonce),
            observed=self.observed,
            verifier=self.verifier,
        )

    def open(self, store: Store, **options: Any) -> Ledger:
        return Ledger(store, options.pop("signers", None) or self.signers(), verifier=self.verifier, **options)

    def ledger(self, store: Store | None = None, **options: Any) -> tuple[Store, Ledger]:
        store = MemoryStore() if store is None else store
        self.begin(store, **options)
        seed = options.get("seed", b"")
        return store, self.open(store, signers=self.signers(seed))

    def fill(self, ledger: Ledger, count: int, *, start: int = 0) -> None:
        for number in range(start, start + count):
            body, role = (self.note, "driver") if number % 2 else (self.runner_note, "runner")
            ledger.append(role, body(f"note {number}"), run=None, observed=self.observed)  # type: ignore[arg-type]

    def evidence(self, store: Store) -> Evidence:
        with store.transaction() as transaction:
            raw = transaction.read_head()
            size = transaction.tail().size
        head = None if raw is None else accept(raw, Head).document
        return Evidence(tuple(store.lines(0, size)), tuple(store.checkpoints()), head)

    def verify(self, evidence: Evidence, pin: Pin | None = None, **options: Any) -> VerificationReport:
        return verify_ledger(
            evidence.lines,
            evidence.checkpoints,
            evidence.head,
            self.registry,
            pin,
            verifier=self.verifier,
            **options,
        )

    def sample(self, **options: Any) -> tuple[Evidence, Pin]:
        """Genesis and eleven notes; checkpoints of 1, 6 and 12."""
        store, ledger = self.ledger(**options)
        self.fill(ledger, 5)
        ledger.checkpoint()
        self.fill(ledger, 6, start=5)
        ledger.checkpoint()
        return self.evidence(store), ledger.pin

    def payload(self, line: bytes) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(parse_envelope(line)[0])
        return value

    def sign(self, payload: Mapping[str, Any], signer: Signer) -> bytes:
        raw = canonical.encode(dict(payload))
        return encode_envelope(raw, keyid=signer.keyid, signature=signer.sign(pae(PAYLOAD_TYPE, raw)))

    def forge(self, line: bytes, signer: Signer, change: Callable[[dict[str, Any]], object]) -> bytes:
        """The line with its payload changed and signed anew."""
        payload = self.payload(line)
        change(payload)
        return self.sign(payload, signer)

    def unsigned_edit(self, line: bytes, change: Callable[[dict[str, Any]], object]) -> bytes:
        """The line with its payload changed under the old signature."""
        _, keyid, signature = parse_envelope(line)
        payload = self.payload(line)
        change(payload)
        return encode_envelope(canonical.encode(payload), keyid=keyid, signature=signature)

    def relink(self, lines: tuple[bytes, ...], start: int, signers: Mapping[str, Signer] | None) -> tuple[bytes, ...]:
        """Every ``prev`` and ``seq`` from ``start`` on made right again, signed anew if the keys are known."""
        done = list(lines[:start])
        for seq, line in enumerate(lines[start:], start):

            def change(payload: dict[str, Any], seq: int = seq) -> None:
                payload["predicate"]["ledger"].update(seq=seq, prev=line_digest(done[seq - 1]))

            role = self.payload(line)["predicate"]["role"]
            done.append(
                self.unsigned_edit(line, change) if signers is None else self.forge(line, signers[role], change)
            )
        return tuple(done)


@pytest.fixture(scope="session")
def kit() -> Kit:
    return Kit()


@pytest.fixture(scope="session")
def sample(kit: Kit) -> tuple[Evidence, Pin]:
    return kit.sample()
