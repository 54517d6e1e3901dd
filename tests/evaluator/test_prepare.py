"""Folders for checks, made from the lock files of the tree that is measured."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from evaluator.checks.place import CommandHost
from evaluator.documents import EvaluatorConfig, Input, PrepareConfig
from evaluator.heldout import HeldOut
from evaluator.kept import result_key
from evaluator.locks import prepared_digest, step_words
from evaluator.prepare import Preparing, prepared
from evaluator.stage import EvaluationOutcome, evaluate
from runner.overlay import Content
from savant.contracts.scalars import as_set
from savant.files.atomic import lock
from savant.process.effects import ThreadTasks
from savant.process.port import Level
from savant.process.view import PLAIN_SIGHT
from tests.evaluator.kit import Bench, bench, config_of, policy_of, require_level

LEVELS: tuple[Level, ...] = ("S0", "S1", "S2", "S3")
MAKE_TOOL = "mkdir -p deps/bin; { echo '#!/bin/sh'; cat deps.lock; } > deps/bin/tool; chmod +x deps/bin/tool"
"""What makes a tool that does what the lock file says."""
FILES = {"deps.lock": "exit 0\n", "word": "good", "secret.txt": "not for steps"}


def step_of(script: str = MAKE_TOOL, **changes: object) -> PrepareConfig:
    members: dict[str, object] = {
        "id": "deps",
        "argv": ("sh", "-c", script),
        "directory": None,
        "locks": ("deps.lock",),
        "outputs": ("deps",),
        "network": "none",
        "timeout_ms": 60_000,
    }
    return PrepareConfig(**{**members, **changes})  # type: ignore[arg-type]


def check_of(*argv: str, **changes: object) -> EvaluatorConfig:
    plain: dict[str, object] = {"result_format": "exit-status", "report_path": None, "argv": argv or ("tool",)}
    return config_of("check", **{**plain, **changes})


class Runs:
    """Runs that keep what they prepare in one folder; ``lines`` is what a person is told."""

    def __init__(self, project: Bench, *steps: PrepareConfig, max_kept: int = 8) -> None:
        self.project, self.steps, self.max_kept = project, steps or (step_of(),), max_kept
        self.folder = project.scratch.parent / "prepared"
        self.lines: list[str] = []
        self.sight = PLAIN_SIGHT

    def preparing(self) -> Preparing:
        return Preparing(self.steps, self.folder, max_kept=self.max_kept)

    def host(self, preparing: Preparing, **changes: object) -> CommandHost:
        return replace(self.project.host(), preparing=preparing, say=self.lines.append, **changes)

    def run(
        self, changes: Mapping[str, str | None], config: EvaluatorConfig | None = None, **named: object
    ) -> EvaluationOutcome:
        policy = policy_of(config or check_of(), prepares=self.steps)
        with self.preparing() as preparing:
            return evaluate(self.project.inputs(changes, policy), self.host(preparing, **named), {})

    @property
    def made(self) -> int:
        return sum(line.startswith("preparing ") for line in self.lines)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path, FILES) as one:
        yield one


def recommended(outcome: EvaluationOutcome) -> str:
    return (
        outcome.receipt.document.disposition
        if outcome.evaluation is None
        else outcome.evaluation.document.recommendation
    )


def given(outcome: EvaluationOutcome) -> Input:
    (found,) = [d.document for d in outcome.documents if isinstance(d.document, Input)]
    return found


@pytest.mark.parametrize("level", LEVELS)
def test_base_and_candidate_each_have_what_their_own_lock_says(tmp_path: Path, level: Level) -> None:
    """The same lock is prepared once; another one makes another tool, which judges the candidate."""
    with bench(tmp_path, FILES, level) as project:
        require_level(project.processes, level)
        runs = Runs(project)
        assert (recommended(runs.run({"word": "new"})), runs.made) == ("accept", 1)
        broken = runs.run({"deps.lock": "echo broken; exit 3\n"})
        assert (recommended(broken), runs.made) == ("retry-generation", 2)
        assert "exit status 3" in broken.failing[0].message
        assert recommended(runs.run({"deps.lock": "exit 0 # other\n"})) == "accept"
        assert runs.made == 3


@pytest.mark.parametrize("level", LEVELS)
def test_checks_may_not_change_what_was_prepared(tmp_path: Path, level: Level) -> None:
    """A check can run the tool and not write beside it, at any level."""
    with bench(tmp_path, FILES, level) as project:
        require_level(project.processes, level)
        if level == "S0" and os.geteuid() == 0:
            pytest.skip("nothing keeps root from writing without a sandbox")
        runs = Runs(project)
        writes = 'touch "$(dirname "$(command -v tool)")/more"'
        assert recommended(runs.run({"word": "new"}, check_of("sh", "-c", f"tool && ! {writes}"))) == "accept"
        assert recommended(runs.run({"word": "new"}, check_of("sh", "-c", writes, rule="all-pass"))) != "accept"
        assert not list(runs.folder.glob("*/tree/deps/bin/more"))


@pytest.mark.parametrize("level", LEVELS)
def test_an_environment_that_a_later_step_fills(tmp_path: Path, level: Level) -> None:
    """One step makes a virtual environment, the next installs into it by its own tools, the check imports that."""
    files = {**FILES, "app.py": "import extra\n"}
    fill = "import sysconfig, pathlib; (pathlib.Path(sysconfig.get_path('purelib')) / 'extra.py').write_text('X = 1')"
    with bench(tmp_path, files, level) as project:
        require_level(project.processes, level)
        runs = Runs(
            project,
            step_of(argv=(sys.executable, "-m", "venv", "--without-pip", ".venv"), outputs=(".venv",)),
            step_of(id="fill", argv=("python", "-c", fill), outputs=(".venv",)),
        )
        looks = "import sys, app, extra; assert sys.prefix != sys.base_prefix"
        outcome = runs.run({"word": "new"}, check_of("python", "-c", looks))
        assert recommended(outcome) == "accept", outcome
        assert runs.made == 2


@pytest.mark.parametrize("level", ["S2", "S3"])
def test_node_modules_are_found_where_they_are_looked_for(tmp_path: Path, level: Level) -> None:
    """A prepared ``node_modules`` is a folder of the copy whose packages are the prepared ones."""
    with bench(tmp_path, FILES, level) as project:
        require_level(project.processes, level)
        runs = Runs(
            project, step_of("mkdir -p node_modules/one; cp deps.lock node_modules/one", outputs=("node_modules",))
        )
        look = check_of("sh", "-c", "cmp deps.lock node_modules/one/deps.lock && : > node_modules/.cache")
        assert recommended(runs.run({"deps.lock": "exit 0 # mine\n"}, look)) == "accept"
        assert not list(runs.folder.glob("*/tree/node_modules/.cache"))


def test_a_step_sees_the_lock_files_and_nothing_else(project: Bench) -> None:
    """Its folder holds the files that its policy names, and not what a tree has where it makes its outputs."""
    see = 'seen=$(find . -type f | sort); mkdir deps; echo "$seen" > deps/seen'
    runs = Runs(project, step_of(see, locks=as_set(("deps.lock", "deps/**", "**/more.lock"))))
    runs.run({"deps/evil": "x", "sub/more.lock": "y"}, check_of("true"))
    seen = sorted(path.read_text() for path in runs.folder.glob("*/tree/deps/seen"))
    assert seen == ["./deps.lock\n", "./deps.lock\n./sub/more.lock\n"]


def test_a_link_is_no_lock_file(project: Bench, tmp_path: Path) -> None:
    """A candidate that makes its lock a link shows a step nothing: its step fails."""
    runs = Runs(project, step_of("set -e; cat deps.lock; " + MAKE_TOOL))
    linked: Mapping[str, str | Content | None] = {"deps.lock": Content("symlink", os.fsencode(tmp_path / "else"))}
    policy = policy_of(check_of(), prepares=runs.steps)
    with runs.preparing() as preparing:
        outcome = evaluate(project.inputs(linked, policy), runs.host(preparing), {})
    assert recommended(outcome) == "retry-generation"
    assert "deps.lock" in outcome.failing[0].excerpt


def test_a_step_starts_in_its_folder(tmp_path: Path) -> None:
    """``directory`` is a folder in which a lock file lies; without one the step fails."""
    with bench(tmp_path, {"web/deps.lock": "exit 0\n"}) as project:
        make = step_of("cd .. && cp web/deps.lock . && " + MAKE_TOOL, directory="web", locks=("web/*",))
        assert recommended(Runs(project, make).run({"word": "new"})) == "accept"
        nowhere = Runs(project, replace(make, directory="else")).run({"word": "new"})
        assert recommended(nowhere) == "required-evaluator-unavailable"
        assert "no file that it sees is in a folder 'else'" in nowhere.receipt.document.failure_detail


def test_what_was_prepared_is_kept_over_runs_while_it_is_whole(project: Bench) -> None:
    """A later run makes nothing; where something in it changed, it is made again, as it is without its last file."""
    runs = Runs(project)
    runs.run({"word": "new"})
    runs.run({"word": "newer"})
    assert runs.made == 1
    (tool,) = runs.folder.glob("*/tree/deps/bin/tool")

    def tamper() -> None:
        facts = tool.stat()
        tool.chmod(0o755)
        tool.write_text("#!/bin/sh\nexit 1\n")
        tool.chmod(facts.st_mode)
        os.utime(tool, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    for harm in (tamper, (tool.parents[3] / "done.json").unlink):
        made = runs.made
        harm()
        assert recommended(runs.run({"word": "new"})) == "accept"
        assert runs.made == made + 1
        assert tool.read_text() == "#!/bin/sh\nexit 0\n"


def test_what_it_depends_on_is_in_the_key(project: Bench) -> None:
    """Another command, lock, containment, environment or tool is another folder; the same is the same."""
    runs = Runs(project)

    def key(host: CommandHost | None = None, *steps: PrepareConfig) -> str:
        runs.steps = steps or (step_of(),)
        with runs.preparing() as preparing:
            made = prepared(
                project.snapshot, replace(host or project.host(), preparing=preparing, say=runs.lines.append)
            )
            assert not made.problem, made
            return made.host.prepared

    first = key()
    others = [
        key(None, step_of(MAKE_TOOL + "; true")),
        key(None, step_of(network="open")),
        key(None, step_of(locks=as_set(("deps.lock", "word")))),
        key(project.host(ambient={"NAME": "a"})),
        key(project.host(ambient={"NAME": "b"})),
        key(replace(project.host(), sight=replace(project.host().sight, read_only=(project.checkout,)))),
    ]
    assert key() == first
    assert len({first, *others}) == len(others) + 1


def test_the_documents_tell_what_it_was_prepared_from(project: Bench) -> None:
    """Input has the digest of steps and lock files of what is judged and of the base, the same on every machine."""
    runs = Runs(project)
    same, other = given(runs.run({"word": "new"})), given(runs.run({"deps.lock": "exit 0 # mine\n"}))
    base = prepared_digest(runs.steps, project.snapshot)
    assert (same.prepared_digest, same.base_prepared_digest) == (base, base)
    assert other.base_prepared_digest == base != other.prepared_digest
    assert given(runs.run({"word": "new"}, check_of(rule="all-pass"))).base_prepared_digest is None
    plain = evaluate(project.inputs({"word": "new"}, policy_of(check_of("true"))), project.host(), {})
    assert given(plain).prepared_digest is None


def test_a_kept_result_of_a_base_depends_on_what_was_prepared(project: Bench) -> None:
    """With other folders prepared there is another key for the results of a base."""
    if project.processes.level == "S0":
        pytest.skip("without containment nothing is kept")
    host = project.host()
    keys = {result_key(check_of("true"), "blake3:" + "0" * 64, replace(host, prepared=word)) for word in ("", "a", "b")}
    assert len(keys) == 3
    assert None not in keys


def test_a_step_that_fails_on_the_base_makes_checks_unavailable(project: Bench) -> None:
    """Where nothing can be prepared no verdict is given, with the words of the step; a candidate may mend it."""
    fails = step_of("grep -q mended deps.lock || { echo no such package >&2; exit 4; }; " + MAKE_TOOL)
    lost = Runs(project, fails).run({"word": "new"})
    assert recommended(lost) == "required-evaluator-unavailable"
    assert "preparing deps failed: exit status 4" in lost.receipt.document.failure_detail
    assert recommended(Runs(project, fails).run({"deps.lock": "exit 0 # mended\n"})) == "accept"


@pytest.mark.parametrize("rule", ["no-regression", "all-pass"])
def test_a_lock_that_only_the_candidate_has_and_that_fails_is_its_finding(project: Bench, rule: str) -> None:
    """The base can be prepared and the candidate cannot: it failed, and its finding has what the step wrote."""
    fails = step_of("! grep -n broken deps.lock || exit 4; " + MAKE_TOOL)
    outcome = Runs(project, fails).run({"deps.lock": "broken\n"}, check_of(rule=rule))
    assert recommended(outcome) == "retry-generation"
    (finding,) = outcome.failing
    assert (finding.status, finding.message) == ("failed", "preparing deps failed: exit status 4")
    assert "1:broken" in finding.excerpt
    assert recommended(Runs(project, fails).run({"deps.lock": "exit 0 # fine\n"}, check_of(rule=rule))) == "accept"


@pytest.mark.parametrize(
    ("script", "changes", "words"),
    [
        ("exec sleep 60", {"timeout_ms": 200}, "port.prepare"),
        ("kill -9 $$", {}, "port.prepare"),
        ("", {"argv": ("no-such-tool",)}, "usage.executable-not-found"),
    ],
)
def test_what_says_nothing_of_a_tree_is_no_finding_about_it(
    project: Bench, script: str, changes: dict[str, object], words: str
) -> None:
    """A step that is not there or did not end by itself makes checks unavailable, though the candidate changed it."""
    outcome = Runs(project, step_of(script, **changes)).run({"deps.lock": "other\n"}, check_of(rule="all-pass"))
    assert recommended(outcome) == "required-evaluator-unavailable"
    assert words in outcome.receipt.document.failure_detail


def test_a_step_that_is_interrupted_is_not_made(project: Bench) -> None:
    """A run that a person ends has neither a verdict nor a folder."""
    runs = Runs(project)
    stop = ThreadTasks().cancellation()
    stop.set()
    outcome = runs.run({"word": "new"}, cancellation=stop)
    assert recommended(outcome) == "required-evaluator-unavailable"
    assert not list(runs.folder.glob("*/done.json"))


HOSTILE: dict[str, str] = {
    "a link out": "mkdir deps; ln -s {outside} deps/out",
    "a link up": "mkdir deps; ln -s ../../done.json deps/out",
    "an output that is a link": "ln -s {outside} deps",
    "a link in the private home": "mkdir deps; ln -s $HOME deps/home",
    "an environment made from elsewhere": "mkdir deps; echo home = {outside} > deps/pyvenv.cfg",
    "an interpreter elsewhere": "mkdir -p deps/bin; printf '#!{outside}/sh\\n' > deps/bin/tool",
    "a pipe": "mkdir deps; mkfifo deps/pipe",
    "a folder that cannot be read": "mkdir -p deps/in; chmod 0 deps/in",
    "no folder": "true",
    "a file": "echo > deps",
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_outputs_that_lead_elsewhere_are_refused(project: Bench, tmp_path: Path, name: str) -> None:
    """Nothing is kept of what could show a check what its makers did not see; a plain folder is."""
    if project.processes.level == "S0" and ("link" in name or "elsewhere" in name) and "output" not in name:
        pytest.skip("without containment nothing was kept from the makers")
    if name == "a folder that cannot be read" and os.geteuid() == 0:
        pytest.skip("root reads everything")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "sh").write_text("")
    runs = Runs(project, step_of(HOSTILE[name].format(outside=outside)))
    outcome = runs.run({"word": "new"}, check_of("true"))
    assert recommended(outcome) == "required-evaluator-unavailable"
    assert "refused.prepared" in outcome.receipt.document.failure_detail
    assert not list(runs.folder.glob("*/done.json"))


def test_links_inside_and_to_the_system_are_kept(project: Bench) -> None:
    """What an installer makes every day is no leak."""
    make = (
        "mkdir -p deps/bin; ln -s /bin/sh deps/bin/sh; ln -s bin deps/also; ln -s nothing deps/dangling; " + MAKE_TOOL
    )
    assert recommended(Runs(project, step_of(make)).run({"word": "new"})) == "accept"


@pytest.mark.parametrize("network", ["none", "open"])
def test_only_a_step_that_names_the_network_has_it(project: Bench, network: str) -> None:
    """A step reaches a server of this machine if it says so, and then only."""
    if project.processes.level < "S2":
        pytest.skip("nothing keeps the network from a command below S2")
    with socket.create_server(("127.0.0.1", 0)) as server:
        reach = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        make = step_of(argv=(sys.executable, "-c", f"{reach}; import os; os.mkdir('deps')"), network=network)
        runs = Runs(project, make)
        outcome = runs.run({"word": "new"}, check_of("true"))
    assert recommended(outcome) == ("accept" if network == "open" else "required-evaluator-unavailable")
    assert ("(network: open)" in runs.lines[0]) is (network == "open")
    assert ("(network: open)" in step_words(make)) is (network == "open")


def test_a_check_has_no_network_because_its_step_had_it(project: Bench) -> None:
    """The network of a step is its own."""
    if project.processes.level < "S2":
        pytest.skip("nothing keeps the network from a command below S2")
    with socket.create_server(("127.0.0.1", 0)) as server:
        reach = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        runs = Runs(project, step_of(network="open"))
        outcome = runs.run({"word": "new"}, check_of(sys.executable, "-c", reach, rule="all-pass"))
    assert recommended(outcome) == "retry-generation"


def test_a_held_out_suite_is_shown_to_no_step(project: Bench) -> None:
    """Not even where the patterns of locks would match it."""
    suite = HeldOut({b"deps.lock": b"exit 1\n"})
    see = step_of("find . -type f > seen; mkdir deps; mv seen deps/", locks=("**",))
    runs = Runs(project, see)
    held = check_of("sh", "-c", "ls {suite}", evaluator="held-out", suite_digest=suite.document.digest, rule="all-pass")
    assert recommended(runs.run({"word": "new"}, held, suite=suite)) == "accept"
    seen = [path.read_text() for path in runs.folder.glob("*/tree/deps/seen")]
    assert [text.count("deps.lock") for text in seen] == [1]


def test_two_runs_at_once_prepare_once(project: Bench) -> None:
    """The second waits for the first and uses what it made."""
    runs = Runs(project)

    def one(_: int) -> str:
        with runs.preparing() as preparing:
            return prepared(project.snapshot, runs.host(preparing)).host.prepared

    with ThreadPoolExecutor(2) as pool:
        keys = set(pool.map(one, range(2)))
    assert (len(keys), "" in keys, runs.made) == (1, False, 1)


def test_the_oldest_folders_go_and_those_in_use_stay(project: Bench) -> None:
    """No more are kept than the bound, counted from the one used last; nobody's folder is taken away."""
    runs = Runs(project, max_kept=1)

    def kept() -> int:
        return len(list(runs.folder.glob("*/done.json")))

    runs.run({"word": "new"})
    with runs.preparing() as using:
        prepared(project.snapshot, runs.host(using))
        runs.run({"deps.lock": "exit 0 # one\n"}, check_of(rule="all-pass"))
        assert kept() == 2
    runs.run({"deps.lock": "exit 0 # two\n"}, check_of(rule="all-pass"))
    assert kept() == 1


