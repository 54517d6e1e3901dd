"""Recovery: a process that ends at any instant leaves what the next command completes or rolls back."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec import structs

from candidateapply.apply import Application, carry_out
from candidateapply.documents import Journal
from candidateapply.recover import Blocked, Cleared, Recovered, recover, words
from candidateapply.undo import Undone
from runner.overlay import Content
from runner.snapshot import BaseSnapshot
from savant.contracts.digest import digest
from savant.contracts.errors import PortError, SavantError
from savant.repository.worktree import control_state
from tests.candidateapply.kit import World, crash_at, fingerprint, refused, remove_worktree

pytestmark = pytest.mark.crash

SMALL = {
    b"dir/a": Content("regular", b"a\n"),
    b"file": Content("regular", b"file\n"),
    b"kept": Content("regular", b"kept\n"),
    b"link": Content("symlink", b"kept"),
    b"old/er/name": Content("regular", b"name\n"),
}
SWAPS = {
    b"dir/a": None,
    b"dir": Content("symlink", b"kept"),
    b"file": None,
    b"file/inside": Content("executable", b"inside\n"),
    b"link": None,
    b"link/inside": Content("regular", b"inside\n"),
    b"old/er/name": None,
    b"old": Content("regular", b"name\n"),
}
"""Every way in which one type takes another's place, the smallest."""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[World]:
    with World.make(tmp_path, SMALL, SWAPS) as made:
        yield made


def base_of(world: World) -> Callable[[str], BaseSnapshot]:
    def take(commit: str) -> BaseSnapshot:
        assert commit == world.candidate.document.base_commit
        return world.base

    return take


def recovered(world: World) -> list[tuple[Journal, Recovered]]:
    return recover(world.directory, world.store, base_of(world))


def applying(world: World) -> Callable[[], None]:
    """The work of a whole application, in a child process."""

    def work() -> None:
        with world.again() as own:
            own.applied()

    return work


def writing(world: World) -> Callable[[], None]:
    """The part of an application from its journal on, as :func:`candidateapply.apply.apply_candidate` does it."""
    application = world.apply()
    (journal,) = world.files.pending()
    application.finish()
    world.undo(application.receipt).finish()

    def work() -> None:
        with world.again() as own, ExitStack() as held:
            held.enter_context(own.files.locked(own.target))
            own.files.begin(journal)
            carry_out(journal, own.base, own.store, own.files, held.pop_all()).finish()

    return work


def undoing(world: World, application: Application) -> Callable[[], None]:
    request = world.requests[-1]

    def work() -> None:
        with world.again() as own:
            own.undo(application.receipt, request=request).finish()

    return work


def recovering(world: World) -> Callable[[], None]:
    def work() -> None:
        with world.again() as own:
            for _, outcome in recover(own.directory, own.store, base_of(own)):
                assert isinstance(outcome, Application | Undone), outcome
                outcome.finish()

    return work


def settle(world: World) -> str:
    """What the next command does after a crash; proves that the target is one thing or the other."""
    outcomes = recovered(world)
    if not outcomes:
        marker = world.files.marker(world.target)
        assert world.observed() == (world.base.manifest if marker is None else world.final)
        return "nothing was begun" if marker is None else "everything was done"
    ((journal, outcome),) = outcomes
    assert isinstance(outcome, Application | Undone), outcome
    outcome.finish()
    assert words(journal, outcome).endswith("was completed")
    assert world.files.pending() == []
    is_undo = journal.action == "undo"
    assert world.observed() == (world.base.manifest if is_undo else world.final)
    assert (world.files.marker(world.target) is None) == is_undo
    return "completed"


