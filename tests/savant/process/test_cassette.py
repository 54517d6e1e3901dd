"""Cassettes: what is recorded is answered again without a process; what differs, was changed or is secret is not."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from savant.contracts import canonical
from savant.contracts.digest import digest
from savant.contracts.effects import Cancellation
from savant.contracts.errors import PortError, RefusedInput, SavantError, UsageError, VerificationError
from savant.files.tree import open_root
from savant.process import cassettefolder
from savant.process.cassette import Player, Recorder
from savant.process.cassettefolder import open_cassette
from savant.process.conformance import CHECKS, SHELL, verify
from savant.process.difference import read_tree
from savant.process.documents import Cassette, Program
from savant.process.port import Command, Ended, Limits, Mount, ProcessRunner, Sandbox
from savant.process.posix import SupervisedRunner
from savant.process.scripted import Scripted, ScriptedRunner

SECRET = b"hunter2-hunter2"
ROOMY = Limits(wall_ms=30_000, stdout_bytes=1 << 16, stderr_bytes=1 << 16, grace_ms=200)
TOOL = Program(name="tool", content_digest=digest(b"the tool"))


class Mask:
    """Takes one secret out, and whatever follows ``TOKEN=``."""

    def redact(self, data: bytes, *, truncated: bool = False) -> bytes:
        return re.sub(rb"TOKEN=(?!\[)\S+", b"TOKEN=[redacted]", self.redact_values(data))

    def redact_values(self, data: bytes, *, truncated: bool = False) -> bytes:
        return data.replace(SECRET, b"[redacted]")


class Desk:
    """A place to record and to play: a fresh working directory and HOME for each call, as a provider has."""

    def __init__(self, root: Path, inner: ProcessRunner) -> None:
        self.root = root
        self.inner = inner
        self.folder = root / "cassette"
        self.made = 0

    def recorder(self, personal: tuple[str, ...] = (), attachments: Mapping[str, bytes] | None = None) -> Recorder:
        made = Recorder(self.inner, self.folder)
        made.describe({"/bin/sh": TOOL}, personal=personal, attachments=attachments or {}, redaction=Mask())
        return made

    def player(self, path: str = "/nowhere/tool") -> Player:
        made = Player(open_cassette(self.folder), Mask())
        made.describe({path: TOOL})
        return made

    def command(
        self,
        script: str,
        *arguments: str,
        path: str = "/bin/sh",
        stdin: bytes = b"",
        env: tuple[tuple[str, str], ...] = (),
        limits: Limits = ROOMY,
        before: Mapping[str, str] | None = None,
        at_home: str | None = None,
        **members: Any,
    ) -> Command:
        """A command in a fresh directory that holds ``before``; ``{cwd}`` and ``{home}`` stand for its folders.

        With ``at_home`` an argument names a file of HOME that holds it.
        """
        self.made += 1
        cwd, home = self.root / f"cwd-{self.made}", self.root / f"home-{self.made}"
        cwd.mkdir()
        home.mkdir()
        for name, text in (before or {"a.txt": "one\n"}).items():
            (cwd / name).write_text(text)
        if at_home is not None:
            (home / "named").write_text(at_home.replace("{cwd}", str(cwd)))
            arguments = (*arguments, "--schema={home}/named")
        words = [w.replace("{cwd}", str(cwd)).replace("{home}", str(home)) for w in ("-c", script, "sh", *arguments)]
        variables = (("HOME", str(home)), ("PATH", "/usr/bin:/bin"), *env)
        return Command(argv=(path, *words), cwd=cwd, env=variables, limits=limits, stdin=stdin, **members)

    def bytes(self) -> bytes:
        """Every byte and name of the cassette."""
        return b"\0".join(
            os.fsencode(path) + b"\0" + (path.read_bytes() if path.is_file() else b"")
            for path in sorted(self.folder.rglob("*"))
        )


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisedRunner]:
    with SupervisedRunner(tmp_path_factory.mktemp("scratch")) as made:
        yield made


@pytest.fixture
def desk(tmp_path: Path, runner: SupervisedRunner) -> Desk:
    return Desk(tmp_path, runner)


def files(command: Command) -> Mapping[bytes, object]:
    with open_root(command.cwd) as root:
        return read_tree(root).nodes


def same(one: Ended, other: Ended) -> None:
    assert one == other


SCRIPT = """
echo two >> a.txt; mkdir -p deep/er; printf x > deep/er/new; chmod +x deep/er/new; ln -s ../nowhere link
mkdir empty; mkfifo pipe; rm -f gone; echo out; echo err >&2; cat; printf answer > "$1"; exit 3
"""


def test_what_was_recorded_is_played_without_a_process(desk: Desk) -> None:
    """Streams, status and every change come again, in another directory, from a program that is not there."""
    before = {"a.txt": "one\n", "gone": "x"}
    recorder = desk.recorder(attachments={"config": b"{}"})
    first = desk.command(SCRIPT, "{home}/answer", "{cwd}/x", stdin=b"in", before=before)
    ended = recorder.run(first)
    assert (ended.exit_status, ended.stdout, ended.stderr) == (3, b"out\nin", b"err\n")
    second = desk.command("printf more > a.txt", before={})
    recorder.run(second)
    assert recorder.finish()
    player = desk.player()
    assert player.left == 2
    again = desk.command(SCRIPT, "{home}/answer", "{cwd}/x", path="/nowhere/tool", stdin=b"in", before=before)
    same(player.run(again), ended)
    assert files(again) == files(first)
    assert Path(again.argv[4]).read_text() == "answer"
    more = desk.command("printf more > a.txt", path="/nowhere/tool", before={})
    assert player.run(more).is_success
    assert files(more) == files(second)
    assert (player.left, player.missed, player.redacted) == (0, None, {})
    assert open_cassette(desk.folder).attachment("config") == b"{}"


def test_what_names_the_private_directories_names_those_of_the_replay(desk: Desk) -> None:
    """In streams and answer files a call gets its own directories, whatever words stood there; in its files nothing."""
    script = 'pwd; pwd >&2; printf "%s %s %scwd} %shome!}" "$PWD" "$HOME" "{" "{" | tee a.txt > "$1"'
    recorder = desk.recorder()
    first = desk.command(script, "{home}/answer")
    ended = recorder.run(first)
    assert recorder.finish()
    again = desk.command(script, "{home}/answer", path="/nowhere/tool")
    played = desk.player().run(again)
    assert (ended.stdout, played.stdout) == (f"{first.cwd}\n".encode(), f"{again.cwd}\n".encode())
    assert played.stderr == played.stdout
    home = dict(again.env)["HOME"]
    assert Path(again.argv[4]).read_text() == f"{again.cwd} {home} {{cwd}} {{home!}}"
    assert (again.cwd / "a.txt").read_bytes() == (first.cwd / "a.txt").read_bytes()


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"script": "echo x >> a.txt #"}, "argv"),
        ({"path": "/nowhere/other"}, "argv"),
        ({"stdin": b"other"}, "stdin"),
        ({"at_home": "other {cwd}"}, "files"),
        ({"env": (("EXTRA", "1"),)}, "environment"),
        ({"before": {"a.txt": "other\n"}}, "tree"),
        ({"before": {"a.txt": "one\n", "b": ""}}, "tree"),
    ],
)
def test_another_call_is_a_miss_that_names_the_part(desk: Desk, changed: dict[str, Any], part: str) -> None:
    """One differing part is named, nothing is applied, and every later call is missed too."""
    asked: dict[str, Any] = {"script": "echo x >> a.txt", "stdin": b"in", "at_home": "a schema for {cwd}"}
    recorder = desk.recorder()
    recorder.run(desk.command(**asked))
    assert recorder.finish()
    asked["path"] = "/nowhere/tool"
    player = desk.player()
    other = desk.command(**{**asked, **changed})
    before = files(other)
    with pytest.raises(PortError) as caught:
        player.run(other)
    assert caught.value.code == "port.cassette-miss"
    assert f"Different: {part} (" in caught.value.message
    assert caught.value.message.count(" (") == 1
    assert files(other) == before
    right = desk.command(**asked)
    with pytest.raises(PortError):
        player.run(right)
    assert player.missed is caught.value
    assert desk.player().run(right).is_success


def test_a_cassette_that_ends_is_a_miss(desk: Desk) -> None:
    """One call more than was recorded is missed."""
    recorder = desk.recorder()
    recorder.run(desk.command("true"))
    assert recorder.finish()
    player = desk.player()
    assert player.run(desk.command("true", path="/nowhere/tool")).is_success
    with pytest.raises(PortError) as caught:
        player.run(desk.command("true", path="/nowhere/tool"))
    assert caught.value.code == "port.cassette-miss"
    assert "ends before it" in caught.value.message


def test_variables_of_the_person_need_not_be_there(desk: Desk) -> None:
    """A credential's variable is no part of a call's identity, so a replay needs none; any other variable is."""
    recorder = desk.recorder(personal=("API_TOKEN",))
    recorder.run(desk.command("true", env=(("API_TOKEN", SECRET.decode()), ("MODE", "x"))))
    assert recorder.finish()
    assert desk.player().run(desk.command("true", path="/nowhere/tool", env=(("MODE", "y"),))).is_success
    with pytest.raises(PortError):
        desk.player().run(desk.command("true", path="/nowhere/tool"))


def test_a_secret_reaches_no_byte_of_the_cassette(desk: Desk) -> None:
    """In arguments, variables, input, output, errors, files, links and an answer file: taken out, and said so."""
    script = (
        'cat > /dev/null; printf "%s" "$1$1"; printf "%s" "$API_TOKEN" >&2;'
        ' printf "API_TOKEN=shown-to-nobody" >> a.txt; printf "%s" "$API_TOKEN" > b;'
        ' ln -s "$API_TOKEN" link; printf "%s" "$API_TOKEN" > "$2"; cat a.txt'
    )
    recorder = desk.recorder(personal=("API_TOKEN",))
    command = desk.command(
        script,
        f"--key={SECRET.decode()}",
        "{home}/answer",
        stdin=b'{"key": "' + SECRET + b'"} TOKEN=by-name-alone',
        env=(("API_TOKEN", SECRET.decode()),),
    )
    ended = recorder.run(command)
    assert ended.stdout.count(SECRET) == 2
    assert ended.stderr == SECRET
    assert (command.cwd / "link").readlink() == Path(SECRET.decode())
    assert recorder.finish()
    assert SECRET not in desk.bytes()
    assert b"by-name-alone" not in desk.bytes()
    assert b"shown-to-nobody" not in desk.bytes()
    assert str(command.cwd).encode() not in desk.bytes()
    assert desk.player().redacted == {1: ("arguments", "files", "stderr", "stdin", "stdout")}


PLAIN = (
    'os.environ.get("API_TOKEN", "fallback-value")',
    "API_TOKEN=$OTHER_VARIABLE",
    "MODE=something-longer",
    "password = what_the_author_wrote",
)
GIVEN_AWAY = ("API_TOKEN=sk-0123456789", "API_TOKEN='sk-0123456789'", '{"API_TOKEN": "sk-0123456789"}')


def test_in_files_only_names_of_secret_variables_of_the_person_count(desk: Desk) -> None:
    """A file may become the candidate: the author's words stay, what is assigned to the person's secret does not."""
    recorder = desk.recorder(personal=("API_TOKEN", "MODE"))
    for text in (*PLAIN, *GIVEN_AWAY):
        recorder.run(desk.command('printf "%s" "$1" > a.txt; printf "%s" "$1"', text))
    assert recorder.finish()
    kept = desk.bytes()
    assert [text for text in PLAIN if text.encode() not in kept] == []
    told = [{"files", "stdout"} & set(call.redacted) for call in open_cassette(desk.folder).sealed.document.calls]
    assert told == [set()] * len(PLAIN) + [{"files", "stdout"}] * len(GIVEN_AWAY)
    assert b"sk-0123456789" not in kept


@pytest.mark.parametrize("script", [f"touch {SECRET.decode()}", f"mkdir -p a/{SECRET.decode()}"])
def test_a_path_that_holds_a_secret_is_not_recorded(desk: Desk, script: str) -> None:
    """Such a cassette stays incomplete, and an incomplete one is refused."""
    recorder = desk.recorder()
    with pytest.raises(RefusedInput) as caught:
        recorder.run(desk.command(script, before={"b": ""}))
    assert caught.value.code == "refused.cassette-secret"
    assert not recorder.finish()
    assert SECRET not in desk.bytes()
    with pytest.raises(RefusedInput) as caught:
        open_cassette(desk.folder)
    assert caught.value.code == "refused.cassette-incomplete"


def test_a_secret_beside_the_calls_is_refused(desk: Desk) -> None:
    """A configuration that holds a credential is not kept."""
    with pytest.raises(RefusedInput) as caught:
        desk.recorder(attachments={"config": SECRET})
    assert caught.value.code == "refused.cassette-secret"
    assert not desk.folder.exists()


def test_commands_before_the_description_are_not_kept(desk: Desk) -> None:
    """What finds out the configuration (a version probe) is run and is no call of the run."""
    recorder = Recorder(desk.inner, desk.folder)
    assert recorder.run(desk.command("echo 1.2.3")).stdout == b"1.2.3\n"
    assert not desk.folder.exists()
    recorder.describe({}, personal=(), attachments={}, redaction=Mask())
    recorder.run(desk.command("true"))
    assert recorder.finish()
    assert [call.asked.program for call in open_cassette(desk.folder).sealed.document.calls] == [
        Program(name="sh", content_digest=None)
    ]


def tampered(desk: Desk, change: Callable[[dict[str, Any]], None]) -> None:
    path = desk.folder / "cassette.json"
    document = json.loads(path.read_bytes())
    change(document)
    path.write_bytes(canonical.encode(document))


def first(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["calls"][0]
    return found


TAMPERS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "a path that leaves": (lambda d: first(d)["changes"][0].update(path="../../x"), "refused.path-traversal"),
    "an absolute path": (lambda d: first(d)["changes"][0].update(path="/etc/x"), "refused.absolute-path"),
    "a path of git": (lambda d: first(d)["changes"][0].update(path=".git/config"), "refused.reserved-path"),
    "a misspelt path": (lambda d: first(d)["changes"][0].update(path="%61"), "refused.bad-path"),
    "content of what is gone": (lambda d: first(d)["changes"][0].update(kind=None), "refused.cassette"),
    "no content": (lambda d: first(d)["changes"][0].update(content_digest=None), "refused.cassette"),
    "a link in a home": (lambda d: first(d)["changes"][0].update(place="home", kind="symlink"), "refused.cassette"),
    "a change twice": (
        lambda d: first(d).update(
            changes=sorted([*first(d)["changes"], {**first(d)["changes"][0], "kind": "symlink"}], key=canonical.encode)
        ),
        "refused.cassette",
    ),
    "a blob that is not there": (lambda d: first(d)["answered"].update(stdout_digest=digest(b"?")), "port.not-found"),
    "not complete": (lambda d: d.update(complete=False), "refused.cassette-incomplete"),
    "another member": (lambda d: d.update(more=1), "refused.malformed"),
    "another kind": (lambda d: d.update(kind="savant.process.cassette/v2"), "refused.malformed"),
    "two things under a name": (
        lambda d: d.update(
            attachments=sorted(
                [*d["attachments"], {"name": "config", "digest": first(d)["asked"]["stdin_digest"]}],
                key=canonical.encode,
            )
        ),
        "refused.cassette",
    ),
}


@pytest.mark.parametrize("what", TAMPERS)
def test_a_tampered_document_is_refused_as_a_whole(desk: Desk, what: str) -> None:
    """Whatever a cassette says that none could say is refused before a call is played."""
    recorder = desk.recorder(attachments={"config": b"{}"})
    recorder.run(desk.command("echo x >> a.txt"))
    assert recorder.finish()
    assert desk.player().left == 1
    change, code = TAMPERS[what]
    tampered(desk, change)
    with pytest.raises(SavantError) as caught:
        open_cassette(desk.folder)
    assert caught.value.code == code


def test_tampered_blobs_are_refused(desk: Desk) -> None:
    """Other bytes under a digest, a link in its place and a linked folder of blobs are refused, also after opening."""
    recorder = desk.recorder()
    recorder.run(desk.command("echo x >> a.txt"))
    assert recorder.finish()
    player = desk.player()
    blob = desk.folder / "blobs" / digest(b"one\nx\n").removeprefix("blake3:")
    kept = blob.read_bytes()
    blob.chmod(0o600)
    blob.write_bytes(b"one\ny\n")
    with pytest.raises(VerificationError) as caught:
        open_cassette(desk.folder)
    assert caught.value.code == "unverified.cassette"
    with pytest.raises(VerificationError):
        player.run(desk.command("echo x >> a.txt", path="/nowhere/tool"))
    blob.unlink()
    elsewhere = desk.root / "elsewhere"
    elsewhere.write_bytes(kept)
    blob.symlink_to(elsewhere)
    with pytest.raises(RefusedInput) as refused:
        open_cassette(desk.folder)
    assert refused.value.code == "refused.not-regular"
    blob.unlink()
    blob.write_bytes(kept)
    assert open_cassette(desk.folder).sealed.document.complete
    shutil.move(desk.folder / "blobs", desk.root / "moved")
    (desk.folder / "blobs").symlink_to(desk.root / "moved")
    with pytest.raises(RefusedInput) as refused:
        open_cassette(desk.folder)
    assert refused.value.code == "refused.write-through-symlink"


def test_the_answer_may_not_be_longer_than_the_command_may_write(desk: Desk) -> None:
    """The limits of the call hold for an answer too."""
    recorder = desk.recorder()
    recorder.run(desk.command("echo 12345"))
    assert recorder.finish()
    with pytest.raises(RefusedInput) as caught:
        desk.player().run(
            desk.command("echo 12345", path="/nowhere/tool", limits=structs.replace(ROOMY, stdout_bytes=5))
        )
    assert caught.value.code == "refused.cassette-size"
    exact = structs.replace(ROOMY, stdout_bytes=6)
    assert desk.player().run(desk.command("echo 12345", path="/nowhere/tool", limits=exact)).stdout == b"12345\n"


def test_a_folder_that_holds_something_is_not_recorded_into(desk: Desk) -> None:
    """Nothing is overwritten; an empty folder will do."""
    desk.folder.mkdir()
    (desk.folder / "mine").touch()
    with pytest.raises(UsageError) as caught:
        desk.recorder()
    assert caught.value.code == "usage.cassette-exists"
    (desk.folder / "mine").unlink()
    assert desk.recorder().finish()
    assert not Recorder(desk.inner, desk.root / "never").finish()


def test_a_command_that_cannot_be_run_leaves_the_cassette_incomplete(tmp_path: Path) -> None:
    """A failure of the runner is no answer that could be played."""
    desk = Desk(tmp_path, ScriptedRunner({}))
    recorder = desk.recorder()
    assert recorder.run(desk.command("true")).verdict == "spawn-error"
    with pytest.raises(PortError):
        recorder.run(desk.command("true", sandbox=Sandbox(level="S3")))
    assert not recorder.finish()


def test_a_directory_that_stands_elsewhere_in_the_sandbox(tmp_path: Path) -> None:
    """The tree is that of the host's folder, the name that of the sandbox, and the change lands on the host."""

    def program(command: Command) -> Scripted:
        (command.sandbox.mounts[0].source / "sub" / "new").write_text("x")
        return Scripted()

    desk = Desk(tmp_path, ScriptedRunner({"/bin/sh": program}, level="S3"))
    recorder = desk.recorder()

    def command(path: str) -> Command:
        made = desk.command("true", path=path)
        (made.cwd / "sub").mkdir()
        mounts = (Mount(made.cwd, Path("/work"), True),)
        return structs.replace(made, cwd=Path("/work/sub"), sandbox=Sandbox(level="S3", mounts=mounts))

    recorder.run(command("/bin/sh"))
    assert recorder.finish()
    again = command("/nowhere/tool")
    player = desk.player()
    assert (player.level, player.offer().level) == ("S3", "S3")
    assert player.run(again).level == "S3"
    assert (again.sandbox.mounts[0].source / "sub" / "new").read_text() == "x"


