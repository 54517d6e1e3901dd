"""Application: exactly the admitted bytes, only where they may be written, and nothing else anywhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from candidateapply.apply import Application
from runner.documents import Candidate
from runner.overlay import Content
from runner.seal import compute_evidence, seal_candidate
from savant.contracts.digest import digest
from savant.contracts.document import Sealed, seal
from savant.contracts.errors import SavantError
from savant.repository.git import Repository
from savant.repository.target import staged_paths
from savant.repository.worktree import control_state, observe_tree, worktree_facts
from tests.candidateapply.kit import (
    BASE,
    CHANGES,
    World,
    admission_receipt_of,
    decision_of,
    fingerprint,
    identity,
    refused,
    remove_worktree,
)
from tests.runner.kit import git

KINDS = {"create", "modify", "delete", "rename", "copy", "mode-change", "symlink-change", "type-change"}


def is_applied(world: World, application: Application) -> None:
    """What every good application ends with."""
    receipt, candidate = application.receipt.document, world.candidate.document
    assert receipt.disposition == "applied"
    assert receipt.detail == ""
    assert (receipt.input_digest, receipt.observed_change_digest, receipt.observed_final_digest) == (
        candidate.input_digest,
        candidate.change_digest,
        candidate.final_digest,
    )
    assert set(receipt.applied_paths) == {o.path for o in candidate.operations}
    assert world.observed(application.target) == world.final
    with Repository.open(application.target) as there:
        facts = worktree_facts(there)
        assert (facts.head, facts.branch) == (candidate.base_commit, None)
        assert staged_paths(there, world.commit) == []


def test_every_kind_is_applied_verified_and_undone_to_the_byte(world: World) -> None:
    """One candidate of every kind into a target that is made for it: applied, verified, undone, and only the worktree
    entry is new in the repository.
    """
    assert {o.kind for o in world.candidate.document.operations} == KINDS
    before = control_state(world.repository)
    old_umask = os.umask(0o077)
    try:
        application = world.applied()
    finally:
        os.umask(old_umask)
    is_applied(world, application)
    entry = world.repository.common_dir / "worktrees/target"
    assert world.said == [f"make the worktree {world.target} with its entry {entry}"]
    assert (world.target / "mode").stat().st_mode & 0o7777 == 0o755
    assert (world.target / "bin/run").stat().st_mode & 0o7777 == 0o644
    verified = world.verify(application.receipt)
    assert verified.record.document.status == "scope-compliant"
    undone = world.undo(application.receipt)
    undone.finish()
    assert world.observed() == world.base.manifest
    assert undone.receipt.document.restored_digest == world.base.manifest.digest
    assert undone.receipt.document.restored_paths == application.receipt.document.applied_paths
    assert control_state(world.repository).differences(before) == ("worktrees",)
    assert world.files.journal(world.target) is None
    assert world.files.marker(world.target) is None


@pytest.mark.parametrize("kind", ["worktree", "clone"])
def test_an_existing_target_at_the_base_is_written_to(world: World, kind: str) -> None:
    """A linked worktree and a clone of the repository do, and no control file of either changes."""
    if kind == "worktree":
        world.add_worktree()
    else:
        git(world.root, "clone", "-q", "--no-checkout", "repo", "target")
        git(world.target, "checkout", "-q", "--detach", world.commit)
    with Repository.open(world.target) as there:
        before = control_state(world.repository), control_state(there)
        is_applied(world, world.applied())
        assert world.said == [f"write to {world.target}"]
        assert (control_state(world.repository), control_state(there)) == before


def test_written_files_are_new_inodes(world: World) -> None:
    """A hard link to a file of the target is not written through."""
    world.add_worktree()
    outside = world.root / "outside"
    outside.hardlink_to(world.target / "README.md")
    world.applied()
    assert outside.read_bytes() == BASE[b"README.md"].data
    assert (world.target / "README.md").read_bytes() == b"# good day\n"


def test_empty_folders_are_not_in_the_way(world: World) -> None:
    """A folder that becomes a file may hold empty folders, which no manifest knows."""
    world.add_worktree()
    (world.target / "dir-to-file/empty/er").mkdir(parents=True)
    (world.target / "empty").mkdir()
    is_applied(world, world.applied())


def test_a_target_that_is_gone_is_consumed_no_longer(world: World) -> None:
    """After its folder was removed, the same place can be used again."""
    world.applied()
    assert refused(world.apply).code == "conflict.apply-consumed"
    remove_worktree(world, world.target)
    is_applied(world, world.applied())


def test_a_target_is_consumed_until_it_is_undone(world: World) -> None:
    """A second application of anything is refused and writes nothing; after undo it is possible."""
    application = world.applied()
    before = fingerprint(world, world.target)
    assert refused(world.apply).code == "conflict.apply-consumed"
    assert fingerprint(world, world.target) == before
    world.undo(application.receipt).finish()
    is_applied(world, world.applied())


def test_an_application_holds_its_target_until_it_is_recorded(world: World) -> None:
    """Before ``finish`` nobody else applies, undoes or recovers there; afterwards the target is consumed."""
    application = world.apply()
    assert refused(world.apply).code == "conflict.apply-locked"
    assert refused(lambda: world.undo(application.receipt)).code == "conflict.apply-locked"
    application.finish()
    assert refused(world.apply).code == "conflict.apply-consumed"


# --- refusals -----------------------------------------------------------------------------------------------------


def forged(sealed: Sealed[Any], **changes: Any) -> Sealed[Any]:
    """Another document under the digest of this one."""
    return Sealed(structs.replace(sealed.document, **changes), sealed.raw, sealed.digest)


def other_candidate(world: World) -> Sealed[Candidate]:
    """Another good candidate on the same base."""
    evidence = compute_evidence(world.base, {b"README.md": Content("regular", b"other\n")})
    return seal_candidate(world.base, evidence, identity(world.base), world.store).candidate


def chain(candidate: Sealed[Candidate], receipt: dict[str, Any] | None = None, **decided: Any) -> dict[str, Any]:
    decision = decision_of(candidate, **decided)
    return {
        "candidate": candidate,
        "decision": decision,
        "admission_receipt": admission_receipt_of(decision, **(receipt or {})),
    }


def edited(world: World, **changes: Any) -> dict[str, Any]:
    """A chain, consistent in itself, of a candidate that says something else."""
    return chain(seal(structs.replace(world.candidate.document, **changes)))


OTHER = digest(b"other")
INPUT_REFUSALS: dict[str, tuple[str, Callable[[World], dict[str, Any]]]] = {
    "waiting": ("refused.apply-not-admitted", lambda w: chain(w.candidate, outcome="waiting")),
    "refused": ("refused.apply-not-admitted", lambda w: chain(w.candidate, outcome="refused")),
    "uncertifiable": ("refused.apply-not-admitted", lambda w: chain(w.candidate, outcome="uncertifiable")),
    "another candidate": ("refused.apply-wrong-artifact", lambda w: {"candidate": other_candidate(w)}),
    "candidate under another digest": (
        "refused.apply-wrong-artifact",
        lambda w: {"candidate": forged(w.candidate, attempt_number=2)},
    ),
    "decision under another digest": (
        "refused.apply-lineage",
        lambda w: {"decision": forged(w.decision, policy_digest=OTHER)},
    ),
    "receipt under another digest": (
        "refused.apply-lineage",
        lambda w: {"admission_receipt": forged(w.admission_receipt, synthesis_receipt_digest=OTHER)},
    ),
    "receipt of another decision": (
        "refused.apply-lineage",
        lambda w: chain(w.candidate, {"decision_digest": OTHER}),
    ),
    "receipt of another candidate": (
        "refused.apply-lineage",
        lambda w: chain(w.candidate, {"candidate_digest": OTHER}),
    ),
    "receipt of another request": ("refused.apply-lineage", lambda w: chain(w.candidate, {"request_digest": OTHER})),
    "receipt of another outcome": ("refused.apply-lineage", lambda w: chain(w.candidate, {"outcome": "waiting"})),
    "another envelope": ("refused.apply-lineage", lambda w: chain(w.candidate, envelope=())),
    "another base commit": ("refused.apply-lineage", lambda w: edited(w, base_commit="sha1:" + "1" * 40)),
    "another input": ("refused.apply-lineage", lambda w: edited(w, input_digest=OTHER)),
    "another change": ("unverified.candidate-change", lambda w: edited(w, change_digest=OTHER)),
    "another final tree": ("unverified.candidate-final", lambda w: edited(w, final_digest=OTHER)),
}


@pytest.mark.parametrize("case", INPUT_REFUSALS)
def test_what_was_not_admitted_is_not_applied(world: World, case: str) -> None:
    """Only the admitted digest, with its own decision and receipt, on its own base; anything else writes nothing."""
    world.add_worktree()
    code, changes = INPUT_REFUSALS[case]
    named = changes(world)
    before = fingerprint(world, world.target)
    with pytest.raises(SavantError) as caught:
        world.apply(**named)
    assert caught.value.code == code
    assert world.said == []
    assert fingerprint(world, world.target) == before
    is_applied(world, world.applied())


def test_conditions_that_were_met_are_enough(world: World) -> None:
    """``admitted-with-conditions`` is applied as ``admitted`` is."""
    is_applied(world, world.applied(**chain(world.candidate, outcome="admitted-with-conditions")))


def hide(world: World, *flags: str) -> None:
    """Change a file so that git status says nothing."""
    git(world.target, "update-index", *flags, "kept/crlf")
    (world.target / "kept/crlf").write_bytes(b"hidden\r\n")
    assert git(world.target, "status", "--porcelain") == b""


def ignored(world: World) -> None:
    exclude = world.repository.common_dir / "info/exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_bytes(b"*.log\n")
    (world.target / "noise.log").write_bytes(b"x")
    assert git(world.target, "status", "--porcelain") == b""


def on_a_branch(world: World) -> None:
    git(world.target, "switch", "-q", "-c", "topic")


def at_another_commit(world: World) -> None:
    tree = git(world.target, "rev-parse", "HEAD^{tree}").decode().strip()
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    commit = git(world.target, *author, "commit-tree", tree, "-p", world.commit, "-m", "m").decode().strip()
    git(world.target, "checkout", "-q", "--detach", commit)


def stage(world: World) -> None:
    git(world.target, "rm", "-q", "--cached", "README.md")


TARGET_REFUSALS: dict[str, tuple[str, Callable[[World], object]]] = {
    "branch": ("refused.apply-wrong-head", on_a_branch),
    "another commit of the same tree": ("refused.apply-wrong-head", at_another_commit),
    "untracked": ("refused.apply-dirty", lambda w: (w.target / "mine").write_bytes(b"x")),
    "modified": ("refused.apply-dirty", lambda w: (w.target / "README.md").write_bytes(b"mine")),
    "deleted": ("refused.apply-dirty", lambda w: (w.target / "README.md").unlink()),
    "mode": ("refused.apply-dirty", lambda w: (w.target / "mode").chmod(0o755)),
    "ignored": ("refused.apply-dirty", ignored),
    "assume-unchanged": ("refused.apply-dirty", lambda w: hide(w, "--assume-unchanged")),
    "skip-worktree": ("refused.apply-dirty", lambda w: hide(w, "--skip-worktree")),
    "staged": ("refused.apply-dirty", stage),
    "special file": ("refused.apply-dirty", lambda w: os.mkfifo(w.target / "fifo")),
    "locked index": (
        "refused.apply-not-dedicated",
        lambda w: (w.repository.common_dir / "worktrees/target/index.lock").touch(),
    ),
    "merging": (
        "refused.apply-not-dedicated",
        lambda w: (w.repository.common_dir / "worktrees/target/MERGE_HEAD").write_text(w.commit),
    ),
}


@pytest.mark.parametrize("case", TARGET_REFUSALS)
def test_a_target_that_is_not_the_base_is_refused(world: World, case: str) -> None:
    """Every byte must be the base's and HEAD detached at it, whatever git status says; nothing is written."""
    world.add_worktree()
    code, spoil = TARGET_REFUSALS[case]
    spoil(world)
    before = fingerprint(world, world.target)
    assert refused(world.apply).code == code
    assert world.said == []
    assert fingerprint(world, world.target) == before


