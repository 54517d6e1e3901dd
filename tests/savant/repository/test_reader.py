"""A git that breaks off, lies or hangs: typed errors, no half answers, no process left."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pytest

from savant.contracts.errors import InternalError, PortError, RefusedInput, SavantError
from savant.repository.launch import Git
from savant.repository.reader import BulkRead, ObjectReader

X = "587be6b4c3f93f93c489c0111bba5596147a26cb"
"""git's id of a blob holding ``x`` and a newline."""


@pytest.fixture
def fake(tmp_path: Path) -> Callable[[str], Git]:
    """A program in git's place that says exactly this."""

    def fake(script: str) -> Git:
        program = tmp_path / "git"
        program.write_text("#!/bin/sh\n" + script)
        program.chmod(0o755)
        return Git(program, tmp_path)

    return fake


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(SavantError) as caught:
        call()
    return caught.value.code


def test_a_whole_answer(fake: Callable[[str], Git]) -> None:
    """The control: a program that answers as git does is understood, one by one and in bulk."""
    git = fake(f"printf '{X} blob 2\\nx\\n\\n'; cat > /dev/null")
    with ObjectReader(git, "sha1") as reader:
        assert reader.read(X).data == b"x\n"
    with BulkRead(git, [X.encode()]) as bulk:
        assert [size for _, _, size in bulk.each_digest()] == [2]


@pytest.mark.parametrize("answer", ["", X, f"{X} blob 2\\nx", f"{X} blob 2\\n", f"{X} blob 2\\nx\\n"])
def test_it_breaks_off(fake: Callable[[str], Git], answer: str) -> None:
    """An answer that ends early is an error of the port on every way, whatever was already said."""
    git = fake(f"printf '{answer}'")
    codes = {"port.missing-object", "port.git-failed"}
    with ObjectReader(git, "sha1") as reader:
        assert code_of(lambda: reader.read(X)) in codes
        assert reader._process is None
    with BulkRead(git, [X.encode()]) as bulk:
        assert code_of(lambda: list(bulk.each_digest())) in codes
    with BulkRead(git, [X.encode()]) as bulk:
        assert code_of(lambda: [b"".join(chunks) for _, _, chunks in bulk.chunks()]) in codes


def test_a_large_blob_breaks_off(fake: Callable[[str], Git]) -> None:
    """Also in the middle of many chunks."""
    git = fake(f"printf '{X} blob 1000000\\n'; head -c 600000 /dev/zero")
    with BulkRead(git, [X.encode()]) as bulk:
        assert code_of(lambda: list(bulk.each_digest())) == "port.git-failed"


def test_it_answers_something_else(fake: Callable[[str], Git]) -> None:
    """Another object than the one asked for, or another content than its id says, is never taken."""
    git = fake(f"printf '{X} blob 2\\ny\\n\\n'; cat > /dev/null")
    with ObjectReader(git, "sha1") as reader:
        assert code_of(lambda: reader.read(X)) == "unverified.git-object"
    git = fake(f"printf '{X} blob 2\\nx\\n\\n'; cat > /dev/null")
    with ObjectReader(git, "sha1") as reader:
        assert code_of(lambda: reader.read("0" * 40)) == "port.missing-object"
    with BulkRead(git, [b"0" * 40]) as bulk:
        assert code_of(lambda: list(bulk.each_digest())) == "port.missing-object"
    git = fake(f"printf '{X} tree 2\\nx\\n\\n'; cat > /dev/null")
    with BulkRead(git, [X.encode()]) as bulk, pytest.raises(RefusedInput) as caught:
        list(bulk.each_digest())
    assert caught.value.code == "refused.malformed-object"


def test_it_is_gone_when_asked(fake: Callable[[str], Git]) -> None:
    """A process that ended before the question is an error once; the next question starts another one."""
    git = fake("exit 1")
    with ObjectReader(git, "sha1") as reader:
        for _ in range(3):
            assert code_of(lambda: reader.read(X)).startswith("port.")
    assert git.starts == 3


def test_an_abandoned_reader_is_cleaned_up(fake: Callable[[str], Git]) -> None:
    """A reader that is dropped without closing ends its process."""
    git = fake(f"printf '{X} blob 2\\nx\\n\\n'; cat > /dev/null")
    reader = ObjectReader(git, "sha1")
    reader.read(X)
    process = reader._process
    assert process is not None
    del reader
    gc.collect()
    assert process.returncode is not None


def test_a_bulk_read_is_read_once(fake: Callable[[str], Git]) -> None:
    """After its end a bulk read is a mistake of ours; an empty one never starts git."""
    git = fake("exit 1")
    with BulkRead(git, []) as empty:
        assert list(empty.each_digest()) == list(empty.chunks()) == []
    assert git.starts == 0
    with BulkRead(git, [X.encode()]) as bulk:
        pass
    with pytest.raises(InternalError):
        list(bulk.each_digest())


def test_a_command_that_hangs(fake: Callable[[str], Git], monkeypatch: pytest.MonkeyPatch) -> None:
    """A command without an end is ended, and said to have hung; a quick one is not."""
    monkeypatch.setattr("savant.repository.launch.TIMEOUT_S", 0.2)
    with pytest.raises(PortError) as caught:
        fake("exec sleep 60").run(["--work-tree=x", "status"])
    assert caught.value.code == "port.git-timeout"
    assert "git status" in caught.value.message
    monkeypatch.setattr("savant.repository.launch.TIMEOUT_S", 60)
    assert fake("echo hello").run(["status"]).stdout == b"hello\n"
