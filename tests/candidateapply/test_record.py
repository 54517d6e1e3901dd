"""Verification: an independent look, recorded whatever it says, bound to one application."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from savant.contracts.digest import digest
from savant.contracts.document import seal
from savant.contracts.errors import VerificationError
from tests.candidateapply.kit import World, decision_of, fingerprint, refused
from tests.runner.kit import git

OTHER = digest(b"other")


def test_a_compliant_target_is_recorded(world: World) -> None:
    """The record names verification, application, decision and candidate; nothing is written."""
    application = world.applied()
    before = fingerprint(world, world.target)
    verified = world.verify(application.receipt)
    seen, record = verified.verification.document, verified.record.document
    assert (seen.status, seen.violations) == ("scope-compliant", ())
    assert (seen.observed_final_digest, seen.observed_change_digest, seen.head_commit) == (
        world.candidate.document.final_digest,
        world.candidate.document.change_digest,
        world.candidate.document.base_commit,
    )
    assert (
        record.application_receipt_digest,
        record.decision_digest,
        record.candidate_digest,
        record.verification_digest,
        record.status,
        record.observed_change_digest,
    ) == (
        application.receipt.digest,
        world.decision.digest,
        world.candidate.digest,
        verified.verification.digest,
        "scope-compliant",
        seen.observed_change_digest,
    )
    assert fingerprint(world, world.target) == before


@pytest.mark.parametrize("hidden", [False, True])
def test_a_target_changed_afterwards_is_a_recorded_violation(world: World, hidden: bool) -> None:
    """What is there now is data in the record, also where git status hides it; the receipt is what it was."""
    application = world.applied()
    raw = application.receipt.raw
    if hidden:
        git(world.target, "update-index", "--assume-unchanged", "kept/crlf")
    (world.target / "kept/crlf").write_bytes(b"mine")
    verified = world.verify(application.receipt)
    assert verified.record.document.status == "scope-violated"
    assert [v.path for v in verified.verification.document.violations] == ["kept/crlf"]
    assert verified.record.document.observed_change_digest != world.candidate.document.change_digest
    assert application.receipt.raw == raw
    (world.target / "kept/crlf").write_bytes(b"one\r\ntwo\r\n")
    assert world.verify(application.receipt).record.document.status == "scope-compliant"


def move_head(world: World) -> None:
    tree = git(world.target, "rev-parse", "HEAD^{tree}").decode().strip()
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    git(
        world.target,
        "reset",
        "-q",
        "--soft",
        git(world.target, *author, "commit-tree", tree, "-m", "m").decode().strip(),
    )


SEEN: dict[str, tuple[str, Callable[[World], object]]] = {
    "another HEAD": ("stale", move_head),
    "gone": ("uncertifiable", lambda w: shutil.rmtree(w.target)),
    "a special file": ("uncertifiable", lambda w: os.mkfifo(w.target / "fifo")),
    "no repository": ("uncertifiable", lambda w: (w.target / ".git").unlink()),
    "a HEAD that names nothing": (
        "uncertifiable",
        lambda w: (w.repository.common_dir / "worktrees/target/HEAD").write_text("1" * 40 + "\n"),
    ),
}


@pytest.mark.parametrize("case", SEEN)
def test_what_cannot_be_certified_is_recorded_as_such(world: World, case: str) -> None:
    """A moved HEAD is stale, a target that cannot be read uncertifiable; neither is an error."""
    application = world.applied()
    status, spoil = SEEN[case]
    spoil(world)
    assert world.verify(application.receipt).record.document.status == status


def test_a_repository_that_lost_its_objects_is_uncertifiable(world: World) -> None:
    """When the base cannot be read, nothing is claimed."""
    application = world.applied()

    def fail(path: bytes) -> bytes:
        raise VerificationError("unverified.base-content", f"{path!r} is damaged.")

    world.base.read = fail  # type: ignore[method-assign]
    assert world.verify(application.receipt).record.document.status == "uncertifiable"


FOREIGN: dict[str, Callable[[World, Any], dict[str, Any]]] = {
    "another decision": lambda w, r: {"decision": decision_of(w.candidate, policy_digest=OTHER)},
    "another candidate": lambda w, r: {"candidate": seal(structs.replace(w.candidate.document, attempt_number=2))},
    "a decision of another candidate": lambda w, r: {"decision": decision_of(w.candidate, candidate_digest=OTHER)},
    "a decision under another digest": lambda w, r: {
        "decision": type(w.decision)(
            structs.replace(w.decision.document, policy_digest=OTHER), w.decision.raw, w.decision.digest
        )
    },
}


@pytest.mark.parametrize("case", FOREIGN)
def test_only_a_foreign_lineage_is_refused(world: World, case: str) -> None:
    """Receipt, decision and candidate must belong together."""
    receipt = world.applied().receipt
    own = world.decision, world.candidate
    for name, value in FOREIGN[case](world, receipt).items():
        setattr(world, name, value)
    assert refused(lambda: world.verify(receipt)).code == "refused.verify-lineage"
    world.decision, world.candidate = own
    assert world.verify(receipt).record.document.status == "scope-compliant"


def test_another_base_is_a_foreign_lineage(world: World) -> None:
    """A target is compared with the base that the candidate was made from."""
    receipt = world.applied().receipt
    own = world.base
    with World.make_other(world) as moved:
        world.base = moved.base
        assert refused(lambda: world.verify(receipt)).code == "refused.verify-lineage"
    world.base = own
