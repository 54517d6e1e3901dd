"""The values of the process port refuse what no process could be started from."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from savant.contracts.errors import PortError, UsageError
from savant.process.port import VERDICTS, Command, Level, Limits, Mount, Sandbox, cancelled_before_start, refuse_level

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
        structs.replace(GOOD, **changes)  # type: ignore[arg-type]
    assert caught.value.code == "usage.bad-command"


@pytest.mark.parametrize("name", Limits.__struct_fields__)
def test_limits_have_a_range(name: str) -> None:
    """No limit is negative or beyond what a document can hold; 0 is a limit."""
    assert getattr(structs.replace(LIMITS, **{name: 0}), name) == 0
    for value in (-1, 2**53):
        with pytest.raises(UsageError) as caught:
            structs.replace(LIMITS, **{name: value})
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
    ended = structs.replace(cancelled_before_start("S0"), verdict="exited", exit_status=0)
    assert ended.is_success
    assert not structs.replace(ended, remaining=1).is_success
    assert not structs.replace(ended, remaining=1).is_quiescent
    assert not structs.replace(ended, exit_status=1).is_success
    for verdict in set(VERDICTS) - {"exited"}:
        assert not structs.replace(ended, verdict=verdict).is_success


@pytest.mark.parametrize("path", ["relative", "/a/../b", "/a\0b"])
def test_a_mount_has_plain_absolute_paths(path: str) -> None:
    """Neither side of a mount can be a path whose meaning depends on something else."""
    Mount(Path("/a"), Path("/b"), writable=True)
    for source, target in (("/a", path), (path, "/a")):
        with pytest.raises(UsageError) as caught:
            Mount(Path(source), Path(target))
        assert caught.value.code == "usage.bad-sandbox"


def test_only_a_level_with_mounts_moves_a_path() -> None:
    """Landlock knows host paths only, so S1 and S2 refuse another path inside; S0 and S3 take it."""
    moved, plain = Mount(Path("/a"), Path("/b")), Mount(Path("/a"), Path("/a"))
    assert (moved.is_moved, plain.is_moved) == (True, False)
    levels: tuple[Level, ...] = ("S0", "S1", "S2", "S3")
    for level in levels:
        Sandbox(level=level, mounts=(plain,))
        if level in ("S0", "S3"):
            Sandbox(level=level, mounts=(plain, moved))
        else:
            with pytest.raises(UsageError) as caught:
                Sandbox(level=level, mounts=(plain, moved))
            assert caught.value.code == "usage.bad-sandbox"


def test_landlock_cannot_take_a_right_away() -> None:
    """At S1 nothing that may be read only can lie in what may be written; the other way round it can."""
    outer, inner = Path("/a"), Path("/a/b")
    for level in ("S0", "S2", "S3"):
        Sandbox(level=level, mounts=(Mount(outer, outer, writable=True), Mount(inner, inner)))
    Sandbox(level="S1", mounts=(Mount(outer, outer), Mount(inner, inner, writable=True)))
    with pytest.raises(UsageError) as caught:
        Sandbox(level="S1", mounts=(Mount(inner, inner), Mount(outer, outer, writable=True)))
    assert caught.value.code == "usage.bad-sandbox"


def test_what_never_started_had_no_layers() -> None:
    """A cancelled command names the level it was to have and claims nothing that was active."""
    ended = cancelled_before_start("S2")
    assert (ended.level, ended.layers) == ("S2", ())
