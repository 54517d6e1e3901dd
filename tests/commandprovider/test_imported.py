"""The import provider: a change that exists becomes a candidate, whatever it is made of, and promises nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings

from commandprovider import ImportedChange, ImportProvider, ToolHost, import_config, in_order
from commandprovider.documents import Imported
from commandprovider.imported import PATCH_ARGV, take
from providerport.documents import Request
from providerport.port import Call, ProviderFailure
from runner.overlay import Content
from runner.snapshot import BaseSnapshot
from runner.workspace import CandidateWorkspace
from savant.contracts.digest import digest
from savant.contracts.document import Sealed
from tests.commandprovider.conftest import SEARCH_PATH, git
from tests.runner.kit import DictBase, trees

Make = Callable[..., Sealed[Request]]
CallOf = Callable[..., Call]
COMMIT = "sha1:" + "1" * 40


def importer(host: ToolHost, *changes: ImportedChange, patch: bytes | None = None) -> ImportProvider:
    if patch is None:
        config = import_config(Imported(commit=COMMIT, patch_digest=None), note="Import it.")
    else:
        config = import_config(
            Imported(commit=None, patch_digest=digest(patch)),
            note="Import it.",
            argv=PATCH_ARGV,
            search_path=SEARCH_PATH,
        )
    return ImportProvider(config, host, changes, patch)


def test_it_is_known_by_what_it_takes_in(host: ToolHost) -> None:
    """The identity is of the commit or of the patch's bytes: another patch is another provider."""
    one, same, other = (importer(host, patch=raw).describe() for raw in (b"1", b"1", b"2"))
    assert one == same
    assert len({one.identity_digest, other.identity_digest, importer(host).describe().identity_digest}) == 3
    assert one.provider_kind == "import"


def test_nothing_was_promised_and_every_plan_says_so(host: ToolHost, request_for: Make, call_of: CallOf) -> None:
    """The interpretation says that no mind made it; the plan's promise is none, whatever scope is asked for."""
    provider = importer(host)
    interpretation = provider.execute(call_of(request_for("interpretation"))).interpretation
    assert interpretation is not None
    assert [limit.source for limit in interpretation.limitations] == ["import"]
    asked = request_for("planning", interpretation=interpretation, scope=("a.txt",))
    plan = provider.execute(call_of(asked)).plan
    assert plan is not None
    assert (plan.promise, [step.intended_changes for step in plan.steps]) == ("none", [()])
    assert plan.interpretation_digest == asked.document.parent_digest


def test_it_does_nothing_else(host: ToolHost, request_for: Make, call_of: CallOf) -> None:
    """An operation that it does not claim is no capability of it."""
    provider = importer(host)
    assert "review-observation" not in provider.describe().operations
    with pytest.raises(ProviderFailure) as caught:
        provider.execute(call_of(request_for("review-observation")))
    assert caught.value.outcome == "unsupported-capability"


CHANGES = (
    ImportedChange(b"pkg/b.txt", None, b""),
    ImportedChange(b"a.txt", "executable", b"one\n"),
    ImportedChange(b"new/deep.bin", "regular", b"\0\xff"),
    ImportedChange(b"link", "symlink", b"a.txt"),
    ImportedChange(b"sub", "gitlink", b"a" * 40),
)


