"""What verification detects: each attack beside the untouched ledger, with the check and the code that names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from savant.contracts.envelope import encode_envelope, parse_envelope
from savant.contracts.errors import RefusedInput, Unverifiable
from savant.ledger import MemoryStore
from savant.ledger.checkpoint import sign_checkpoint
from savant.ledger.edwards import ORDER
from savant.ledger.merkle import leaf_hash, tree_root
from savant.ledger.record import line_digest
from savant.ledger.verify import CHECKS, Pin, PinnedCheckpoint, split_lines

Attack = Callable[[Any, Any], Any]


def with_lines(evidence: Any, lines: Any) -> Any:
    return replace(evidence, lines=tuple(lines))


def edited(payload: dict[str, Any]) -> None:
    payload["predicate"]["observed"]["at_ms"] += 1


def edit(kit: Any, e: Any) -> Any:
    return with_lines(e, [*e.lines[:4], kit.unsigned_edit(e.lines[4], edited), *e.lines[5:]])


def edit_relink(kit: Any, e: Any) -> Any:
    return with_lines(e, kit.relink(edit(kit, e).lines, 5, None))


def edit_body(kit: Any, e: Any) -> Any:
    def change(payload: dict[str, Any]) -> None:
        payload["predicate"]["body"]["text"] = "another"

    return with_lines(e, [*e.lines[:4], kit.unsigned_edit(e.lines[4], change), *e.lines[5:]])


def reorder(kit: Any, e: Any) -> Any:
    return with_lines(e, [*e.lines[:4], e.lines[5], e.lines[4], *e.lines[6:]])


def delete(kit: Any, e: Any) -> Any:
    return with_lines(e, [*e.lines[:4], *e.lines[5:]])


def delete_relink(kit: Any, e: Any) -> Any:
    return with_lines(e, kit.relink(delete(kit, e).lines, 4, None))


def duplicate(kit: Any, e: Any) -> Any:
    return with_lines(e, [*e.lines[:5], e.lines[4], *e.lines[5:]])


def truncate(kit: Any, e: Any) -> Any:
    return with_lines(e, e.lines[:-1])


def append_after_head(kit: Any, e: Any) -> Any:
    extra = kit.relink((*e.lines, e.lines[-1]), len(e.lines), kit.signers())
    return with_lines(e, extra)


def swap_key(kit: Any, e: Any) -> Any:
    other = kit.signers(b"other")["driver"]
    return with_lines(e, [*e.lines[:4], kit.forge(e.lines[4], other, lambda p: None), *e.lines[5:]])


def swap_keyid(kit: Any, e: Any) -> Any:
    body, _, signature = parse_envelope(e.lines[4])
    line = encode_envelope(body, keyid=kit.signers()["apply"].keyid, signature=signature)
    return with_lines(e, [*e.lines[:4], line, *e.lines[5:]])


def foreign_kind(kit: Any, e: Any) -> Any:
    """The driver's key signs what only the runner may, and says so."""
    line = kit.forge(e.lines[1], kit.signers()["driver"], lambda p: p["predicate"].update(role="driver"))
    return with_lines(e, kit.relink((e.lines[0], line, *e.lines[2:]), 2, kit.signers()))


def false_role(kit: Any, e: Any) -> Any:
    """The driver's key signs as the runner."""
    line = kit.forge(e.lines[1], kit.signers()["driver"], lambda p: None)
    return with_lines(e, kit.relink((e.lines[0], line, *e.lines[2:]), 2, kit.signers()))


def malleate(kit: Any, e: Any) -> Any:
    body, keyid, signature = parse_envelope(e.lines[-1])
    larger = (int.from_bytes(signature[32:], "little") + ORDER).to_bytes(32, "little")
    return with_lines(e, [*e.lines[:-1], encode_envelope(body, keyid=keyid, signature=signature[:32] + larger)])


def respace(kit: Any, e: Any) -> Any:
    return with_lines(e, [*e.lines[:-1], e.lines[-1].replace(b'","', b'", "', 1)])


def strip_signature(kit: Any, e: Any) -> Any:
    value = msgspec.json.decode(e.lines[-1])
    value["signatures"] = []
    return with_lines(e, [*e.lines[:-1], msgspec.json.encode(value, order="sorted")])