def plain_folder(world: World) -> Path:
    (world.root / "plain").mkdir()
    (world.root / "plain/README.md").write_bytes(b"mine")
    return world.root / "plain"


def foreign_repository(world: World) -> Path:
    git(world.root, "init", "-q", "foreign")
    return world.root / "foreign"


def bare_clone(world: World) -> Path:
    git(world.root, "clone", "-q", "--bare", "repo", "bare")
    return world.root / "bare"


def link_to_worktree(world: World) -> Path:
    (world.root / "link").symlink_to(world.add_worktree(), target_is_directory=True)
    return world.root / "link"


PLACE_REFUSALS: dict[str, tuple[str, Callable[[World], Path]]] = {
    "the checkout": ("refused.apply-invoking-checkout", lambda w: w.root / "repo"),
    "inside the checkout": ("refused.apply-invoking-checkout", lambda w: w.root / "repo/new"),
    "around the checkout": ("refused.apply-invoking-checkout", lambda w: w.root),
    "a plain folder": ("refused.apply-not-dedicated", plain_folder),
    "a file": ("refused.apply-not-dedicated", lambda w: plain_folder(w) / "README.md"),
    "inside a worktree": ("refused.apply-not-dedicated", lambda w: w.add_worktree() / "docs"),
    "another repository": ("refused.apply-not-dedicated", foreign_repository),
    "a bare clone": ("refused.apply-not-dedicated", bare_clone),
    "a link": ("refused.apply-target-link", link_to_worktree),
    "not UTF-8": ("refused.apply-target-name", lambda w: w.root / os.fsdecode(b"\xff")),
    "no parent": ("refused.target-parent", lambda w: w.root / "no/where"),
    "an odd name": ("refused.target-name", lambda w: w.root / "a b"),
}


