"""Which version of an agent is installed, whether its profile was tested with it, and which program to start."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from commandprovider.profiles.model import Native, Profile

NODE_MODULES: Final = "node_modules"
_ARCHITECTURES: Final[Mapping[str, str]] = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def version_of(profile: Profile, output: str) -> str | None:
    """The version in what the profile's probe wrote to standard output; None when it is not there."""
    found = re.search(profile.probe.pattern, output, re.MULTILINE)
    return None if found is None else found["version"]


def is_tested(profile: Profile, version: str) -> bool:
    """Whether a version lies in the range that the profile was tested with."""
    first, after = profile.probe.tested
    return _numbers(first) <= _numbers(version) < _numbers(after)


def native_program(profile: Profile, wrapper: Path) -> Path:
    """The program behind an npm wrapper; the wrapper itself where it belongs to no such package.

    :param wrapper: the absolute path of the executable that was found on the PATH.
    """
    native = profile.native
    resolved = wrapper.resolve()
    if native is None or not _belongs_to(resolved, native.package):
        return wrapper
    pattern = native.binary.format(os=platform.system().lower(), arch=_ARCHITECTURES.get(platform.machine(), ""))
    for folder in _module_folders(resolved, native):
        for found in sorted(folder.glob(pattern)):
            if found.is_file():
                return found
    return wrapper


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def _belongs_to(resolved: Path, package: str) -> bool:
    return f"/{NODE_MODULES}/{package}/" in str(resolved)


def _module_folders(resolved: Path, native: Native) -> Iterator[Path]:
    """Where npm may have put the platform's package: inside the wrapper's package, or beside it or further up."""
    for parent in resolved.parents:
        if parent.name == NODE_MODULES:
            yield parent / native.package / NODE_MODULES
            yield parent
