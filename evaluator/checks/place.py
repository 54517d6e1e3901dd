"""Where one command check happens: its own folders, what it sees of the machine, what contained it.

At sandbox level S3 the copy is seen at the path of the checkout it stands for, the reused folders of the checkout lie
over it, read-only, and nothing else of the checkout is there. Below S3 the copy is seen where it lies, and the reused
folders where they are. ``node_modules`` is a folder of the copy's own at every level, because common tools write into
it; its packages are links to the checkout's, which at S3 are seen, read-only, outside the copy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from evaluator.documents import EvaluatorConfig
from evaluator.findings import normalise
from evaluator.heldout import HeldOut
from evaluator.isolation import PROBE
from evaluator.toolchain import Interpreter, Stand, Toolchain, leaking_link, link_packages
from savant.contracts.containment import Containment, Demand, SandboxLevel, weakest
from savant.contracts.effects import Cancellation
from savant.contracts.errors import Conflict, RefusedInput
from savant.files.tree import mkdirs_at, open_root
from savant.process.environment import DEFAULT_PATH, allowed_environment
from savant.process.port import Command, Ended, Limits, ProcessRunner
from savant.process.view import PLAIN_SIGHT, Sight, confined, containment_of
from savant.store.results import KeptResults

if TYPE_CHECKING:
    from evaluator.prepare import Preparing

PROBE_TIMEOUT_MS: Final = 30_000
PROBE_BYTES: Final = 4 * 1024 * 1024
MODULES: Final = "node_modules"
NO_DEMAND: Final = Demand()


def _say_nothing(_: str) -> None:
    """Where nobody listens."""


class CommandHost(msgspec.Struct, frozen=True):
    """What command evaluators may use of the machine.

    :param network: whether their commands may use the network.
    :param sight: what they see of the person's machine.
    :param suite: the held-out suite of the run, None for none.
    :param demands: the least containment of each evaluator, by its id; nothing is demanded of others.
    :param results: what bases gave in earlier runs; None for nothing.
    :param say: where it is told what a person may wonder about.
    :param preparing: what makes the folders of a tree's checks in place of the checkout's; None where nothing does.
    :param prepared: the key of those that were made; empty for none.
    """

    processes: ProcessRunner
    scratch: Path
    toolchain: Toolchain
    ambient: Mapping[str, str]
    environment: tuple[str, ...]
    cancellation: Cancellation
    network: bool = False
    sight: Sight = PLAIN_SIGHT
    demands: Mapping[str, Demand] = MappingProxyType({})
    suite: HeldOut | None = None
    results: KeptResults | None = None
    say: Callable[[str], None] = _say_nothing
    preparing: Preparing | None = None
    prepared: str = ""

    def demand(self, evaluator: str) -> Demand:
        """The least containment of an evaluator's commands."""
        return self.demands.get(evaluator, NO_DEMAND)


