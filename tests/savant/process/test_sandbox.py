"""Plans as values: what each level asks of the supervisor, and what is made of what the wrappers report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from savant.process.port import Command, Ended, Level, Limits, Mount, Sandbox, cancelled_before_start
from savant.process.sandbox import (
    LEVELS,
    TMP_BYTES,
    WRAPPERS,
    Host,
    bubblewrap_options,
    families,
    laid_over,
    layers,
    plan,
    tell,
)
from savant.process.seccomp import AF_UNIX

HOST = Host(
    machine="x86_64",
    landlock_abi=7,
    bubblewrap="/usr/bin/bwrap",
    system=(("/usr", None), ("/bin", "usr/bin"), ("/etc/passwd", None)),
)
LIMITS = Limits(wall_ms=1, stdout_bytes=0, stderr_bytes=0)
READABLE = Mount(Path("/tools"), Path("/tools"))
WRITABLE = Mount(Path("/work"), Path("/work"), writable=True)


def command(level: Level, *, network: bool = False, mounts: tuple[Mount, ...] = (READABLE, WRITABLE)) -> Command:
    return Command(
        argv=("/usr/bin/tool", "--flag"),
        cwd=Path("/work"),
        env=(("A", "b=c"), ("SECRET", "s3cret")),
        limits=LIMITS,
        sandbox=Sandbox(level=level, network=network, mounts=mounts),
    )


def test_nothing_is_done_at_s0() -> None:
    """The command as it is, without any layer of the sandbox."""
    made = plan(command("S0"), HOST)
    assert (made.argv, made.env, made.cwd) == (("/usr/bin/tool", "--flag"), command("S0").env, "/work")
    assert (made.contain, made.blobs, made.has_report, made.wrappers, made.layers) == (None, (), False, 0, ())


def test_landlock_grants_the_system_and_the_mounts() -> None:
    """At S1 nothing else has a rule, and nothing that may be read only may be written."""
    made = plan(command("S1"), HOST)
    assert made.contain is not None
    rules = dict(made.contain["landlock"]["rules"])
    devices = {path for path in rules if path.startswith("/dev/")}
    assert rules.keys() - devices == {"/usr", "/bin", "/etc/passwd", "/proc", "/tools", "/work"}
    write_file = 1 << 1
    assert {path for path in rules.keys() - devices if rules[path] & write_file} == {"/work"}
    assert made.contain["namespaces"] == 0
    assert (made.has_report, made.wrappers, made.argv) == (False, 0, ("/usr/bin/tool", "--flag"))
    assert json.loads(json.dumps(made.contain)) == made.contain


@pytest.mark.parametrize(("network", "flags"), [(False, 0x7C020000), (True, 0x3C020000)])
def test_namespaces_are_those_of_the_level(network: bool, flags: int) -> None:
    """At S2 user, process, mount, IPC and name spaces, and one of the network where it has none."""
    made = plan(command("S2", network=network), HOST)
    assert made.contain is not None
    assert made.contain["namespaces"] == flags
    assert made.contain["loopback"] is not network
    assert made.contain["mounts"] == [["/work", True]]
    assert (made.has_report, made.wrappers) == (True, WRAPPERS)


def test_bubblewrap_gets_an_explicit_root() -> None:
    """At S3 exactly the system and the mounts are bound, links of the root are made again, and the end is read-only."""
    options = bubblewrap_options(command("S3"), HOST)
    text = " ".join(options)
    assert "--ro-bind /usr /usr --symlink usr/bin /bin --ro-bind /etc/passwd /etc/passwd" in text
    assert text.count("--ro-bind") == 3
    assert text.count("--bind") == 1
    assert f"--size {TMP_BYTES} --perms 1777 --tmpfs /tmp" in text
    assert text.index("--tmpfs /tmp") < text.index("--ro-bind /tools /tools --bind /work /work")
    assert text.index("--bind /work /work") < text.index("--remount-ro / --clearenv")
    assert "--setenv A b=c --setenv SECRET s3cret --chdir /work" in text


ALWAYS = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--uid 65534",
    "--gid 65534",
    "--cap-drop ALL",
    "--disable-userns",
    "--die-with-parent",
    "--new-session",
    "--clearenv",
    "--remount-ro /proc",
    "--remount-ro /dev",
)


@given(st.booleans(), st.lists(st.booleans(), max_size=4))
def test_no_configuration_takes_a_control_away(network: bool, kinds: list[bool]) -> None:
    """Whatever the mounts and the network, every other option of the containment is there."""
    mounts = tuple(Mount(Path(f"/m{n}"), Path(f"/t{n}"), writable=kind) for n, kind in enumerate(kinds))
    text = " ".join(bubblewrap_options(command("S3", network=network, mounts=mounts), HOST))
    assert all(option in text for option in ALWAYS)
    assert ("--unshare-net" in text) is not network
    assert "--share-net" not in text
    for mount in mounts:
        assert f"{'--bind' if mount.writable else '--ro-bind'} {mount.source} {mount.target}" in text


def test_arguments_of_the_wrapper_hold_no_secret() -> None:
    """Options and variables go through a descriptor, and bubblewrap itself has no environment."""
    made = plan(command("S3"), HOST)
    assert made.argv == (
        *("/usr/bin/bwrap", "--args", 3, "--seccomp", 4, "--json-status-fd", 5, "--"),
        *("/usr/bin/tool", "--flag"),
    )
    assert (made.env, made.cwd, made.contain, made.has_report) == ((), "/", None, True)
    assert made.blobs[0].decode().rstrip("\0").split("\0") == list(bubblewrap_options(command("S3"), HOST))


def test_an_odd_byte_reaches_bubblewrap() -> None:
    """A variable that is not text arrives as the bytes it is."""
    odd = structs.replace(command("S3"), env=(("A", "b\udcff"),))
    assert b"\0A\0b\xff\0" in plan(odd, HOST).blobs[0]


def test_only_mounts_that_change_something_are_made() -> None:
    """In a file system that is all read-only, what may be read only matters where it lies in what may be written."""
    inside = Mount(Path("/work/venv"), Path("/work/venv"))
    assert list(laid_over((READABLE, WRITABLE, inside))) == [WRITABLE, inside]
    assert list(laid_over((inside, WRITABLE))) == [WRITABLE]


def test_unix_sockets_need_a_world_of_their_own() -> None:
    """Only where neither folders nor names of the host can be reached may a command make them."""
    allowed = {
        (level, network) for level in LEVELS[:3] for network in (True, False) if AF_UNIX in families(level, network)
    }
    assert allowed == {("S3", False)}
    assert families("S1", network=False) == ()


def test_layers_name_what_is_active() -> None:
    """More at each level, the network only where it is shut, the scope only where the kernel has it."""
    assert layers(command("S0"), HOST) == ()
    assert "no-network" in layers(command("S1"), HOST)
    assert "no-network" not in layers(command("S1", network=True), HOST)
    assert "landlock-scope" not in layers(command("S1"), structs.replace(HOST, landlock_abi=5))
    assert set(layers(command("S2"), HOST)) - set(layers(command("S2", network=True), HOST)) == {"network-namespace"}
    assert "bubblewrap" in layers(command("S3"), HOST)
    for level in LEVELS:
        found = layers(command(level), HOST)
        assert list(found) == sorted(set(found))
        assert plan(command(level), HOST).layers == found


# --- how it ended ----------------------------------------------------------------------------------------------------

EXITED = structs.replace(cancelled_before_start("S2"), verdict="exited", exit_status=0, detail="", layers=("a",))
AT_S3 = structs.replace(EXITED, level="S3")


def told(seen: Ended, report: bytes, **changes: object) -> tuple[object, ...]:
    ended = tell(structs.replace(seen, **changes), report)
    return (ended.verdict, ended.exit_status, ended.signal, ended.survivors)


def test_the_init_tells_how_the_command_ended() -> None:
    """Its status and the others that were alive come from the report; the wrapper's own status does not count."""
    assert told(EXITED, b'{"status": 1792, "survivors": 2}') == ("exited", 7, None, 2)
    assert told(EXITED, b'{"status": 9, "survivors": 0}') == ("signaled", None, 9, 0)
    assert told(EXITED, b'{"status": 134, "survivors": 0}') == ("signaled", None, 6, 0)
    late = {"verdict": "timed-out", "detail": "late", "survivors": 1}
    assert told(EXITED, b'{"status": 1280, "survivors": 1}', **late) == ("timed-out", 5, None, 2)


