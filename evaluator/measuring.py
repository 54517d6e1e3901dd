"""Measuring one evaluator: its commands on base and candidate, or a built-in on the change, compared to one result.

What a command sees of the candidate is what is judged in its place (:mod:`evaluator.custody`). Where the plan declares
that it changes what judges, the candidate is measured as it is too: a check that fails only under the base's rules does
not count then, and a person is asked about it at admission. The base is measured once per run, and, where the candidate
brings new tests, once more with them laid over it, to show which of them failed there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from evaluator.checks.command import FORMATS, Measured, unavailable
from evaluator.checks.content import check_blobs, check_companions, check_forbidden_content
from evaluator.checks.custody import check_custody
from evaluator.checks.failures import check_known_failures
from evaluator.checks.place import CommandHost
from evaluator.checks.scope import check_forbidden_paths, check_scope
from evaluator.checks.secrets import check_secrets
from evaluator.checks.size import check_change_size
from evaluator.compare import Case, Compared, Terms, compare, result_checks
from evaluator.compose import MAX_SOURCE_CHARACTERS
from evaluator.documents import COMMAND_KINDS, Descriptor, EvaluatorConfig, EvaluatorKind, Input, Result
from evaluator.doubts import doubts, must_fix_names
from evaluator.excuses import excuse_of
from evaluator.findings import MAX_MESSAGE_CHARACTERS
from evaluator.heldout import FOLDER, PLACEHOLDER, SuiteTree, is_taken
from evaluator.inputs import EvaluationInputs, input_of
from evaluator.prepare import prepared
from evaluator.running import BaseResults, run_command, run_on_base, run_once, together
from providerport.port import BaseReader
from runner.shortfall import shortfall
from savant.contracts.canonical import encode_struct
from savant.contracts.containment import Containment, Demand, weakest
from savant.contracts.digest import digest
from savant.contracts.document import Document, Sealed, seal
from savant.contracts.errors import PortError, RefusedInput, SavantError, Unverifiable, VerificationError
from savant.contracts.scalars import as_set
from savant.files.paths import to_text
from savant.process.identity import executable_digest
from synthesis.documents import Finding, Limitation, Plan

VERSION: Final = "2"
MAX_DETAIL: Final = 2_000


class Measurement(msgspec.Struct, frozen=True):
    """One evaluator's documents, and what is to be known of how they were made."""

    config: EvaluatorConfig
    descriptor: Sealed[Descriptor]
    input: Sealed[Input]
    result: Sealed[Result]
    cleaned: bool
    materialised: bool
    containment: Containment | None
    more: tuple[Sealed[Document], ...] = ()
    """Documents that the result names."""


BuiltIn: TypeAlias = Callable[[EvaluatorConfig, EvaluationInputs, Sequence[Finding]], Case]

BUILT_IN: Final[Mapping[EvaluatorKind, BuiltIn]] = MappingProxyType(
    {
        "scope": lambda config, inputs, _: check_scope(
            config, inputs.operations, inputs.plan.document, inputs.amendment
        ),
        "custody": lambda config, inputs, _: check_custody(config, inputs.held.kept, inputs.undeclared),
        "forbidden-paths": lambda config, inputs, _: check_forbidden_paths(config, inputs.operations),
        "forbidden-content": lambda config, inputs, _: check_forbidden_content(config, inputs.files),
        "change-size": lambda config, inputs, _: check_change_size(config, inputs.files),
        "known-failures": lambda config, inputs, findings: check_known_failures(config, inputs.files, findings),
        "secrets": lambda config, inputs, _: check_secrets(config, inputs.files),
        "blobs": lambda config, inputs, _: check_blobs(config, inputs.files),
        "companions": lambda config, inputs, _: check_companions(config, inputs.operations),
    }
)
"""The evaluators that look at the change itself, some also at what the others found."""

ORDER: Final[Mapping[EvaluatorKind, int]] = MappingProxyType({"known-failures": 1, "model-audit": 2, "held-out": 3})
"""The kinds that go by what the others found, and so are measured after them."""


class _Seen(msgspec.Struct, frozen=True):
    """What one evaluator saw: the base, the candidate, and what the two come to."""

    measured: Measured
    base: Measured | None
    compared: tuple[Compared, ...]
    outcome_is_broken: bool
    containment: Containment | None

    @property
    def cleaned(self) -> bool:
        return self.measured.cleaned and (self.base is None or self.base.cleaned)


