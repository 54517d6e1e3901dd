"""What is offered is what ran; what is missing says why and what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from msgspec import structs

from savant.contracts.errors import PortError
from savant.process import posix
from savant.process.host import Circumstances, explain, look, look_around, obstacle
from savant.process.offering import PROBE, find_offer, try_level
from savant.process.port import Command, Ended, Level, Limits, Missing, Sandbox, cancelled_before_start
from savant.process.posix import SupervisedRunner
from savant.process.sandbox import LEVELS, SYSTEM, Host
from savant.process.seccomp import MACHINES

HOST = Host(machine="x86_64", landlock_abi=7, bubblewrap="/usr/bin/bwrap", system=())
PLAIN = Circumstances(
    is_linux=True,
    distributions=("debian",),
    restricted_by_apparmor=False,
    user_namespaces=1000,
    in_container=False,
)


def ended(level: Level, **changes: object) -> Ended:
    made = structs.replace(
        cancelled_before_start(level), verdict="exited", exit_status=0, detail="", layers=("session", "subreaper")
    )
    return structs.replace(made, **changes)


def outcomes(working: str) -> Callable[[Level], Ended | Missing]:
    return lambda level: ended(level) if level in working else Missing(f"m{level}", "Because.", "do")


@pytest.mark.parametrize(
    ("working", "at_most", "level", "missing"),
    [
        ("S0 S1 S2 S3", "S3", "S3", ()),
        ("S0 S1 S2", "S3", "S2", ("mS3",)),
        ("S0 S3", "S3", "S3", ()),
        ("S0", "S3", "S0", ("mS3", "mS2", "mS1")),
        ("S0 S1 S2 S3", "S1", "S1", ()),
        ("S0", "S1", "S0", ("mS1",)),
    ],
)
def test_the_strongest_that_works_is_offered(
    working: str, at_most: Level, level: Level, missing: tuple[str, ...]
) -> None:
    """Levels are tried from the strongest; the reasons for those that failed come with the offer."""
    tried: list[Level] = []

    def attempt(asked: Level) -> Ended | Missing:
        tried.append(asked)
        return outcomes(working)(asked)

    offer = find_offer(at_most, attempt)
    assert (offer.level, offer.layers) == (level, ("session", "subreaper"))
    assert tuple(one.name for one in offer.missing) == missing
    assert tried == [one for one in LEVELS if level <= one <= at_most]


def test_one_reason_is_told_once() -> None:
    """Two levels that lack the same thing say so once."""
    same = Missing("linux", "No.", "do")
    assert find_offer("S3", lambda level: ended(level) if level == "S0" else same).missing == (same,)


def test_where_nothing_runs_there_is_no_offer() -> None:
    """A system on which not even S0 works has an error and not an offer."""
    with pytest.raises(PortError) as caught:
        find_offer("S3", outcomes(""))
    assert caught.value.code == "port.spawn"


def test_a_level_works_when_a_command_ran_at_it() -> None:
    """The probe demands the level without network; an ending that is no success is explained with what was said."""
    asked: list[Command] = []

    def run(how: Ended) -> Callable[[Command], Ended]:
        def answer(command: Command) -> Ended:
            asked.append(command)
            return how

        return answer

    good = ended("S3")
    assert try_level("S3", run(good), HOST, lambda: PLAIN) == good
    assert asked[-1].argv == PROBE
    assert asked[-1].sandbox == Sandbox(level="S3", network=False)
    for how, said in (
        (ended("S3", verdict="spawn-error", exit_status=None, detail="sandbox: said"), "sandbox: said"),
        (ended("S3", exit_status=1, stderr=b"on error"), "on error"),
        (ended("S3", exit_status=1), "it ended as exited"),
        (ended("S3", layers=("session",)), "no subreaper"),
    ):
        missing = try_level("S3", run(how), HOST, lambda: PLAIN)
        assert isinstance(missing, Missing)
        assert said in missing.why
    before = len(asked)
    assert isinstance(try_level("S3", run(good), structs.replace(HOST, bubblewrap=None), lambda: PLAIN), Missing)
    assert len(asked) == before


# --- what is missing -------------------------------------------------------------------------------------------------

ObstacleRow = tuple[Level, Mapping[str, object], Mapping[str, object], str, str]

OBSTACLES: list[ObstacleRow] = [
    ("S3", {"bubblewrap": None}, {}, "bubblewrap", "sudo apt install bubblewrap"),
    ("S3", {"bubblewrap": None}, {"distributions": ("ubuntu", "debian")}, "bubblewrap", "sudo apt install bubblewrap"),
    (
        "S3",
        {"bubblewrap": None},
        {"distributions": ("rocky", "rhel", "fedora")},
        "bubblewrap",
        "sudo dnf install bubblewrap",
    ),
    ("S3", {"bubblewrap": None}, {"distributions": ("odd",)}, "bubblewrap", "Install the package bubblewrap"),
    ("S2", {"landlock_abi": 2}, {}, "landlock", "6.2"),
    ("S1", {"landlock_abi": 0}, {}, "landlock", "6.2"),
    ("S3", {"machine": "m68k"}, {}, "seccomp", "x86_64"),
    ("S1", {}, {"is_linux": False}, "linux", "virtual machine"),
]


@pytest.mark.parametrize(("level", "host", "around", "name", "fix"), OBSTACLES)
def test_what_is_known_to_be_missing(
    level: Level, host: Mapping[str, object], around: Mapping[str, object], name: str, fix: str
) -> None:
    """Each is found without running anything and says what to do; with it there is no obstacle."""
    found = obstacle(level, structs.replace(HOST, **host), structs.replace(PLAIN, **around))
    assert found is not None
    assert found.name == name
    assert fix in found.fix
    assert found.why
    assert obstacle(level, HOST, PLAIN) is None


def test_bubblewrap_and_landlock_do_not_need_each_other() -> None:
    """S3 does without Landlock, S1 and S2 without bubblewrap."""
    assert obstacle("S3", structs.replace(HOST, landlock_abi=0), PLAIN) is None
    for level in ("S1", "S2"):
        assert obstacle(level, structs.replace(HOST, bubblewrap=None), PLAIN) is None


REFUSED = "sandbox: setting up uid map: Permission denied"


@pytest.mark.parametrize(
    ("level", "detail", "around", "fix"),
    [
        ("S3", REFUSED, {"restricted_by_apparmor": True}, "bwrap-userns-restrict"),
        (
            "S2",
            REFUSED,
            {"restricted_by_apparmor": True},
            "sudo apt install bubblewrap && sudo apt install apparmor-profiles",
        ),
        ("S2", REFUSED, {"user_namespaces": 0}, "sudo sysctl -w user.max_user_namespaces"),
        ("S3", REFUSED, {"in_container": True}, "container"),
        ("S3", REFUSED, {"user_namespaces": None}, "user_namespaces(7)"),
        ("S3", "sandbox: Unknown option --disable-userns", {"restricted_by_apparmor": True}, "0.8"),
        ("S1", "sandbox: landlock: Operation not supported", {}, "6.2"),
        ("S1", "", {}, "6.2"),
    ],
)
def test_why_a_level_did_not_work(level: Level, detail: str, around: Mapping[str, object], fix: str) -> None:
    """What was said is passed on, and the remedy fits what the system says about itself."""
    missing = explain(level, detail, HOST, structs.replace(PLAIN, **around))
    assert (detail or "no reason was given") in missing.why
    assert fix in missing.fix
    # The restriction of user namespaces stays: it protects everything else on the machine.
    assert "apparmor_restrict_unprivileged_userns" not in missing.fix


# --- this machine ----------------------------------------------------------------------------------------------------


def test_facts_are_of_this_machine() -> None:
    """Only what exists is listed, links of the root are told with their target, and everything is looked at once."""
    host = look()
    assert look() is host
    assert host.machine == os.uname().machine
    listed = [path for path, _ in host.system]
    assert listed == [path for path in SYSTEM if Path(path).exists()]
    for path, link in host.system:
        assert link is None or (Path(path).is_symlink() and str(Path(path).readlink()) == link)
    assert look_around().is_linux


BY_HAND: dict[Level, tuple[str, ...]] = {
    "S2": (
        "unshare",
        "--user",
        "--map-root-user",
        "--net",
        "--ipc",
        "--uts",
        "--pid",
        "--fork",
        "--mount-proc",
        "/bin/true",
    ),
    "S3": ("bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--ro-bind", "/", "/", "/bin/true"),
}


@pytest.mark.parametrize("level", ["S1", "S2", "S3"])
def test_what_works_by_hand_is_offered(level: Level, tmp_path: Path) -> None:
    """A level that the tests here would skip is one that this machine really cannot have."""
    host = look()
    if host.machine not in MACHINES or (level != "S3" and host.landlock_abi < 3):
        pytest.skip("this machine has no Landlock or no filter")
    command = BY_HAND.get(level)
    if command and (shutil.which(command[0]) is None or subprocess.run(command, check=False).returncode):
        pytest.skip(f"{command[0]} does not work by hand here either")
    with SupervisedRunner(tmp_path / "scratch") as runner:
        assert isinstance(runner._tried(level), Ended)


def test_no_secret_is_part_of_the_system() -> None:
    """Neither the shadow file, nor a folder of private keys, nor a home is among what every command may read."""
    listed = [Path(path) for path in SYSTEM]
    for secret in ("/etc/shadow", "/etc/ssl/private/key", "/etc/pki/tls/private/key", "/root/x", "/home/x", "/var/x"):
        assert not any(Path(secret).is_relative_to(path) for path in listed)


def test_an_offer_is_found_once_for_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second runner runs nothing to know what it offers, and neither does a command at a level that was tried."""
    with SupervisedRunner(tmp_path / "a") as first:
        offer = first.offer()
    with SupervisedRunner(tmp_path / "b") as second:
        assert second.offer() == offer
        assert second.level == offer.level
        assert second._session is None
    monkeypatch.setattr(posix, "_TRIED", {})
    with SupervisedRunner(tmp_path / "c") as third:
        assert third.offer() == offer
        assert third._session is not None


