"""The held-out suite at the command line: read from a folder that nobody who generates may see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from savant.contracts.errors import UsageError

if TYPE_CHECKING:
    from evaluator.documents import EvaluatorConfig
    from evaluator.heldout import HeldOut
    from savant.cli.workbench import Workbench


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
    from evaluator.heldout import PLACEHOLDER, read_suite

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


def _usage(why: str) -> UsageError:
    return UsageError(
        "usage.held-out",
        why,
        untouched="No provider was called and nothing was written.",
        fix="Keep the suite in a folder of its own, outside the repository.",
    )