def test_what_is_half_made_goes_with_its_locks(project: Bench) -> None:
    """What a killed run left under a key that nobody wants again is removed; what somebody makes is not."""
    runs = Runs(project)
    for name in ("a" * 64, "b" * 64):
        (runs.folder / name / "tree").mkdir(parents=True)
    with lock(runs.folder / ("b" * 64 + ".lock")):
        runs.run({"word": "new"})
    left = {path.name[:64] for path in runs.folder.iterdir()}
    assert "a" * 64 not in left
    assert "b" * 64 in left
    assert len(left) == 2


def test_a_run_that_waits_says_so_and_can_be_ended(project: Bench) -> None:
    """It waits for who makes the same folders, and for nobody once a person ends it."""
    runs = Runs(project)
    runs.run({"word": "new"})
    (done,) = runs.folder.glob("*/done.json")
    stop = ThreadTasks().cancellation()
    with lock(done.parent.with_suffix(".lock")), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(runs.run, {"word": "newer"}, cancellation=stop)
        while not any("waiting for another run" in line for line in runs.lines):
            time.sleep(0.01)
        stop.set()
        outcome = waiting.result()
    assert recommended(outcome) == "required-evaluator-unavailable"
    assert "it was cancelled" in outcome.receipt.document.failure_detail


