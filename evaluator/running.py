"""Running a command check on a tree: again where it gave nothing, and on a base as an earlier run saw it."""

from __future__ import annotations

from typing import TypeAlias

from msgspec.structs import replace

from evaluator.checks.command import Measured, measure_command, unavailable
from evaluator.checks.place import CommandHost
from evaluator.compare import repeated
from evaluator.documents import EvaluatorConfig, EvaluatorOutcome
from evaluator.kept import keep_result, kept_result
from evaluator.prepare import prepared
from providerport.port import BaseReader
from savant.contracts.canonical import encode_struct
from savant.contracts.containment import weakest
from savant.contracts.digest import digest
from savant.contracts.errors import RefusedInput

BaseResults: TypeAlias = dict[str, Measured]
"""What the base gave, by evaluator configuration and tree; kept for one run."""


def run_command(
    config: EvaluatorConfig, tree: BaseReader, host: CommandHost, source: BaseReader | None = None
) -> Measured:
    """What a command gives on a tree; one that did not end by itself is run again as a failed check is.

    :param source: the tree that preparations see, where it is not the same.
    """
    measured = run_once(config, tree, host, source)
    for _ in range(config.repeats):
        if not measured.started or measured.outcome not in ("unavailable", "timed-out"):
            break
        again = run_once(config, tree, host, source)
        measured = replace(
            again,
            started=True,
            lost=(*measured.lost, measured.problem),
            duration_ms=measured.duration_ms + again.duration_ms,
            cleaned=measured.cleaned and again.cleaned,
            containment=weakest((measured.containment, again.containment)),
        )
    return measured


def run_once(
    config: EvaluatorConfig, tree: BaseReader, host: CommandHost, source: BaseReader | None = None
) -> Measured:
    """What a command gives on a tree, once; what the tree itself rules out is a check that did not run.

    What the tree's checks need is prepared first; where it cannot be, nothing runs.
    """
    try:
        made = prepared(source or tree, host)
        if made.problem:
            lost = unavailable(config, made.problem, output=made.output, outcome=_outcome(host))
            return replace(lost, is_unprepared=made.is_of_tree, containment=made.containment)
        measured = measure_command(config, tree, made.host)
    except RefusedInput as error:
        return unavailable(config, error.message)
    return replace(measured, containment=weakest((made.containment, measured.containment)))


def _outcome(host: CommandHost) -> EvaluatorOutcome:
    return "cancelled" if host.cancellation.is_set() else "unavailable"


def run_on_base(
    config: EvaluatorConfig,
    tree: BaseReader,
    tree_digest: str,
    host: CommandHost,
    base_results: BaseResults,
    *,
    is_anew: bool = False,
) -> Measured:
    """What a base gives: as this run or, unless ``is_anew``, an earlier one saw it, else measured now."""
    key = f"{digest(encode_struct(config))} {tree_digest}"
    known = base_results.get(key)
    if known is not None and not (is_anew and known.is_kept):
        return known
    made = prepared(tree, host)
    kept = None if is_anew or made.problem else kept_result(config, tree_digest, made.host)
    if kept is not None:
        host.say(f"{config.id}: base from an earlier run")
        base_results[key] = kept
        return kept
    measured = run_command(config, tree, host)
    for _ in range(config.repeats):
        if measured.outcome != "completed" or not any(case.is_doubtful for case in measured.cases.values()):
            break
        measured = together(measured, run_once(config, tree, host))
    if measured.outcome == "completed":
        base_results[key] = measured
        keep_result(config, tree_digest, made.host, measured)
    return measured


def together(first: Measured, again: Measured) -> Measured:
    """What one evaluator saw on one tree after another run; a run that did not end by itself says nothing more."""
    return replace(
        first,
        cases=repeated(first.cases, again.cases) if again.outcome == "completed" else first.cases,
        duration_ms=first.duration_ms + again.duration_ms,
        cleaned=first.cleaned and again.cleaned,
        containment=weakest((first.containment, again.containment)),
    )
