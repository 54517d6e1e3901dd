"""The held-out suite at the command line: read from a folder that nobody who generates may see."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from savant.contracts.errors import RefusedInput, UsageError
from savant.files.paths import check_path, to_text
from savant.files.tree import disk_error, open_root, read_file_at

if TYPE_CHECKING:
    from evaluator.documents import EvaluatorConfig
    from evaluator.heldout import HeldOut
    from savant.cli.workbench import Workbench


MAX_FILES: Final = 5_000
MAX_BYTES: Final = 64 * 1024 * 1024


class Holding(msgspec.Struct, frozen=True):
    """The suite and the check that runs it; neither without ``--held-out``."""

    suite: HeldOut | None = None
    checks: tuple[EvaluatorConfig, ...] = ()


def hold_out(bench: Workbench, folder: str | None, command: str | None) -> Holding:
    """Read the suite, and hide its folder from every command of this run.

    :raises UsageError: ``usage.held-out`` for a folder without a command, the other way round, a command that does not
        say where the suite is, or a folder inside the repository.
    :raises RefusedInput: ``refused.held-out``.
    """
    if folder is None and command is None:
        return Holding()
    from driver.config import check_config
    from evaluator.heldout import PLACEHOLDER

    if folder is None or command is None or PLACEHOLDER not in command:
        raise _usage(f'--held-out FOLDER and --held-out-check "pytest -q {PLACEHOLDER}" belong together.')
    place = Path(folder).resolve()
    inside = [bench.repository.common_dir, *(() if bench.checkout is None else (bench.checkout,))]
    if any(place.is_relative_to(near.resolve()) or near.resolve().is_relative_to(place) for near in inside):
        raise _usage(f"The held-out suite {place} and the repository may not lie in each other.")
    suite = read_suite(place)
    bench.also_secret = (*bench.also_secret, place)
    plain = check_config(command, rule="all-pass", id_="held-out")
    return Holding(
        suite,
        (
            replace(
                plain,
                evaluator="held-out",
                suite_digest=suite.document.digest,
                failure_class="held-out-failed",
            ),
        ),
    )


def read_suite(folder: Path) -> HeldOut:
    """The files of a suite's folder; bytecode is left out.

    :raises RefusedInput: ``refused.held-out`` for an empty or large one, or one with anything but files and folders.
    :raises PortError: as reading files.
    """
    from evaluator.heldout import HeldOut

    files: dict[bytes, bytes] = {}
    left = MAX_BYTES
    with open_root(folder) as root:
        for path in _paths(folder):
            check_path(path)
            data = read_file_at(root, path, max_bytes=max(left, 0))
            left -= len(data)
            files[path] = data
            if len(files) > MAX_FILES:
                raise _refused(folder, f"has more than {MAX_FILES} files")
    if not files:
        raise _refused(folder, "holds no file")
    return HeldOut(files)


def _paths(folder: Path, prefix: bytes = b"") -> Iterator[bytes]:
    try:
        entries = sorted(os.scandir(os.fsencode(folder)), key=lambda entry: entry.name)
    except OSError as error:
        raise disk_error(error, str(folder)) from error
    for entry in entries:
        path = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            if entry.name != b"__pycache__":
                yield from _paths(folder / os.fsdecode(entry.name), path + b"/")
        elif entry.is_file(follow_symlinks=False):
            yield path
        else:
            raise _refused(folder, f"holds {to_text(path)!r}, which is no file")


def _refused(folder: Path, why: str) -> RefusedInput:
    return RefusedInput(
        "refused.held-out",
        f"The held-out suite {folder} {why}.",
        untouched="No provider was called and nothing was written.",
        fix="Name a folder that holds nothing but the files of the suite.",
    )


def _usage(why: str) -> UsageError:
    return UsageError(
        "usage.held-out",
        why,
        untouched="No provider was called and nothing was written.",
        fix="Keep the suite in a folder of its own, outside the repository.",
    )
