"""GitPython as an independent witness: another reader of the same repository sees the same tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from savant.contracts.digest import raw_digest
from savant.repository import Entry, Repository, build_manifest, from_entries


def test_gitpython_sees_the_same_tree(
    sandbox: Any, opened: Repository, files: Mapping[bytes, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A traversal of the commit by GitPython gives the same manifest."""
    monkeypatch.setenv("GIT_PYTHON_REFRESH", "quiet")
    import git

    text_names = {path: content for path, content in files.items() if path.isascii() and path != b"vendor/sub"}
    commit = sandbox.commit(text_names)
    modes = {0o100644: "regular", 0o100755: "executable", 0o120000: "symlink"}
    repo = git.Repo(sandbox.path)
    try:
        blobs = [item for item in repo.commit(commit).tree.traverse() if item.type == "blob"]
        witness = from_entries(
            (str(blob.path).encode(), Entry(modes[blob.mode], raw_digest(blob.data_stream.read()))) for blob in blobs
        )
    finally:
        repo.close()
    assert build_manifest(opened, opened.tree_of(commit)) == witness
