"""Checks that are run again, must be fixed, are excused, tell TAP or SARIF: real commands through the whole stage."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from evaluator.documents import EvaluatorConfig, Excuse
from evaluator.stage import EvaluationOutcome, evaluate
from savant.contracts.effects import Cancellation
from savant.process.port import Command, Ended, Level, ProcessRunner
from synthesis.documents import Check, Evaluation
from tests.evaluator.kit import Bench, config_of, policy_of


class Turns:
    """A runner that tells each shell command in ``TURN`` how many there were."""

    def __init__(self, runner: ProcessRunner) -> None:
        self._runner = runner
        self.turns = 0

    @property
    def level(self) -> Level:
        return self._runner.level

    def run(self, command: Command, cancellation: Cancellation) -> Ended:
        if command.argv[0].endswith("/sh"):
            self.turns += 1
            command = replace(command, env=(*command.env, ("TURN", str(self.turns))))
        return self._runner.run(command, cancellation)


def script(text: str, **changes: object) -> EvaluatorConfig:
    plain: dict[str, object] = {
        "argv": ("sh", "-c", text),
        "result_format": "exit-status",
        "report_path": None,
        **changes,
    }
    return config_of("run", **plain)


def tap(text: str, **changes: object) -> EvaluatorConfig:
    """A command that tells TAP; ``text`` prints the points of two tests, ``a`` and ``b``, in a shell."""
    return script(f"{text}; echo 1..2", **{"result_format": "tap", **changes})


def run(
    project: Bench, config: EvaluatorConfig, *excuses: Excuse, as_of: str | None = None
) -> tuple[EvaluationOutcome, int]:
    turns = Turns(project.processes)
    policy = policy_of(config, excuses=excuses, as_of=as_of)
    outcome = evaluate(project.inputs({"new": "x"}, policy), replace(project.host(), processes=turns), {})
    assert not list(project.scratch.iterdir())
    return outcome, turns.turns


def judged(outcome: EvaluationOutcome) -> tuple[Evaluation, dict[str, Check]]:
    assert outcome.evaluation is not None, outcome.receipt.document.failure_detail
    evaluation = outcome.evaluation.document
    return evaluation, {check.check: check for check in evaluation.checks}


def test_a_check_that_fails_once_is_flaky_and_decides_nothing(project: Bench) -> None:
    """It is run until it passes, its finding says how often it failed, and nobody is sent back for it."""
    outcome, turns = run(project, script("test $TURN != 2", repeats=3))
    evaluation, checks = judged(outcome)
    assert turns == 3
    assert (evaluation.recommendation, evaluation.failure_classes) == ("accept", ())
    assert (checks["run"].status, checks["run"].base_status, checks["run"].comparison) == ("failed", "passed", "flaky")
    assert checks["run"].findings[0].message == "flaky: failed 1 of 2 times on the same tree"
    assert [limit.text for limit in evaluation.limitations] == [
        "run is flaky: it passed and failed on the same tree, and decided nothing."
    ]


@pytest.mark.parametrize(("repeats", "turns"), [(0, 2), (1, 3), (2, 4)])
def test_a_check_that_fails_each_time_is_believed(project: Bench, repeats: int, turns: int) -> None:
    """A regression that never passes counts after as many repeats as are configured."""
    outcome, seen = run(project, script("test $TURN = 1", repeats=repeats))
    evaluation, checks = judged(outcome)
    assert seen == turns
    assert (evaluation.recommendation, evaluation.failure_classes) == ("retry-generation", ("regression",))
    assert checks["run"].comparison == "regressed"


def test_one_flaky_case_hides_no_other(project: Bench) -> None:
    """A case that fails each time counts, and the command's own check with it; the flaky one is told beside it."""
    text = "[ $TURN != 2 ] && echo ok a || echo not ok a; [ $TURN = 1 ] && echo ok b || echo not ok b"
    outcome, turns = run(project, tap(text, repeats=2, argv=("sh", "-c", f"{text}; echo 1..2; [ $TURN = 1 ]")))
    evaluation, checks = judged(outcome)
    assert turns == 4
    assert evaluation.failure_classes == ("regression",)
    assert {name: check.comparison for name, check in checks.items()} == {
        "run": "regressed",
        "run:a": "flaky",
        "run:b": "regressed",
    }


