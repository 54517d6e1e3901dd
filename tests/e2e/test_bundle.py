"""Evidence that travels: a fresh clone without a ledger believes a bundle that its target accepts, and no other."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from savant.cli.app import run_command
from savant.contracts.errors import RefusedInput
from savant.ledger.authority import open_genesis
from savant.ledger.ed25519 import Ed25519Verifier
from savant.store.bundle import CHECKPOINT, HEAD, LINES, unpack
from tests.driver.runkit import Recorded, git, record_run

Ask = Callable[..., tuple[int, Any]]


class World:
    """A developer's repository with an applied run, its bundle, and a clone that has no ledger."""

    def __init__(self, root: Path, commit: str, recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
        self.root, self.commit, self.recorded = root, commit, recorded
        self.clone, self.bundle = root / "clone", root / "bundle"
        self._capsys = capsys

    def ask(self, *words: object, repo: Path | None = None) -> tuple[int, Any]:
        self._capsys.readouterr()
        code = run_command([*map(str, words), "--repo", str(repo or self.clone), "--format", "json"])
        out = self._capsys.readouterr()
        return code, json.loads(out.out) if out.out else out.err

    def gate(self, evidence: Path, *more: object, commit: str | None = None) -> tuple[int, list[str]]:
        words = ("gate", commit or self.commit, "--evidence", evidence, "--mode", "all", *more)
        code, said = self.ask(*words)
        assert isinstance(said, dict), said
        return code, [reason["code"] for reason in said["reasons"]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, Recorded]]:
    """The run, and its ledger listed at the base of the commit that came of it."""
    root = tmp_path_factory.mktemp("bundled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAVANT_HOME", str(root / "home"))
        recorded = record_run(root)  # the ledger is made by a first run
        assert recorded.command("bundle", "latest", "--repo", recorded.repo, "--output", root / "first") == 0
        ledger, keyid = _identity(root / "first")
        listed = f'[[ledger]]\nid = "{ledger}"\nroot = "{keyid}"\n'
        (recorded.repo / ".savant" / "ledgers.toml").write_text(listed)
        git(recorded.repo, "add", "--all")
        git(recorded.repo, "commit", "--quiet", "--message", "whose evidence counts")
        words = ["run", "Make b two", "--scope", "b.py", "--recipe", "sed -i s/1/2/ b.py", "--quiet"]
        assert recorded.command(*words, "--must-pass", "grep -q 2 b.py", "--repo", recorded.repo) == 0
        target = root / "target"
        assert recorded.command("apply", "--repo", recorded.repo, "--new", target) == 0
        git(target, "commit", "--quiet", "--all", "--message", "b is two")
        commit = git(target, "rev-parse", "HEAD")
        assert recorded.command("bundle", "latest", "--repo", recorded.repo, "--output", root / "bundle") == 0
        git(recorded.repo, "branch", "--force", "made", commit)
        subprocess.run(["git", "clone", "--quiet", str(recorded.repo), str(root / "clone")], check=True)
        patch.setenv("SAVANT_HOME", str(root / "elsewhere"))
        yield root, commit, recorded


def _identity(bundle: Path) -> tuple[str, str]:
    authority, _ = open_genesis((bundle / LINES).read_bytes().split(b"\n")[0], Ed25519Verifier())
    return authority.ledger, authority.root.keyid


@pytest.fixture
def world(made: tuple[Path, str, Recorded], capsys: pytest.CaptureFixture[str]) -> World:
    root, commit, recorded = made
    return World(root, commit, recorded, capsys)


