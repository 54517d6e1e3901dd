"""The codes of admission, each with its meaning: why something is refused, and what a person is asked about. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from admission.documents import Condition, Reason
from savant.contracts.scalars import as_set

REASONS: Final = MappingProxyType(
    {
        "admission.lineage": "A check of the sealed chain failed, so nothing can be decided.",
        "admission.unreadable": "A path, a pattern or a rule's id is not one that can be decided with.",
        "admission.scope.empty": "The candidate changes nothing.",
        "admission.operation.unsupported": "The candidate moves a submodule, which cannot be applied.",
        "admission.scope.outside-promise": "A path changed that the plan did not promise.",
        "admission.scope.outside-policy": "A path changed that the policy does not allow.",
        "admission.scope.disguised-rules": "A path looks like .savant on some file system, and is not it.",
        "admission.scope.refused": "A path changed that a rule of the policy refuses.",
        "admission.limit.exceeded": "The change is larger than the policy allows.",
        "admission.check.none": "No required check is configured, and the policy refuses that.",
        "admission.link.refused": "The candidate adds or repoints a link, and the policy refuses that.",
        "admission.executable.refused": "The candidate adds an executable file, and the policy refuses that.",
        "admission.secret.refused": "A line that was added holds a secret.",
        "admission.acknowledgement.unknown": "An acknowledgement names a condition that does not exist.",
        "admission.acknowledgement.stale": "An acknowledgement is for another decision or candidate.",
        "admission.acknowledgement.stranger": "The people listed at the base have no such key under that name.",
        "admission.acknowledgement.self": "The requester acknowledged, and the policy refuses that.",
        "admission.acknowledgement.not-a-reviewer": "The condition waits for somebody else than who acknowledged it.",
        "admission.acknowledgement.repeated": "A condition was acknowledged more than once.",
        "admission.waiting": "A condition is not acknowledged yet.",
        "admission.acknowledged": "Every condition was acknowledged, exactly.",
        "admission.within": "Every change lies inside promise and policy.",
    }
)
"""Every reason code of a decision, with its meaning."""

CONDITIONS: Final = MappingProxyType(
    {
        "admission.ask.path": "A rule of the policy asks for a person on these paths.",
        "admission.ask.companion": "A file changed without the file that goes with it.",
        "admission.ask.limit": "The change is larger than the policy lets pass without a person.",
        "admission.ask.no-required-check": "No required check is configured: nothing measured the candidate.",
        "admission.ask.new-link": "The candidate adds or repoints a link.",
        "admission.ask.new-executable": "The candidate adds an executable file.",
        "admission.ask.secret": "A line that was added holds a secret.",
        "admission.ask.amendment": "The promise was widened by these paths before the seal.",
        "admission.ask.custody": "A file that judges changed, and no rule of the policy asks about it.",
        "admission.ask.owners": "The owners of these paths at the base must see them.",
    }
)
"""Every condition code, with its meaning."""


def reason(code: str, rule: str, path: str | None = None, detail: str = "") -> Reason:
    """A reason; without words of its own it says what the code means."""
    return Reason(code=code, rule=rule, path=path, detail=detail or REASONS[code])


def condition(
    id_: str, code: str, paths: Sequence[str], why: str, *, reviewers: tuple[str, ...] | None = None
) -> Condition:
    """A condition over a set of paths.

    :param reviewers: a set of handles, the only people who may acknowledge it; None for anybody.
    """
    return Condition(id=id_, code=code, paths=as_set(paths), reason=why, reviewers=reviewers)