def test_without_a_report_nothing_succeeded() -> None:
    """A namespace that ended without its report was killed, whatever the wrapper's status says."""
    assert told(EXITED, b"") == ("signaled", None, 9, 0)
    assert tell(EXITED, b"").detail == "it was killed with its namespace"
    assert told(EXITED, b"", verdict="signaled", exit_status=None, signal=11) == ("signaled", None, 11, 0)
    killed = {"verdict": "timed-out", "exit_status": None, "signal": 9, "survivors": 3}
    assert told(EXITED, b"", **killed) == ("timed-out", None, 9, 3)
    bomb = tell(structs.replace(EXITED, verdict="signaled", signal=9, detail="ran more than 4 processes"), b"")
    assert bomb.detail == "it was killed with its namespace; ran more than 4 processes"
    failed = structs.replace(EXITED, verdict="spawn-error", exit_status=None, detail="sandbox: no")
    assert tell(failed, b"") == failed


REPORT = b'{ "child-pid": 5 }\n{ "exit-code": 0 }\n'


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (0, ("exited", 0, None, 0)),
        (1, ("exited", 1, None, 0)),
        (128, ("exited", 128, None, 0)),
        (129, ("signaled", None, 1, 0)),
        (137, ("signaled", None, 9, 0)),
        (192, ("signaled", None, 64, 0)),
        (193, ("exited", 193, None, 0)),
        (255, ("exited", 255, None, 0)),
    ],
)
def test_bubblewrap_tells_signals_as_shells_do(status: int, expected: tuple[object, ...]) -> None:
    """128 and a number is a signal; the status is that of the process we saw, not what stands in the report."""
    assert told(AT_S3, REPORT, exit_status=status, survivors=4) == expected
    assert told(AT_S3, b"", exit_status=status) == ("spawn-error", None, None, 0)


