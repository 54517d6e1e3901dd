"""One example document of each kind of the evaluator: a regression found by tests, beside a scope that held."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from driver.built_ins import PLAIN
from evaluator.compose import compose
from evaluator.documents import (
    Audit,
    ClassRule,
    Custody,
    Descriptor,
    Input,
    JudgedFinding,
    NormaliserConfig,
    Policy,
    PrepareConfig,
    Receipt,
    Result,
    ResultBinding,
)
from providerport.documents import Verdict
from savant.contracts.canonical import encode_struct
from savant.contracts.digest import digest
from savant.contracts.document import Document, digest_of, kind_of
from savant.contracts.scalars import as_set
from synthesis.documents import Check, Evaluation, Finding, Limitation, Severity

COMMIT = "sha1:" + "1" * 40

SCOPE = replace(
    PLAIN,
    id="scope",
    evaluator="scope",
    failure_class="scope-exceeded",
)
TESTS = replace(
    PLAIN,
    id="tests",
    evaluator="command",
    rule="no-regression",
    argv=("pytest", "-q", "--junit-xml=.savant-junit.xml"),
    result_format="junit",
    report_path=".savant-junit.xml",
    timeout_ms=600_000,
    max_capture_bytes=4_194_304,
    failure_class="mechanical-failure",
)
FINDING = Finding(
    check="tests:tests.test_cart::test_empty",
    status="failed",
    path="tests/test_cart.py",
    line=7,
    message="AssertionError: assert None == 0",
    excerpt="    def test_empty():\n>       assert total([]) == 0\nE       assert None == 0\n\n"
    "tests/test_cart.py:7: AssertionError",
)


def examples() -> dict[str, Document]:
    """The documents by kind: they fit each other, and compose to a recommendation to generate again."""
    policy = Policy(
        evaluators=as_set((SCOPE, TESTS)),
        toolchain=(".venv", "node_modules"),
        network="none",
        environment=("CI",),
        recommendations=as_set((ClassRule(failure_class="forbidden-path", recommendation="abort"),)),
        normalisers=(
            NormaliserConfig(id="ruff-format", argv=("ruff", "format"), patterns=("**/*.py",), timeout_ms=60_000),
        ),
        prepares=(
            PrepareConfig(
                id="packages",
                argv=("npm", "ci"),
                directory=None,
                locks=as_set(("package-lock.json", "package.json")),
                outputs=("node_modules",),
                network="open",
                timeout_ms=600_000,
            ),
        ),
        custody=Custody(tests=("tests/**",), gates=("conftest.py",)),
        excuses=(),
        as_of=None,
        max_findings=20,
        max_finding_bytes=8_192,
    )
    descriptor = Descriptor(
        evaluator="tests",
        evaluator_kind="command",
        version="1",
        config_digest=digest(encode_struct(TESTS)),
        executable_digest=digest(b"pytest"),
        deterministic=False,
        limitations=(),
    )
    given = Input(
        evaluator="tests",
        session_digest=digest(b"session"),
        attempt_digest=digest(b"attempt"),
        candidate_digest=digest(b"candidate"),
        policy_digest=digest_of(policy),
        base_commit=COMMIT,
        base_manifest_digest=digest(b"base manifest"),
        final_digest=digest(b"final manifest"),
        judged_digest=digest(b"final manifest"),
        restored=(),
        measures_base=True,
        toolchain_digest=digest(b"toolchain"),
        prepared_digest=digest(b"prepared"),
        base_prepared_digest=digest(b"prepared"),
    )
    result = Result(
        evaluator="tests",
        descriptor_digest=digest_of(descriptor),
        input_digest=digest_of(given),
        outcome="completed",
        checks=(
            _check("tests", "failed", "failed", "still-failing"),
            _check("tests:tests.test_cart::test_empty", "failed", "passed", "regressed", FINDING),
            _check("tests:tests.test_cart::test_full", "passed", "passed", None),
        ),
        failure_classes=("regression",),
        limitations=(Limitation(source="evaluator.tests", text="The network was not cut off.", blocking=False),),
        detail="",
        audit_digest=None,
    )
    scope = Result(
        evaluator="scope",
        descriptor_digest=digest(b"scope descriptor"),
        input_digest=digest(b"scope input"),
        outcome="completed",
        checks=(_check("scope", "passed", None, None),),
        failure_classes=(),
        limitations=(),
        detail="",
        audit_digest=None,
    )
    audit = Audit(
        candidate_digest=given.candidate_digest,
        reviewer_result_digest=digest(b"reviewer"),
        adversary_result_digest=digest(b"adversary"),
        findings=(
            _judged("reviewer", "lost-total", "blocking", "confirmed", counts="failed"),
            _judged("reviewer", "naming", "major", "refuted", severity="info", shown=0),
            _judged("adversary", "rounding", "blocking", None, counts="needs-review"),
        ),
        outcome="failed",
    )
    evaluation = compose(given.attempt_digest, given.candidate_digest, policy, (scope, result))
    if not isinstance(evaluation, Evaluation):
        raise TypeError(evaluation.detail)
    receipt = Receipt(
        session_digest=given.session_digest,
        attempt_digest=given.attempt_digest,
        runner_receipt_digest=digest(b"runner receipt"),
        policy_digest=digest_of(policy),
        candidate_digest=given.candidate_digest,
        candidate_verified=True,
        results=as_set((_binding(scope), _binding(result))),
        evaluation_digest=digest_of(evaluation),
        disposition="evaluated",
        failure_code="",
        failure_detail="",
        cleanup_succeeded=True,
    )
    return {kind_of(document): document for document in (policy, descriptor, given, audit, result, receipt)}


def _judged(
    auditor: Literal["reviewer", "adversary"],
    id_: str,
    claimed: Severity,
    verdict: Verdict | None,
    *,
    severity: Severity | None = None,
    shown: int = 1,
    counts: Literal["no", "needs-review", "failed"] = "no",
) -> JudgedFinding:
    return JudgedFinding(
        auditor=auditor,
        id=id_,
        claimed=claimed,
        severity=severity or claimed,
        verdict=verdict,
        citations=1,
        shown=shown,
        counts=counts,
    )


def _check(name: str, status: str, base: str | None, comparison: str | None, *findings: Finding) -> Check:
    return Check(
        evaluator=name.partition(":")[0],
        check=name,
        status=status,  # type: ignore[arg-type]
        base_status=base,  # type: ignore[arg-type]
        comparison=comparison,  # type: ignore[arg-type]
        excuse=None,
        required=True,
        findings=findings,
    )


def _binding(result: Result) -> ResultBinding:
    return ResultBinding(
        evaluator=result.evaluator,
        descriptor_digest=result.descriptor_digest,
        input_digest=result.input_digest,
        result_digest=digest_of(result),
    )