def second_signature(kit: Any, e: Any) -> Any:
    value = msgspec.json.decode(e.lines[-1])
    value["signatures"] *= 2
    return with_lines(e, [*e.lines[:-1], msgspec.json.encode(value, order="sorted")])


def oversize(kit: Any, e: Any) -> Any:
    return with_lines(e, [*e.lines[:-1], e.lines[-1] + b" " * 40_000])


def unknown_version(kit: Any, e: Any) -> Any:
    def change(payload: dict[str, Any]) -> None:
        payload["predicateType"] = payload["predicateType"].replace("/v1", "/v2")
        payload["predicate"]["body_kind"] = payload["predicate"]["body_kind"].replace("/v1", "/v2")

    line = kit.forge(e.lines[-1], kit.signers()["driver"], change)
    return with_lines(e, [*e.lines[:-1], line])


def open_predicate(kit: Any, e: Any) -> Any:
    line = kit.forge(e.lines[-1], kit.signers()["driver"], lambda p: p["predicate"].update(extra=1))
    return with_lines(e, [*e.lines[:-1], line])


def wrong_epoch(kit: Any, e: Any) -> Any:
    signer = kit.signers()[kit.payload(e.lines[-1])["predicate"]["role"]]
    line = kit.forge(e.lines[-1], signer, lambda p: p["predicate"]["ledger"].update(epoch=1))
    return with_lines(e, [*e.lines[:-1], line])


def splice(kit: Any, e: Any) -> Any:
    """A record of another ledger of the same owner and keys."""
    other, _ = kit.sample(nonce=b"another")
    return with_lines(e, [*e.lines[:-1], other.lines[-1]])


def second_genesis(kit: Any, e: Any) -> Any:
    def change(payload: dict[str, Any]) -> None:
        payload["predicate"]["ledger"].update(id=line_digest(e.lines[0]))

    line = kit.forge(e.lines[0], kit.signers()["log"], change)
    return with_lines(e, kit.relink((*e.lines[:-1], line), len(e.lines) - 1, kit.signers()))


def rewrite_with_role_keys(kit: Any, e: Any) -> Any:
    return with_lines(
        e,
        kit.relink(
            (*e.lines[:4], kit.forge(e.lines[4], kit.signers()["driver"], edited), *e.lines[5:]), 5, kit.signers()
        ),
    )


def empty(kit: Any, e: Any) -> Any:
    return with_lines(e, ())


def empty_all(kit: Any, e: Any) -> Any:
    return replace(e, lines=(), checkpoints=(), head=None)


def no_head(kit: Any, e: Any) -> Any:
    return replace(e, head=None)


def no_checkpoints(kit: Any, e: Any) -> Any:
    return replace(e, checkpoints=())


def foreign_head(kit: Any, e: Any) -> Any:
    return replace(e, head=msgspec.structs.replace(e.head, ledger="blake3:" + "0" * 64))


def false_head(kit: Any, e: Any) -> Any:
    return replace(e, head=msgspec.structs.replace(e.head, last="blake3:" + "0" * 64))


def head_of_another_tree(kit: Any, e: Any) -> Any:
    note = sign_checkpoint(kit.signers()["log"], origin(kit, e), 12, bytes(32)).note
    return replace(e, head=msgspec.structs.replace(e.head, checkpoint=note))


def head_with_old_checkpoint(kit: Any, e: Any) -> Any:
    return replace(e, head=msgspec.structs.replace(e.head, checkpoint=e.checkpoints[1][1]))


def origin(kit: Any, e: Any) -> str:
    return str(e.checkpoints[0][1].split("\n")[0])


def false_last_root(kit: Any, e: Any) -> Any:
    return replace(e, checkpoints=(*e.checkpoints[:-1], signed(kit, e, 12, bytes(32))))


def false_old_root(kit: Any, e: Any) -> Any:
    return replace(e, checkpoints=(e.checkpoints[0], signed(kit, e, 6, bytes(32)), e.checkpoints[2]))


def signed(kit: Any, e: Any, size: int, root: bytes) -> tuple[int, str]:
    return size, sign_checkpoint(kit.signers()["log"], origin(kit, e), size, root).note


