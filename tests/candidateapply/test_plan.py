"""The order of writes: whatever takes whatever's place, each write finds its way free."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from msgspec import structs

from candidateapply.plan import planned_writes, reversed_writes
from runner.change import change_set, operations
from runner.documents import Candidate, PathChange
from runner.overlay import Content
from savant.contracts.digest import digest
from savant.contracts.document import digest_of
from savant.files.paths import parents, to_raw
from savant.repository.manifest import diff, from_entries
from tests.candidateapply.kit import refused
from tests.runner.kit import trees

States = dict[bytes, tuple[str, str]]


def candidate_of(before: dict[bytes, Content], after: dict[bytes, Content]) -> Candidate:
    base, final = (from_entries((path, c.entry) for path, c in files.items()) for files in (before, after))
    change = change_set(diff(base, final), lambda p: len(before[p].data), lambda p: len(after[p].data))
    return Candidate(
        session_digest=digest(b""),
        workspace_digest=digest(b""),
        plan_digest=digest(b""),
        generation=1,
        attempt_number=1,
        base_commit="sha1:" + "1" * 40,
        input_digest=base.digest,
        change_digest=digest_of(change),
        final_digest=final.digest,
        operations=operations(change, base),
    )


def states(files: dict[bytes, Content]) -> States:
    return {path: (content.mode, digest(content.data)) for path, content in files.items()}


def carry_out(files: States, writes: Iterable[PathChange]) -> States:
    """The writes on a disk that knows no file below a file."""
    disk = dict(files)
    for write in writes:
        path = to_raw(write.path)
        assert disk.get(path) == (write.before and (write.before.mode, write.before.content_digest))
        if write.after is None:
            del disk[path]
            continue
        assert not any(above in disk for above in parents(path)), "a file is where a folder must be"
        assert not any(other.startswith(path + b"/") for other in disk), "a folder is where a file must be"
        disk[path] = (write.after.mode, write.after.content_digest)
    return disk


def without_links(files: dict[bytes, Content]) -> dict[bytes, Content]:
    return {path: content for path, content in files.items() if content.mode != "gitlink"}


@given(trees().map(without_links), trees().map(without_links))
def test_the_writes_lead_from_base_to_final_and_back(before: dict[bytes, Content], after: dict[bytes, Content]) -> None:
    """In their order no write meets a file where it needs a folder, nor the other way round; reversed neither."""
    writes = planned_writes(candidate_of(before, after))
    assert carry_out(states(before), writes) == states(after)
    assert carry_out(states(after), reversed_writes(writes)) == states(before)
    assert reversed_writes(reversed_writes(writes)) == writes


def test_removals_come_first_and_the_deepest_of_them(tmp_path: object) -> None:
    """A folder that becomes a file is emptied before."""
    regular = Content("regular", b"x")
    writes = planned_writes(
        candidate_of({b"d/a": regular, b"d/e/b": regular, b"f": regular}, {b"d": regular, b"f/x": regular})
    )
    assert [(w.path, w.after is None) for w in writes] == [
        ("f", True),
        ("d/e/b", True),
        ("d/a", True),
        ("d", False),
        ("f/x", False),
    ]


@pytest.mark.parametrize(
    ("path", "kind", "code"),
    [
        ("a", "gitlink-change", "refused.apply-unsupported-operation"),
        ("a/../b", "create", "refused.apply-hazard"),
        ("/a", "create", "refused.apply-hazard"),
        (".git/config", "create", "refused.apply-hazard"),
        ("a/GIT~1/x", "create", "refused.apply-hazard"),
    ],
)
def test_what_cannot_be_written_is_refused(path: str, kind: str, code: str) -> None:
    """A submodule, a path that leads out and a path of git's own; a plain path is planned."""
    good = candidate_of({}, {b"a": Content("regular", b"x")})
    assert [w.path for w in planned_writes(good)] == ["a"]
    operation = structs.replace(good.operations[0], path=path, kind=kind)
    assert refused(lambda: planned_writes(structs.replace(good, operations=(operation,)))).code == code