def test_a_base_that_is_flaky_excuses_nothing(project: Bench) -> None:
    """What failed on the base by chance and never passes any more is a regression, not an old failure."""
    outcome, turns = run(project, script("test $TURN = 2", repeats=1))
    evaluation, checks = judged(outcome)
    assert turns == 4
    assert (checks["run"].base_status, checks["run"].comparison) == ("passed", "regressed")
    assert evaluation.recommendation == "retry-generation"
    once, _ = run(project, script("test $TURN = 2", repeats=0, argv=("sh", "-c", "test $TURN = 3")))
    assert judged(once)[1]["run"].comparison == "still-failing"


def test_a_run_that_does_not_end_by_itself_is_repeated(project: Bench) -> None:
    """One that ends later is believed, and that the first did not is told; one that never does is a regression."""
    outcome, turns = run(project, script("[ $TURN != 2 ] || kill -9 $$", repeats=2))
    evaluation, checks = judged(outcome)
    assert (turns, evaluation.recommendation, checks["run"].status) == (3, "accept", "passed")
    assert [limit.text for limit in evaluation.limitations] == [
        "run gave nothing in 1 of 2 runs on the candidate: it was ended by signal 9"
    ]
    never, turns = run(project, script("[ $TURN = 1 ] || kill -9 $$", repeats=2))
    evaluation, checks = judged(never)
    assert (turns, evaluation.failure_classes, evaluation.limitations) == (4, ("regression",), ())
    assert (checks["run"].status, checks["run"].comparison) == ("unavailable", "regressed")


MUST_FIX = {"rule": "must-fix", "must_fix": ("run:a",)}


@pytest.mark.parametrize(
    ("text", "accepted", "doubts"),
    [
        ("[ -e new ] && echo ok a || echo not ok a; echo not ok b", True, []),
        ("echo not ok a; echo ok b", False, []),
        ("[ -e new ] && echo ok a || echo not ok a; [ -e new ] && echo not ok b || echo ok b", False, []),
        ("echo ok a; echo ok b", True, ["run:a had to be fixed, and was not seen to fail on the base."]),
        ("echo ok c; echo ok b", False, ["run:a had to be fixed, and was not seen to fail on the base."]),
    ],
)
def test_what_must_be_fixed(project: Bench, text: str, accepted: bool, doubts: list[str]) -> None:
    """It has to pass, and what was green has to stay so; that it was red before is shown or said to be missing."""
    evaluation, _ = judged(run(project, tap(text, **MUST_FIX))[0])
    assert (evaluation.recommendation == "accept") is accepted
    assert [limit.text for limit in evaluation.limitations] == doubts


def excuse(expires: str | None = None) -> Excuse:
    return Excuse(id="slow-disk", evaluator="run", checks=("b",), reason="The disk is slow.", expires=expires)


def test_an_excused_failure_is_told_and_does_not_count(project: Bench) -> None:
    """Its status stays, with the name of the excuse; the day after its last it counts and the end is told."""
    config = tap("echo ok a; [ -e new ] && echo not ok b || echo ok b")
    red, _ = judged(run(project, config)[0])
    assert red.failure_classes == ("regression",)
    for good in (
        run(project, config, excuse()),
        run(project, config, excuse("2030-01-01"), as_of="2030-01-01"),
    ):
        evaluation, checks = judged(good[0])
        assert evaluation.recommendation == "accept"
        assert (checks["run:b"].status, checks["run:b"].comparison) == ("failed", "regressed")
        assert checks["run:b"].excuse == "slow-disk"
        assert [limit.text for limit in evaluation.limitations] == ["run:b failed and is excused by slow-disk."]
    over, checks = judged(run(project, config, excuse("2030-01-01"), as_of="2030-01-02")[0])
    assert (over.failure_classes, checks["run:b"].excuse) == (("regression",), None)
    assert [limit.text for limit in over.limitations] == ["The excuse slow-disk ended on 2030-01-01: The disk is slow."]


