"""The wire of a command provider: one JSON document each way.

On standard input the command reads::

    {"wire": "savant.wire/v1", "request_digest": "blake3:...", "request": {... the O2 request ...}}

and writes one JSON object to standard output, in UTF-8, with free white space, no unknown and no duplicate members::

    {"wire": "savant.wire/v1", "request_digest": "<echoed>", ...}

with exactly one of ``interpretation``, ``plan``, ``review``, ``generation`` or ``audit`` (or ``failure``). Members
inside may be left out; the host makes the canonical document and sets every identity and digest itself. A generation
may list ``edits``; a command that works in a copy of the candidate may just change files there. Beside any of them an
answer may say what the call used: ``usage``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, Literal, NoReturn, TypeVar

import msgspec

from providerport.documents import (
    Request,
    Side,
    Verdict,
)
from savant.contracts.document import Sealed
from savant.contracts.envelope import from_base64
from savant.contracts.errors import RefusedInput
from synthesis.documents import (
    FailureKind,
    OperationKind,
    ReviewOutcome,
    Severity,
)

WIRE: Final = "savant.wire/v1"


class _Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Members with defaults: the wire is friendlier than a stored document."""


W = TypeVar("W", bound=_Wire)


class WireInterpretation(_Wire, frozen=True, kw_only=True):
    """What a provider may say about a task. The objective and the governance records are the host's."""

    applicable_intent: tuple[str, ...] = ()
    binding_invariants: tuple[str, ...] = ()
    relevant_contracts: tuple[str, ...] = ()
    authority_boundaries: tuple[str, ...] = ()
    known_failure_modes: tuple[str, ...] = ()
    forbidden_fixes: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
    unresolved_questions: tuple[str, ...] = ()


class WireChange(_Wire, frozen=True, kw_only=True):
    """A promised pattern and the kinds of change."""

    pattern: str
    operations: tuple[OperationKind, ...]


class WireStep(_Wire, frozen=True, kw_only=True):
    """One step of a plan."""

    id: str
    description: str = ""
    intended_changes: tuple[WireChange, ...] = ()
    symbols: tuple[str, ...] = ()
    expected_evidence: tuple[str, ...] = ()
    discharges: tuple[str, ...] = ()
    declares_gate_changes: bool = False


class WirePlan(_Wire, frozen=True, kw_only=True):
    """A plan: ordered steps and what was assumed."""

    steps: tuple[WireStep, ...]
    assumptions: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()
    stop_conditions: tuple[str, ...] = ()


class WireReviewFinding(_Wire, frozen=True, kw_only=True):
    """One finding about a plan."""

    id: str
    severity: Severity
    text: str
    step: str | None = None
    citation: str = ""


class WireReview(_Wire, frozen=True, kw_only=True):
    """A review of a plan; it may only withhold."""

    outcome: ReviewOutcome
    findings: tuple[WireReviewFinding, ...] = ()


class WireCitation(_Wire, frozen=True, kw_only=True):
    """Lines of a file, as they stand there; ``end_line`` left out is ``line``."""

    path: str
    line: int
    text: str
    end_line: int | None = None
    side: Side = "candidate"


class WireAuditFinding(_Wire, frozen=True, kw_only=True):
    """One finding about a candidate."""

    id: str
    severity: Severity
    text: str
    citations: tuple[WireCitation, ...] = ()


class WireAuditVerdict(_Wire, frozen=True, kw_only=True):
    """What an adversary says of one finding of its task."""

    finding: str
    verdict: Verdict
    severity: Severity | None = None
    text: str = ""


class WireAudit(_Wire, frozen=True, kw_only=True):
    """An audit of a candidate; it may only withhold."""

    findings: tuple[WireAuditFinding, ...] = ()
    verdicts: tuple[WireAuditVerdict, ...] = ()


