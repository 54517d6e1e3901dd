"""The identity of what is asked for. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from savant.contracts.document import Sealed, seal
from savant.contracts.errors import UsageError
from savant.contracts.scalars import as_set
from savant.files.patterns import PatternSet
from savant.identity.documents import Task
from synthesis.documents import Limitation

MAX_OBJECTIVE_CHARACTERS = 20_000


def task_identity(
    objective: str, *, scope: Iterable[str] = (), requester: str = "", task_class: str = "change"
) -> Sealed[Task]:
    """The task a person typed. It is unsigned, and says so.

    :raises UsageError: ``usage.objective`` when it is empty, too long or no text; ``usage.requester`` for the latter.
    :raises RefusedInput: ``refused.bad-pattern`` for a scope that is no pattern.
    """
    words = objective.strip()
    if not words or len(words) > MAX_OBJECTIVE_CHARACTERS:
        raise UsageError("usage.objective", "A task needs an objective of 1 to 20,000 characters.")
    for code, text in (("usage.objective", words), ("usage.requester", requester)):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:  # a command line that is not UTF-8
            raise UsageError(code, "The task holds bytes that are not UTF-8 text.") from error
    given = tuple(scope)
    PatternSet.parse(given)
    patterns = as_set(given)
    return seal(
        Task(
            objective=words,
            task_class=task_class,
            scope=patterns,
            requester=requester,
            signed=False,
            limitations=(
                Limitation(source="identity.task", text="The task is not signed by its requester.", blocking=False),
            ),
        )
    )