@pytest.mark.parametrize("case", PLACE_REFUSALS)
def test_a_place_that_is_no_dedicated_target_is_refused(world: World, case: str) -> None:
    """Never the checkout that the command was started for, and nothing that is not a worktree or clone."""
    code, make = PLACE_REFUSALS[case]
    place = make(world)
    before = fingerprint(world)
    listed = sorted(world.root.rglob("*"))
    with pytest.raises(SavantError) as caught:
        world.apply(target=place)
    assert (caught.value.code, bool(caught.value.fix)) == (code, code != "refused.target-parent")
    assert world.said == []
    assert fingerprint(world) == before
    assert [path for path in sorted(world.root.rglob("*")) if "targets" not in path.parts] == listed


def test_a_bare_repository_has_no_checkout_to_spare(tmp_path: Path) -> None:
    """Where there is no checkout, the target is made all the same."""
    with World.make(tmp_path) as world:
        git(tmp_path, "clone", "-q", "--bare", "repo", "bare")
        with Repository.open(tmp_path / "bare") as bare:
            world.repository = bare
            is_applied(world, world.applied(checkout=None))


def test_the_main_checkout_is_no_target_from_a_worktree_either(world: World) -> None:
    """Started from a linked worktree, the repository's own checkout is still not dedicated."""
    git(world.root / "repo", "checkout", "-q", "--detach", world.commit)
    worktree = world.add_worktree("other")
    with Repository.open(worktree) as started:
        world.repository = started
        assert world.observed(world.root / "repo") == world.base.manifest
        assert refused(lambda: world.apply(target=world.root / "repo", checkout=worktree)).code == (
            "refused.apply-not-dedicated"
        )
        is_applied(world, world.applied(checkout=worktree))


