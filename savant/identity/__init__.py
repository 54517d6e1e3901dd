"""Identities: of a workspace, a task, a code graph, a governance closure, and of the keys that sign.

Owns what a session is bound to and the private keys of its roles. Never invents an identity: what was not given is
said to be missing, as a limitation.
"""

from __future__ import annotations

from savant.identity.closure import closure_identity
from savant.identity.documents import DOCUMENTS, Closure, GovernanceRecord, Graph, LedgerPin, Pins, Task, Workspace
from savant.identity.graph import graph_identity
from savant.identity.people import People, Person, read_people
from savant.identity.task import task_identity
from savant.identity.workspace import workspace_identity

__all__ = (
    "DOCUMENTS",
    "Closure",
    "GovernanceRecord",
    "Graph",
    "LedgerPin",
    "People",
    "Person",
    "Pins",
    "Task",
    "Workspace",
    "closure_identity",
    "graph_identity",
    "read_people",
    "task_identity",
    "workspace_identity",
)
