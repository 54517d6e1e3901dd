"""The seal and its check: hazards that are introduced, artifacts that are complete, tampering that is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec import structs

from runner.content import (
    CandidateTree,
    blob_digests,
    change_set_of,
    load_candidate,
    load_change_set,
    verify_candidate,
)
from runner.documents import Candidate
from runner.overlay import Content
from runner.seal import CandidateIdentity, SealedCandidate, check_seal, compute_evidence, read_back, seal_candidate
from savant.contracts.digest import digest
from savant.contracts.errors import RefusedInput, Unverifiable, VerificationError
from savant.store.objects import FileObjectStore, MemoryObjectStore
from tests.runner.kit import DictBase

IDENTITY = CandidateIdentity(
    session_digest=digest(b"session"),
    workspace_digest=digest(b"workspace"),
    plan_digest=digest(b"plan"),
    generation=1,
    attempt_number=1,
    base_commit="sha1:" + "1" * 40,
)
BASE: Mapping[bytes, Content] = {
    b"README.md": Content("regular", b"hello\n"),
    b"docs/guide.md": Content("regular", b"guide\n"),
    b"src/a.py": Content("regular", b"a\n"),
    b"src/b.py": Content("executable", b"b\n"),
    b"sub": Content("gitlink", b"sha1:" + b"2" * 40),
}
CHANGES: Mapping[bytes, Content | None] = {
    b"README.md": Content("regular", b"changed\n"),
    b"docs/guide.md": None,
    b"docs/moved.md": Content("regular", b"guide\n"),
    b"docs/link": Content("symlink", b"moved.md"),
    b"src/b.py": Content("regular", b"b\n"),
    b"new/file": Content("regular", b"new\n"),
    b"sub": Content("gitlink", b"sha1:" + b"3" * 40),
}


def link(target: bytes) -> Content:
    return Content("symlink", target)


def sealed_into(store: MemoryObjectStore | FileObjectStore, base: DictBase | None = None) -> SealedCandidate:
    base = base or DictBase(BASE)
    return seal_candidate(base, compute_evidence(base, CHANGES), IDENTITY, store)


HAZARDS: dict[str, tuple[bytes, Content, str]] = {
    "case collision": (b"readme.md", Content("regular", b"x"), "hazard.case-collision"),
    "folder collision": (b"Docs/x", Content("regular", b"x"), "hazard.case-collision"),
    "absolute link": (b"l", link(b"/etc/passwd"), "hazard.symlink-escape"),
    "climbing link": (b"docs/l", link(b"../../x"), "hazard.symlink-escape"),
    "control link": (b"l", link(b".git"), "hazard.symlink-control"),
    "looping link": (b"l", link(b"l"), "hazard.symlink-loop"),
}


@pytest.mark.parametrize("name", sorted(HAZARDS))
def test_a_hazard_is_refused_when_introduced_and_left_alone_in_the_base(name: str) -> None:
    """The same path is a problem, with its code, when the candidate brings it, and none when the base has it."""
    path, content, code = HAZARDS[name]
    base = DictBase(BASE)
    found = check_seal(base, compute_evidence(base, {path: content}))
    assert [(problem.code, problem.path) for problem in found] == [(code, path)]
    assert found[0].message
    old = DictBase({**BASE, path: content})
    assert check_seal(old, compute_evidence(old, {b"src/a.py": Content("regular", b"other\n")})) == []


def test_a_sound_change_has_no_problem_and_a_submodule_is_carried() -> None:
    """Links inside the tree and every kind of change pass; a moved submodule is sealed under its own name."""
    base = DictBase(BASE)
    evidence = compute_evidence(base, CHANGES)
    assert check_seal(base, evidence) == []
    assert {op.path: op.kind for op in evidence.operations} == {
        "README.md": "modify",
        "docs/guide.md": "delete",
        "docs/link": "symlink-change",
        "docs/moved.md": "rename",
        "new/file": "create",
        "src/b.py": "mode-change",
        "sub": "gitlink-change",
    }


def test_a_sealed_candidate_is_whole_in_the_store(tmp_path: Path) -> None:
    """Documents and blobs are stored under their digests, and what is read back is what was computed."""
    base = DictBase(BASE)
    with FileObjectStore(tmp_path / "objects") as store:
        sealed = sealed_into(store)
        candidate = sealed.candidate.document
        assert load_candidate(store, sealed.candidate.digest) == sealed.candidate
        assert load_change_set(store, candidate.change_digest) == sealed.change_set
        assert (candidate.input_digest, candidate.final_digest) == (base.manifest.digest, sealed.final_manifest.digest)
        assert set(store.digests()) == {
            sealed.candidate.digest,
            sealed.change_set.digest,
            *blob_digests(candidate.operations),
        }
        assert sealed_into(store) == sealed
        assert read_back(base, sealed.candidate.digest, store) == sealed


def test_a_candidate_tree_reads_base_and_store() -> None:
    """The tree shows every path of the final manifest, changed ones from the store, one by one and in bulk."""
    store = MemoryObjectStore()
    base = DictBase(BASE)
    tree = CandidateTree(base, sealed_into(store).candidate.document, store)
    expected = {path: content for path, content in {**BASE, **CHANGES}.items() if content is not None}
    assert list(tree.paths()) == sorted(expected)
    assert {path: tree.mode(path) for path in expected} == {path: content.mode for path, content in expected.items()}
    files = {path: content.data for path, content in expected.items() if content.mode != "gitlink"}
    assert {path: tree.read(path) for path in files} == files
    assert dict(tree.read_many(files)) == files
    assert b"README.md" not in base.reads[1:]
    assert (tree.mode(b"docs"), tree.mode(b"docs/guide.md")) == (None, None)
    for path in (b"docs/guide.md", b"sub", b"none"):
        with pytest.raises(RefusedInput) as caught:
            tree.read(path)
        assert caught.value.code == "refused.no-such-path"


TAMPERED: dict[str, tuple[Callable[[Candidate], Candidate], str]] = {
    "input": (lambda c: structs.replace(c, input_digest=digest(b"")), "unverified.candidate-input"),
    "change": (lambda c: structs.replace(c, change_digest=digest(b"")), "unverified.candidate-change"),
    "final": (lambda c: structs.replace(c, final_digest=digest(b"")), "unverified.candidate-final"),
    "label": (
        lambda c: structs.replace(
            c, operations=(structs.replace(c.operations[0], policy_change=True), *c.operations[1:])
        ),
        "unverified.candidate-operations",
    ),
}


@pytest.mark.parametrize("name", sorted(TAMPERED))
def test_every_member_of_a_candidate_is_recomputed(name: str) -> None:
    """A candidate that says something else about its base or change than they give is refused; the true one is not."""
    tamper, code = TAMPERED[name]
    base = DictBase(BASE)
    sealed = sealed_into(MemoryObjectStore())
    with pytest.raises(VerificationError) as caught:
        verify_candidate(base, tamper(sealed.candidate.document), sealed.change_set.document)
    assert caught.value.code == code
    assert verify_candidate(base, sealed.candidate.document, sealed.change_set.document) == sealed.final_manifest


def test_a_tree_of_other_operations_is_no_tree() -> None:
    """A candidate whose operations are not its change is refused before a file of it can be read."""
    store = MemoryObjectStore()
    candidate = sealed_into(store).candidate.document
    short = structs.replace(candidate, operations=candidate.operations[1:])
    with pytest.raises(VerificationError):
        CandidateTree(DictBase(BASE), short, store)
    moved = DictBase({**BASE, b"other": Content("regular", b"")})
    with pytest.raises(VerificationError) as caught:
        CandidateTree(moved, candidate, store)
    assert caught.value.code == "unverified.candidate-input"
    assert change_set_of(candidate) == sealed_into(store).change_set.document


def test_a_damaged_or_missing_object_is_found(tmp_path: Path) -> None:
    """A flipped byte in a blob or document, and one that is gone, each stop the reading with their own error."""
    base = DictBase(BASE)
    root = tmp_path / "objects"
    with FileObjectStore(root) as store:
        sealed = sealed_into(store)
        for name in (digest(b"changed\n"), sealed.change_set.digest, sealed.candidate.digest):
            place = root / name[7:9] / name[9:]
            good = place.read_bytes()
            place.chmod(0o600)
            place.write_bytes(bytes([good[0] ^ 1]) + good[1:])
            with pytest.raises(VerificationError) as caught:
                read_back(base, sealed.candidate.digest, store)
            assert caught.value.code == "unverified.object"
            place.unlink()
            with pytest.raises(Unverifiable):
                read_back(base, sealed.candidate.digest, store)
            place.write_bytes(good)
        assert read_back(base, sealed.candidate.digest, store) == sealed


def test_a_blob_of_another_size_is_found() -> None:
    """A state that names the right bytes under a wrong size is refused when it is read."""
    store = MemoryObjectStore()
    base = DictBase({b"a": Content("regular", b"1")})
    evidence = compute_evidence(base, {b"a": Content("regular", b"22")})
    change = evidence.change_set.document.changes[0]
    assert change.after is not None
    state = structs.replace(change.after, size_bytes=3)
    operation = structs.replace(evidence.operations[0], after=state)
    store.put(b"22")
    from runner.content import read_state

    assert read_state(store, change.after) == b"22"
    with pytest.raises(VerificationError) as caught:
        read_state(store, operation.after)  # type: ignore[arg-type]
    assert caught.value.code == "unverified.blob-size"


def test_what_equals_the_base_is_no_change() -> None:
    """Touched paths that came back to what the base holds, and deletions of folders' names, leave no trace."""
    base = DictBase(BASE)
    same = compute_evidence(base, {b"src/a.py": BASE[b"src/a.py"], b"docs": None, b"none": None})
    assert same.change_set.document.changes == ()
    assert same.final_manifest == base.manifest
    assert same.blobs == {}
