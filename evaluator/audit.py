"""An audit by models, made into something that can be judged: pure rules on what they said and what stands there.

A model's word counts where the host can see what it points at. A finding is *shown* when one of its citations stands,
line for line, where it is said to. What follows, by the severity that is left after the adversary's verdict:

===========  ======================  ===============================  ==============
severity     shown, and confirmed    shown, and nobody confirmed it   not shown
===========  ======================  ===============================  ==============
blocking     failed                  needs review                     needs review
major        needs review            needs review                     does not count
minor, info  does not count          does not count                   does not count
===========  ======================  ===============================  ==============

Without an adversary a finding counts as confirmed. With one, refuted is ``info``, adjusted is the lower of both
severities, and what it did not examine, or found itself, is confirmed by nobody. The worst finding is the outcome.
Nothing here lets a candidate pass that another check stops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from evaluator.compare import Case, Terms, compare, result_checks
from evaluator.documents import Audit, EvaluatorConfig, JudgedFinding
from providerport.documents import (
    AuditedChange,
    AuditFinding,
    AuditReport,
    AuditTask,
    AuditVerdict,
    Citation,
    Side,
)
from providerport.port import BaseReader
from runner.documents import Candidate, CandidateOperation, FileState
from runner.patch import patch_of
from savant.contracts.document import Sealed
from savant.contracts.errors import SavantError
from savant.files.paths import check_path, to_raw
from synthesis.documents import Check, Finding, Limitation, Plan, Severity

Counts: TypeAlias = Literal["no", "needs-review", "failed"]

RANK: Final[Mapping[Severity, int]] = MappingProxyType({"info": 0, "minor": 1, "major": 2, "blocking": 3})
"""How severe a finding is."""

CLASSES: Final[Mapping[str, str]] = MappingProxyType({"failed": "audit-finding", "needs-review": "audit-needs-review"})
"""The failure class of each outcome that stops a candidate."""

MAX_DIFF_CHARACTERS: Final = 65_536
"""The longest diff that fits a document."""

MAX_CITED_LINES: Final = 400
MAX_FINDINGS: Final = 100
MAX_MESSAGE: Final = 2_000
_BINARY: Final = b"\nGIT binary patch\n"


def task_of(
    candidate: Sealed[Candidate], plan: Plan, objective: str, base: BaseReader, tree: BaseReader, *, max_bytes: int
) -> AuditTask:
    """What an auditor of a candidate is given; nobody has audited it yet. Errors as reading a tree."""
    return AuditTask(
        candidate_digest=candidate.digest,
        objective=objective,
        plan=plan,
        changes=audited_changes(
            candidate.document.operations,
            base,
            tree,
            object_format=candidate.document.base_commit.partition(":")[0],
            max_bytes=max_bytes,
        ),
        audited=None,
    )


def audited_changes(
    operations: Sequence[CandidateOperation], base: BaseReader, tree: BaseReader, *, object_format: str, max_bytes: int
) -> tuple[AuditedChange, ...]:
    """Every changed path with its diff, in order, as long as the diffs fit. Errors as reading a tree."""
    changes = []
    left = max_bytes
    for operation in operations:
        text = _diff(operation, base, tree, object_format)
        cost = 0 if text is None else len(text.encode("utf-8"))
        if text is None or cost > left:
            changes.append(AuditedChange(path=operation.path, diff=None))
            continue
        left -= cost
        changes.append(AuditedChange(path=operation.path, diff=text))
    return tuple(changes)


def _diff(operation: CandidateOperation, base: BaseReader, tree: BaseReader, object_format: str) -> str | None:
    def read(state: FileState) -> bytes:
        return (tree if state is operation.after else base).read(to_raw(operation.path))

    patch = patch_of((operation,), read, object_format=object_format)
    if _BINARY in patch:
        return None
    try:
        text = patch.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if len(text) <= MAX_DIFF_CHARACTERS else None


def judge_audit(
    candidate_digest: str,
    reviewer: tuple[str, AuditReport],
    adversary: tuple[str, AuditReport] | None,
    base: BaseReader,
    tree: BaseReader,
) -> Audit:
    """What an audit comes to.

    :param reviewer: the digest of the provider port's result, and the report in it.
    :param adversary: the same of who examined that report; None where nobody did.
    """
    trees: Mapping[Side, BaseReader] = {"base": base, "candidate": tree}
    verdicts = {} if adversary is None else {verdict.finding: verdict for verdict in adversary[1].verdicts}
    judged = [
        _judged("reviewer", finding, verdicts.get(finding.id), trees, is_contested=adversary is not None)
        for finding in reviewer[1].findings
    ]
    if adversary is not None:
        judged += [_judged("adversary", finding, None, trees, is_contested=True) for finding in adversary[1].findings]
    counted: set[Counts] = {finding.counts for finding in judged}
    return Audit(
        candidate_digest=candidate_digest,
        reviewer_result_digest=reviewer[0],
        adversary_result_digest=None if adversary is None else adversary[0],
        findings=tuple(judged),
        outcome="failed" if "failed" in counted else "needs-review" if "needs-review" in counted else "passed",
    )


def _judged(
    auditor: Literal["reviewer", "adversary"],
    finding: AuditFinding,
    verdict: AuditVerdict | None,
    trees: Mapping[Side, BaseReader],
    *,
    is_contested: bool,
) -> JudgedFinding:
    severity = finding.severity
    if verdict is not None:
        if verdict.verdict == "refuted":
            severity = "info"
        elif verdict.severity is not None:
            severity = min(severity, verdict.severity, key=RANK.__getitem__)
    shown = sum(is_shown(citation, trees[citation.side]) for citation in finding.citations)
    is_confirmed = not is_contested or verdict is not None
    counts: Counts = "no"
    if severity == "blocking":
        counts = "failed" if shown and is_confirmed else "needs-review"
    elif severity == "major" and shown:
        counts = "needs-review"
    return JudgedFinding(
        auditor=auditor,
        id=finding.id,
        claimed=finding.severity,
        severity=severity,
        verdict=None if verdict is None else verdict.verdict,
        citations=len(finding.citations),
        shown=shown,
        counts=counts,
    )


def is_shown(citation: Citation, tree: BaseReader) -> bool:
    """Whether the cited lines stand there, but for white space; an empty citation shows nothing."""
    cited = [" ".join(line.split()) for line in citation.text.strip("\n").split("\n")]
    count = citation.end_line - citation.line + 1
    if not any(cited) or len(cited) != count or count > MAX_CITED_LINES:
        return False
    try:
        path = to_raw(citation.path)
        check_path(path)
        if tree.mode(path) not in ("regular", "executable"):
            return False
        text = tree.read(path).decode("utf-8")
    except (SavantError, UnicodeDecodeError):
        return False
    lines = text.split("\n")[citation.line - 1 : citation.end_line]
    return [" ".join(line.split()) for line in lines] == cited


def audit_checks(
    config: EvaluatorConfig, audit: Audit, reports: Sequence[AuditReport]
) -> tuple[tuple[Check, ...], tuple[str, ...], tuple[Limitation, ...]]:
    """The checks, failure classes and limitations of a result that is made of an audit.

    :param reports: the reviewer's, then the adversary's if there is one.
    """
    said = {
        (auditor, finding.id): finding
        for auditor, report in zip(("reviewer", "adversary"), reports, strict=False)
        for finding in report.findings
    }
    stopping = [item for item in audit.findings if item.counts == audit.outcome]
    findings = tuple(_finding(config, item, said[item.auditor, item.id]) for item in stopping[:MAX_FINDINGS])
    case = Case("passed") if audit.outcome == "passed" else Case("failed", findings)
    classed = config if audit.outcome == "passed" else _classed(config, CLASSES[audit.outcome])
    checks, classes = result_checks(classed, compare(None, {config.id: case}, Terms(rule=config.rule)))
    return checks, classes, tuple(_told(config, audit, said))


def _classed(config: EvaluatorConfig, failure_class: str) -> EvaluatorConfig:
    return replace(config, failure_class=failure_class)


def _finding(config: EvaluatorConfig, judged: JudgedFinding, said: AuditFinding) -> Finding:
    cited = said.citations[0] if said.citations else None
    return Finding(
        check=config.id,
        status="failed",
        path=None if cited is None else cited.path,
        line=None if cited is None or cited.side == "base" else cited.line,
        message=f"{_words(judged)}: {said.text}"[:MAX_MESSAGE],
        excerpt="" if cited is None else cited.text[:MAX_MESSAGE],
    )


def _told(config: EvaluatorConfig, audit: Audit, said: Mapping[tuple[str, str], AuditFinding]) -> Iterator[Limitation]:
    """What the audit says and does not decide."""
    for judged in audit.findings:
        if judged.counts != audit.outcome and RANK[judged.claimed] > RANK["info"]:
            text = f"{_words(judged)}: {said[judged.auditor, judged.id].text}"
            yield Limitation(source=f"evaluator.{config.id}", text=text[:MAX_MESSAGE], blocking=False)


def _words(judged: JudgedFinding) -> str:
    """A finding's standing, for people."""
    parts: list[str] = [judged.claimed]
    if judged.verdict is not None:
        parts.append(judged.verdict + (f" to {judged.severity}" if judged.verdict == "adjusted" else ""))
    elif judged.auditor == "adversary":
        parts.append("the adversary's own")
    if judged.shown == 0:
        parts.append("not shown by what it cites")
    if judged.counts == "needs-review":
        parts.append("needs review")
    return f"{judged.auditor}'s finding {judged.id} ({', '.join(parts)})"
