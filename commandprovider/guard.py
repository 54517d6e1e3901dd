"""The last door of a provider that was given credentials: nothing it says and nothing it made may hold one.

Streams are redacted where they are read (:mod:`commandprovider.tool`). Here what became of them is looked at: notes and
failures are redacted once more, and an answer or a candidate that holds a secret, or the mark of one that was taken
out, is refused. So it is never recorded, sealed or stored.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from commandprovider.redaction import MARK, Redactor
from providerport.documents import Capabilities, Result
from providerport.port import Call, Observer, Provider, ProviderFailure, Usage, Workspace
from savant.contracts.containment import Containment
from savant.contracts.errors import RefusedInput
from savant.files.paths import to_text

_MAX_SHOWN: Final = 200


class GuardedProvider:
    """A provider whose answers and candidates are looked through for credentials.

    :param provider: the one that answers.
    :param redactor: knows the secrets that it was given.
    """

    def __init__(self, provider: Provider, redactor: Redactor) -> None:
        self._provider = provider
        self._redactor = redactor

    def describe(self) -> Capabilities:
        """What the provider claims."""
        return self._provider.describe()

    def execute(self, call: Call) -> Result:
        """Answer one request.

        :raises ProviderFailure: as the provider does, without secrets; ``invalid-output``/``denied`` when the answer
            or the candidate holds one.
        """
        observer: Observer = _RedactedObserver(call.observer, self._redactor)
        try:
            result = self._provider.execute(replace(call, observer=observer))
        except ProviderFailure as failure:
            detail = self._redactor.redact_text(failure.detail)
            raise ProviderFailure(failure.outcome, failure.failure_kind, detail) from None
        except Exception as error:  # noqa: BLE001 - what foreign code raises may quote what it read
            observer.note(f"{type(error).__name__}: {error}")
            raise ProviderFailure("unavailable", "crash", f"The provider raised {type(error).__name__}.") from None
        self._verify_answer(result)
        if call.workspace is not None:
            self._verify_candidate(call.workspace)
        return result

    def _verify_answer(self, result: Result) -> None:
        raw = msgspec.json.encode(result)
        label = self._redactor.find(raw)
        if label is not None or self._redactor.is_marked(raw):
            raise _denied("The answer", label)

    def _verify_candidate(self, workspace: Workspace) -> None:
        try:
            for path in workspace.changed():
                mode = workspace.mode(path)
                if mode is None:
                    continue
                label = self._redactor.find(path)
                if label is not None:
                    raise _denied("A file's name in the candidate", label)
                if mode == "gitlink":
                    continue
                content = workspace.read(path)
                label = self._redactor.find(content)
                if label is not None or (self._redactor.is_marked(content) and not _had_mark(workspace, path)):
                    raise _denied(f"'{to_text(path)[:_MAX_SHOWN]}' in the candidate", label)
        except RefusedInput as error:  # the workspace was closed meanwhile: nothing of it is used any more
            raise ProviderFailure("cancelled", "cancelled", self._redactor.redact_text(str(error))) from None


def _had_mark(workspace: Workspace, path: bytes) -> bool:
    """Whether the base's own text holds the mark, as that of this project does."""
    try:
        return Redactor.is_marked(workspace.read_base(path))
    except RefusedInput:
        return False


def _denied(where: str, label: str | None) -> ProviderFailure:
    what = f"the credential of {label}" if label is not None else f"a credential that was taken out ({MARK})"
    return ProviderFailure("invalid-output", "denied", f"{where} holds {what}; nothing of it is kept.")


class _RedactedObserver:
    """An observer that hears no secret."""

    def __init__(self, observer: Observer, redactor: Redactor) -> None:
        self._observer = observer
        self._redactor = redactor

    def note(self, text: str) -> None:
        self._observer.note(self._redactor.redact_text(text))

    def usage(self, usage: Usage) -> None:
        self._observer.usage(usage)

    def processes(self, *, survivors: int, remaining: int, containment: Containment | None = None) -> None:
        self._observer.processes(survivors=survivors, remaining=remaining, containment=containment)