def foreign_log_key(kit: Any, e: Any) -> Any:
    root = tree_root(map(leaf_hash, e.lines))
    note = sign_checkpoint(kit.signers(b"other")["log"], origin(kit, e), 12, root).note
    return replace(e, checkpoints=(*e.checkpoints[:-1], (12, note)))


def foreign_origin(kit: Any, e: Any) -> Any:
    other, _ = kit.sample(nonce=b"another")
    return replace(e, checkpoints=(*e.checkpoints[:-1], other.checkpoints[-1]))


def misfiled(kit: Any, e: Any) -> Any:
    return replace(e, checkpoints=(*e.checkpoints[:-1], (12, e.checkpoints[1][1])))


def unordered(kit: Any, e: Any) -> Any:
    return replace(e, checkpoints=(e.checkpoints[1], e.checkpoints[0], e.checkpoints[2]))


def twice(kit: Any, e: Any) -> Any:
    return replace(e, checkpoints=(*e.checkpoints, e.checkpoints[-1]))


def headless(kit: Any, e: Any) -> Any:
    """The genesis is gone: nobody knows whose ledger it is."""
    return with_lines(e, e.lines[1:])


def garbage(kit: Any, e: Any) -> Any:
    return with_lines(e, [b"\xff", *e.lines[1:]])


ATTACKS: list[tuple[Attack, str, str]] = [
    (edit, "signatures", "unverified.signature"),
    (edit, "chain", "unverified.link"),
    (edit, "tree", "unverified.root"),
    (edit, "consistency", "unverified.root"),
    (edit_relink, "signatures", "unverified.signature"),
    (edit_body, "schema", "unverified.digest"),
    (reorder, "chain", "unverified.sequence"),
    (delete, "chain", "unverified.sequence"),
    (delete, "checkpoint", "unverified.truncated"),
    (delete_relink, "signatures", "unverified.signature"),
    (duplicate, "chain", "unverified.sequence"),
    (truncate, "checkpoint", "unverified.truncated"),
    (truncate, "head", "unverified.shorter-than-head"),
    (swap_key, "roles", "unverified.unknown-key"),
    (swap_keyid, "signatures", "unverified.signature"),
    (swap_keyid, "roles", "unverified.role"),
    (foreign_kind, "roles", "unverified.role"),
    (false_role, "roles", "unverified.role"),
    (malleate, "signatures", "unverified.signature"),
    (respace, "bytes", "refused.not-canonical"),
    (strip_signature, "bytes", "refused.signature-count"),
    (second_signature, "bytes", "refused.signature-count"),
    (oversize, "bytes", "refused.record-too-large"),
    (unknown_version, "schema", "refused.unknown-kind"),
    (open_predicate, "schema", "refused.malformed"),
    (wrong_epoch, "chain", "unverified.epoch"),
    (splice, "chain", "unverified.foreign-record"),
    (second_genesis, "schema", "refused.root-statement"),
    (rewrite_with_role_keys, "tree", "unverified.root"),
    (empty, "chain", "unverified.empty"),
    (empty, "checkpoint", "unverified.truncated"),
    (empty, "pin", "unverified.foreign-ledger"),
    (empty_all, "chain", "unverified.empty"),
    (empty_all, "checkpoint", "unverified.no-checkpoint"),
    (no_head, "head", "unverified.head-missing"),
    (no_checkpoints, "checkpoint", "unverified.no-checkpoint"),
    (foreign_head, "head", "unverified.foreign-head"),
    (false_head, "head", "unverified.head-differs"),
    (head_of_another_tree, "head", "unverified.root"),
    (head_with_old_checkpoint, "head", "unverified.checkpoint-size"),
    (false_last_root, "tree", "unverified.root"),
    (false_old_root, "consistency", "unverified.root"),
    (foreign_log_key, "checkpoint", "unverified.checkpoint-key"),
    (foreign_origin, "checkpoint", "unverified.origin"),
    (misfiled, "checkpoint", "unverified.checkpoint-size"),
    (unordered, "checkpoint", "unverified.checkpoint-order"),
    (twice, "checkpoint", "unverified.checkpoint-order"),
    (headless, "schema", "refused.genesis"),
    (headless, "checkpoint", "unverified.no-genesis"),
    (garbage, "bytes", "refused.malformed"),
]


