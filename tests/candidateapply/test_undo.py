"""Undo: the base to the byte, or a refusal that loses nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from runner.overlay import Content
from runner.seal import compute_evidence, seal_candidate
from savant.contracts.digest import digest
from savant.contracts.document import seal
from savant.contracts.errors import SavantError, VerificationError
from savant.repository.worktree import control_state
from tests.candidateapply.kit import World, admission_receipt_of, decision_of, fingerprint, identity, refused
from tests.runner.kit import git


def put_back(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x")


EDITS: dict[str, tuple[str, Callable[[World], object]]] = {
    "an applied file": ("README.md", lambda w: (w.target / "README.md").write_bytes(b"mine")),
    "an unchanged file": ("kept/crlf", lambda w: (w.target / "kept/crlf").write_bytes(b"mine")),
    "a new file": ("mine", lambda w: (w.target / "mine").write_bytes(b"x")),
    "a file that is gone": ("copies/of/copied", lambda w: (w.target / "copies/of/copied").unlink()),
    "a mode": ("mode", lambda w: (w.target / "mode").chmod(0o644)),
    "a deleted path that is back": (
        "gone/far/away",
        lambda w: put_back(w.target / "gone/far/away"),
    ),
    "a base file put back": ("README.md", lambda w: (w.target / "README.md").write_bytes(b"# hello\n")),
    "a special file": ("fifo", lambda w: os.mkfifo(w.target / "fifo")),
}


@pytest.mark.parametrize("case", EDITS)
def test_a_changed_target_is_not_undone(world: World, case: str) -> None:
    """Whatever a person changed since is named and kept, and nothing else is touched."""
    application = world.applied()
    path, edit = EDITS[case]
    edit(world)
    before = fingerprint(world, world.target)
    error = refused(lambda: world.undo(application.receipt))
    assert (error.code, path in error.message) == ("conflict.undo-target-changed", True)
    assert fingerprint(world, world.target) == before


def test_an_edit_between_look_and_write_is_kept(world: World) -> None:
    """A path that changes after the whole target was compared is refused before any write."""
    application = world.applied()
    world.on_announce = lambda: (world.target / "README.md").write_bytes(b"mine")
    assert refused(lambda: world.undo(application.receipt)).code == "conflict.undo-target-changed"
    assert (world.target / "README.md").read_bytes() == b"mine"
    assert (world.target / "mode").stat().st_mode & 0o100 == 0o100


def test_a_target_that_is_not_the_base_afterwards_is_no_success(world: World) -> None:
    """A file that appears while the undo writes makes it fail, with its path; the journal waits."""
    application = world.applied()
    world.on_announce = lambda: (world.target / "mine").write_bytes(b"x")
    with pytest.raises(VerificationError) as caught:
        world.undo(application.receipt)
    assert (caught.value.code, "mine" in caught.value.message) == ("unverified.undo", True)
    assert len(world.files.pending()) == 1
    assert world.files.marker(world.target) is not None


def test_work_in_git_is_no_change_of_files(world: World) -> None:
    """Staging in the target does not stop the undo, and the undo does not touch the index."""
    application = world.applied()
    git(world.target, "add", "README.md")
    before = control_state(world.repository)
    world.undo(application.receipt).finish()
    assert world.observed() == world.base.manifest
    assert control_state(world.repository) == before
    assert b"good day" in git(world.target, "diff", "--cached", "README.md")


def test_the_store_is_enough(world: World) -> None:
    """What the application replaced is in the store: the repository's objects are not asked again."""
    application = world.applied()

    def fail(path: bytes) -> bytes:
        raise VerificationError("unverified.base-content", f"{path!r} is damaged.")

    world.base.read = fail  # type: ignore[method-assign]
    world.undo(application.receipt).finish()
    assert world.observed() == world.base.manifest


OTHER = digest(b"other")


def other(world: World) -> Any:
    evidence = compute_evidence(world.base, {b"README.md": Content("regular", b"other\n")})
    return seal_candidate(world.base, evidence, identity(world.base), world.store).candidate


LINEAGE: dict[str, Callable[[World, Any], dict[str, Any]]] = {
    "another candidate": lambda w, r: {"candidate": other(w)},
    "a receipt of another candidate": lambda w, r: {
        "receipt": seal(structs.replace(r.document, candidate_digest=OTHER))
    },
    "a receipt of another request": lambda w, r: {"receipt": seal(structs.replace(r.document, request_digest=OTHER))},
    "a request of another candidate": lambda w, r: {
        "request": seal(structs.replace(w.requests[-1].document, candidate_digest=OTHER))
    },
    "a candidate under another digest": lambda w, r: {
        "candidate": type(w.candidate)(
            structs.replace(w.candidate.document, attempt_number=2), w.candidate.raw, w.candidate.digest
        )
    },
}


@pytest.mark.parametrize("case", LINEAGE)
def test_only_its_own_receipt_undoes_an_application(world: World, case: str) -> None:
    """Receipt, request and candidate must belong together."""
    application = world.applied()
    changes = LINEAGE[case](world, application.receipt)
    before = fingerprint(world, world.target)
    assert refused(lambda: world.undo(**{"receipt": application.receipt, **changes})).code == "refused.undo-lineage"
    assert fingerprint(world, world.target) == before
    world.undo(application.receipt).finish()


def test_another_base_is_refused(world: World) -> None:
    """The base that is restored is the one that the candidate was made from."""
    application = world.applied()
    with World.make_other(world) as moved:
        assert refused(lambda: world.undo(application.receipt, base=moved.base)).code == "refused.undo-lineage"
    world.undo(application.receipt).finish()


def test_a_target_without_this_application_is_refused(world: World) -> None:
    """Nothing to undo before, after, or where another application stands."""
    first = world.applied()
    request = world.requests[-1]
    world.undo(first.receipt).finish()
    assert refused(lambda: world.undo(first.receipt, request=request)).code == "refused.undo-not-applied"
    candidate = other(world)
    decision = decision_of(candidate)
    second = world.applied(candidate=candidate, decision=decision, admission_receipt=admission_receipt_of(decision))
    before = fingerprint(world, world.target)
    assert refused(lambda: world.undo(first.receipt, request=request)).code == "refused.undo-not-applied"
    assert fingerprint(world, world.target) == before
    world.undo(second.receipt, candidate=candidate).finish()
    assert world.observed() == world.base.manifest


def test_an_undo_holds_its_target_until_it_is_recorded(world: World) -> None:
    """Before ``finish`` the target stays consumed and locked."""
    application = world.applied()
    undone = world.undo(application.receipt)
    assert refused(world.apply).code == "conflict.apply-locked"
    assert world.files.marker(world.target) is not None
    undone.finish()
    assert world.applied().receipt.document.disposition == "applied"


def test_a_damaged_base_content_is_found_before_any_write(world: World) -> None:
    """When the store holds something else under a replaced content's digest, the undo does not begin."""
    application = world.applied()
    name = digest(b"# hello\n").removeprefix("blake3:")
    (blob,) = (p for p in (world.directory / "objects").rglob("*") if p.is_file() and name.endswith(p.name))
    blob.chmod(0o600)
    blob.write_bytes(b"damaged")
    before = fingerprint(world, world.target)
    with pytest.raises(SavantError) as caught:
        world.undo(application.receipt)
    assert caught.value.code == "unverified.object"
    assert fingerprint(world, world.target) == before