def test_every_kind_of_change_is_taken_in(
    host: ToolHost, request_for: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """Deletion, content with a mode, a new binary, a link, a moved submodule (kept, so that it can be refused)."""
    result = importer(host, *in_order(CHANGES)).execute(call_of(request_for("generation")))
    assert result.outcome == "completed"
    assert result.generation is not None
    assert (result.generation.summary, result.generation.declared_change_digest) == ("Import it.", None)
    seen = {path: workspace.mode(path) for path in workspace.paths()}
    assert seen == {b"a.txt": "executable", b"link": "symlink", b"new/deep.bin": "regular", b"sub": "gitlink"}
    assert workspace.read(b"new/deep.bin") == b"\0\xff"
    assert workspace.overlay.changes[b"sub"] == Content("gitlink", b"sha1:" + b"a" * 40)
    assert workspace.read_base(b"pkg/b.txt") == b"bee\n"


@pytest.mark.parametrize("path", [b".git/hooks/x", b"../x", b"/x", b"a.txt/x"])
def test_a_path_that_may_not_be_written_is_the_changes_fault(
    host: ToolHost, request_for: Make, call_of: CallOf, path: bytes
) -> None:
    """A control path, a way out, a file where a folder is needed: no candidate, and a kind that says why."""
    with pytest.raises(ProviderFailure) as caught:
        importer(host, ImportedChange(path, "regular", b"x")).execute(call_of(request_for("generation")))
    assert (caught.value.outcome, caught.value.failure_kind) == ("invalid-output", "denied")
    importer(host, ImportedChange(b"fine", "regular", b"x")).execute(call_of(request_for("generation")))


def test_ends_come_before_beginnings() -> None:
    """A folder is emptied, deepest first, before a file takes its name, and the other way round."""
    to_file = in_order(
        [ImportedChange(b"d", "regular", b""), ImportedChange(b"d/x", None, b""), ImportedChange(b"d/x/y", None, b"")]
    )
    assert [change.path for change in to_file] == [b"d/x/y", b"d/x", b"d"]
    to_folder = in_order([ImportedChange(b"d/x", "regular", b""), ImportedChange(b"d", None, b"")])
    assert [change.path for change in to_folder] == [b"d", b"d/x"]


@settings(max_examples=60)
@given(trees(), trees())
def test_any_change_between_two_trees_gives_the_second_tree(
    before: dict[bytes, Content], after: dict[bytes, Content]
) -> None:
    """Files for folders, links for files, submodules, odd bytes: what is imported is what was there."""
    changes = [ImportedChange(path, None, b"") for path in before if path not in after]
    changes += [
        ImportedChange(
            path, content.mode, content.data.removeprefix(b"sha1:") if content.mode == "gitlink" else content.data
        )
        for path, content in after.items()
        if before.get(path) != content
    ]
    with tempfile.TemporaryDirectory() as scratch:
        workspace = CandidateWorkspace(DictBase(before), Path(scratch))
        for change in in_order(changes):
            take(workspace, change)
        changed = {**before, **workspace.overlay.changes}
        assert {path: content for path, content in changed.items() if content is not None} == after
        workspace.close()
        workspace.dispose()


# -- patches ----------------------------------------------------------------------------------------------------------


def patch_of(repository: Path) -> bytes:
    """The patch of what is changed in the working tree, and the working tree as it was."""
    git(repository, "add", "-A")
    raw = git(repository, "diff", "--cached", "--binary", "--no-renames") + "\n"
    git(repository, "reset", "-q", "--hard")
    return raw.encode()


def test_a_patch_is_applied_in_a_copy(
    host: ToolHost,
    request_for: Make,
    call_of: CallOf,
    workspace: CandidateWorkspace,
    repository_path: Path,
) -> None:
    """Content, mode, a new link, a binary, a deletion: the copy takes them, the repository is not touched."""
    (repository_path / "a.txt").write_bytes(b"one\ntwo\nthree\n")
    (repository_path / "a.txt").chmod(0o755)
    (repository_path / "pkg" / "b.txt").unlink()
    (repository_path / "bin").write_bytes(bytes(range(256)))
    (repository_path / "link").symlink_to("a.txt")
    patch = patch_of(repository_path)
    state = git(repository_path, "status", "--porcelain")
    result = importer(host, patch=patch).execute(call_of(request_for("generation")))
    assert result.outcome == "completed"
    assert {path: workspace.mode(path) for path in workspace.paths()} == {
        b"a.txt": "executable",
        b"bin": "regular",
        b"link": "symlink",
    }
    assert workspace.read(b"bin") == bytes(range(256))
    assert workspace.read(b"link") == b"a.txt"
    assert git(repository_path, "status", "--porcelain") == state == ""


OUTSIDE = b"--- /dev/null\n+++ b/../outside.txt\n@@ -0,0 +1 @@\n+x\n"
STALE = b"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-other\n+x\n"
THROUGH_LINK = (
    b"diff --git a/out b/out\nnew file mode 120000\n--- /dev/null\n+++ b/out\n@@ -0,0 +1 @@\n+/tmp\n"
    b"\\ No newline at end of file\ndiff --git a/out/x b/out/x\nnew file mode 100644\n--- /dev/null\n+++ b/out/x\n"
    b"@@ -0,0 +1 @@\n+x\n"
)


@pytest.mark.parametrize("patch", [OUTSIDE, STALE, THROUGH_LINK, b"", b"not a patch"])
def test_a_patch_that_does_not_fit_changes_nothing(
    host: ToolHost,
    request_for: Make,
    call_of: CallOf,
    workspace: CandidateWorkspace,
    snapshot: BaseSnapshot,
    patch: bytes,
) -> None:
    """A way out, through a link or through ``..``; another base; no patch at all: a failure and no change."""
    with pytest.raises(ProviderFailure) as caught:
        importer(host, patch=patch).execute(call_of(request_for("generation")))
    assert (caught.value.outcome, caught.value.failure_kind) == ("unavailable", "crash")
    assert workspace.overlay.changes == {}
    assert list(workspace.paths()) == list(snapshot.paths())


def test_a_patch_into_the_control_folder_is_refused(
    host: ToolHost, request_for: Make, call_of: CallOf, workspace: CandidateWorkspace
) -> None:
    """Whether git refuses it or the workspace does: no candidate."""
    patch = b"--- /dev/null\n+++ b/.git/hooks/post-checkout\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(ProviderFailure):
        importer(host, patch=patch).execute(call_of(request_for("generation")))
    assert workspace.overlay.changes == {}
