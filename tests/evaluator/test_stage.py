"""The stage: real pytest on real candidates of a real repository."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from evaluator.checks.place import CommandHost
from evaluator.dispositions import check_receipt
from evaluator.documents import Descriptor, EvaluatorConfig, Input, Result
from evaluator.inputs import EvaluationInputs
from evaluator.running import BaseResults
from evaluator.stage import EvaluationOutcome, evaluate
from runner.overlay import Content
from savant.contracts.containment import Demand
from savant.contracts.document import Sealed, seal
from savant.contracts.errors import PortError
from savant.process.effects import ThreadTasks
from savant.process.posix import SupervisedRunner
from savant.repository import from_entries
from synthesis.commands import EvaluatorUnavailable, RecordEvaluation
from synthesis.documents import Evaluation, IntendedChange, Plan
from synthesis.machine import check_floor
from tests.evaluator.kit import Bench, built_in, config_of, finding_of, plan_of, policy_of

CALC = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n"
WRONG = CALC.replace("a + b", "a * b").replace("a - b", "a + b")
BASE: BaseResults = {}
"""What the base gives, kept between tests as a run keeps it."""

Changes = Mapping[str, str | Content | None]


def run(
    project: Bench,
    changes: Changes,
    *configs: EvaluatorConfig,
    plan: Plan | None = None,
    host: CommandHost | None = None,
    base: BaseResults | None = None,
) -> EvaluationOutcome:
    inputs = project.inputs(changes, policy_of(*configs or (config_of(),)), plan)
    before = project.checkout_files()
    outcome = evaluate(inputs, host or project.host(), BASE if base is None else base)
    assert project.checkout_files() == before
    assert not list(project.scratch.iterdir())
    assert check_receipt(outcome.receipt.document) == []
    return outcome


def judged(outcome: EvaluationOutcome) -> Evaluation:
    assert outcome.evaluation is not None, outcome.receipt.document.failure_detail
    assert outcome.receipt.document.evaluation_digest == outcome.evaluation.digest
    assert outcome.receipt.document.cleanup_succeeded
    assert isinstance(outcome.command, RecordEvaluation)
    evaluation = outcome.evaluation.document
    assert (evaluation.recommendation != "accept") or check_floor(evaluation) == ()
    return evaluation


def ended(outcome: EvaluationOutcome, disposition: str) -> str:
    receipt = outcome.receipt.document
    assert (receipt.disposition, outcome.evaluation) == (disposition, None)
    assert outcome.command == EvaluatorUnavailable(f"evaluator.{disposition}")
    return receipt.failure_detail


def comparisons(evaluation: Evaluation) -> dict[str, str | None]:
    return {check.check: check.comparison for check in evaluation.checks if check.comparison is not None}


def test_a_fix_is_seen(project: Bench) -> None:
    """A candidate that turns the red test green is accepted, and its red test is told as fixed."""
    evaluation = judged(run(project, {"calc.py": CALC}))
    assert (evaluation.recommendation, evaluation.failure_classes) == ("accept", ())
    assert comparisons(evaluation) == {"pytest": "fixed", "pytest:tests.test_sub::test_sub": "fixed"}
    pair = [check for check in evaluation.checks if "test_add" in check.check]
    assert [(check.status, check.base_status) for check in pair] == [("passed", "passed")] * 2
    assert sorted(check.check.partition("[")[0][:40] for check in pair) == [
        "pytest:tests.test_add::test_add_big_-" + pair[0].check[37:40],
        "pytest:tests.test_add::test_add_small_on",
    ]


def test_a_test_that_was_red_is_no_fault_under_no_regression(project: Bench) -> None:
    """A change that leaves the red test red is accepted under no-regression and sent back under all-pass."""
    evaluation = judged(run(project, {"README.md": "# more\n"}))
    assert evaluation.recommendation == "accept"
    assert comparisons(evaluation) == {"pytest": "still-failing", "pytest:tests.test_sub::test_sub": "still-failing"}
    strict = judged(run(project, {"README.md": "# more\n"}, config_of(rule="all-pass")))
    assert (strict.recommendation, strict.failure_classes) == ("retry-generation", ("mechanical-failure",))
    assert comparisons(strict) == {}


def test_a_new_failure_is_a_regression(project: Bench) -> None:
    """A test that was green and is red is a regression; its finding names the line, in the words of the candidate."""
    outcome = run(project, {"calc.py": WRONG})
    evaluation = judged(outcome)
    assert (evaluation.recommendation, evaluation.failure_classes) == ("retry-generation", ("regression",))
    red = [check for check in evaluation.checks if check.comparison == "regressed"]
    assert len(red) == 2
    (finding,) = red[0].findings
    assert (finding.path, finding.line) == ("tests/test_add.py", 7)
    assert finding.message.startswith("assert 12 == 7\n")
    assert finding in outcome.failing
    assert all(check.findings == () for check in evaluation.checks if check.comparison == "still-failing")


def test_a_new_test_that_fails_counts(project: Bench) -> None:
    """A failing test that the base did not have is the candidate's own; a passing one is welcome."""
    text = "def test_new():\n    assert 1 == {}\n"
    red = judged(run(project, {"tests/test_new.py": text.format(2)}))
    assert (red.recommendation, red.failure_classes) == ("retry-generation", ("mechanical-failure",))
    assert comparisons(red)["pytest:tests.test_new::test_new"] == "new"
    green = judged(run(project, {"tests/test_new.py": text.format(1)}))
    assert green.recommendation == "accept"


