"""Git repositories, read without trusting them: objects, Merkle manifests, facts about checkouts, hazards.

Owns every git process of the project. Reads only raw objects and raw files, under an environment and a configuration
of its own making. Never writes refs, configuration or somebody else's index, never follows a link, and never takes
git's word for what a checkout holds. :mod:`savant.repository.target` is the only writer, of dedicated worktrees that
it creates itself.
"""

from __future__ import annotations

from savant.repository.build import Learned, ManifestCache, build_manifest
from savant.repository.git import Repository
from savant.repository.manifest import Difference, Manifest, diff, empty_manifest, from_entries
from savant.repository.node import Entry, MemoryNodes, Mode, NodeSource, gitlink_digest, link_digest
from savant.repository.objects import Commit, ObjectFormat, ObjectSource, TreeEntry
from savant.repository.reader import GitObject, ObjectReader

__all__ = [
    "Commit",
    "Difference",
    "Entry",
    "GitObject",
    "Learned",
    "Manifest",
    "ManifestCache",
    "MemoryNodes",
    "Mode",
    "NodeSource",
    "ObjectFormat",
    "ObjectReader",
    "ObjectSource",
    "Repository",
    "TreeEntry",
    "build_manifest",
    "diff",
    "empty_manifest",
    "from_entries",
    "gitlink_digest",
    "link_digest",
]
