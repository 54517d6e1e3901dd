"""Where a tool's imports may come from: the copy, wherever it is seen, and the reused folders of the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from evaluator.toolchain import Toolchain


class Grounds(msgspec.Struct, frozen=True):
    """The folders that places are judged by, all real paths but ``seen_at``, where the interpreter sees the copy.

    ``kept`` are the reused folders of the checkout, ``named`` the same as they are named.
    """

    surface: Path
    seen_at: Path
    absent: Path
    checkout: Path | None
    kept: tuple[Path, ...]
    named: tuple[Path, ...]

    @property
    def is_moved(self) -> bool:
        """Whether the interpreter sees the copy at another path than ours: the checkout's."""
        return self.seen_at != self.surface

    def in_copy(self, place: str) -> Path | None:
        """What a place of a moved copy is to us, links not followed; None for any other place."""
        path = Path(os.path.normpath(place))
        if not self.is_moved or not path.is_relative_to(self.seen_at):
            return None
        is_kept = any(path.is_relative_to(folder) for folder in self.named)
        return None if is_kept else self.surface / path.relative_to(self.seen_at)

    def real(self, place: str) -> Path:
        """A place as the interpreter names it, as a real path of ours."""
        return Path(os.path.realpath(self.in_copy(place) or place))

    def is_inside(self, place: str) -> bool:
        """Whether a place is the copy's, or the note that there is nothing."""
        real = self.real(place)
        return real.is_relative_to(self.surface) or real.is_relative_to(self.absent)

    def of_checkout(self, place: str, prefix: str) -> Path | None:
        """A place of the checkout, relative to it, that is neither the copy's nor an installed package."""
        real = self.real(place)
        if self.checkout is None or not real.is_relative_to(self.checkout) or self.is_inside(place):
            return None
        installed = Path(os.path.realpath(prefix))
        if installed != self.checkout and installed.is_relative_to(self.checkout) and real.is_relative_to(installed):
            return None
        return None if any(real.is_relative_to(folder) for folder in self.kept) else real.relative_to(self.checkout)

    def root_of(self, holder: str, prefix: str) -> Path | None:
        """A folder that is imported from, as a folder of the copy; None for one that the copy has no part in."""
        moved = self.in_copy(holder)
        return self.of_checkout(holder, prefix) if moved is None else moved.relative_to(self.surface)


def grounds_of(surface: Path, seen_at: Path | None, absent: Path, toolchain: Toolchain) -> Grounds:
    """The grounds of one check.

    :param surface: the copy, an existing folder of ours.
    :param seen_at: the path at which the tool sees it, None for its own.
    :param absent: an existing folder outside it that the tool may import from.
    """
    checkout = None if toolchain.checkout is None else toolchain.checkout.resolve()
    named = () if toolchain.checkout is None else tuple(toolchain.checkout / folder for folder in toolchain.folders)
    real, kept = surface.resolve(), tuple(folder.resolve() for folder in named)
    return Grounds(real, real if seen_at is None else seen_at, absent.resolve(), checkout, kept, named)