def test_a_deleted_test_is_a_regression_unless_declared(project: Bench) -> None:
    """Deleting a green test is a regression; where the plan declares gate changes, it is told and does not count."""
    changes: Changes = {"tests/test_add.py": None}
    hidden = judged(run(project, changes))
    assert (hidden.recommendation, hidden.failure_classes) == ("retry-generation", ("regression",))
    assert sorted(comparisons(hidden).values()) == ["removed", "removed", "still-failing", "still-failing"]
    declared = judged(run(project, changes, plan=plan_of(declares=True)))
    assert (declared.recommendation, comparisons(declared)) == ("accept", comparisons(hidden))


def test_a_skipped_test_is_a_regression(project: Bench) -> None:
    """A green test that is skipped now is a regression: skipping is not passing."""
    skipping = "import pytest\n\n\ndef pytest_collection_modifyitems(items):\n    for item in items:\n"
    skipping += "        item.add_marker(pytest.mark.skip(reason='slow'))\n"
    evaluation = judged(run(project, {"tests/conftest.py": skipping}))
    assert evaluation.failure_classes == ("regression",)


def test_no_test_collected_did_not_run(project: Bench) -> None:
    """Where tests ran on the base and none is collected any more, the candidate is to blame: it is sent back."""
    hiding = "collect_ignore_glob = ['*']\n"
    outcome = run(project, {"conftest.py": hiding})
    assert outcome.evaluation is not None
    assert outcome.evaluation.document.recommendation == "retry-generation"
    assert any("it ran no test" in finding.message for finding in outcome.failing)


def test_a_report_in_the_tree_is_no_report(project: Bench) -> None:
    """A report that the candidate brings along is removed before the run: a command that writes none did not run."""
    forged = '<testsuite><testcase classname="tests.test_add" name="test_add"/></testsuite>'
    silent = config_of(argv=("true",))
    outcome = run(project, {".report.xml": forged, "calc.py": CALC}, silent, base={})
    assert "left no JUnit report" in ended(outcome, "required-evaluator-unavailable")


def test_a_report_that_is_a_link_is_not_read(project: Bench) -> None:
    """A report that is a link to somewhere else is not followed."""
    linking = config_of(argv=("ln", "-s", "/etc/hostname", ".report.xml"))
    assert "left no JUnit report" in ended(run(project, {"calc.py": CALC}, linking), "required-evaluator-unavailable")


def test_a_timeout_is_no_failure(project: Bench) -> None:
    """A check that does not end in time did not run."""
    slow = config_of(
        argv=("sleep", "60"), result_format="exit-status", report_path=None, rule="all-pass", timeout_ms=200
    )
    assert "did not end within 200 ms" in ended(run(project, {"calc.py": CALC}, slow), "required-evaluator-unavailable")


@pytest.mark.parametrize(
    ("argv", "words", "changed"),
    [
        (("sh", "-c", "kill -9 $$"), "signal 9", {}),
        (("sh", "-c", "yes"), "more than 1000 bytes", {"max_capture_bytes": 1_000}),
        (("no-such-tool", "x"), "the tool 'no-such-tool' was not found", {}),
    ],
)
def test_what_keeps_a_command_from_running_is_named(
    project: Bench, argv: tuple[str, ...], words: str, changed: dict[str, object]
) -> None:
    """Required, it ends the evaluation and names the cause; optional, it is a limitation and the rest is judged."""
    plain: dict[str, object] = {"result_format": "exit-status", "report_path": None, "rule": "all-pass", **changed}
    config = config_of("extra", argv=argv, **plain)
    detail = ended(run(project, {"calc.py": CALC}, config), "required-evaluator-unavailable")
    assert detail.startswith("extra DID NOT RUN: ")
    assert words in detail
    optional = config_of("extra", argv=argv, required=False, **plain)
    evaluation = judged(run(project, {"calc.py": CALC}, optional, built_in()))
    assert evaluation.recommendation == "accept"
    (limitation,) = evaluation.limitations
    assert words in limitation.text
    assert not limitation.blocking