def test_a_player_offers_what_every_recorded_command_had(tmp_path: Path) -> None:
    """One command that ran uncontained is enough: nobody takes the replay for a contained run."""
    desk = Desk(tmp_path, ScriptedRunner({"/bin/sh": Scripted()}, level="S3"))
    recorder = desk.recorder()
    recorder.run(desk.command("one", sandbox=Sandbox(level="S3")))
    recorder.run(desk.command("two", sandbox=Sandbox(level="S0")))
    assert recorder.finish()
    player = desk.player()
    assert (player.level, player.offer().level) == ("S0", "S0")
    with pytest.raises(PortError) as caught:
        player.run(desk.command("one", path="/nowhere/tool", sandbox=Sandbox(level="S3")))
    assert caught.value.code == "port.sandbox-level"
    assert player.run(desk.command("one", path="/nowhere/tool")).level == "S3"


@pytest.mark.parametrize("name", CHECKS)
def test_both_conform_to_the_port(name: str, tmp_path: Path, cancel: Cancellation) -> None:
    """The recorder is a runner like any other, and so is the player of what that recorded."""
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    recorder = Recorder(ScriptedRunner(SHELL, level="S3"), tmp_path / "cassette")
    recorder.describe({}, personal=(), attachments={}, redaction=Mask())
    recorder.close, close = recorder.finish, recorder.close  # type: ignore[method-assign, assignment]
    verify(name, recorder, cwd, cancel)
    close()
    if name == "raises what the talk raises":  # a call that was not ended by the command leaves the cassette incomplete
        with pytest.raises(RefusedInput):
            open_cassette(tmp_path / "cassette")
        return
    verify(name, Player(open_cassette(tmp_path / "cassette"), Mask()), cwd, type(cancel)())