def test_what_a_killed_run_left_is_made_again(project: Bench, tmp_path: Path) -> None:
    """A process that is killed in the middle of a step leaves no result that anybody uses."""
    slow, other = tmp_path / "slow", tmp_path / "other"
    other.mkdir()
    slow.mkdir()
    (slow / "down").write_text("")
    runs = killed_runs(project, slow, tmp_path / "kept")
    script = f"""
        from pathlib import Path
        from evaluator.prepare import prepared
        from tests.evaluator.kit import bench
        from tests.evaluator.test_prepare import FILES, killed_runs
        with bench(Path({str(other)!r}), FILES, {project.processes.level!r}) as project:
            runs = killed_runs(project, Path({str(slow)!r}), Path({str(runs.folder)!r}))
            with runs.preparing() as preparing:
                prepared(project.snapshot, runs.host(preparing, sight=runs.sight))
        """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], env=environment)
    try:
        wait_for(lambda: bool(list(runs.folder.glob("*/tree/deps/bin/tool"))), child)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    (half,) = runs.folder.glob("*/tree")
    assert half.joinpath("deps/bin/tool").read_text() != "#!/bin/sh\nexit 0\n"
    (slow / "down").unlink()
    assert recommended(runs.run({"word": "new"}, sight=runs.sight)) == "accept"
    assert (list(runs.folder.glob("*/tree")), runs.made) == ([half], 1)