def test_a_cancelled_check_is_not_remembered(project: Bench) -> None:
    """A cancelled run measures nothing, and what the base did not give is asked again."""
    tasks = ThreadTasks().cancellation()
    tasks.set()
    base: BaseResults = {}
    outcome = run(project, {"calc.py": CALC}, host=project.host(cancellation=tasks), base=base)
    ended(outcome, "required-evaluator-unavailable")
    assert base == {}


def test_a_base_that_cannot_be_measured_is_said(project: Bench) -> None:
    """Where the base did not run, the candidate is judged alone, and a limitation says so."""
    picky = config_of(argv=("sh", "-c", "test -e new || kill -9 $$"), result_format="exit-status", report_path=None)
    evaluation = judged(run(project, {"new": "x"}, picky, base={}))
    assert evaluation.recommendation == "accept"
    (limitation,) = evaluation.limitations
    assert "The base was not measured" in limitation.text
    assert not limitation.blocking


def test_each_result_tells_what_contained_its_commands(project: Bench) -> None:
    """Built-ins run nothing; less than was demanded is a limitation that a person allowed."""
    quick = {"argv": ("true",), "result_format": "exit-status", "report_path": None}
    first, second = config_of("first", **quick), config_of("second", **quick)
    demands = {"second": Demand("S3", is_waived=True)}
    with SupervisedRunner(project.scratch.parent / "bare", at_most="S0") as bare:
        host = replace(project.host(demands=demands), processes=bare)
        inputs = project.inputs({"new": "x"}, policy_of(first, second, built_in()))
        outcome = evaluate(inputs, host, {})
    results = {d.digest: d.document for d in outcome.documents if isinstance(d.document, Result)}
    assert {results[name].evaluator for name in outcome.containments} == {"first", "second"}
    assert outcome.containment is not None
    assert {outcome.containment.level} == {seen.level for seen in outcome.containments.values()} == {"S0"}
    (limitation,) = judged(outcome).limitations
    assert limitation.source == "evaluator.second"
    assert "ran at sandbox level none (S0), and full (S3) is demanded" in limitation.text
    assert not limitation.blocking
    unwaived = replace(project.host(demands={"second": Demand("S0")}), processes=project.processes)
    evaluated = evaluate(inputs, unwaived, {})
    assert judged(evaluated).limitations == ()
    assert evaluated.containment is not None
    assert evaluated.containment.level == project.processes.level


