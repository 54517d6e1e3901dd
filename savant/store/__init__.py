"""Stores: content-addressed objects, and the rebuildable run database.

Owns bytes by their digest (create-only, verified on the way in and on the way out) and the tables, migrations and
questions of the database in which a person finds runs, providers, plans, messages and usage. Never decides anything:
the ledger is the truth, and the database can be thrown away and read from it again.
"""

from __future__ import annotations

from savant.store.objects import FileObjectStore, MemoryObjectStore
from savant.store.port import MAX_OBJECT_BYTES, ObjectStore

__all__ = ["MAX_OBJECT_BYTES", "FileObjectStore", "MemoryObjectStore", "ObjectStore"]
