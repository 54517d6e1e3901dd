"""Known failures: texts that stood in a failure, or in code, that went wrong before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from evaluator.checks.change import ChangedFile, bad, case_of
from evaluator.compare import Case
from evaluator.documents import EvaluatorConfig, Signature
from synthesis.documents import Finding


def check_known_failures(config: EvaluatorConfig, files: Sequence[ChangedFile], findings: Sequence[Finding]) -> Case:
    """No signature is found: all of its texts in one finding of another check, or in the added lines of one file.

    :param findings: what the other checks of this evaluation found.
    """
    return case_of(item for signature in config.signatures for item in _match(config.id, signature, files, findings))


def _match(
    check: str, signature: Signature, files: Iterable[ChangedFile], findings: Iterable[Finding]
) -> Iterator[Finding]:
    message = f"known failure {signature.id}: {signature.reason}"
    if signature.where == "findings":
        for item in findings:
            if all(text in f"{item.message}\n{item.excerpt}" for text in signature.texts):
                yield bad(check, item.path, item.line, message)
                return
        return
    texts = [text.encode("utf-8") for text in signature.texts]
    for file in files:
        lines = list(file.added())
        added = b"\n".join(line for _, line in lines)
        if all(text in added for text in texts):
            line = next((number for number, text in lines if texts[0] in text), None)
            yield bad(check, file.path, line, message)