def test_a_crash_at_every_instant_of_an_application(small: World) -> None:
    """Before every single call that changes a disk: nothing was begun, or the next command completes it. Then undo
    gives the base again.
    """
    small.add_worktree()
    first = small.applied()
    small.undo(first.receipt).finish()
    before = control_state(small.repository)
    step = 1
    while crash_at(step, applying(small)) and settle(small) == "nothing was begun":
        step += 1
    assert step > 3
    small.undo(first.receipt).finish()
    work = writing(small)
    seen: Counter[str] = Counter()
    step = 1
    while crash_at(step, work):
        ended = settle(small)
        seen[ended] += 1
        if ended != "nothing was begun":
            small.undo(first.receipt).finish()
            assert small.observed() == small.base.manifest
        step += 1
    assert small.observed() == small.final
    assert (seen["nothing was begun"] >= 3, seen["completed"] >= 40, seen["everything was done"]) == (True, True, 1)
    assert control_state(small.repository) == before


def test_a_crash_at_any_instant_of_an_undo(small: World) -> None:
    """The application still stands, or the next command completes the undo."""
    small.add_worktree()
    application = small.applied()
    seen: Counter[str] = Counter()
    for step in range(1, 1000, 2):
        if not crash_at(step, undoing(small, application), in_journal=True):
            break
        ended = settle(small)
        seen[ended] += 1
        if ended != "everything was done":  # the application stands no longer
            assert small.applied().receipt == application.receipt
    assert small.observed() == small.base.manifest
    assert (seen["everything was done"], seen["completed"] >= 20, seen["nothing was begun"] <= 1) == (1, True, True)


def test_a_crash_of_the_recovery_itself(small: World) -> None:
    """A recovery that ends half-way is recovered like any other."""
    small.add_worktree()
    receipt = small.applied().receipt
    small.undo(receipt).finish()
    rounds = 0
    for step in (12, 26, 40):
        inner = 1
        while True:
            assert crash_at(step, applying(small), in_journal=True)
            is_ended = crash_at(inner, recovering(small))
            assert settle(small) == ("completed" if is_ended else "everything was done")
            small.undo(receipt).finish()
            rounds += 1
            if not is_ended:
                break
            inner += 8
    assert rounds >= 15


def test_a_crash_while_the_target_is_made(small: World) -> None:
    """A worktree that is half-made is taken away; one that is made is completed. The same command works afterwards."""
    before = control_state(small.repository)
    seen: Counter[str] = Counter()
    for step in range(1, 1000, 5):
        if not crash_at(step, applying(small)):
            break
        for journal, outcome in recovered(small):
            seen[type(outcome).__name__] += 1
            if isinstance(outcome, Cleared):
                assert "was rolled back" in words(journal, outcome)
                assert not small.target.exists()
                assert control_state(small.repository) == before
            else:
                assert isinstance(outcome, Application)
                outcome.finish()
                assert small.observed() == small.final
        assert small.files.pending() == []
        if not small.target.exists():
            small.applied()
        assert small.observed() == small.final
        remove_worktree(small, small.target)
    assert seen["Cleared"] >= 3
    assert seen["Application"] >= 5


def half_applied(world: World, step: int = 24) -> None:
    """A target in which an application was interrupted in the middle of its writes."""
    world.add_worktree()
    assert crash_at(step, applying(world), in_journal=True)
    assert world.observed() not in (world.base.manifest, world.final)
    assert len(world.files.pending()) == 1


def test_an_interrupted_target_waits_for_recovery(small: World) -> None:
    """Until then nothing is applied or undone there, and other targets are free."""
    application = small.applied()
    small.undo(application.receipt).finish()
    remove_worktree(small, small.target)
    half_applied(small)
    before = fingerprint(small, small.target)
    assert refused(small.apply).code == "conflict.apply-recovery-pending"
    assert refused(lambda: small.undo(application.receipt)).code == "conflict.undo-recovery-pending"
    assert fingerprint(small, small.target) == before
    assert small.applied(target=small.root / "other").receipt.document.disposition == "applied"


def test_what_is_going_on_is_left_alone(small: World) -> None:
    """Recovery does not touch the target of an application that is not finished, and finishes the other one."""
    half_applied(small)
    going_on = small.apply(target=small.root / "other")
    ((journal, outcome),) = recovered(small)
    assert journal.target == str(small.target)
    assert isinstance(outcome, Application)
    assert recovered(small) == []
    going_on.finish()
    outcome.finish()
    assert small.files.pending() == []
    assert recovered(small) == []