class WireEdit(_Wire, frozen=True, kw_only=True):
    """One mutation, applied by the host through the workspace in the order given.

    ``write``: ``text`` or ``base64``, and ``executable`` if it matters; ``edit``: ``old`` and ``new`` (one
    occurrence); ``delete``; ``rename``: ``to``; ``set-mode``: ``executable``; ``symlink``: ``to``.
    """

    op: Literal["write", "edit", "delete", "rename", "set-mode", "symlink"]
    path: str
    text: str | None = None
    base64: str | None = None
    old: str | None = None
    new: str | None = None
    to: str | None = None
    executable: bool | None = None

    def content(self) -> bytes:
        """The bytes of a write.

        :raises RefusedInput: ``refused.wire-edit`` unless exactly one of ``text`` and ``base64`` is given.
        """
        if (self.text is None) == (self.base64 is None):
            raise RefusedInput("refused.wire-edit", f"The write of {self.path!r} needs text or base64, one of them.")
        return self.text.encode("utf-8") if self.text is not None else from_base64(self.base64 or "")


class WireGeneration(_Wire, frozen=True, kw_only=True):
    """What a provider did."""

    summary: str = ""
    edits: tuple[WireEdit, ...] = ()


class WireFailure(_Wire, frozen=True, kw_only=True):
    """A provider that knows why it failed."""

    outcome: Literal["unavailable", "timed-out", "cancelled", "invalid-output", "unsupported-capability"]
    failure_kind: FailureKind
    detail: str = ""


class WireUsage(_Wire, frozen=True, kw_only=True):
    """What the call used; a member that is not known is left out, never guessed.

    ``tokens_cached`` are those of ``tokens_in`` that came from a cache. ``notional`` says that a subscription pays, so
    that the cost is what the call would have cost.
    """

    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_cached: int | None = None
    cost_microunits: int | None = None
    notional: bool = False


class WireAnswer(_Wire, frozen=True, kw_only=True):
    """The one document a provider writes."""

    wire: Literal["savant.wire/v1"]
    request_digest: str
    interpretation: WireInterpretation | None = None
    plan: WirePlan | None = None
    review: WireReview | None = None
    generation: WireGeneration | None = None
    audit: WireAudit | None = None
    failure: WireFailure | None = None
    usage: WireUsage | None = None


def encode_request(request: Sealed[Request]) -> bytes:
    """The bytes a command reads on standard input."""
    return b'{"request":%b,"request_digest":"%b","wire":"%b"}\n' % (
        request.raw,
        request.digest.encode("ascii"),
        WIRE.encode("ascii"),
    )


def parse_answer(raw: bytes, request: Sealed[Request]) -> WireAnswer:
    """The answer in a command's standard output.

    :raises RefusedInput: ``refused.wire-malformed`` (not one JSON object in UTF-8, a duplicate or unknown member, a
        number that is no integer, text before or after), ``refused.wire-reference`` (another request),
        ``refused.wire-payload`` (not exactly the payload that the operation asks for).
    """
    answer = parse_part(raw, WireAnswer)
    if answer.request_digest != request.digest:
        raise RefusedInput("refused.wire-reference", "The answer names another request.")
    given = {name for name in _PAYLOADS if getattr(answer, name) is not None}
    wanted = _PAYLOAD_OF[request.document.operation]
    if given not in ({wanted}, {"failure"}):
        named = ", ".join(sorted(given)) or "nothing"
        raise RefusedInput("refused.wire-payload", f"The answer holds {named}; asked for was {wanted}.")
    return answer


def parse_part(raw: bytes, type_: type[W]) -> W:
    """One wire value from untrusted bytes.

    :raises RefusedInput: ``refused.wire-malformed``: not one JSON value in UTF-8, a duplicate or unknown member, a
        number that is no integer, text before or after.
    """
    try:
        data = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_float=_no_number,
            parse_constant=_no_number,
        )
        return msgspec.convert(data, type_, strict=True)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise RefusedInput("refused.wire-malformed", f"The provider's output is no answer: {error}") from error


_PAYLOADS: Final = ("interpretation", "plan", "review", "generation", "audit", "failure")
_PAYLOAD_OF: Final = {
    "interpretation": "interpretation",
    "planning": "plan",
    "review-observation": "review",
    "generation": "generation",
    "evaluation-observation": "audit",
}


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is given twice")
    return members


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not an integer")