def test_a_ceiling_holds(tmp_path: Path) -> None:
    """A runner that may give S0 at most offers it and refuses more, whatever the system could."""
    with SupervisedRunner(tmp_path / "scratch", at_most="S0") as runner:
        assert (runner.offer().level, runner.offer().missing) == ("S0", ())
        command = Command(
            argv=PROBE,
            cwd=tmp_path,
            env=(),
            limits=Limits(wall_ms=9999, stdout_bytes=9, stderr_bytes=9),
            sandbox=Sandbox(level="S1"),
        )
        with pytest.raises(PortError) as caught:
            runner.run(command)
        assert caught.value.code == "port.sandbox-level"


def test_a_level_that_is_missing_is_refused_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that demands what cannot be had is not started, and the error says what to do."""
    missing = Missing("bubblewrap", "It is not there.", "apt")
    monkeypatch.setattr(posix, "_TRIED", {("auto", "S3"): missing})
    with SupervisedRunner(tmp_path / "scratch") as runner:
        limits = Limits(wall_ms=9999, stdout_bytes=9, stderr_bytes=9)
        with pytest.raises(PortError) as caught:
            runner.run(Command(argv=PROBE, cwd=tmp_path, env=(), limits=limits, sandbox=Sandbox(level="S3")))
        assert (caught.value.code, caught.value.fix) == ("port.sandbox-level", "apt")
        assert "It is not there." in caught.value.message
        assert runner._session is None


def test_without_a_subreaper_nothing_is_offered(tmp_path: Path) -> None:
    """A runner that cannot find every descendant offers no sandbox level, because there is nothing to rely on."""
    with SupervisedRunner(tmp_path / "scratch", containment="group") as runner:
        offer = runner.offer()
        assert (offer.level, offer.layers) == ("S0", ("rlimits", "session"))
        assert offer.missing


def test_a_plain_command_loads_nothing_for_the_others(tmp_path: Path) -> None:
    """A process that runs at S0 only neither tries a level nor imports what the others need."""
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from savant.process.port import Command, Limits\nfrom savant.process.posix import SupervisedRunner\n"
        "from savant.process import posix\n"
        "with SupervisedRunner(Path(sys.argv[1])) as runner:\n"
        "    limits = Limits(wall_ms=9999, stdout_bytes=9, stderr_bytes=9)\n"
        "    assert runner.run(Command(argv=('/bin/true',), cwd=Path('/'), env=(), limits=limits)).is_success\n"
        "assert not posix._TRIED\n"
        "print([n for n in ('sandbox', 'host', 'seccomp', 'landlock') if f'savant.process.{n}' in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
