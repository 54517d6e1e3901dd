"""The admission policy: strict reading of a project's own, and the floor that it may stand on.

The built-in starter is :mod:`admission.starter`, its TOML :mod:`admission.policy_toml`, both at hand here too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from admission.documents import Policy
from admission.floor import Refuse, Written, stand_on
from admission.policy_toml import policy_toml
from admission.starter import CHANGED, GATE, LOCKS, MANIFESTS, SANDBOXES, SOURCES, TEST_PATTERNS, starter_policy
from savant.contracts.digest import digest
from savant.contracts.errors import RefusedInput

__all__ = (
    "CHANGED",
    "GATE",
    "LOCKS",
    "MANIFESTS",
    "MAX_POLICY_BYTES",
    "POLICY_FILE",
    "POLICY_PATH",
    "SANDBOXES",
    "SOURCES",
    "TEST_PATTERNS",
    "ReadFloor",
    "policy_toml",
    "read_policy",
    "read_written",
    "refused_policy",
    "starter_policy",
)

POLICY_PATH: Final = b".savant/policy.toml"
POLICY_FILE: Final = ".savant/policy.toml"
AT_BASE: Final = " at the base"
POLICY_AT_BASE: Final = POLICY_FILE + AT_BASE
MAX_POLICY_BYTES: Final = 1024 * 1024

ReadFloor = Callable[[str], bytes | None]
"""The bytes of a file at the base, by its path in text; None where there is none."""


def read_policy(raw: bytes, floor: ReadFloor | None = None, *, file: str = POLICY_AT_BASE) -> Policy:
    """The policy of a project, as committed at the base, on the floor that it extends.

    :param floor: reads a file beside it, at the same base; None where there are none.
    :param file: what a refusal calls it.
    :raises RefusedInput: ``refused.policy`` naming file, key and fix.
    """

    def refuse(key: str, problem: str) -> RefusedInput:
        return refused_policy(key, problem, file=file)

    own, extends = read_written(raw, file)
    if extends is None:
        return own.policy
    under = read_floor(extends, floor, refuse)
    return stand_on(own, under, bundle=extends[0], bundle_digest=extends[1], refuse=refuse)


def read_floor(extends: tuple[str, str], floor: ReadFloor | None, refuse: Refuse) -> Written:
    """The floor's own file, if its bytes are the pinned ones and it stands on nothing else.

    :param extends: its path and the digest of its bytes.
    :param refuse: makes the refusal of the file that extends it.
    :raises RefusedInput: ``refused.policy``.
    """
    bundle, pinned = extends
    raw = None if floor is None else floor(bundle)
    if raw is None:
        raise refuse("extends.bundle", f"names {bundle}, which is not there")
    if digest(raw) != pinned:
        raise refuse("extends.digest", f"is not that of {bundle}: it is {digest(raw)}")
    under, again = read_written(raw, bundle)
    if again is not None:
        raise refused_policy("extends", "stands in a floor, which may not stand on another one", file=bundle)
    if under.policy.exceptions:
        problem = "stands in a floor, which makes no exceptions: write patterns that need none"
        raise refused_policy("exception", problem, file=bundle)
    return under


def read_written(raw: bytes, file: str) -> tuple[Written, tuple[str, str] | None]:
    """A policy file by itself, the keys that it wrote, and the path and digest of the floor that it names.

    :raises RefusedInput: ``refused.policy``.
    """
    import tomllib

    def refuse(key: str, problem: str) -> RefusedInput:
        return refused_policy(key, problem, file=file)

    if len(raw) > MAX_POLICY_BYTES:
        raise refuse("the file", f"has {len(raw)} bytes; {MAX_POLICY_BYTES} are allowed")
    try:
        data = tomllib.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a number of thousands of digits, deep nesting
        raise refuse("the file", f"is not TOML: {error}") from error
    from admission.policy_schema import parse_policy

    return parse_policy(data, refuse)


def refused_policy(key: str, problem: str, *, file: str = POLICY_AT_BASE) -> RefusedInput:
    """The refusal of one key of a policy file."""
    return RefusedInput(
        "refused.policy",
        f"{file}: {key} {problem}",
        untouched="No provider was called and nothing was written.",
        fix=f"Correct {file.removesuffix(AT_BASE)} and commit it.",
    )