def test_a_conversion_is_refused_by_the_name_of_its_attribute(tmp_path: Path) -> None:
    """A file that git would store with other bytes is refused before any write; the same file without CR LF is not."""
    files = {b".gitattributes": Content("regular", b"*.txt text eol=lf\n"), b"a.txt": Content("regular", b"a\n")}
    with World.make(tmp_path, files, {b"a.txt": Content("regular", b"b\r\n")}) as world:
        before = fingerprint(world)
        error = refused(world.apply)
        assert (error.code, "(text)" in error.message) == ("refused.apply-conversion", True)
        assert world.said == []
        assert fingerprint(world) == before
        assert not world.target.exists()
    (tmp_path / "good").mkdir()
    with World.make(tmp_path / "good", files, {b"a.txt": Content("regular", b"b\n")}) as world:
        is_applied(world, world.applied())


def test_the_conversion_of_the_target_counts(world: World) -> None:
    """A clone whose own configuration converts is refused, although the repository's does not."""
    git(world.root, "clone", "-q", "--no-checkout", "repo", "target")
    git(world.target, "checkout", "-q", "--detach", world.commit)
    sealed = seal_candidate(
        world.base,
        compute_evidence(world.base, {b"new.txt": Content("regular", b"one\r\ntwo\r\n")}),
        identity(world.base),
        world.store,
    )
    git(world.target, "config", "core.autocrlf", "true")
    before = fingerprint(world, world.target)
    assert refused(lambda: world.apply(**chain(sealed.candidate))).code == "refused.apply-conversion"
    assert fingerprint(world, world.target) == before
    git(world.target, "config", "core.autocrlf", "false")
    assert world.applied(**chain(sealed.candidate)).receipt.document.disposition == "applied"