class CheckPlace(msgspec.Struct, frozen=True):
    """One command and the folders of its own below ``place``: the copy, and a home outside it.

    :param level: the containment its commands get.
    :param seen: what contained those that have run.
    """

    config: EvaluatorConfig
    executable: Path
    place: Path
    host: CommandHost
    level: SandboxLevel
    seen: list[Containment | None] = []

    @property
    def surface(self) -> Path:
        """The copy, as we see it."""
        return self.place / "surface"

    @property
    def home(self) -> Path:
        """The private home."""
        return self.place / "home"

    @property
    def absent(self) -> Path:
        """Modules that are not there."""
        return self.place / "absent"

    @property
    def modules(self) -> Path:
        """The checkout's ``node_modules``, as the command sees it where it sees the copy in the checkout's place."""
        return self.place / "tools" / MODULES

    @property
    def stands_for(self) -> Path | None:
        """The path of the checkout, where the command sees the copy there; None where it sees it where it lies."""
        return self.host.toolchain.checkout if self.level == "S3" else None

    @property
    def seen_at(self) -> Path:
        """The copy, as the command sees it."""
        return self.stands_for or self.surface

    @property
    def places(self) -> tuple[str, ...]:
        """The folders whose names say nothing about the candidate: this check's own, and the checkout."""
        checkout = self.host.toolchain.checkout
        own = (self.surface, self.home, self.absent, self.place)
        return tuple(map(str, own if checkout is None else (*own, checkout)))

    @property
    def containment(self) -> Containment | None:
        """The weakest that one of its commands had so far."""
        return weakest(self.seen)

    @property
    def toolchain(self) -> Toolchain:
        """The host's toolchain, with only those reused folders that the command sees."""
        return replace(self.host.toolchain, folders=tuple(self._reused()))

    def words(self, text: str) -> str:
        """A text as it may be told: without the places of this check."""
        return normalise(text, self.places)

    def environment(self, extra: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """The complete environment of its commands."""
        host, path = self.host, self.host.toolchain.path()
        # No repository around the copy is seen, and sets are told in one order.
        above = dict.fromkeys((str(self.place), str(self.seen_at.parent)))
        more = {"GIT_CEILING_DIRECTORIES": ":".join(above), "PYTHONHASHSEED": "0", **extra}
        if path:
            more.setdefault("PATH", path)
        return allowed_environment(host.ambient, host.environment, self.home, self.home / "tmp", more)

    def make_room(self) -> None:
        """In a copy that is seen in the checkout's place, make the empty folders that the reused ones will lie over.

        A path that the candidate has stays the candidate's.
        """
        if self.stands_for is None:
            return
        with open_root(self.surface) as root:
            for folder in self.host.toolchain.folders:
                if (
                    folder != MODULES
                    and (self.stands_for / folder).is_dir()
                    and not os.path.lexists(self.surface / folder)
                ):
                    with suppress(RefusedInput, Conflict):  # a link or a file of the candidate's is in the way
                        mkdirs_at(root, os.fsencode(folder), sync=False)

    def link_packages(self) -> str | None:
        """Make ``node_modules`` reachable from the copy; why that cannot be done safely, or None.

        A package that is a link into the checkout is the copy's own where the copy is in the checkout's place.
        """
        toolchain, target = self.host.toolchain, self.surface / MODULES
        if toolchain.checkout is None or MODULES not in toolchain.folders:
            return None
        folder = toolchain.checkout / MODULES
        if not folder.is_dir() or os.path.lexists(target):
            return None
        if self.stands_for is not None:
            stand = Stand(toolchain.checkout.resolve(), self.stands_for, folder.resolve(), self.modules)
            link_packages(folder, target, stand)
            return None
        leaking = leaking_link(folder, toolchain.checkout)
        if leaking is not None:
            return f"{MODULES}/{leaking} is a link into the checkout, so the checkout would be judged"
        link_packages(folder, target)
        return None

    def is_folder(self, directory: str) -> bool:
        """Whether the copy has a folder at a path, reached without a link."""
        place = self.surface
        for part in Path(directory).parts:
            place = place / part
            if place.is_symlink() or not place.is_dir():
                return False
        return True

    def run(
        self,
        argv: tuple[str, ...],
        extra: Mapping[str, str],
        limits: Limits,
        stdin: bytes = b"",
        *,
        directory: str | None = None,
    ) -> Ended:
        """Run a command in the copy, as contained as can be.

        :param directory: the folder of the copy that it starts in; None for the copy itself.

        :raises PortError: as the runner does; ``port.sandbox-level``.
        :raises UsageError: ``usage.view-hidden`` when a reused folder holds what is kept from every command.
        """
        host, checkout = self.host, self.host.toolchain.checkout
        reused = () if checkout is None else tuple(checkout / folder for folder in self._reused())
        sandbox = confined(
            self.level,
            host.demand(self.config.id).minimum,
            network=host.network,
            writable={self.surface: self.seen_at, self.home: self.home},
            executables=(Path(argv[0]), *(folder / "bin" / "python" for folder in reused)),
            read_only=(*reused, self.absent, *host.sight.read_only),
            read_only_at=self._modules(),
            search_path=host.toolchain.path() or DEFAULT_PATH,
            hidden=host.sight.hidden,
        )
        cwd = self.seen_at if directory is None else self.seen_at / directory
        command = Command(argv=argv, cwd=cwd, env=self.environment(extra), limits=limits, stdin=stdin, sandbox=sandbox)
        ended = host.processes.run(command, host.cancellation)
        self.seen.append(containment_of(ended, network=host.network))
        return ended

    def ask(self, interpreter: Interpreter, stdin: bytes, extra: Mapping[str, str]) -> bytes | None:
        """Ask an interpreter in the environment of the check."""
        limits = Limits(wall_ms=PROBE_TIMEOUT_MS, stdout_bytes=PROBE_BYTES, stderr_bytes=PROBE_BYTES, grace_ms=0)
        ended = self.run((str(interpreter.path), *interpreter.options, "-c", PROBE), extra, limits, stdin)
        return ended.stdout if ended.is_success else None

    def _reused(self) -> tuple[str, ...]:
        """The reused folders that are seen at their paths: over a copy in the checkout's place where there is room."""
        folders, checkout = self.host.toolchain.folders, self.stands_for
        if checkout is None:
            return folders
        return tuple(
            folder
            for folder in folders
            if folder != MODULES and (checkout / folder).is_dir() and _is_room(self.surface, Path(folder))
        )

    def _modules(self) -> Mapping[Path, Path]:
        """The checkout's ``node_modules`` and where it is seen, where the copy is in the checkout's place."""
        if self.stands_for is None or MODULES not in self.host.toolchain.folders:
            return {}
        folder = self.stands_for / MODULES
        return {folder: self.modules} if folder.is_dir() else {}


def _is_room(surface: Path, folder: Path) -> bool:
    """Whether a folder of the copy is an empty one, reached without a link."""
    steps = [surface.joinpath(*folder.parts[:count]) for count in range(1, len(folder.parts) + 1)]
    if not all(step.is_dir() and not step.is_symlink() for step in steps):
        return False
    return not any(steps[-1].iterdir()) if steps else False