def killed_runs(project: Bench, slow: Path, folder: Path) -> Runs:
    """Runs whose step is in the middle for as long as a file of the person's is there."""
    half = "mkdir -p deps/bin; echo half > deps/bin/tool"
    runs = Runs(project, step_of(f"[ ! -e {slow}/down ] || {{ {half}; exec sleep 600; }}; {MAKE_TOOL}"))
    runs.folder = folder
    runs.sight = replace(PLAIN_SIGHT, read_only=(slow,))
    return runs


def wait_for(condition: Callable[[], bool], child: subprocess.Popen[bytes]) -> None:
    for _ in range(3_000):
        if condition():
            return
        assert child.poll() is None
        time.sleep(0.01)
    raise AssertionError("it did not begin")


@pytest.mark.parametrize("level", LEVELS)
def test_an_installer_may_ask_which_system_this_is(tmp_path: Path, level: Level) -> None:
    """Pip looks for these files and dies of one that is there and cannot be read."""
    names = ("/etc/debian_version", "/etc/os-release", "/etc/mime.types")
    ask = f"import os; [open(name).read() for name in {names} if os.path.isfile(name)]; os.mkdir('deps')"
    with bench(tmp_path, FILES, level) as project:
        require_level(project.processes, level)
        outcome = Runs(project, step_of(argv=(sys.executable, "-c", ask))).run({"word": "new"}, check_of("true"))
    assert recommended(outcome) == "accept"
