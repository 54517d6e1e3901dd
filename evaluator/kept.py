"""What the base gave in an earlier run, used again where nothing that it may depend on has changed.

It never decides: where a check of the candidate fails, or one that the base had is not there, the base is measured anew
(:mod:`evaluator.running`). What is kept depends on the configuration, the tree, the executable, the tools that can be
found, what was prepared, the containment and the environment. With an open network, or where commands are not kept from
the folder that it lies in, nothing is kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from evaluator.checks.command import Measured
from evaluator.checks.place import CommandHost
from evaluator.documents import EvaluatorConfig
from evaluator.toolchain import Toolchain
from savant.contracts.canonical import encode_struct
from savant.contracts.digest import digest
from savant.contracts.errors import SavantError
from savant.process.environment import allowed_environment
from savant.process.identity import executable_digest
from savant.process.view import Sight

VERSION: Final = 1
_NOWHERE: Final = Path("/")


def kept_result(config: EvaluatorConfig, tree_digest: str, host: CommandHost) -> Measured | None:
    """What an evaluator gave on a tree in an earlier run; None where that is not known, or may have changed."""
    key = None if host.results is None else result_key(config, tree_digest, host)
    raw = None if key is None or host.results is None else host.results.get(key)
    if raw is None:
        return None
    try:
        measured = msgspec.json.decode(raw, type=Measured)
    except (msgspec.DecodeError, SavantError):
        return None
    return replace(measured, is_kept=True) if measured.outcome == "completed" else None


def keep_result(config: EvaluatorConfig, tree_digest: str, host: CommandHost, measured: Measured) -> None:
    """Keep what an evaluator gave on a tree, if it ended by itself every time, for later runs."""
    if host.results is None or measured.outcome != "completed" or measured.lost:
        return
    key = result_key(config, tree_digest, host)
    if key is not None:
        host.results.put(key, msgspec.json.encode(measured))


def result_key(config: EvaluatorConfig, tree_digest: str, host: CommandHost) -> str | None:
    """The digest of all that a result may depend on; None where it may depend on more, or cannot be kept safely."""
    if host.network or host.processes.level == "S0":
        return None
    toolchain = host.toolchain
    try:
        executable = executable_digest(toolchain.resolve(config.argv[0]))
        environment = allowed_environment(host.ambient, host.environment, _NOWHERE, _NOWHERE)
    except SavantError:
        return None
    facts = {
        "version": VERSION,
        "config": digest(encode_struct(config)),
        "tree": tree_digest,
        "executable": executable,
        "toolchain": toolchain.digest(),
        "prepared": host.prepared,
        "tools": [list(place) for place in _places(toolchain, host.sight)],
        "containment": [host.processes.level, *host.processes.offer().layers, host.demand(config.id).minimum],
        "environment": [list(pair) for pair in environment],
        "machine": list(os.uname()),
    }
    return digest(json.dumps(facts, sort_keys=True).encode())


def _places(toolchain: Toolchain, sight: Sight) -> Iterator[tuple[str, int, int]]:
    """The folders that tools come from, with the facts that change when one is installed, renewed or removed."""
    checkout = toolchain.checkout
    folders = [*toolchain.bin_folders(), *sight.read_only]
    if checkout is not None:
        for folder in toolchain.folders:
            folders += [checkout / folder, *sorted((checkout / folder).glob("lib/python*/site-packages"))]
    for folder_ in folders:
        try:
            facts = folder_.stat()
        except OSError:
            yield str(folder_), 0, 0
        else:
            yield str(folder_), facts.st_ino, facts.st_mtime_ns