def test_the_untouched_ledger_is_verified(kit: Any, sample: Any) -> None:
    """The control of every attack: all checks pass, and the pin makes it more than self-consistent."""
    evidence, pin = sample
    report = kit.verify(evidence, pin)
    assert [(c.name, c.status) for c in report.checks] == [
        (name, "not-shown" if name == "bodies" else "pass") for name in CHECKS
    ]
    assert (report.outcome, report.records, report.covered, report.first_failure) == ("verified", 12, 12, None)
    assert (report.ledger, report.root_keyid) == (pin.ledger, pin.root_keyid)
    assert report.last == line_digest(evidence.lines[-1])
    assert report.root == tree_root(map(leaf_hash, evidence.lines))
    assert kit.verify(evidence, Pin()).outcome == "self-consistent"
    assert kit.verify(evidence).outcome == "self-consistent"


@pytest.mark.parametrize(("attack", "check", "code"), ATTACKS, ids=[f"{a.__name__}-{c}" for a, c, _ in ATTACKS])
def test_an_attack_is_named(kit: Any, sample: Any, attack: Attack, check: Any, code: str) -> None:
    """The outcome is failed, and this check says why."""
    evidence, pin = sample
    report = kit.verify(attack(kit, evidence), pin)
    assert report.outcome == "failed"
    assert (report[check].status, report[check].code) == ("fail", code)
    assert report.first_failure is not None


def test_the_first_failing_record_is_named(kit: Any, sample: Any) -> None:
    """An edit of record 4 fails there, and the link after it one later."""
    report = kit.verify(edit(kit, sample[0]), sample[1])
    assert (report["signatures"].seq, report["chain"].seq, report["consistency"].seq) == (4, 5, 5)
    assert report.first_failure is not None
    assert (report.first_failure.name, report.first_failure.seq) == ("signatures", 4)
    assert report.covered == 1


def test_records_after_the_last_checkpoint_are_not_shown_to_be_final(kit: Any, sample: Any) -> None:
    """Appended by a key holder, or by an honest process that died: nothing fails, and the tail is named."""
    report = kit.verify(append_after_head(kit, sample[0]), sample[1])
    assert report.outcome == "incomplete"
    assert (report["checkpoint"].status, report["checkpoint"].seq) == ("not-shown", 12)
    assert report["checkpoint"].code == "unverifiable.uncovered-tail"
    assert (report.records, report.covered) == (13, 12)


def test_a_whole_ledger_in_the_place_of_another_fails_against_the_pin(kit: Any, sample: Any) -> None:
    """Own keys and own root, or the same owner's second ledger; by itself each is consistent."""
    _, pin = sample
    stranger, _ = kit.sample(seed=b"mallory", root_seed=b"mallory")
    sibling, _ = kit.sample(nonce=b"another")
    assert kit.verify(stranger).outcome == kit.verify(sibling).outcome == "self-consistent"
    assert kit.verify(stranger, pin)["pin"].code == "unverified.foreign-ledger"
    assert kit.verify(stranger, Pin(root_keyid=pin.root_keyid))["pin"].code == "unverified.foreign-root"
    assert kit.verify(sibling, pin)["pin"].code == "unverified.foreign-ledger"
    assert kit.verify(sibling, Pin(root_keyid=pin.root_keyid)).outcome == "verified"


def rolled_back(kit: Any, evidence: Any) -> Any:
    """Lines, checkpoints and head of an earlier day."""
    head = msgspec.structs.replace(
        evidence.head, size=6, last=line_digest(evidence.lines[5]), checkpoint=evidence.checkpoints[1][1]
    )
    return replace(evidence, lines=evidence.lines[:6], checkpoints=evidence.checkpoints[:2], head=head)


def rewritten_with_every_online_key(kit: Any, evidence: Any) -> Any:
    lines = rewrite_with_role_keys(kit, evidence).lines
    checkpoints = tuple(signed(kit, evidence, n, tree_root(map(leaf_hash, lines[:n]))) for n in (1, 6, 12))
    head = msgspec.structs.replace(evidence.head, last=line_digest(lines[-1]), checkpoint=checkpoints[-1][1])
    return replace(evidence, lines=lines, checkpoints=checkpoints, head=head)


