"""Stores: content-addressed objects, and the rebuildable index of runs.

Owns bytes by their digest (create-only, verified on the way in and on the way out) and a database that lists runs so
that a person can find one. Never decides anything: the ledger is the truth, and the run database can be thrown away
and rebuilt from it.
"""

from __future__ import annotations

from savant.store.objects import FileObjectStore, MemoryObjectStore
from savant.store.port import MAX_OBJECT_BYTES, ObjectStore

__all__ = ["MAX_OBJECT_BYTES", "FileObjectStore", "MemoryObjectStore", "ObjectStore"]
