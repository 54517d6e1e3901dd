"""What a run is given: precommitted documents, and the ports through which everything else comes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from admission.documents import Policy as AdmissionPolicy
from driver.audit import NOBODY, AuditPort
from driver.demands import NO_DEMANDS, Demands
from driver.documents import Accounting
from driver.documents import Policy as DriverPolicy
from driver.recorder import Recorder
from evaluator.documents import Policy as EvaluatorPolicy
from evaluator.heldout import HeldOut
from providerport.port import Provider
from runner.normalise import Normaliser
from runner.snapshot import BaseSnapshot
from savant.contracts.document import Document, Sealed
from savant.contracts.effects import Cancellation, Clock, Tasks
from savant.identity.documents import Closure
from savant.identity.owners import Owners
from savant.identity.people import People
from savant.process.port import ProcessRunner
from savant.process.view import PLAIN_SIGHT, Sight
from savant.store.port import ObjectStore
from savant.store.results import KeptResults
from synthesis.documents import Limitation, Session


class Progress(Protocol):
    """Where a run says what it is doing, for a person; it decides nothing."""

    def say(self, line: str) -> None:
        """One line."""
        ...


class RunInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The precommitted half of a run. ``identities`` are recorded before anything else, in this order.

    :param scope: patterns that the person limited the task to; empty for none.
    :param requester: who asked, as written in the task.
    :param accounting: the worst case of a provider call, and its price.
    :param demands: the least containment of each command.
    :param limitations: what is known before the start and belongs into the run's receipt.
    :param as_of: the day on which what can expire is judged.
    :param people: who is listed at the base; None where nobody is.
    :param auditor_configs: what those are who audit.
    :param owners: who owns paths at the base; None where it does not say, or the policy does not ask.
    """

    session: Sealed[Session]
    snapshot: BaseSnapshot
    driver_policy: Sealed[DriverPolicy]
    evaluator_policy: Sealed[EvaluatorPolicy]
    admission_policy: Sealed[AdmissionPolicy]
    closure: Sealed[Closure]
    identities: tuple[Sealed[Document], ...]
    provider_config: Sealed[Document]
    accounting: Sealed[Accounting]
    scope: tuple[str, ...]
    requester: str
    demands: Demands = NO_DEMANDS
    limitations: tuple[Limitation, ...] = ()
    as_of: str | None = None
    people: People | None = None
    owners: Owners | None = None
    auditor_configs: tuple[Sealed[Document], ...] = ()

    @property
    def is_accounted(self) -> bool:
        """Whether the accounting decides anything, or explains a number: it is recorded then."""
        budgets = self.session.document.budgets
        limited = budgets.tokens is not None or budgets.cost_microunits is not None
        return limited or self.accounting.document.price is not None


class RunPorts(msgspec.Struct, frozen=True, kw_only=True):
    """The effects of a run.

    :param provider: makes a fresh provider for each call.
    :param scratch: a private directory outside the repository.
    :param checkout: the person's checkout, whose toolchain evaluators may reuse; None for a bare repository.
    :param search_path: folders in which evaluator commands are looked up.
    :param normalisers: the policy's formatters, their executables resolved.
    :param ambient: the person's environment; evaluators see only the names that their policy lists.
    :param suite: the held-out suite, whose digest the evaluator policy names; None for none.
    :param auditors: who may be asked for an audit, by role: ``reviewer``, ``adversary``.
    :param results: what bases gave in earlier runs; None to measure every base.
    :param sight: what evaluators and formatters see of the person's machine.
    :param prepared: where folders that are prepared for checks are kept over runs, outside every repository; None to
        keep them no longer than the run.
    """

    recorder: Recorder
    provider: Callable[[], Provider]
    clock: Clock
    tasks: Tasks
    cancellation: Cancellation
    store: ObjectStore
    processes: ProcessRunner
    normalisers: tuple[Normaliser, ...]
    scratch: Path
    checkout: Path | None
    search_path: tuple[Path, ...]
    ambient: Mapping[str, str]
    progress: Progress
    sight: Sight = PLAIN_SIGHT
    suite: HeldOut | None = None
    results: KeptResults | None = None
    auditors: Mapping[str, AuditPort] = NOBODY
    prepared: Path | None = None
