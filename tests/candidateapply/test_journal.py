"""The files of a target: durable, exclusive, and under one name for one place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec import structs

from candidateapply.documents import Marker
from candidateapply.journal import TargetFiles, canonical_target
from candidateapply.observing import changed_by_others, is_git_file_of, is_in_state
from candidateapply.writing import is_temporary, remove_empty_folders, write_changes
from runner.documents import FileState, PathChange
from savant.contracts.digest import digest
from savant.contracts.errors import Conflict, PortError, RefusedInput, SavantError
from savant.files.tree import open_root, temporary_name
from savant.store.objects import MemoryObjectStore
from tests.candidateapply.kit import refused


def marker(target: Path) -> Marker:
    return Marker(target=str(target), candidate_digest=digest(b"c"), request_digest=digest(b"r"))


def test_a_marker_is_of_one_application(tmp_path: Path) -> None:
    """The same marker again is no error, so that recovery can repeat it; another one is."""
    places, target = TargetFiles(tmp_path / "savant"), tmp_path / "target"
    with places.locked(target):
        places.consume(marker(target))
        places.consume(marker(target))
        other = structs.replace(marker(target), request_digest=digest(b"other"))
        assert refused(lambda: places.consume(other)).code == "conflict.apply-consumed"
        assert places.marker(target) == marker(target)
        places.release(target)
        assert places.marker(target) is None
        places.consume(other)
        assert places.marker(target) == other


def test_one_place_has_one_name(tmp_path: Path) -> None:
    """Links above a target are resolved, so that its lock and marker are found by every spelling."""
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to("real")
    assert canonical_target(tmp_path / "alias/target") == tmp_path / "real/target"
    places = TargetFiles(tmp_path / "savant")
    with places.locked(tmp_path / "real/target"):
        places.consume(marker(tmp_path / "alias/target"))
        assert places.marker(tmp_path / "real/target") is not None
        with pytest.raises(Conflict), places.locked(tmp_path / "alias/target"):
            pass
    with places.locked(tmp_path / "alias/target"):
        pass


def test_no_folder_means_no_journal(tmp_path: Path) -> None:
    """Looking creates nothing."""
    assert TargetFiles(tmp_path / "savant").pending() == []
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fails_is_a_port_error(tmp_path: Path) -> None:
    """A file where the folder must be, a folder where the marker must be: typed errors."""
    (tmp_path / "savant").write_bytes(b"")
    with pytest.raises(PortError), TargetFiles(tmp_path / "savant").locked(tmp_path / "target"):
        pass
    places = TargetFiles(tmp_path / "good")
    with places.locked(tmp_path / "target"):
        places.consume(marker(tmp_path / "target"))
        (place,) = (tmp_path / "good/targets").glob("*.marker")
        place.unlink()
        place.mkdir()
        with pytest.raises(PortError):
            places.release(tmp_path / "target")


def test_an_error_inside_the_lock_is_not_taken_for_the_lock_s(tmp_path: Path) -> None:
    """Only somebody else's lock is ``apply-locked``."""
    places = TargetFiles(tmp_path / "savant")
    with pytest.raises(Conflict) as caught, places.locked(tmp_path / "target"):
        raise Conflict("conflict.other", "other")
    assert caught.value.code == "conflict.other"


def state(mode: str, data: bytes) -> FileState:
    return FileState(mode=mode, content_digest=digest(data), size_bytes=len(data))  # type: ignore[arg-type]


def test_a_path_is_in_exactly_one_state(tmp_path: Path) -> None:
    """Type, executable bit, size and content count; a folder, and what lies beyond a link, is nothing."""
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "run").write_bytes(b"x")
    (tmp_path / "run").chmod(0o755)
    (tmp_path / "link").symlink_to("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/in").write_bytes(b"x")
    (tmp_path / "alias").symlink_to("folder")
    os.mkfifo(tmp_path / "fifo")
    states = {
        "nothing": None,
        "file": state("regular", b"x"),
        "longer": state("regular", b"xx"),
        "other": state("regular", b"y"),
        "run": state("executable", b"x"),
        "link": state("symlink", b"x"),
        "other link": state("symlink", b"y"),
        "nothing in it": state("regular", b""),
    }
    expected = {
        b"file": "file",
        b"run": "run",
        b"link": "link",
        b"folder": "nothing",
        b"folder/in": "file",
        b"file/in": "nothing",
        b"alias/in": "nothing",
        b"none": "nothing",
        b"none/in": "nothing",
        b"fifo": "",
    }
    with open_root(tmp_path) as root:
        for path, name in expected.items():
            found = [known for known, value in states.items() if is_in_state(root, path, value)]
            assert found == ([name] if name else []), path


def test_what_cannot_be_looked_at_is_not_ours(tmp_path: Path) -> None:
    """A file that changes its size under our eyes counts as changed by somebody else."""
    (tmp_path / "a").write_bytes(b"x")
    write = PathChange(path="a", before=None, after=state("regular", b"x"))
    assert changed_by_others(tmp_path, [write]) == []
    with pytest.MonkeyPatch.context() as patch:

        def fail(*args: object, **named: object) -> bytes:
            raise RefusedInput("refused.too-large", "it grew")

        patch.setattr("candidateapply.observing.read_file_at", fail)
        assert changed_by_others(tmp_path, [write]) == ["a"]


def test_only_empty_folders_are_removed(tmp_path: Path) -> None:
    """Folders in folders go; a file or a link inside stops it and stays."""
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "d/e").mkdir(parents=True)
    (tmp_path / "d/e/link").symlink_to("/")
    with open_root(tmp_path) as root:
        remove_empty_folders(root, b"a")
        assert not (tmp_path / "a").exists()
        with pytest.raises(Conflict):
            remove_empty_folders(root, b"d")
    assert (tmp_path / "d/e/link").is_symlink()


def test_temporary_names_are_known() -> None:
    """What :mod:`savant.files.tree` writes first is recognised, and nothing else."""
    assert is_temporary(temporary_name())
    assert is_temporary(b"a/b/" + temporary_name())
    assert not is_temporary(b".savant-1.tmp")
    assert not is_temporary(temporary_name() + b"/a")


def test_a_submodule_is_never_written(tmp_path: Path) -> None:
    """Not even from a journal that says so."""
    store = MemoryObjectStore()
    data = b"sha1:" + b"1" * 40
    store.put(data)
    write = PathChange(path="sub", before=None, after=state("gitlink", data))
    with pytest.raises(SavantError) as caught:
        write_changes(tmp_path, [write], store)
    assert caught.value.code == "refused.apply-unsupported-operation"
    assert list(tmp_path.iterdir()) == []


def test_a_half_made_worktree_is_known_by_its_git_file_alone(tmp_path: Path) -> None:
    """Only a folder with nothing but the file that names the entry."""
    target, entry = tmp_path / "target", tmp_path / "entry"
    assert not is_git_file_of(target, entry)
    target.mkdir()
    assert not is_git_file_of(target, entry)
    (target / ".git").write_text(f"gitdir: {entry}\n")
    assert is_git_file_of(target, entry)
    assert not is_git_file_of(target, tmp_path / "other")
    (target / "mine").write_bytes(b"")
    assert not is_git_file_of(target, entry)