def moved_submodule() -> Content:
    return Content("gitlink", b"sha1:" + b"2" * 40)


HAZARDS: dict[str, tuple[str, bytes, Content | None]] = {
    "reserved": ("refused.apply-hazard", b"docs/.GIT/config", Content("regular", b"x")),
    "case": ("refused.apply-hazard", b"readme.MD", Content("regular", b"x")),
    "escape": ("refused.apply-hazard", b"docs/out", Content("symlink", b"../../etc")),
    "control": ("refused.apply-hazard", b"docs/in", Content("symlink", b"../.git/hooks")),
    "submodule": ("refused.apply-unsupported-operation", b"vendor/sub", moved_submodule()),
    "submodule gone": ("refused.apply-unsupported-operation", b"vendor/sub", None),
}


@pytest.mark.parametrize("case", HAZARDS)
def test_hazards_are_refused_whatever_was_admitted(world: World, case: str) -> None:
    """Control paths, collisions, escaping links and moved submodules fail closed at the application, too."""
    code, path, content = HAZARDS[case]
    sealed = seal_candidate(
        world.base, compute_evidence(world.base, {path: content}), identity(world.base), world.store
    )
    before = fingerprint(world)
    assert refused(lambda: world.apply(**chain(sealed.candidate))).code == code
    assert (world.said, world.target.exists()) == ([], False)
    assert fingerprint(world) == before


@pytest.mark.parametrize("path", [b"README.md", b"docs/latest"])
@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_blob_that_cannot_be_had_is_found_before_any_write(world: World, path: bytes, how: str) -> None:
    """A missing or damaged content of the candidate, a file's or a link's, leaves everything untouched."""
    content = CHANGES[path]
    assert content is not None
    name = digest(content.data).removeprefix("blake3:")
    (blob,) = (p for p in (world.directory / "objects").rglob("*") if p.is_file() and name.endswith(p.name))
    blob.chmod(0o600)
    blob.unlink() if how == "missing" else blob.write_bytes(b"damaged")
    before = fingerprint(world)
    with pytest.raises(SavantError) as caught:
        world.apply()
    assert caught.value.code == ("unverifiable.object-missing" if how == "missing" else "unverified.object")
    assert (world.said, world.target.exists()) == ([], False)
    assert fingerprint(world) == before


# --- somebody else writes at the same time -------------------------------------------------------------------------


def test_nothing_is_written_over_what_somebody_else_wrote_meanwhile(world: World) -> None:
    """A path of the change that a person edits after the check keeps the person's bytes; the receipt says so."""
    world.add_worktree()
    world.on_announce = lambda: (world.target / "README.md").write_bytes(b"mine")
    application = world.applied(on_mismatch="restore")
    receipt = application.receipt.document
    assert receipt.disposition == "mismatch-kept"
    assert "README.md" in receipt.detail
    assert (world.target / "README.md").read_bytes() == b"mine"
    assert (world.target / "mode").stat().st_mode & 0o100 == 0
    world.on_announce = lambda: None
    assert refused(lambda: world.undo(application.receipt)).code == "conflict.undo-target-changed"


@pytest.mark.parametrize("on_mismatch", ["keep", "restore"])
def test_another_file_that_appears_is_a_mismatch(world: World, on_mismatch: str) -> None:
    """The recomputed digests, the input's too, tell; the target is kept, for what is not ours cannot be restored."""
    world.add_worktree()
    world.on_announce = lambda: (world.target / "mine").write_bytes(b"x")
    receipt = world.applied(on_mismatch=on_mismatch).receipt.document
    assert receipt.disposition == "mismatch-kept"
    assert receipt.input_digest != world.base.manifest.digest
    if on_mismatch == "keep":
        assert receipt.observed_final_digest == world.observed().digest
    assert (world.target / "mine").read_bytes() == b"x"
    readme = b"# good day\n" if on_mismatch == "keep" else BASE[b"README.md"].data
    assert (world.target / "README.md").read_bytes() == readme
    assert refused(world.apply).code == "conflict.apply-consumed"