def sarif(*results: tuple[str, str, int]) -> str:
    log = {
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "lint"}},
                "results": [
                    {
                        "ruleId": rule,
                        "message": {"text": f"{rule} at line {line}"},
                        "locations": [
                            {
                                "physicalLocation": {
                                    "artifactLocation": {"uri": path},
                                    "region": {"startLine": line},
                                }
                            }
                        ],
                    }
                    for rule, path, line in results
                ],
            }
        ],
    }
    return json.dumps(log)


def lint(base: str, candidate: str, **changes: object) -> EvaluatorConfig:
    """A linter that tells one log on the base and another on the candidate."""
    text = f"if [ -e new ]; then cat <<'END'\n{candidate}\nEND\nelse cat <<'END'\n{base}\nEND\nfi\n[ -e clean ]"
    return script(text, **{"result_format": "sarif", "rule": "no-new", **changes})


def test_only_what_a_linter_newly_finds_counts(project: Bench) -> None:
    """What the base has moves with its lines and does not count; what is gone is fixed; one more of the same counts."""
    old = sarif(("E1", "calc.py", 2), ("E2", "calc.py", 6))
    moved, _ = judged(run(project, lint(old, sarif(("E1", "calc.py", 4))))[0])
    assert moved.recommendation == "accept"
    assert sorted(str(check.comparison) for check in moved.checks) == ["fixed", "still-failing", "still-failing"]
    outcome = run(project, lint(old, sarif(("E1", "calc.py", 2), ("E1", "calc.py", 3), ("E2", "calc.py", 7))))[0]
    more, _ = judged(outcome)
    (new,) = [check for check in more.checks if check.comparison == "new"]
    assert new.check.startswith("run:E1::calc.py@")
    assert new.check.endswith("::+2")
    assert more.failure_classes == ("mechanical-failure",)
    assert [(f.path, f.line, f.message) for f in outcome.failing][:1] == [("calc.py", 3, "E1 at line 3")]
    clean = judged(run(project, lint(old, sarif(), argv=("sh", "-c", f"cat <<'END'\n{sarif()}\nEND")))[0])[0]
    assert clean.recommendation == "accept"


def test_a_linter_that_breaks_is_no_pass(project: Bench) -> None:
    """No log, or none of its findings and a bad exit status, where there were some before: it counts."""
    old = sarif(("E1", "calc.py", 2))
    broken, _ = judged(run(project, lint(old, '{"version": "2.1.0"'))[0])
    assert broken.recommendation == "retry-generation"
    silent, _ = judged(run(project, lint(old, sarif()))[0])
    assert silent.recommendation == "retry-generation"


def test_a_check_starts_in_its_folder(project: Bench) -> None:
    """The report is named from the root; a tree without the folder leaves it unmeasured, never passed."""
    text = '[ -e test_add.py ] && printf "ok a\\nok b\\n1..2\\n" > out.tap'
    config = tap(text, directory="tests", report_path="tests/out.tap", rule="all-pass")
    assert judged(run(project, replace(config, argv=("sh", "-c", text)))[0])[0].recommendation == "accept"
    missing = replace(config, directory="nowhere", report_path="nowhere/out.tap")
    outcome, turns = run(project, missing)
    assert turns == 0
    assert "the tree has no folder 'nowhere' to start in" in outcome.receipt.document.failure_detail


def test_what_goes_into_a_result_is_limited(project: Bench) -> None:
    """Findings that do not fit are left out; the checks and their number stay."""
    new = sarif(*(("E1", "calc.py", line) for line in range(1, 30)))
    large, _ = judged(run(project, lint(sarif(), new, repeats=0))[0])
    outcome, _ = run(project, lint(sarif(), new, max_bundle_bytes=400))
    small, _ = judged(outcome)
    assert len(small.checks) == len(large.checks) == 30
    assert 0 < len(outcome.failing) < 4
