"""What the evaluator's tests share: configurations, policies, results and candidates of a real repository."""

from __future__ import annotations

from collections.abc import Mapping

from evaluator.documents import ClassRule, EvaluatorConfig, Policy, Result
from runner.overlay import Content
from savant.contracts.digest import digest
from savant.contracts.scalars import as_set
from synthesis.documents import Check, Finding, IntendedChange, Limitation, Plan, PlanStep

NONE = digest(b"")
EVERYTHING = IntendedChange(
    pattern="**",
    operations=as_set(("create", "modify", "delete", "rename", "copy", "mode-change", "symlink-change", "type-change")),
)


def config_of(id_: str = "pytest", **changes: object) -> EvaluatorConfig:
    members: dict[str, object] = {
        "id": id_,
        "evaluator": "command",
        "required": True,
        "rule": "no-regression",
        "argv": ("pytest", "-q", "-p", "no:cacheprovider", "--junit-xml=.report.xml"),
        "result_format": "junit",
        "report_path": ".report.xml",
        "timeout_ms": 60_000,
        "max_capture_bytes": 1_000_000,
        "patterns": (),
        "failure_class": "mechanical-failure",
    }
    return EvaluatorConfig(**{**members, **changes})  # type: ignore[arg-type]


def built_in(id_: str = "scope", kind: str = "scope", **changes: object) -> EvaluatorConfig:
    plain: dict[str, object] = {
        "evaluator": kind,
        "rule": "all-pass",
        "argv": (),
        "result_format": "exit-status",
        "report_path": None,
        "timeout_ms": 0,
        "max_capture_bytes": 0,
        "failure_class": "scope-exceeded",
    }
    return config_of(id_, **{**plain, **changes})


def policy_of(*configs: EvaluatorConfig, rules: Mapping[str, str] | None = None, **changes: object) -> Policy:
    members: dict[str, object] = {
        "evaluators": as_set(configs),
        "toolchain": (),
        "environment": (),
        "recommendations": as_set(
            ClassRule(failure_class=name, recommendation=word)  # type: ignore[arg-type]
            for name, word in (rules or {}).items()
        ),
        "normalisers": (),
        "max_findings": 20,
        "max_finding_bytes": 8_192,
    }
    return Policy(**{**members, **changes})  # type: ignore[arg-type]


def finding_of(check: str, **changes: object) -> Finding:
    members: dict[str, object] = {
        "check": check,
        "status": "failed",
        "path": None,
        "line": None,
        "message": "it failed",
        "excerpt": "",
    }
    return Finding(**{**members, **changes})  # type: ignore[arg-type]


def check_of(evaluator: str, check: str | None = None, status: str = "passed", **changes: object) -> Check:
    members: dict[str, object] = {
        "evaluator": evaluator,
        "check": check or evaluator,
        "status": status,
        "base_status": None,
        "comparison": None,
        "required": True,
        "findings": (),
    }
    return Check(**{**members, **changes})  # type: ignore[arg-type]


def result_of(evaluator: str, *checks: Check, classes: tuple[str, ...] = (), **changes: object) -> Result:
    members: dict[str, object] = {
        "evaluator": evaluator,
        "descriptor_digest": NONE,
        "input_digest": NONE,
        "outcome": "completed",
        "checks": checks,
        "failure_classes": as_set(classes),
        "limitations": (),
        "detail": "",
    }
    return Result(**{**members, **changes})  # type: ignore[arg-type]


def limitation_of(text: str = "not seen", *, blocking: bool = False) -> Limitation:
    return Limitation(source="evaluator.test", text=text, blocking=blocking)


def regular(text: str) -> Content:
    return Content("regular", text.encode())


def plan_of(*, declares: bool = False, promise: str = "declared", change: IntendedChange = EVERYTHING) -> Plan:
    step = PlanStep(
        id="one",
        description="Do it.",
        intended_changes=(change,),
        symbols=(),
        expected_evidence=(),
        discharges=(),
        declares_gate_changes=declares,
    )
    return Plan(
        interpretation_digest=NONE,
        generation=1,
        promise=promise,  # type: ignore[arg-type]
        steps=(step,),
        assumptions=(),
        risks=(),
        stop_conditions=(),
    )