def test_a_damaged_blob_is_a_load_failure(project: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate whose content is not what it says is not evaluated at all; nothing runs."""
    inputs = project.inputs({"calc.py": CALC}, policy_of(config_of()))
    monkeypatch.setattr(project.store, "get", lambda *_, **__: CALC.encode()[:-1] + b"!")
    outcome = evaluate(inputs, project.host(), {})
    receipt = outcome.receipt.document
    assert (receipt.disposition, receipt.candidate_verified, receipt.results) == ("candidate-load-failure", False, ())
    assert outcome.command == EvaluatorUnavailable("evaluator.candidate-load-failure")
    assert check_receipt(receipt) == []


def test_a_tree_of_another_candidate_is_a_load_failure(project: Bench) -> None:
    """The tree that is judged is the candidate's own; another one is refused."""
    other = project.tree({"calc.py": WRONG})[1]
    inputs = project.inputs({"calc.py": CALC}, policy_of(built_in()), tree=other)
    ended(evaluate(inputs, project.host(), {}), "candidate-load-failure")
    ok = evaluate(project.inputs({"calc.py": CALC}, policy_of(built_in())), project.host(), {})
    assert judged(ok).recommendation == "accept"


def test_a_copy_that_cannot_be_made(project: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A base that cannot be read is a failure to lay out the copy; of an optional evaluator it is a limitation."""

    def broken(inputs: EvaluationInputs) -> EvaluationInputs:
        def read_many(paths: object) -> object:
            raise PortError("port.disk", "The disk is full.")

        monkeypatch.setattr(inputs.tree, "read_many", read_many, raising=True)
        return inputs

    config = config_of(rule="all-pass")
    outcome = evaluate(broken(project.inputs({"calc.py": CALC}, policy_of(config))), project.host(), {})
    assert "The disk is full" in ended(outcome, "materialization-failure")
    assert check_receipt(outcome.receipt.document) == []
    assert not list(project.scratch.iterdir())
    optional = policy_of(config_of(rule="all-pass", required=False), built_in())
    evaluation = judged(evaluate(broken(project.inputs({"calc.py": CALC}, optional)), project.host(), {}))
    assert evaluation.recommendation == "accept"


def test_a_scratch_that_cannot_be_made(project: Bench) -> None:
    """Without a place for a copy nothing runs, and nothing is left to clean."""
    host = project.host()
    elsewhere = CommandHost(
        host.processes, project.checkout / "calc.py", host.toolchain, host.ambient, (), host.cancellation
    )
    config = config_of(rule="all-pass")
    outcome = evaluate(project.inputs({"calc.py": CALC}, policy_of(config)), elsewhere, {})
    assert "no copy could be made" in ended(outcome, "materialization-failure")


def test_a_change_outside_the_promise_asks_for_a_new_plan(project: Bench) -> None:
    """The scope is judged beside the tests; of the two, replanning is the more severe and wins."""
    narrow = plan_of(change=IntendedChange(pattern="docs/**", operations=("create",)))
    outcome = run(project, {"calc.py": WRONG}, built_in(), config_of(), plan=narrow)
    evaluation = judged(outcome)
    assert evaluation.failure_classes == ("regression", "scope-exceeded")
    assert evaluation.recommendation == "replan"
    assert finding_of("scope", path="calc.py", message="modify was not promised by the plan") in outcome.failing


def test_an_unreadable_pattern_did_not_run(project: Bench) -> None:
    """A forbidden path that is no pattern forbids nothing knowingly: the check did not run."""
    bad = built_in("keep-out", "forbidden-paths", patterns=("a//b",))
    assert "keep-out DID NOT RUN" in ended(run(project, {"calc.py": CALC}, bad), "required-evaluator-unavailable")


def test_two_runs_give_the_same_bytes(project: Bench) -> None:
    """Everything but what an observation holds is the same, byte for byte, in two runs of the same work."""
    text = (
        "import os, tempfile, time\n\n\ndef test_noise(tmp_path):\n    print(tmp_path, time.time_ns() and '12:13:14')\n"
        "    raise AssertionError(f'{object()} in {tmp_path} of {os.getcwd()} and {tempfile.gettempdir()}')\n"
    )
    changes: Changes = {"calc.py": WRONG, "tests/test_noise.py": text}
    one = run(project, changes, base={})
    two = run(project, changes, base={})
    assert [document.raw for document in one.documents] == [document.raw for document in two.documents]
    assert one.receipt.raw == two.receipt.raw
    assert judged(one) == judged(two)
    shown = b"".join(document.raw for document in one.documents)
    assert str(project.scratch).encode() not in shown
    assert b"0x7f" not in shown


def test_the_documents_name_each_other(project: Bench) -> None:
    """Descriptor, input and result of each evaluator are bound by the receipt, in ledger order."""
    outcome = run(project, {"calc.py": CALC}, built_in(), config_of())
    by_digest: dict[str, Sealed[object]] = {document.digest: document for document in outcome.documents}  # type: ignore[misc]
    kinds = [type(document.document) for document in outcome.documents]
    assert kinds == [Descriptor, Input, Result] * 2
    for binding in outcome.receipt.document.results:
        result = by_digest[binding.result_digest].document
        assert isinstance(result, Result)
        assert (result.descriptor_digest, result.input_digest) == (binding.descriptor_digest, binding.input_digest)
        given = by_digest[binding.input_digest].document
        assert isinstance(given, Input)
        assert given.measures_base is (binding.evaluator == "pytest")
        assert given.final_digest == from_entries(project_entries(project)).digest
    assert outcome.receipt.document.policy_digest == seal(policy_of(built_in(), config_of())).digest


def project_entries(project: Bench) -> list[tuple[bytes, object]]:
    files = {**project.files, b"calc.py": Content("regular", CALC.encode())}
    return [(path, content.entry) for path, content in files.items()]  # type: ignore[misc]
