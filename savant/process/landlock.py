"""Landlock rulesets as values: what a ruleset handles at an ABI, and which rights a command gets below which path.

Computed here, applied by :mod:`savant.process.contain` in the command's own process. Every right that the kernel's ABI
knows is handled, so what no rule grants is denied. The numbers are those of ``linux/landlock.h``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

LEAST_ABI: Final = 3
"""The first ABI that handles truncation; below it any file of ours could be emptied."""
SCOPE_ABI: Final = 6
"""The first ABI that keeps signals and abstract sockets inside."""

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
_REMOVE_DIR: Final = 1 << 4
_REMOVE_FILE: Final = 1 << 5
_MAKE: Final = 0b1111111 << 6  # character device, directory, regular file, socket, fifo, block device, link
_REFER: Final = 1 << 13
TRUNCATE: Final = 1 << 14
IOCTL_DEV: Final = 1 << 15

READ: Final = EXECUTE | READ_FILE | READ_DIR
WRITE: Final = READ | WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE | _REFER | TRUNCATE
USE_DEVICE: Final = READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEV
OF_FILES: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""The rights that the kernel takes for something that is no folder."""

_SCOPES: Final = 0b11  # abstract UNIX sockets, signals

_ADDED: Final[Mapping[int, int]] = MappingProxyType({1: (1 << 13) - 1, 2: _REFER, 3: TRUNCATE, 5: IOCTL_DEV})

_CREATE_RULESET: Final = 444
_ASK_VERSION: Final = 1


def handled(abi: int) -> int:
    """Every file system right that an ABI knows."""
    return sum(right for since, right in _ADDED.items() if since <= abi)


def scoped(abi: int) -> int:
    """What an ABI can keep inside; 0 before :data:`SCOPE_ABI`."""
    return _SCOPES if abi >= SCOPE_ABI else 0


def ruleset(abi: int, grants: Iterable[tuple[str, int]]) -> dict[str, object]:
    """The ruleset that grants rights below paths and denies everything else; JSON for the supervisor.

    :param grants: path and rights; those that the ABI does not know, and those a file cannot have, fall away.
    """
    return {
        "handled": handled(abi),
        "scoped": scoped(abi),
        "of_files": OF_FILES,
        "streams": [READ_FILE, WRITE_FILE | TRUNCATE, WRITE_FILE | TRUNCATE],
        "rules": [[path, rights & handled(abi)] for path, rights in grants],
    }


@cache
def find_abi() -> int:
    """The ABI of this kernel, 0 if it has no Landlock or it is off; asked once."""
    if sys.platform != "linux":
        return 0
    import ctypes

    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    answer = call(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    return max(0, int(answer))
