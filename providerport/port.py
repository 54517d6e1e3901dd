"""The ports of O2: what a provider is, and the workspace channel it is handed.

Paths are raw bytes with ``/`` between components, relative to the repository's root.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from providerport.documents import Capabilities, Request, Result
from savant.contracts.containment import Containment
from savant.contracts.document import Sealed
from savant.contracts.effects import Cancellation

FileMode: TypeAlias = Literal["regular", "executable", "symlink", "gitlink"]


class BaseReader(Protocol):
    """The pinned base revision, read-only. MUST read exactly the base commit's objects, never a working tree."""

    def mode(self, path: bytes) -> FileMode | None:
        """The mode of a path, None when the base has no file there (a directory is None)."""
        ...

    def read(self, path: bytes) -> bytes:
        """The raw content of a file, or the target of a symlink.

        :raises RefusedInput: ``refused.no-such-path``.
        """
        ...

    def paths(self) -> Iterator[bytes]:
        """All file paths, in byte order."""
        ...


class Workspace(BaseReader, Protocol):
    """The candidate: an overlay on the base. Every call checks the path and refuses after ``close``.

    ``mode``, ``read`` and ``paths`` show the candidate as it is now. MUST refuse control paths, traversal, and a
    parent component that is a symlink; MUST NOT follow a link. Errors: RefusedInput with the path rule's code,
    ``refused.workspace-closed``, ``refused.no-such-path``, ``refused.size-limit``.
    """

    def changed(self) -> tuple[bytes, ...]:
        """The paths that were touched, in byte order: also those where nothing stands now, or what stood there."""
        ...

    def read_base(self, path: bytes) -> bytes:
        """The base's content of a path, whatever the candidate did to it."""
        ...

    def write(self, path: bytes, data: bytes, *, executable: bool | None = None) -> None:
        """Create or replace a file; None keeps the mode it has (regular for a new one). Replaces a symlink."""
        ...

    def edit(self, path: bytes, old: bytes, new: bytes) -> None:
        """Replace the one occurrence of ``old``; ``refused.edit-not-unique`` when there is not exactly one."""
        ...

    def delete(self, path: bytes) -> None:
        """Remove a file or link; an absent path is fine."""
        ...

    def rename(self, source: bytes, destination: bytes) -> None:
        """Move a file or link, replacing what is at the destination."""
        ...

    def set_mode(self, path: bytes, *, executable: bool) -> None:
        """Set or clear the executable bit of a regular file."""
        ...

    def symlink(self, path: bytes, target: bytes) -> None:
        """Create or replace a link. The target is stored verbatim and judged at the seal."""
        ...

    def set_gitlink(self, path: bytes, commit: str) -> None:
        """Record a submodule pointer (hex commit id): a named unsupported operation, kept so that it is refused."""
        ...

    def materialise(self) -> Path:
        """A private directory with real files of the candidate as it is now, outside the repository.

        It shares nothing with the repository and has no ``.git``. Idempotent until :meth:`absorb`.
        """
        ...

    def absorb(self) -> None:
        """Take what changed in the materialised directory into the candidate, through the same rules.

        :raises RefusedInput: ``refused.special-file`` and the path rules' codes; the candidate is then unchanged.
        """
        ...


class Usage(msgspec.Struct, frozen=True):
    """What a call consumed, as the provider reports it; None where it does not.

    :param tokens_in: tokens that the model read, the cached ones included.
    :param cost_microunits: millionths of the provider's currency unit.
    :param tokens_cached: those of ``tokens_in`` that came from a cache.
    :param is_notional: nobody pays for this call: a subscription does, and a cost is what it would have cost.
    """

    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_microunits: int | None = None
    tokens_cached: int | None = None
    is_notional: bool = False


NOTHING_USED: Final = Usage(0, 0, 0, 0)
"""What a call used that the host answered itself."""


class Observer(Protocol):
    """Where a provider says what it is doing. Bounded by the request; over-limit lines are counted and dropped."""

    def note(self, text: str) -> None:
        """One line."""
        ...

    def usage(self, usage: Usage) -> None:
        """The call's usage so far, replacing what was said before."""
        ...

    def processes(self, *, survivors: int, remaining: int, containment: Containment | None = None) -> None:
        """A command of the call ended: descendants that had to be ended, those that could not be, what contained it."""
        ...


class Call(msgspec.Struct, frozen=True):
    """What a provider is handed for one request. ``workspace`` only for generation, ``base`` where disclosed."""

    request: Sealed[Request]
    observer: Observer
    cancellation: Cancellation
    base: BaseReader | None
    workspace: Workspace | None


class ProviderFailure(Exception):
    """Raised by a provider that knows how its call failed; becomes the result's outcome and failure kind."""

    def __init__(self, outcome: str, failure_kind: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.failure_kind = failure_kind
        self.detail = detail


class Provider(Protocol):
    """Somebody else's intelligence. MUST NOT be trusted with anything but its answer.

    ``execute`` runs on a worker; it should return soon after the cancellation is set, and what it returns later is
    dropped. It MUST end every process it started before it returns.
    """

    def describe(self) -> Capabilities:
        """Who it claims to be and what it claims to do."""
        ...

    def execute(self, call: Call) -> Result:
        """Answer one request.

        :raises ProviderFailure: with the outcome and failure kind; any other exception is ``unavailable``/``crash``.
        """
        ...