def packed(folder: Path, target: Path) -> Path:
    """The same bundle as an archive, as git or tar would make it."""
    with tarfile.open(target, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.add(path, path.relative_to(folder).as_posix(), recursive=False)
    return target


def test_a_clone_without_a_ledger_is_shown_by_a_bundle(world: World, tmp_path: Path) -> None:
    """By identity, from a folder and from an archive; without evidence the clone cannot tell."""
    assert world.gate(world.bundle) == (0, ["gate.by-identity"])
    assert world.gate(packed(world.bundle, tmp_path / "b.tar")) == (0, ["gate.by-identity"])
    code, said = world.ask("gate", world.commit, "--mode", "all")
    assert (code, said["reasons"][0]["code"]) == (12, "gate.no-ledger")
    assert not (world.clone / ".git" / "savant").exists()


def test_an_auditor_verifies_and_replays_a_bundle(world: World, tmp_path: Path) -> None:
    """With the pin that the auditor types; without one it is intact and nobody vouches for it; cut, it fails."""
    ledger, root = _identity(world.bundle)
    pinned = ("--pin", ledger, "--root", root)
    archive = packed(world.bundle, tmp_path / "b.tar")
    for words in (("ledger", "verify"), ("replay",)):
        assert world.ask(*words, "--ledger", world.bundle, *pinned)[0] == 0
        assert world.ask(*words, "--ledger", archive, *pinned)[0] == 0
        assert world.ask(*words, "--ledger", world.bundle)[0] == 12
    cut = tmp_path / "cut"
    shutil.copytree(world.bundle, cut)
    lines = (cut / LINES).read_bytes().splitlines(keepends=True)
    (cut / LINES).write_bytes(b"".join(lines[:-1]))
    assert world.ask("ledger", "verify", "--ledger", cut, *pinned)[0] == 23


def test_the_same_ledger_gives_the_same_bytes(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folder and archive; an archive is what tar reads."""
    monkeypatch.setenv("SAVANT_HOME", str(world.root / "home"))
    for name in ("one.tar", "two.tar", "folder"):
        code, said = world.ask("bundle", "latest", "--output", tmp_path / name, repo=world.recorded.repo)
        assert code == 0, said
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    with tarfile.open(tmp_path / "one.tar") as archive:
        names = archive.getnames()
    folder = tmp_path / "folder"
    assert names == [path.relative_to(folder).as_posix() for path in files_of(folder)] == sorted(names)
    code, said = world.ask("bundle", "latest", "--output", tmp_path / "folder", repo=world.recorded.repo)
    assert (code, "conflict.bundle-exists" in str(said)) == (43, True)
    assert list(tmp_path.glob(".bundle-*")) == []


def test_coverage_looks_into_bundles_too(world: World) -> None:
    """What the target lists counts for a range; without evidence nothing can be told."""
    words = ("coverage", f"{world.commit}~1..{world.commit}")
    code, said = world.ask(*words, "--evidence", world.bundle)
    assert (code, said["counts"]["governed"]) == (0, 1)
    assert world.ask(*words)[0] == 12


def test_a_commit_amended_by_one_byte_is_not_governed(world: World) -> None:
    """The bundle explains exactly its candidate."""
    git(world.clone, "checkout", "--quiet", "-B", "amended", world.commit)
    (world.clone / "b.py").write_text("b = 3\n")
    git(world.clone, "commit", "--quiet", "--amend", "--all", "--message", "b is three")
    assert world.gate(world.bundle, commit="HEAD") == (25, ["gate.differs"])


def test_a_ledger_that_the_target_does_not_list_is_not_believed(world: World) -> None:
    """Intact, and nobody vouches for it: a bundle never vouches for itself, nor does a listing in the commit."""
    assert world.gate(world.bundle)[0] == 0
    git(world.clone, "checkout", "--quiet", "-B", "unlisted", f"{world.commit}~1")
    (world.clone / ".savant" / "ledgers.toml").unlink()
    git(world.clone, "commit", "--quiet", "--all", "--message", "nobody's evidence counts")
    git(world.clone, "cherry-pick", world.commit)
    assert world.gate(world.bundle, commit="HEAD") == (12, ["gate.not-authenticated"])
    (world.clone / ".savant" / "ledgers.toml").write_text('[[ledger]]\nid = "mine"\n')
    git(world.clone, "add", "--all")
    git(world.clone, "commit", "--quiet", "--message", "no ledger")
    git(world.clone, "commit", "--quiet", "--allow-empty", "--message", "on it")
    assert world.gate(world.bundle, commit="HEAD") == (12, ["gate.unreadable"])


def test_another_root_than_the_listed_one_is_refused(world: World) -> None:
    """The id is the genesis; the root must fit as well where it is given."""
    git(world.clone, "checkout", "--quiet", "-B", "otherroot", f"{world.commit}~1")
    path = world.clone / ".savant" / "ledgers.toml"
    path.write_text(path.read_text().replace('root = "SHA256:', 'root = "SHA256:x'))
    git(world.clone, "commit", "--quiet", "--all", "--message", "another root")
    git(world.clone, "cherry-pick", world.commit)
    assert world.gate(world.bundle, commit="HEAD") == (23, ["gate.ledger-failed"])


def test_custody_is_what_the_target_says_and_what_was_seen(world: World, tmp_path: Path) -> None:
    """A person's ledger is A; CI's is B, and C once the same ledger was seen before; the policy's demand stops less."""
    git(world.clone, "checkout", "--quiet", "-B", "custody", f"{world.commit}~1")
    listed = world.clone / ".savant" / "ledgers.toml"
    listed.write_text(listed.read_text() + 'held = "ci"\n')
    policy = world.clone / ".savant" / "policy.toml"
    policy.write_text(policy.read_text().replace('custody = "A"', 'custody = "C"'))
    assert 'custody = "C"' in policy.read_text()
    git(world.clone, "commit", "--quiet", "--all", "--message", "stricter")
    git(world.clone, "cherry-pick", world.commit)
    seen = tmp_path / "seen.json"
    assert world.gate(world.bundle, "--seen", seen, commit="HEAD") == (25, ["gate.custody"])
    code, said = world.ask("gate", "HEAD", "--evidence", world.bundle, "--seen", seen, "--mode", "all")
    assert (code, said["custody"]) == (0, "C")
    seen.write_text(seen.read_text().replace('"root": "', '"root": "00'))
    assert world.gate(world.bundle, "--seen", seen, commit="HEAD")[0] == 23


def test_several_bundles_are_looked_into(world: World, tmp_path: Path) -> None:
    """The one that explains the commit answers; a broken one beside it takes nothing away and gives nothing."""
    broken = tmp_path / "broken"
    shutil.copytree(world.bundle, broken)
    (broken / HEAD).unlink()
    code, said = world.ask("gate", world.commit, "--evidence", broken, "--evidence", world.bundle, "--mode", "all")
    assert (code, said["answer"]) == (0, "governed")
    assert world.gate(broken) == (12, ["gate.unreadable"])
    words = ("gate", world.commit, "--evidence", broken, "--evidence", world.bundle)
    assert world.ask(*words, "--seen", tmp_path / "seen.json")[0] == 2
    assert world.ask(*words, "--ledger", tmp_path)[0] == 2


def files_of(bundle: Path) -> list[Path]:
    return sorted(path for path in bundle.rglob("*") if path.is_file())


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_flipped_byte_or_a_missing_file_never_governs(
    made: tuple[Path, str, Recorded], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Whatever is done to one file of a bundle, the commit is not explained by it."""
    root, commit, _ = made
    spoiled = tmp_path_factory.mktemp("spoiled") / "bundle"
    shutil.copytree(root / "bundle", spoiled)
    path = data.draw(st.sampled_from(files_of(spoiled)), label="file")
    raw = bytearray(path.read_bytes())
    if raw and data.draw(st.booleans(), label="flip"):
        at = data.draw(st.integers(0, len(raw) - 1), label="at")
        raw[at] ^= data.draw(st.integers(1, 255), label="with")
        path.write_bytes(raw)
    else:
        path.unlink()
    code = run_command(["gate", commit, "--evidence", str(spoiled), "--mode", "all", "--repo", str(root / "clone")])
    assert code in (12, 23, 25)


def test_what_is_no_part_of_a_bundle_is_refused(world: World, tmp_path: Path) -> None:
    """Links, folders, pipes, foreign names, twice the same name, wrong sizes: a sentence names the file."""

    def refused(spoil: Callable[[Path], object]) -> str:
        place = tmp_path / f"b{len(list(tmp_path.iterdir()))}"
        shutil.copytree(world.bundle, place)
        spoil(place)
        code, said = world.ask("gate", world.commit, "--evidence", place, "--mode", "all")
        assert (code, said["reasons"][0]["code"]) == (12, "gate.unreadable")
        return str(said["reasons"][0]["detail"])

    objects = [path for path in files_of(world.bundle) if path.parent.parent.name == "objects"]
    some = objects[0].relative_to(world.bundle)
    assert "no part of a bundle" in refused(lambda b: (b / "extra").write_text("x"))
    assert "no regular file" in refused(lambda b: (b / "extra").mkdir())
    assert "no part of a bundle" in refused(lambda b: (b / "objects" / "README").write_text("x"))
    assert "no regular file" in refused(lambda b: (b / some).unlink() or (b / some).symlink_to("/etc/passwd"))
    assert "no regular file" in refused(lambda b: (b / HEAD).unlink() or os.mkfifo(b / HEAD))
    assert "other content" in refused(lambda b: (b / some).write_bytes(b"x"))
    assert "is missing" in refused(lambda b: (b / CHECKPOINT).unlink())
    assert "are allowed" in refused(lambda b: (b / HEAD).write_bytes(b"x" * 200_000))
    assert "cut off" in refused(lambda b: (b / LINES).write_bytes((b / LINES).read_bytes()[:-1]))
    assert "too long" in refused(lambda b: (b / LINES).write_bytes(b"x" * 100_000 + b"\n"))


def member(name: str, data: bytes = b"x", **changes: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in changes.items():
        setattr(info, key, value)
    return info, data


@pytest.mark.parametrize(
    "members",
    [
        [member("../x")],
        [member("/etc/x")],
        [member("head.json", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")],
        [member("head.json", b"", type=tarfile.LNKTYPE, linkname="checkpoint")],
        [member("head.json", b"", type=tarfile.CHRTYPE)],
        [member("head.json", b"", type=tarfile.FIFOTYPE)],
        [member("head.json"), member("head.json")],
        [member("objects/../head.json")],
        [member("x/", b"", type=tarfile.DIRTYPE)],
    ],
)
def test_a_hostile_archive_is_refused(tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    """Nothing is written outside the private folder, and no link or device is made."""
    archive = tmp_path / "evil.tar"
    with tarfile.open(archive, "w") as made:
        for info, data in members:
            made.addfile(info, io.BytesIO(data))
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(RefusedInput, match=r"refused\.bundle"):
        unpack(archive, place)
    assert {path.name for path in tmp_path.iterdir()} == {"evil.tar", "place"}
    assert not any(path.is_symlink() for path in place.rglob("*"))


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_header_of_gigabytes_is_refused_before_it_is_read(tmp_path: Path, kind: bytes) -> None:
    """A small file that says so, with a hole behind it; the small header that git writes is taken."""
    info = tarfile.TarInfo("pax_global_header")
    info.type, info.size = kind, 3 * 1024 * 1024 * 1024
    archive = tmp_path / "hole.tar"
    archive.write_bytes(info.tobuf(tarfile.USTAR_FORMAT))
    os.truncate(archive, 512 + info.size)
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(RefusedInput, match=r"header of \d+ bytes"):
        unpack(archive, place)


def test_what_is_no_archive_is_refused(world: World, tmp_path: Path) -> None:
    """Bytes, a compressed archive, a cut one, a pipe, nothing."""
    good = packed(world.bundle, tmp_path / "good.tar").read_bytes()
    cases = {"bytes": b"hello", "gzip": b"\x1f\x8b" + bytes(600), "cut": good[: len(good) // 2], "empty": b""}
    for name, raw in cases.items():
        (tmp_path / name).write_bytes(raw)
        assert world.gate(tmp_path / name) == (12, ["gate.unreadable"]), name
    os.mkfifo(tmp_path / "pipe")
    assert world.gate(tmp_path / "pipe") == (12, ["gate.unreadable"])
    assert world.gate(tmp_path / "absent") == (12, ["gate.unreadable"])


def test_the_printed_commands_put_it_on_a_branch(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The person's git makes and pushes the branch; checkout and index stay; what git archives is a bundle."""
    monkeypatch.setenv("SAVANT_HOME", str(world.root / "home"))
    origin, repo = tmp_path / "origin.git", world.recorded.repo
    subprocess.run(["git", "init", "--quiet", "--bare", str(origin)], check=True)
    git(repo, "remote", "add", "origin", str(origin))
    before = git(repo, "status", "--porcelain")
    code, said = world.ask("bundle", "latest", "--branch", "--output", tmp_path / "evidence", repo=repo)
    assert code == 0, said
    environment = {**os.environ, "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@x", "GIT_COMMITTER_NAME": "a"}
    environment["GIT_COMMITTER_EMAIL"] = "a@x"
    for command in said["commands"]:
        subprocess.run(command, shell=True, cwd=repo, check=True, env=environment)
    assert git(repo, "status", "--porcelain") == before
    branch = f"savant-evidence/{said['run']}"
    archive = tmp_path / "fetched.tar"
    subprocess.run(["git", "-C", str(origin), "archive", f"--output={archive}", branch], check=True)
    monkeypatch.setenv("SAVANT_HOME", str(world.root / "elsewhere"))
    assert world.gate(archive) == (0, ["gate.by-identity"])
    git(repo, "remote", "remove", "origin")


@pytest.mark.parametrize(
    ("words", "code"),
    [(("--output", "no/such/folder/x"), 2), (("--branch", "--output", "x.tar"), 2)],
)
def test_a_place_that_cannot_be_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int
) -> None:
    """Before anything is read; an unknown run is a usage error too."""
    monkeypatch.setenv("SAVANT_HOME", str(world.root / "home"))
    ended, said = world.ask("bundle", "latest", *words, repo=world.recorded.repo)
    assert (ended, "usage.bundle" in str(said)) == (code, True)
    assert world.ask("bundle", "ffffffff", repo=world.recorded.repo)[0] == 2
