"""What a retry or replan is told: the findings of what failed, most severe first, within a byte limit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import structs

from providerport.documents import Prior
from savant.contracts import canonical
from synthesis.documents import (
    CheckStatus,
    FailureKind,
    Finding,
    Outcome,
    ReviewFinding,
    Severity,
)

SEVERITY_ORDER: Final[Mapping[Severity, int]] = MappingProxyType({"blocking": 0, "major": 1, "minor": 2, "info": 3})
STATUS_ORDER: Final[Mapping[CheckStatus, int]] = MappingProxyType(
    {"failed": 0, "unavailable": 1, "skipped": 2, "passed": 3}
)


def bound_findings(
    findings: Iterable[Finding],
    review_findings: Iterable[ReviewFinding],
    max_bytes: int,
    *,
    required: Collection[str] = (),
    plan_review_digest: str | None = None,
    attempt_digest: str | None = None,
    evaluation_digest: str | None = None,
    outcome: Outcome | None = None,
    failure_kind: FailureKind | None = None,
) -> Prior:
    """As much of the findings as fits, in a fixed order.

    Review findings come first, by severity; then findings of required checks before others, by status; the given order
    breaks ties. Findings of passed checks and repeats are left out. A finding that does not fit is tried without its
    excerpt; one that still does not fit is counted in ``dropped``, and smaller ones after it may still fit.

    :param max_bytes: of the canonical bytes of all kept findings together.
    :param required: the names of the required checks.
    """
    reviews = sorted(dict.fromkeys(review_findings), key=lambda f: SEVERITY_ORDER[f.severity])
    failed = sorted(
        (f for f in dict.fromkeys(findings) if f.status != "passed"),
        key=lambda f: (f.check not in required, STATUS_ORDER[f.status]),
    )
    kept_reviews: list[ReviewFinding] = []
    kept: list[Finding] = []
    left = max_bytes
    for review in reviews:
        size = len(canonical.encode_struct(review))
        if size <= left:
            kept_reviews.append(review)
            left -= size
    for finding in failed:
        for form in _forms(finding):
            size = len(canonical.encode_struct(form))
            if size <= left:
                kept.append(form)
                left -= size
                break
    return Prior(
        plan_review_digest=plan_review_digest,
        attempt_digest=attempt_digest,
        evaluation_digest=evaluation_digest,
        outcome=outcome,
        failure_kind=failure_kind,
        findings=tuple(kept),
        review_findings=tuple(kept_reviews),
        dropped=len(reviews) - len(kept_reviews) + len(failed) - len(kept),
    )


def _forms(finding: Finding) -> Iterator[Finding]:
    yield finding
    if finding.excerpt:
        yield structs.replace(finding, excerpt="")
