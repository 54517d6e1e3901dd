"""The evaluators that always run, and the one that says nothing, which every other is made from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from evaluator.documents import EvaluatorConfig
from savant.contracts.scalars import as_set

MAX_BUNDLE_BYTES: Final = 512 * 1024

PLAIN: Final = EvaluatorConfig(
    id="plain",
    evaluator="scope",
    required=True,
    rule="all-pass",
    argv=(),
    directory=None,
    result_format="exit-status",
    report_path=None,
    timeout_ms=0,
    max_capture_bytes=0,
    max_bundle_bytes=MAX_BUNDLE_BYTES,
    repeats=0,
    must_fix=(),
    patterns=(),
    texts=(),
    failure_class="mechanical-failure",
    change_size=None,
    signatures=(),
    companions=(),
    suite_digest=None,
    audit=None,
)
"""An evaluator that says nothing: what every evaluator is made from."""

SECRETS: Final = replace(PLAIN, id="secrets", evaluator="secrets", failure_class="secret-added")
"""No secret in added lines: what a project has without saying anything."""

BUILT_IN: Final = (
    "scope",
    "custody",
    "forbidden-paths",
    "secrets",
    "blobs",
    "change-size",
    "known-failures",
    "known-failures-concerning",
    "companions",
    "held-out",
    "audit",
)
"""Names of evaluators that a project cannot give to checks of its own; nor one that begins with ``content-``."""


def built_in_checks(forbidden: Sequence[str]) -> tuple[EvaluatorConfig, ...]:
    """The evaluators that nobody can take away: scope, custody, and forbidden paths where there are any."""
    always = (
        replace(PLAIN, id="scope", evaluator="scope", failure_class="scope-exceeded"),
        replace(PLAIN, id="custody", evaluator="custody", failure_class="custody-breach"),
    )
    if not forbidden:
        return always
    paths = replace(
        PLAIN,
        id="forbidden-paths",
        evaluator="forbidden-paths",
        patterns=as_set(forbidden),
        failure_class="forbidden-path",
    )
    return (*always, paths)
