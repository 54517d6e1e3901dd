"""An audit decided again from what was asked and answered: a forger who repairs every digest is found."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import structs

from driver.history import RunHistory
from evaluator.documents import Audit
from evaluator.documents import Policy as EvaluatorPolicy
from evaluator.documents import Result as EvaluatorResult
from providerport.documents import Capabilities, Request
from providerport.documents import Result as CallResult
from savant.contracts.document import Document
from tests.driver.runkit import RUN, Recorded, changed, forge, record_run, replay, without
from tests.vectors.examples import named

SAY = """\
import json, sys
asked = json.load(sys.stdin)
answer = {"request_digest": asked["request_digest"], "audit": json.loads(sys.argv[1])}
print(json.dumps({"wire": "savant.wire/v1", **answer}))
"""
FOUND = {
    "findings": [
        {
            "id": "two",
            "severity": "minor",
            "text": "It is two.",
            "citations": [{"path": "a.py", "line": 1, "text": "a = 2"}],
        }
    ]
}
EXAMINED = {"verdicts": [{"finding": "two", "verdict": "confirmed"}]}


def command(answer: dict[str, Any]) -> str:
    return shlex.join((sys.executable, "-I", "-c", SAY, json.dumps(answer)))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    """An admitted run whose candidate was audited and whose finding was examined."""
    root = tmp_path_factory.mktemp("audited")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAVANT_HOME", str(root / "home"))
        words = (*RUN, "--audit-provider", command(FOUND), "--adversary-provider", command(EXAMINED))
        yield record_run(root, run=words)


@pytest.fixture
def history(recorded: Recorded) -> RunHistory:
    return recorded.history()


def evaluation(recorded: Recorded, history: RunHistory) -> tuple[str, str]:
    step = next(step for step in replay(recorded, history).steps if step.name == "evaluation")
    return step.status, step.detail


def test_an_audit_is_resolved_again(recorded: Recorded, history: RunHistory) -> None:
    """The untouched run is replayed whole, and says that its audit was."""
    assert replay(recorded, history).outcome == "replayed"
    assert evaluation(recorded, history) == ("pass", "2 composed again, 1 audits resolved again")


def is_audit(document: Any) -> bool:
    return bool(document.operation == "evaluation-observation")


def _passed(audit: Audit) -> Audit:
    return structs.replace(audit, findings=(), outcome="passed")


def _worse(result: CallResult) -> CallResult:
    assert result.audit is not None
    worse = tuple(structs.replace(item, severity="blocking") for item in result.audit.findings)
    return structs.replace(result, audit=structs.replace(result.audit, findings=worse))


def _refuted(result: CallResult) -> CallResult:
    assert result.audit is not None
    verdicts = tuple(structs.replace(item, verdict="refuted") for item in result.audit.verdicts)
    return structs.replace(result, audit=structs.replace(result.audit, verdicts=verdicts))


def _other_task(request: Request) -> Request:
    assert request.audit is not None
    return structs.replace(request, audit=structs.replace(request.audit, changes=()))


def _of_another(policy: EvaluatorPolicy) -> EvaluatorPolicy:
    def turned(config: Any) -> Any:
        if config.audit is None:
            return config
        return structs.replace(config, audit=structs.replace(config.audit, reviewer_digest=named("another")))

    return structs.replace(policy, evaluators=tuple(map(turned, policy.evaluators)))


def _alone(policy: EvaluatorPolicy) -> EvaluatorPolicy:
    def turned(config: Any) -> Any:
        if config.audit is None:
            return config
        return structs.replace(config, audit=structs.replace(config.audit, adversary_digest=None))

    return structs.replace(policy, evaluators=tuple(map(turned, policy.evaluators)))


def _no_audit(policy: EvaluatorPolicy) -> EvaluatorPolicy:
    return structs.replace(policy, evaluators=tuple(c for c in policy.evaluators if c.audit is None))


def nth(history: RunHistory, type_: type[Document], at: int) -> int:
    """The place among all documents of a type of the ``at``-th that belongs to an audit."""
    found = [i for i, sealed in enumerate(history.all(type_)) if is_audit(sealed.document)]
    return found[at]


@pytest.mark.parametrize(
    ("type_", "change", "said"),
    [
        (Audit, _passed, "the audit comes out as"),
        (EvaluatorPolicy, _of_another, "who audited"),
        (EvaluatorPolicy, _alone, "without the adversary"),
        (EvaluatorPolicy, _no_audit, ""),
    ],
)
def test_a_forged_conclusion_is_found(
    recorded: Recorded, history: RunHistory, type_: type[Document], change: Callable[[Any], Document], said: str
) -> None:
    """Nothing that follows from the answers can be said otherwise."""
    status, detail = evaluation(recorded, forge(history, type_, change))
    assert status == "fail"
    assert said in detail


@pytest.mark.parametrize(
    ("type_", "at", "change", "said"),
    [
        (CallResult, 0, _worse, "the task of an audit"),
        (CallResult, 1, _refuted, "the audit comes out as"),
        (Request, 0, _other_task, "the task of an audit"),
    ],
)
def test_a_forged_answer_or_question_is_found(
    recorded: Recorded,
    history: RunHistory,
    type_: type[Document],
    at: int,
    change: Callable[[Any], Document],
    said: str,
) -> None:
    """What was asked follows from the candidate and the first report, and what was concluded from the answers."""
    status, detail = evaluation(recorded, forge(history, type_, change, nth=nth(history, type_, at)))
    assert status == "fail"
    assert said in detail


def test_a_result_that_names_an_audit_has_it(recorded: Recorded, history: RunHistory) -> None:
    """A result cannot be cut loose from its audit, nor an audit be left out."""
    last = max(i for i, r in enumerate(history.all(EvaluatorResult)) if r.document.audit_digest is not None)
    cut = forge(history, EvaluatorResult, changed(audit_digest=None), nth=last)
    assert evaluation(recorded, cut)[0] == "fail"
    assert evaluation(recorded, without(history, Audit))[0] == "fail"


def test_an_answer_that_is_not_there_is_not_shown(recorded: Recorded, history: RunHistory) -> None:
    """An audit rests on answers; without one nothing can be said."""
    gone = without(history, CallResult, nth=nth(history, CallResult, 0))
    assert evaluation(recorded, gone)[0] == "not-shown"
    assert evaluation(recorded, without(history, Capabilities, nth=-1))[0] in ("not-shown", "pass")