def test_a_journal_that_was_ended_meanwhile_is_no_journal(small: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process finished between the listing and the lock is not done again."""
    half_applied(small)
    pending = small.files.pending()
    ((_, outcome),) = recovered(small)
    assert isinstance(outcome, Application)
    outcome.finish()
    monkeypatch.setattr("candidateapply.journal.TargetFiles.pending", lambda _: pending)
    assert recovered(small) == []


@pytest.mark.parametrize("action", ["apply", "undo"])
def test_what_a_person_changed_after_the_crash_is_not_lost(small: World, action: str) -> None:
    """An application ends with the person's bytes kept; an undo waits until the person has moved them."""
    if action == "apply":
        half_applied(small)
    else:
        small.add_worktree()
        application = small.applied()
        assert crash_at(24, undoing(small, application), in_journal=True)
    (small.target / "old").unlink(missing_ok=True)
    (small.target / "old").write_bytes(b"mine")
    ((journal, outcome),) = recovered(small)
    assert (small.target / "old").read_bytes() == b"mine"
    if action == "apply":
        assert isinstance(outcome, Application)
        outcome.finish()
        assert outcome.receipt.document.disposition == "mismatch-kept"
        assert "old" in words(journal, outcome)
        return
    assert isinstance(outcome, Blocked)
    assert outcome.error.code == "conflict.undo-target-changed"
    assert "cannot be finished" in words(journal, outcome)
    (small.target / "old").write_bytes(b"name\n")
    assert settle(small) == "completed"


def blob(world: World, data: bytes) -> Path:
    name = digest(data).removeprefix("blake3:")
    (found,) = (p for p in (world.directory / "objects").rglob("*") if p.is_file() and name.endswith(p.name))
    return found


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_without_a_content_the_application_is_rolled_back(small: World, how: str) -> None:
    """When the candidate's bytes cannot be had any more, the base is restored and the target is free again."""
    half_applied(small, step=16)
    place = blob(small, b"inside\n")
    place.chmod(0o600)
    place.unlink() if how == "missing" else place.write_bytes(b"damaged")
    ((journal, outcome),) = recovered(small)
    assert isinstance(outcome, Application)
    outcome.finish()
    assert outcome.receipt.document.disposition == "mismatch-restored"
    assert "was rolled back" in words(journal, outcome)
    assert small.observed() == small.base.manifest
    assert small.files.marker(small.target) is None


def test_without_any_content_the_target_is_kept(small: World) -> None:
    """When the base's bytes are gone as well, nothing is pretended."""
    half_applied(small)
    for data in (b"inside\n", b"name\n", b"a\n", b"file\n"):
        blob(small, data).unlink()
    ((_, outcome),) = recovered(small)
    assert isinstance(outcome, Application)
    assert outcome.receipt.document.disposition == "mismatch-kept"
    assert "could not be restored" in outcome.receipt.document.detail


def test_a_target_that_is_gone_is_forgotten(small: World) -> None:
    """Its journal and marker go with it, and that is said."""
    half_applied(small)
    remove_worktree(small, small.target)
    ((journal, outcome),) = recovered(small)
    assert isinstance(outcome, Cleared)
    assert "the target is gone" in words(journal, outcome)
    assert small.files.pending() == []
    assert small.files.marker(small.target) is None


def test_left_temporary_files_are_removed_and_the_base_s_are_not(tmp_path: Path) -> None:
    """A name like that of a temporary file is no reason to remove what the base holds."""
    name = b".savant-" + b"0" * 24 + b".tmp"
    with World.make(tmp_path, {**SMALL, name: Content("regular", b"kept\n")}, SWAPS) as world:
        half_applied(world)
        (world.target / (".savant-" + "1" * 24 + ".tmp")).write_bytes(b"half a fi")
        assert settle(world) == "completed"
        assert (world.target / os.fsdecode(name)).read_bytes() == b"kept\n"


def creating(world: World) -> Journal:
    """A journal of a target that is being made, and nothing else."""
    application = world.apply(target=world.root / "other")
    (journal,) = world.files.pending()
    application.finish()
    entry = world.repository.common_dir / "worktrees/target"
    journal = structs.replace(journal, phase="creating", target=str(world.target), entry=str(entry))
    world.files.begin(journal)
    return journal


def test_a_half_made_worktree_of_git_is_taken_away(small: World) -> None:
    """Git was ended between its two links: the folder that names our entry goes, the entry with it."""
    journal = creating(small)
    small.target.mkdir()
    Path(journal.entry).mkdir()
    (small.target / ".git").write_text(f"gitdir: {journal.entry}\n")
    ((_, outcome),) = recovered(small)
    assert isinstance(outcome, Cleared)
    assert not small.target.exists()
    assert not Path(journal.entry).exists()


def test_an_empty_folder_is_left(small: World) -> None:
    """The folder that was there before the target was made stays."""
    creating(small)
    small.target.mkdir()
    ((_, outcome),) = recovered(small)
    assert isinstance(outcome, Cleared)
    assert small.target.is_dir()
    assert small.applied().receipt.document.disposition == "applied"


def test_a_person_s_file_in_a_half_made_target_is_not_lost(small: World) -> None:
    """It blocks this target alone until the person has saved it."""
    creating(small)
    small.add_worktree()
    (small.target / "mine").write_bytes(b"x")
    ((_, outcome),) = recovered(small)
    assert isinstance(outcome, Blocked)
    assert outcome.error.code == "conflict.apply-target-changed"
    assert (small.target / "mine").read_bytes() == b"x"
    (small.target / "mine").unlink()
    ((_, outcome),) = recovered(small)
    assert isinstance(outcome, Cleared)
    assert not small.target.exists()


def test_a_base_that_cannot_be_had_blocks(small: World) -> None:
    """The journal stays for a later command."""
    half_applied(small)

    def fail(commit: str) -> BaseSnapshot:
        raise PortError("port.missing-object", f"{commit} is missing.")

    ((_, outcome),) = recover(small.directory, small.store, fail)
    assert isinstance(outcome, Blocked)
    assert settle(small) == "completed"


@pytest.mark.parametrize("suffix", ["journal", "marker"])
def test_a_damaged_file_of_ours_is_named(small: World, suffix: str) -> None:
    """A journal or marker that does not parse is refused with its path, never ignored."""
    half_applied(small)
    (place,) = small.directory.glob(f"targets/*.{suffix}")
    place.write_bytes(b"{}")
    if suffix == "marker":
        (journal,) = small.directory.glob("targets/*.journal")
        journal.unlink()
    error = refused(lambda: recovered(small) if suffix == "journal" else small.apply())
    assert (error.code, str(place) in error.message) == ("refused.apply-journal", True)


def test_of_two_processes_exactly_one_applies(small: World) -> None:
    """Both start at once: one is done, the other is refused; the target is the one's."""
    small.add_worktree()
    for _ in range(5):
        start, go = os.pipe()
        children = []
        for _ in range(2):
            pid = os.fork()
            if pid == 0:
                os._exit(_race(small, start))
            children.append(pid)
        os.write(go, b"12")
        ended = sorted(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children)
        os.close(start)
        os.close(go)
        assert ended == [0, 3]
        assert small.observed() == small.final
        assert small.files.pending() == []
        remove_worktree(small, small.target)
        small.add_worktree()
        small.files.release(small.target)


def _race(world: World, start: int) -> int:
    try:
        with world.again() as own:
            os.read(start, 1)
            own.applied()
    except SavantError as error:
        return 3 if error.code in ("conflict.apply-locked", "conflict.apply-consumed") else 4
    except BaseException:  # noqa: BLE001 - reported by the exit status
        return 5
    return 0
