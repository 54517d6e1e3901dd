"""The identity of the tree that is worked on. Pure."""

from __future__ import annotations

from typing import Final, Literal

from savant.contracts.document import Sealed, seal
from savant.identity.documents import Workspace
from synthesis.documents import Limitation

UNBOUND: Final = "unbound"
"""The domain of a repository that nobody named."""


def workspace_identity(
    *,
    domain: str,
    object_format: Literal["sha1", "sha256"],
    base_commit: str,
    base_tree: str,
    base_manifest_digest: str,
) -> Sealed[Workspace]:
    """The workspace of a base commit; a domain that nobody wrote down is a limitation, not a guess."""
    limitations: tuple[Limitation, ...] = ()
    if domain == UNBOUND:
        limitations = (
            Limitation(
                source="identity.workspace",
                text="The repository has no authored name: .savant/config.toml at the base sets no domain.",
                blocking=False,
            ),
        )
    return seal(
        Workspace(
            repository_domain=domain,
            object_format=object_format,
            base_commit=base_commit,
            base_tree=base_tree,
            base_manifest_digest=base_manifest_digest,
            limitations=limitations,
        )
    )
