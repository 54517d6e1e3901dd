"""Verification: an independent look at a target against what was admitted. Pure: what was observed comes in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import MappingProxyType
from typing import Final

from admission.documents import Decision, Verification, VerificationStatus, Violation
from runner.change import entry_of
from runner.documents import Candidate
from savant.contracts.document import Sealed
from savant.files.paths import to_raw, to_text
from savant.repository.manifest import Difference, Manifest, diff
from savant.repository.node import Entry

VIOLATIONS: Final = MappingProxyType(
    {
        "admission.verify.target-bytes-differ": "The content of an admitted path is not the admitted one.",
        "admission.verify.mode-differs": "The mode of an admitted path is not the admitted one.",
        "admission.verify.missing": "A path that should be there is gone.",
        "admission.verify.not-removed": "A path that should be gone is there.",
        "admission.verify.path-outside-envelope": "A path changed that was not admitted.",
    }
)
"""Every violation code, with its meaning."""


def verify_target(
    decision: Sealed[Decision],
    candidate: Sealed[Candidate],
    application_receipt_digest: str,
    *,
    base: Manifest,
    observed: Manifest | None,
    observed_change_digest: str | None,
    head_commit: str | None,
) -> Verification:
    """What the target is, compared with the admitted candidate.

    It is ``uncertifiable`` when the target could not be read, the decision did not admit exactly this candidate, or the
    candidate was not made from this base; ``stale`` when HEAD is not the admitted base.

    :param base: the manifest that the candidate was made from.
    :param observed: the manifest read from the target's file system; None when it could not be read.
    :param observed_change_digest: the digest of the change set from the base to it.
    :param head_commit: the commit at the target's HEAD; None when it could not be read.
    """

    def made(status: VerificationStatus, violations: tuple[Violation, ...]) -> Verification:
        return Verification(
            decision_digest=decision.digest,
            candidate_digest=candidate.digest,
            application_receipt_digest=application_receipt_digest,
            status=status,
            head_commit=head_commit,
            observed_final_digest=None if observed is None else observed.digest,
            observed_change_digest=observed_change_digest,
            violations=violations,
        )

    document = candidate.document
    if observed is None or head_commit is None or not _is_founded(decision.document, candidate, base):
        return made("uncertifiable", ())
    violations = tuple(_violations(document, diff(base, observed)))
    if head_commit != document.base_commit:
        return made("stale", violations)
    if violations or (observed.digest, observed_change_digest) != (document.final_digest, document.change_digest):
        return made("scope-violated", violations)
    return made("scope-compliant", ())


def _is_founded(decision: Decision, candidate: Sealed[Candidate], base: Manifest) -> bool:
    """Whether the decision admitted exactly this candidate, made from this base."""
    operations = [(operation.path, operation.kind) for operation in candidate.document.operations]
    return (
        decision.outcome in ("admitted", "admitted-with-conditions")
        and decision.candidate_digest == candidate.digest
        and [(entry.path, entry.kind) for entry in decision.envelope] == operations
        and candidate.document.input_digest == base.digest
    )


def _violations(candidate: Candidate, differences: Iterable[Difference]) -> Iterator[Violation]:
    """Each path where the observed change is not the admitted one, in path order."""
    admitted = {to_raw(operation.path): operation.after for operation in candidate.operations}
    found = {path: after for path, _, after in differences}
    for path in sorted({*admitted, *found}):
        if path not in admitted:
            yield _violation("path-outside-envelope", path)
            continue
        wanted = entry_of(admitted[path])
        if path not in found:
            yield _violation("missing" if wanted is not None else "not-removed", path)
            continue
        code = _difference(wanted, found[path])
        if code is not None:
            yield _violation(code, path)


def _difference(wanted: Entry | None, found: Entry | None) -> str | None:
    if wanted == found:
        return None
    if found is None:
        return "missing"
    if wanted is None:
        return "not-removed"
    return "target-bytes-differ" if wanted.digest != found.digest else "mode-differs"


def _violation(code: str, path: bytes) -> Violation:
    full = f"admission.verify.{code}"
    return Violation(code=full, path=to_text(path), detail=VIOLATIONS[full])