def test_a_cassette_is_one_closed_document(desk: Desk) -> None:
    """The bytes are canonical, private to their owner, and name no folder of the machine."""
    recorder = desk.recorder()
    recorder.run(desk.command("cat {cwd}/a.txt; echo {home}", "x" * 20_000, stdin=b"{}"))
    assert recorder.finish()
    raw = (desk.folder / "cassette.json").read_bytes()
    assert canonical.decode(raw, Cassette) == open_cassette(desk.folder).sealed.document
    assert (desk.folder.stat().st_mode | (desk.folder / "cassette.json").stat().st_mode) & 0o077 == 0
    (call,) = msgspec.json.decode(raw, type=Cassette).calls
    assert call.asked.arguments[:2] == ("-c", "cat {cwd}/a.txt; echo {home}")
    assert call.asked.arguments[3] == f"%{digest(b'x' * 20_000)}"
    assert call.asked.environment == ("HOME", "PATH")


@pytest.mark.parametrize(("limit", "least"), [("MAX_CALLS", 2), ("MAX_TOTAL_BYTES", 8), ("MAX_DOCUMENT_BYTES", 5_000)])
def test_a_cassette_that_is_too_large_is_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, limit: str, least: int
) -> None:
    """The number of calls, all bytes together and the document are bounded before anything is played."""
    recorder = desk.recorder()
    for _ in range(2):
        recorder.run(desk.command("echo 1234567"))
    assert recorder.finish()
    monkeypatch.setattr(cassettefolder, limit, least)
    assert open_cassette(desk.folder).sealed.document.complete
    monkeypatch.setattr(cassettefolder, limit, 1)
    with pytest.raises(RefusedInput) as caught:
        open_cassette(desk.folder)
    assert caught.value.code in {"refused.cassette-size", "refused.too-large"}