def measure(
    config: EvaluatorConfig,
    inputs: EvaluationInputs,
    host: CommandHost,
    base_results: BaseResults,
    findings: Sequence[Finding] = (),
    *,
    is_open: bool = True,
) -> Measurement:
    """The result of one evaluator. Raises only for our own bugs, and as reading a tree does.

    :param findings: what the evaluators found that were measured before.
    :param is_open: whether they would let the candidate pass; else a held-out check is not run.
    """
    is_command = config.evaluator in COMMAND_KINDS
    runs = is_command and (is_open or config.evaluator != "held-out")
    place = prepared(inputs.held.tree, host).host if runs else host
    descriptor = seal(_descriptor(config, place))
    compares = is_command and config.rule != "all-pass"
    given_of = input_of(config, inputs)
    if is_command:
        given_of = replace(
            given_of,
            judged_digest=inputs.held.digest,
            restored=as_set(inputs.held.kept),
            measures_base=compares,
            toolchain_digest=place.toolchain.digest(),
            prepared_digest=_prepared_digest(inputs.held.tree, host),
            base_prepared_digest=_prepared_digest(inputs.snapshot, host) if compares else None,
        )
    given = seal(given_of)
    match config.evaluator:
        case "command":
            seen = _command(config, inputs, host, base_results)
        case "held-out":
            seen = _held_out(config, inputs, host, is_open)
        case _:
            seen = _built_in(config, inputs, findings)
    checks, classes = result_checks(config, seen.compared)
    is_ended = seen.measured.outcome == "completed"
    result = seal(
        Result(
            evaluator=config.id,
            descriptor_digest=descriptor.digest,
            input_digest=given.digest,
            outcome="completed" if seen.outcome_is_broken else seen.measured.outcome,
            checks=checks,
            failure_classes=classes,
            limitations=(
                *_limitations(config, seen.base, inputs.plan.document, seen.containment, host.demand(config.id)),
                *doubts(config, inputs.policy.document, seen.compared, seen.measured.lost if is_ended else ()),
            ),
            detail=seen.measured.problem[:MAX_DETAIL],
            audit_digest=None,
        )
    )
    return Measurement(config, descriptor, given, result, seen.cleaned, seen.measured.materialised, seen.containment)


def _built_in(config: EvaluatorConfig, inputs: EvaluationInputs, findings: Sequence[Finding]) -> _Seen:
    try:
        measured = Measured("completed", {config.id: BUILT_IN[config.evaluator](config, inputs, findings)})
    except (RefusedInput, PortError, Unverifiable, VerificationError) as error:
        measured = unavailable(config, error.message)
    return _Seen(measured, None, compare(None, measured.cases, Terms(rule=config.rule)), False, None)


def _held_out(config: EvaluatorConfig, inputs: EvaluationInputs, host: CommandHost, is_open: bool) -> _Seen:
    """The held-out suite on what is judged; not run, and so not revealed, where another check stops the candidate."""
    suite, tree = host.suite, inputs.held.tree
    if not is_open:
        measured = Measured("completed", {config.id: Case("skipped")})
    elif suite is None or suite.document.digest != config.suite_digest:
        measured = unavailable(config, "its suite is not the one that was committed to")
    elif is_taken(tree):
        measured = unavailable(config, f"the candidate has something at {to_text(FOLDER)}")
    else:
        place = to_text(FOLDER)
        argv = tuple(word.replace(PLACEHOLDER, place) for word in config.argv)
        measured = _run(replace(config, argv=argv), SuiteTree(tree, suite), inputs, host)
    terms = replace(_terms(config, inputs), excuse=lambda _: None)
    return _Seen(measured, None, compare(None, measured.cases, terms), False, measured.containment)


