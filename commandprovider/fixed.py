"""Deterministic interpretation and planning, for providers that have no mind: recipes, imports, codemods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, get_args

from commandprovider.answers import interpretation_of, plan_of, result_of
from commandprovider.wire import WireChange, WireInterpretation, WirePlan, WireStep
from providerport.documents import Request, Result
from savant.contracts.document import Sealed
from synthesis.documents import Limitation, OperationKind

PROMISED: Final[tuple[OperationKind, ...]] = tuple(k for k in get_args(OperationKind) if k != "gitlink-change")
"""What a provider without a mind promises per pattern: every kind that can be applied."""


STEPS_ONLY: Final = ("Do what the configured steps do, and nothing else.",)


def fixed_interpretation(
    request: Sealed[Request],
    *,
    source: str,
    intent: tuple[str, ...] = STEPS_ONLY,
    limitations: Sequence[Limitation] = (),
) -> Result:
    """The task as it was given, with the honest limitation that nobody interpreted it.

    :param limitations: what else there is to say, after it.
    """
    return result_of(
        request,
        interpretation=interpretation_of(
            request.document,
            WireInterpretation(applicable_intent=intent),
            (
                Limitation(
                    source=source,
                    text="The task was taken as it was written; no mind interpreted it.",
                    blocking=False,
                ),
                *limitations,
            ),
        ),
    )


def fixed_plan(
    request: Sealed[Request],
    *,
    steps: Sequence[str],
    promise: Sequence[str],
    kind: Literal["declared", "none"] = "declared",
) -> Result:
    """One plan step per configured step; the promise is the requested scope, or what the configuration says.

    A provider without a mind cannot know what judges, so every step declares that it may change it: a person is asked.

    :param steps: a description per step.
    :param promise: the configured patterns, used where the request has no scope.
    """
    patterns = request.document.scope or tuple(promise)
    obligations = (
        () if request.document.interpretation is None else (request.document.interpretation.required_proof_obligations)
    )
    changes = tuple(WireChange(pattern=pattern, operations=PROMISED) for pattern in patterns)
    return result_of(
        request,
        plan=plan_of(
            request.document,
            WirePlan(
                steps=tuple(
                    WireStep(
                        id=f"step-{number}",
                        description=description,
                        intended_changes=changes if kind == "declared" else (),
                        expected_evidence=("the configured checks",),
                        discharges=obligations if number == 1 else (),
                        declares_gate_changes=kind == "declared",
                    )
                    for number, description in enumerate(steps, 1)
                ),
                stop_conditions=("Any step fails.",),
            ),
            promise=kind,
        ),
    )
