"""What keeps the checks of one evaluator from being the whole truth: flaky, excused, not shown to be fixed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from evaluator.compare import DECLARED, Compared
from evaluator.documents import EvaluatorConfig, Policy
from evaluator.excuses import ended
from evaluator.findings import check_name
from synthesis.documents import Limitation

MAX_DOUBTS: Final = 20
"""How many checks of one evaluator are told one by one."""
MAX_TEXT: Final = 2_000
MAX_SOURCE: Final = 200


def must_fix_names(config: EvaluatorConfig) -> frozenset[str]:
    """The full names of the checks that must pass."""
    own = f"{config.id}:"
    return frozenset(
        name if name == config.id or name.startswith(own) else check_name(config.id, name) for name in config.must_fix
    )


def doubts(
    config: EvaluatorConfig, policy: Policy, compared: Iterable[Compared], lost: Sequence[str] = ()
) -> Iterator[Limitation]:
    """The limitations of a result that follow from its checks, and from excuses that have ended.

    :param lost: why runs of the command before the one that is believed gave nothing.
    """
    texts = [text for item in compared for text in _doubt(config, item)]
    if len(texts) > MAX_DOUBTS:
        texts[MAX_DOUBTS:] = [f"The same is to be said of {len(texts) - MAX_DOUBTS} more checks of {config.id}."]
    if lost:
        texts.insert(0, f"{config.id} gave nothing in {len(lost)} of {len(lost) + 1} runs on the candidate: {lost[0]}")
    texts += [f"The excuse {item.id} ended on {item.expires}: {item.reason}" for item in ended(policy, config.id)]
    for text in texts:
        yield Limitation(source=f"evaluator.{config.id}"[:MAX_SOURCE], text=text[:MAX_TEXT], blocking=False)


def _doubt(config: EvaluatorConfig, item: Compared) -> Iterator[str]:
    must_fix = must_fix_names(config)
    if item.check in must_fix:
        if item.comparison == "flaky":
            yield f"{item.check} had to be fixed and is flaky: it passed and failed on the same tree."
        elif item.base_status != "failed":
            yield f"{item.check} had to be fixed, and was not seen to fail on the base."
    elif item.check == config.id and config.result_format != "exit-status":
        return  # its cases say it
    elif item.comparison == "flaky":
        yield f"{item.check} is flaky: it passed and failed on the same tree, and decided nothing."
    elif item.excuse == DECLARED:
        yield f"{item.check} fails under the base's tests, and does not under the candidate's own."
    elif item.excuse is not None:
        yield f"{item.check} failed and is excused by {item.excuse}."
