"""What a replay decides from: a run's records, its base and blobs; and how a step says that something differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from driver.history import RunHistory
from runner.change import change_set
from runner.content import CandidateTree
from runner.documents import Candidate, ChangeSet
from runner.snapshot import BaseSnapshot
from savant.contracts.document import D, Sealed
from savant.contracts.errors import PortError, RefusedInput, Unverifiable, VerificationError
from savant.contracts.signing import Verifier
from savant.repository.manifest import diff
from savant.store.port import ObjectStore
from synthesis.documents import Session, State, Transition
from synthesis.replay import fold


@dataclass(frozen=True)
class Evidence:
    """What a replay has: a run's records, and what lies outside them.

    :param base: the snapshot of a commit, built without any cache; None without a repository.
    :param store: the object store beside the ledger; None without one.
    """

    history: RunHistory
    base: Callable[[str], BaseSnapshot] | None
    store: ObjectStore | None
    verifier: Verifier

    def one(self, type_: type[D], digest: str) -> Sealed[D]:
        """A document by digest.

        :raises Unverifiable: ``unverifiable.replay`` when the run did not record it.
        """
        for sealed in self.history.all(type_):
            if sealed.digest == digest:
                return sealed
        raise not_shown(f"the {type_.__name__.lower()} {digest} is not among the records")

    @cached_property
    def session(self) -> Sealed[Session]:
        """The one session of the run."""
        found = self.history.all(Session)
        if not found:
            raise not_shown("the run recorded no session")
        if len({sealed.digest for sealed in found}) > 1:
            raise differs("session", "the run recorded several sessions")
        return found[0]

    @cached_property
    def final_state(self) -> State:
        """The state that the recorded transitions lead to."""
        transitions = [sealed.document for sealed in self.history.all(Transition)]
        return fold(self.session.document, transitions, self.history.raw)

    def snapshot(self, commit: str) -> BaseSnapshot:
        """The base of a candidate, from the repository's own objects.

        :raises Unverifiable: ``unverifiable.replay`` when the repository does not have it.
        """
        if self.base is None:
            raise not_shown("there is no repository to read the base from")
        try:
            return self.base(commit)
        except (RefusedInput, PortError) as error:
            raise not_shown(f"the base {commit} cannot be read here: {error.message}") from error

    def tree(self, candidate: Candidate) -> tuple[BaseSnapshot, CandidateTree]:
        """A candidate over its base; computing it verifies operations, labels and the three digests.

        :raises Unverifiable: ``unverifiable.replay`` without a repository or a store.
        :raises VerificationError: as :func:`runner.content.verify_candidate`.
        """
        if self.store is None:
            raise not_shown("there is no object store beside the ledger")
        base = self.snapshot(candidate.base_commit)
        return base, CandidateTree(base, candidate, self.store)

    def changes(self, candidate: Candidate) -> ChangeSet:
        """The change set of a candidate, computed from the two manifests and the bytes of every changed file.

        :raises Unverifiable: as :meth:`tree`; ``unverifiable.object-missing``.
        :raises VerificationError: as :meth:`tree`; ``unverified.object``.
        """
        base, tree = self.tree(candidate)
        return change_set(
            diff(base.manifest, tree.manifest), lambda path: len(base.read(path)), lambda path: len(tree.read(path))
        )


def verify_same(step: str, what: str, again: object, recorded: object) -> None:
    """Return if what was decided again is what was recorded.

    :raises VerificationError: ``unverified.replay-<step>``.
    """
    if again != recorded:
        raise differs(step, f"{what} comes out as {again}, recorded is {recorded}")


def differs(step: str, how: str) -> VerificationError:
    """The divergence of a step."""
    return VerificationError(f"unverified.replay-{step}", f"The replay differs: {how}.")


def not_shown(what: str) -> Unverifiable:
    """A step cannot be made: what it needs is not there."""
    return Unverifiable("unverifiable.replay", what)