def _command(config: EvaluatorConfig, inputs: EvaluationInputs, host: CommandHost, base_results: BaseResults) -> _Seen:
    held, tree = inputs.held, inputs.held.tree
    compares = config.rule != "all-pass"
    first = inputs.snapshot.manifest.digest
    base = run_on_base(config, inputs.snapshot, first, host, base_results) if compares else None
    measured = _run(config, tree, inputs, host)
    terms = _terms(config, inputs)
    if base is not None and base.is_kept and _is_against(measured, compare(base.cases, measured.cases, terms)):
        base = run_on_base(config, inputs.snapshot, first, host, base_results, is_anew=True)
    seen = [measured.containment, None if base is None else base.containment]
    before = None if base is None or base.outcome != "completed" else base.cases
    is_broken = before is not None and measured.started and measured.outcome != "completed"
    if before is not None and (is_broken or measured.is_unprepared):
        # It ran on the base and does not on the candidate: that is a finding about the candidate, told as one.
        before = {config.id: before[config.id]}
    compared = compare(before, measured.cases, terms)
    for _ in range(config.repeats):
        if not measured.started or not any(item.counts and item.status == "failed" for item in compared):
            break
        again = run_once(config, tree, host)
        seen.append(again.containment)
        measured = together(measured, again)
        compared = compare(before, measured.cases, terms)
    if any(item.counts for item in compared) and inputs.is_declared:
        own = run_command(config, inputs.tree, host)
        seen.append(own.containment)
        measured = replace(measured, cleaned=measured.cleaned and own.cleaned)
        if own.outcome == "completed":
            terms = replace(terms, own=own.cases)
            compared = compare(before, measured.cases, terms)
    if before is not None and held.with_tests is not None and any(item.comparison == "new" for item in compared):
        shown = run_on_base(config, held.with_tests, held.with_tests_digest, host, base_results)
        seen.append(shown.containment)
        compared = compare(before, measured.cases, replace(terms, on_base=shown.cases))
    return _Seen(measured, base, compared, is_broken, weakest(seen))


def _run(config: EvaluatorConfig, tree: BaseReader, inputs: EvaluationInputs, host: CommandHost) -> Measured:
    """What a command gives on what is judged; that its folders can be made from the base only is a finding about it."""
    measured = run_command(config, tree, host, inputs.held.tree)
    if not measured.is_unprepared or prepared(inputs.snapshot, host).problem:
        return replace(measured, is_unprepared=False)
    (told,) = measured.cases[config.id].findings
    finding = replace(told, status="failed", message=measured.problem[:MAX_MESSAGE_CHARACTERS])
    return replace(measured, outcome="completed", cases={config.id: Case("failed", (finding,))}, problem="")


def _prepared_digest(tree: BaseReader, host: CommandHost) -> str | None:
    return None if host.preparing is None else host.preparing.digest(tree)


def _is_against(measured: Measured, compared: Sequence[Compared]) -> bool:
    """Whether anything of the candidate is not as it should be, so that what the base gives decides something."""
    if measured.outcome != "completed" or any(item.counts for item in compared):
        return True
    return any(case.status == "failed" or case.is_flaky for case in measured.cases.values())


def _terms(config: EvaluatorConfig, inputs: EvaluationInputs) -> Terms:
    form = FORMATS.get(config.result_format)
    policy = inputs.policy.document
    steps = inputs.plan.document.steps
    has_custody = bool(policy.custody.tests or policy.custody.gates)
    return Terms(
        rule=config.rule,
        declared=inputs.is_declared or (not has_custody and any(step.declares_gate_changes for step in steps)),
        must_fix=must_fix_names(config),
        excuse=lambda name: excuse_of(policy, config.id, name),
        overall=config.id if form is not None else "",
        lists_failures=form is not None and form.lists_failures,
    )


def _limitations(
    config: EvaluatorConfig, base: Measured | None, plan: Plan, seen: Containment | None, demand: Demand
) -> Iterator[Limitation]:
    source = f"evaluator.{config.id}"[:MAX_SOURCE_CHARACTERS]
    if config.evaluator == "scope" and plan.promise == "none":
        text = "Nothing was promised before the change was made, so its scope was compared with no promise."
        yield Limitation(source=source, text=text, blocking=False)
    if base is not None and base.outcome != "completed":
        yield Limitation(
            source=source,
            text=f"The base was not measured, so the candidate is judged alone: {base.problem}"[:MAX_DETAIL],
            blocking=False,
        )
    less = shortfall(source, f"The commands of {config.id}", seen, demand)
    if less is not None:
        yield less


def _descriptor(config: EvaluatorConfig, host: CommandHost) -> Descriptor:
    executable = None
    if config.evaluator in COMMAND_KINDS:
        try:
            executable = executable_digest(host.toolchain.resolve(config.argv[0]))
        except SavantError:
            executable = None
    return Descriptor(
        evaluator=config.id,
        evaluator_kind=config.evaluator,
        version=VERSION,
        config_digest=digest(encode_struct(config)),
        executable_digest=executable,
        deterministic=config.evaluator not in COMMAND_KINDS,
        limitations=(),
    )