@pytest.mark.parametrize(
    ("attack", "code"),
    [(rolled_back, "unverified.rolled-back"), (rewritten_with_every_online_key, "unverified.pinned-root")],
)
def test_only_a_pinned_checkpoint_shows_a_rollback_or_a_rewrite_with_all_keys(
    kit: Any, sample: Any, attack: Attack, code: str
) -> None:
    """Without it such a ledger is verified: the table of the design says so, and so does this test."""
    evidence, pin = sample
    pinned = replace(pin, checkpoint=PinnedCheckpoint(12, tree_root(map(leaf_hash, evidence.lines))))
    assert kit.verify(evidence, pinned).outcome == "verified"
    assert kit.verify(attack(kit, evidence), pin).outcome == "verified"
    report = kit.verify(attack(kit, evidence), pinned)
    assert (report.outcome, report["consistency"].code) == ("failed", code)


def test_a_pinned_checkpoint_alone_names_no_ledger(kit: Any, sample: Any) -> None:
    """It shows no rollback, and still nobody vouched for the root."""
    pinned = Pin(checkpoint=PinnedCheckpoint(12, tree_root(map(leaf_hash, sample[0].lines))))
    assert kit.verify(sample[0], pinned).outcome == "self-consistent"


class Shelf:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.error: Exception | None = None

    def put(self, raw: bytes) -> str:
        from savant.contracts.digest import digest

        self.kept[digest(raw)] = raw
        return digest(raw)

    def get(self, digest: str) -> bytes:
        if self.error is not None:
            raise self.error
        return self.kept[digest]


def test_bodies_elsewhere_are_shown_only_when_handed_in(kit: Any) -> None:
    """Not handed in: incomplete. Handed in: verified. Missing: incomplete. Changed or refused: failed."""
    shelf, store = Shelf(), MemoryStore()
    kit.begin(store)
    ledger = kit.open(store, bodies=shelf)
    ledger.append("driver", kit.note("x" * 40_000), run=None, observed=kit.observed)
    ledger.checkpoint()
    evidence = kit.evidence(store)
    report = kit.verify(evidence, ledger.pin)
    assert (report.outcome, report["bodies"].code) == ("incomplete", "unverifiable.body-elsewhere")
    assert kit.verify(evidence, ledger.pin, bodies=shelf).outcome == "verified"
    shelf.error = Unverifiable("unverifiable.object-missing", "gone")
    report = kit.verify(evidence, ledger.pin, bodies=shelf)
    assert (report.outcome, report["bodies"].code) == ("incomplete", "unverifiable.body-missing")
    shelf.error = None
    shelf.kept = {name: kit.note("y").raw for name in shelf.kept}
    report = kit.verify(evidence, ledger.pin, bodies=shelf)
    assert (report.outcome, report["bodies"].code) == ("failed", "unverified.digest")


def test_lines_are_split_only_where_they_end() -> None:
    """Any chunking gives the same lines; an unterminated or endless line is refused."""
    data = b"one\ntwo\n\nthree\n"
    expected = [b"one", b"two", b"", b"three"]
    for size in range(1, 8):
        assert list(split_lines(data[at : at + size] for at in range(0, len(data), size))) == expected
    for bad, code in ((data + b"x", "refused.unterminated-line"), (b"x" * 70_000, "refused.record-too-large")):
        with pytest.raises(RefusedInput) as caught:
            list(split_lines([bad]))
        assert caught.value.code == code


@pytest.mark.parametrize("at_once", [1, 5, 12, 100])
def test_the_answer_does_not_depend_on_how_many_signatures_are_checked_at_once(
    kit: Any, sample: Any, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The earliest bad signature is named, in one batch or in many."""
    from savant.ledger import verify as module

    monkeypatch.setattr(module, "_SIGNATURES_AT_ONCE", at_once)
    evidence, pin = sample
    assert kit.verify(evidence, pin).outcome == "verified"
    twice_edited = edit(
        kit, with_lines(evidence, [*evidence.lines[:9], *edit(kit, evidence).lines[4:5], *evidence.lines[10:]])
    )
    report = kit.verify(twice_edited, pin)
    assert (report["signatures"].status, report["signatures"].seq) == ("fail", 4)