def test_a_file_that_is_too_large_is_not_recorded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than a blob may have leaves the cassette incomplete, and the command's own error."""
    recorder = desk.recorder()
    monkeypatch.setattr(cassettefolder, "MAX_BLOB_BYTES", 8)
    assert recorder.run(desk.command("echo 1234567")).is_success
    with pytest.raises(RefusedInput) as caught:
        recorder.run(desk.command("echo 12345678"))
    assert caught.value.code == "refused.cassette-size"
    assert not recorder.finish()


def test_only_files_below_home_are_named(desk: Desk) -> None:
    """An argument that leaves HOME, names a folder or a link names no file; what is not there is asked for by name."""
    recorder = desk.recorder()
    command = desk.command('mkdir "$2"; ln -s x "$3"', "{home}/../x", "{home}/folder", "--to={home}/link")
    recorder.run(command)
    assert recorder.finish()
    (call,) = open_cassette(desk.folder).sealed.document.calls
    assert (call.asked.files, call.changes) == ((), ())
    with pytest.raises(RefusedInput):
        open_cassette(desk.folder).attachment("config")


def test_what_is_still_alive_leaves_no_difference(tmp_path: Path) -> None:
    """While something of a command may still write, its directory is not read: the provider's call fails anyway."""

    def program(command: Command) -> Scripted:
        (command.cwd / "new").touch()
        return Scripted(remaining=1)

    desk = Desk(tmp_path, ScriptedRunner({"/bin/sh": program}))
    recorder = desk.recorder()
    recorder.run(desk.command("true"))
    assert recorder.finish()
    assert open_cassette(desk.folder).sealed.document.calls[0].changes == ()
    assert not desk.player().run(desk.command("true", path="/nowhere/tool")).is_quiescent