class MeddlingStore:
    """A store during whose reads somebody removes a file that was written already."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.writing = False

    def get(self, digest_: str, **named: Any) -> bytes:
        victim = self._world.target / "copies/of/copied"
        if self.writing and victim.exists():
            victim.unlink()
        return self._world.store.get(digest_, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.store, name)


@pytest.mark.parametrize("on_mismatch", ["keep", "restore"])
def test_a_mismatch_is_kept_or_restored(world: World, on_mismatch: str) -> None:
    """``keep`` leaves the target for inspection and consumed; ``restore`` puts the base back and frees it."""
    world.add_worktree()
    store = MeddlingStore(world)
    world.on_announce = lambda: setattr(store, "writing", True)
    application = world.applied(store=store, on_mismatch=on_mismatch)
    receipt = application.receipt.document
    assert receipt.observed_final_digest != world.final.digest
    if on_mismatch == "keep":
        assert receipt.disposition == "mismatch-kept"
        assert refused(world.apply).code == "conflict.apply-consumed"
        assert world.verify(application.receipt).record.document.status == "scope-violated"
    else:
        assert receipt.disposition == "mismatch-restored"
        assert world.observed() == world.base.manifest
        world.on_announce = lambda: None
        is_applied(world, world.applied())


def test_something_in_the_way_is_a_mismatch(world: World) -> None:
    """A folder with a person's file where a new file shall be is left alone; the receipt names it."""
    world.add_worktree()

    def meddle() -> None:
        (world.target / "empty").mkdir()
        (world.target / "empty/mine").write_bytes(b"x")

    world.on_announce = meddle
    receipt = world.applied().receipt.document
    assert receipt.disposition == "mismatch-kept"
    assert "empty" in receipt.detail
    assert (world.target / "empty/mine").read_bytes() == b"x"


def test_nothing_is_written_through_a_link(world: World) -> None:
    """A folder that is swapped for a link after the check leads nowhere: outside, nothing appears."""
    world.add_worktree()
    outside = world.root / "outside"
    outside.mkdir()
    world.on_announce = lambda: (world.target / "copies").symlink_to(outside)
    receipt = world.applied().receipt.document
    assert receipt.disposition == "mismatch-kept"
    assert "copies" in receipt.detail
    assert list(outside.iterdir()) == []


def test_a_folder_where_a_file_was_deleted_is_a_mismatch(world: World) -> None:
    """What a person puts in the place of a deleted path is kept."""
    world.add_worktree()

    def meddle() -> None:
        (world.target / "gone/far/away").unlink()
        (world.target / "gone/far/away").mkdir()
        (world.target / "gone/far/away/mine").write_bytes(b"x")

    world.on_announce = meddle
    receipt = world.applied().receipt.document
    assert receipt.disposition == "mismatch-kept"
    assert receipt.input_digest == receipt.observed_final_digest  # the writes cannot be taken back in thought
    assert (world.target / "gone/far/away/mine").read_bytes() == b"x"


def test_a_failure_to_make_the_target_leaves_nothing(world: World) -> None:
    """When git makes another entry than was announced, neither target nor journal remains, and a later try works."""

    def meddle() -> None:
        git(world.root / "repo", "worktree", "add", "-q", "--detach", str(world.root / "x/target"), world.commit)

    world.on_announce = meddle
    with pytest.raises(SavantError) as caught:
        world.apply()
    assert caught.value.code == "conflict.apply-worktree-entry"
    assert not world.target.exists()
    assert world.files.pending() == []
    world.on_announce = lambda: None
    is_applied(world, world.applied())


def test_an_announcement_that_fails_stops_everything(world: World) -> None:
    """What cannot be recorded is not done."""

    def fail() -> None:
        raise SavantError("internal.ledger", "no ledger")

    world.on_announce = fail
    before = fingerprint(world)
    with pytest.raises(SavantError):
        world.apply()
    assert fingerprint(world) == before
    assert not world.target.exists()


def test_the_request_names_what_may_be_written(world: World) -> None:
    """The receipt's request is the one that was announced, of the admitted digests."""
    application = world.applied()
    assert application.receipt.document.request_digest == world.requests[-1].digest
    assert observe_tree(world.root / "repo").digest != world.base.manifest.digest  # the checkout was not filled
