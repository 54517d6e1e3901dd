"""The answer of the gate as a verification summary (VSA) that others check: an in-toto statement, signed by a key.

The summary has no time in it: the same answer gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from savant.contracts import canonical
from savant.contracts.errors import UsageError
from savant.ledger.record import PREDICATE_PREFIX, STATEMENT_TYPE, sign_line

if TYPE_CHECKING:
    from savant.cli.gating import Judged
    from savant.contracts.signing import Signer

PREDICATE_TYPE: Final = "https://slsa.dev/verification_summary/v1"
VERIFIER: Final = PREDICATE_PREFIX + "gate"
EXTENSION: Final = PREDICATE_PREFIX + "gate/v1"
"""The member of the predicate that says what Savant knows beyond the format."""

LEVELS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "identity": "SAVANT_GOVERNED",
        "change": "SAVANT_GOVERNED_CHANGE",
        "judged": "SAVANT_JUDGED",
    }
)
"""What was verified, from the strongest: this tree on this base; the same change on another base; the change alone,
whoever made it."""


class Answers(msgspec.Struct, frozen=True):
    """What a summary is made from.

    :param subject: the kind of subject, or the range as it was asked for.
    :param head: the commit (or tree) that the summary is about, as ``GitId``.
    :param shown: every commit on the way to it that was judged, or the one change that explains them.
    :param rules: digests of the policies that decided.
    """

    subject: str
    head: str
    shown: tuple[Judged, ...]
    rules: tuple[str, ...]

    @property
    def is_tree(self) -> bool:
        """Whether the head is a tree that nobody committed yet."""
        return any(item.step.is_tree for item in self.shown)

    @property
    def is_passed(self) -> bool:
        """Whether every commit is governed, whatever the mode stops; nothing at all is not."""
        return bool(self.shown) and all(item.report.answer == "governed" for item in self.shown)


def statement_of(answers: Answers, resource: str, version: str) -> bytes:
    """The statement, in canonical bytes.

    :param resource: the URI that the consumer of the summary expects.
    """
    predicate: dict[str, Any] = {
        "verifier": {"id": VERIFIER, "version": {"savant": version}},
        "resourceUri": resource,
        "policy": {"uri": PREDICATE_PREFIX + "policy/" + ",".join(answers.rules)},
        "verificationResult": "PASSED" if answers.is_passed else "FAILED",
        "verifiedLevels": [_level(answers)],
        EXTENSION: {"subject": answers.subject, "commits": [_commit(item) for item in answers.shown]},
    }
    _, _, hex_id = answers.head.partition(":")
    kind, digest = ("tree", "gitTree") if answers.is_tree else ("commit", "gitCommit")
    return canonical.encode(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": f"{kind} {hex_id}", "digest": {digest: hex_id}}],
            "predicateType": PREDICATE_TYPE,
            "predicate": predicate,
        }
    )


def _level(answers: Answers) -> str:
    """The weakest thing that was verified of any commit; ``FAILED`` where one is not governed."""
    if not answers.is_passed:
        return "FAILED"
    order = tuple(LEVELS)
    return LEVELS[max((_how(item) for item in answers.shown), key=order.index)]


def _how(item: Judged) -> str:
    return "judged" if item.report.match is None else item.report.match.how


def _commit(item: Judged) -> dict[str, Any]:
    match, decision = item.report.match, item.report.decision
    return {
        "commit": item.step.commit,
        "base": item.step.base,
        "answer": item.report.answer,
        "reasons": [reason.code for reason in item.report.reasons],
        "run": None if match is None else match.history.run_id,
        "candidate": None if match is None else match.candidate.digest,
        "decision": None if decision is None else decision.digest,
    }


def verify_flags(path: str | None, key: str | None, resource: str | None) -> None:
    """Return if a summary can be made, or none is asked for.

    :raises UsageError: ``usage.vsa``.
    """
    given: Sequence[object] = [value for value in (path, key, resource) if value is not None]
    if given and len(given) < 3:
        raise UsageError(
            "usage.vsa",
            "--vsa, --vsa-key and --vsa-resource go together.",
            untouched="Nothing was written.",
            fix="savant gate --vsa FILE --vsa-key KEY --vsa-resource git+https://forge/owner/name",
        )
    if resource is not None and (not urlsplit(resource).scheme or not resource.isascii() or not resource.isprintable()):
        raise UsageError(
            "usage.vsa",
            f"{resource!r} is not a URI.",
            untouched="Nothing was written.",
            fix="Name the repository by its URI.",
        )


def write_vsa(path: Path, answers: Answers, resource: str, version: str, signer: Signer) -> None:
    """Write the signed summary. Errors as writing a file."""
    from savant.files.atomic import write_atomic

    write_atomic(path, sign_line(statement_of(answers, resource, version), signer) + b"\n", mode=0o644)