def test_a_wrapper_that_was_killed_is_no_success() -> None:
    """Bubblewrap ended by a signal, by us or by somebody else, with or without a report."""
    for report in (b"", REPORT):
        killed = {"verdict": "signaled", "exit_status": None, "signal": 9}
        assert told(AT_S3, report, **killed) == ("signaled", None, 9, 0)
        late = {"verdict": "timed-out", "exit_status": None, "signal": 9, "survivors": 2}
        assert told(AT_S3, report, **late) == ("timed-out", None, 9, 2)
    assert told(AT_S3, REPORT, verdict="timed-out", exit_status=143) == ("timed-out", None, 15, 0)
    assert told(AT_S3, b"", verdict="timed-out", exit_status=143) == ("timed-out", None, 15, 0)
    assert told(AT_S3, b"", verdict="timed-out", exit_status=1) == ("timed-out", None, 9, 0)


@pytest.mark.parametrize(
    ("said", "detail"),
    [
        (b"bwrap: execvp /none: No such file or directory\n", "execute: No such file or directory"),
        (b"bwrap: execvp /a: b: Permission denied\n", "execute: Permission denied"),
        (b"bwrap: Can't chdir to /none: No such file or directory\n", "working directory: No such file or directory"),
        (b"bwrap: Can't find source path /x: No such file", "sandbox: Can't find source path /x: No such file"),
        (b"bwrap: Unknown option --disable-userns\n", "sandbox: Unknown option --disable-userns"),
        (b"odd\nbwrap: last\xff\n", "sandbox: last\ufffd"),
        (b"", "sandbox: bubblewrap said nothing"),
    ],
)
def test_a_start_that_failed_is_told_in_our_words(said: bytes, detail: str) -> None:
    """What bubblewrap wrote is the detail and not the command's standard error."""
    ended = tell(structs.replace(AT_S3, exit_status=1, stderr=said), b'{ "child-pid": 5 }\n')
    assert (ended.verdict, ended.detail, ended.stderr, ended.layers) == ("spawn-error", detail, b"", ())
