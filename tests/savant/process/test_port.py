"""The values of the process port refuse what no process could be started from."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from savant.contracts.errors import PortError, UsageError
from savant.process.port import VERDICTS, Command, Limits, cancelled_before_start, refuse_level

LIMITS = Limits(wall_ms=1, stdout_bytes=0, stderr_bytes=0)
GOOD = Command(argv=("/bin/true",), cwd=Path("/"), env=(("A", "b=c"), ("B", "")), limits=LIMITS)


@pytest.mark.parametrize(
    "changes",
    [
        {"argv": ()},
        {"argv": ("true",)},
        {"argv": ("./true",)},
        {"argv": ("/bin/true", "a\0b")},
        {"cwd": Path("relative")},
        {"cwd": Path("/a\0b")},
        {"env": (("A", "1"), ("A", "2"))},
        {"env": (("", "1"),)},
        {"env": (("A=B", "1"),)},
        {"env": (("A", "\0"),)},
    ],
)
def test_a_bad_command_cannot_be_made(changes: dict[str, object]) -> None:
    """Each is refused when the value is made, before any runner sees it."""
    with pytest.raises(UsageError) as caught:
        dataclasses.replace(GOOD, **changes)  # type: ignore[arg-type]
    assert caught.value.code == "usage.bad-command"


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Limits)])
def test_limits_have_a_range(name: str) -> None:
    """No limit is negative or beyond what a document can hold; 0 is a limit."""
    assert getattr(dataclasses.replace(LIMITS, **{name: 0}), name) == 0
    for value in (-1, 2**53):
        with pytest.raises(UsageError) as caught:
            dataclasses.replace(LIMITS, **{name: value})
        assert caught.value.code == "usage.bad-limit"
        assert name in caught.value.message


def test_levels_are_ordered() -> None:
    """More than is offered is refused, the same or less is not."""
    refuse_level("S0", "S0")
    refuse_level("S2", "S3")
    with pytest.raises(PortError) as caught:
        refuse_level("S1", "S0")
    assert caught.value.code == "port.sandbox-level"
    assert caught.value.untouched


def test_success_needs_everything() -> None:
    """Only an exit with 0 after which nothing is left is a success."""
    ended = dataclasses.replace(cancelled_before_start("S0"), verdict="exited", exit_status=0)
    assert ended.is_success
    assert not dataclasses.replace(ended, remaining=1).is_success
    assert not dataclasses.replace(ended, remaining=1).is_quiescent
    assert not dataclasses.replace(ended, exit_status=1).is_success
    for verdict in set(VERDICTS) - {"exited"}:
        assert not dataclasses.replace(ended, verdict=verdict).is_success
