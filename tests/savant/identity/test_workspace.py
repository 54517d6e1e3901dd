"""The workspace's identity: the tree, by everything that names it."""

from __future__ import annotations

from typing import Any

from savant.contracts.digest import digest
from savant.identity.workspace import UNBOUND, workspace_identity

GIVEN: dict[str, Any] = {
    "domain": "example.org/shop",
    "object_format": "sha1",
    "base_commit": "sha1:" + "1" * 40,
    "base_tree": "sha1:" + "2" * 40,
    "base_manifest_digest": digest(b"manifest"),
}


def test_each_part_of_the_identity_matters() -> None:
    """Another domain, commit, tree or manifest is another workspace; the same parts are the same one."""
    workspace = workspace_identity(**GIVEN)
    assert workspace_identity(**GIVEN) == workspace
    assert workspace.document.limitations == ()
    changes = {
        "domain": "example.org/other",
        "base_commit": "sha1:" + "3" * 40,
        "base_tree": "sha1:" + "3" * 40,
        "base_manifest_digest": digest(b"other"),
        "object_format": "sha256",
    }
    found = {workspace_identity(**{**GIVEN, name: value}).digest for name, value in changes.items()}
    assert len(found | {workspace.digest}) == 6


def test_a_repository_that_nobody_named_is_unbound_and_says_so() -> None:
    """No name is invented, from a remote or a folder."""
    workspace = workspace_identity(**{**GIVEN, "domain": UNBOUND}).document
    assert workspace.repository_domain == "unbound"
    (limitation,) = workspace.limitations
    assert ".savant/config.toml" in limitation.text
    assert not limitation.blocking
