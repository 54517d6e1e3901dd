"""Which applied bytes git would store otherwise: our answer is compared with git's own ``hash-object --path``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from savant.repository import Repository
from savant.repository.conversion import converted_paths, is_binary, is_lfs_pointer
from savant.repository.worktree import control_state

CRLF, LF = b"one\r\ntwo\r\n", b"one\ntwo\n"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 1\n"

CASES: list[tuple[str, bytes, str | None]] = [
    ("", CRLF, None),
    ("* text", CRLF, "text"),
    ("* text", LF, None),
    ("* text", b"\0\r\n", "text"),
    ("* -text", CRLF, None),
    ("* -text eol=crlf", CRLF, None),
    ("* text=auto", CRLF, "text=auto"),
    ("* text=auto", LF, None),
    ("* text=auto", b"\0" + CRLF, None),
    ("* text=auto", b"lone\rcr\r\n", None),
    ("* text=auto", b"\x01\x02\x03" * 9 + CRLF, None),
    ("* text=auto eol=lf", CRLF, "text=auto"),
    ("* text eol=crlf", CRLF, "text"),
    ("* text eol=crlf", LF, None),
    ("* eol=crlf", CRLF, "eol=crlf"),
    ("* eol=lf", CRLF, "eol=lf"),
    ("* eol=lf", b"\0\r\n", "eol=lf"),
    ("* crlf", CRLF, "crlf"),
    ("* crlf=input", CRLF, "crlf=input"),
    ("* -crlf", CRLF, None),
    ("* binary", CRLF, None),
    ("* text=strange", CRLF, None),
    ("* ident", b"x $Id: abc $ y", "ident"),
    ("* ident", b"x $Id$ y", None),
    ("* ident", b"x $Id: abc\n$ y", None),
    ("* -ident", b"x $Id: abc $ y", None),
    ("* working-tree-encoding=UTF-16", "x".encode("utf-16"), "working-tree-encoding=UTF-16"),
    ("* working-tree-encoding=UTF-8", b"x", None),
    ("* working-tree-encoding=UTF-16", b"", None),
    ("* filter=up", b"x", "filter=up"),
    ("*.txt filter=up", b"x", None),
]


@pytest.mark.parametrize(("attributes", "data", "blame"), CASES)
def test_our_answer_is_gits(sandbox: Any, opened: Repository, attributes: str, data: bytes, blame: str | None) -> None:
    """For every kind of attribute we name it exactly where git's clean conversion gives another blob."""
    commit = sandbox.commit({b".gitattributes": attributes.encode() + b"\n", b"old": b"old"})
    found = converted_paths(opened, commit, {b"new": data, b"d/new": data})
    assert found == ([] if blame is None else [(b"d/new", blame), (b"new", blame)])
    sandbox.git("config", "filter.up.clean", "tr a-z A-Z")
    (sandbox.path / ".gitattributes").write_text(attributes + "\n")
    by_git = sandbox.git("hash-object", "--path=new", "--stdin", stdin=data).decode().strip()
    assert (by_git != sandbox.blob(data)) == (blame is not None)


@pytest.mark.parametrize(
    ("value", "blame"), [("true", "core.autocrlf=true"), ("input", "core.autocrlf=input"), ("false", None)]
)
def test_the_repository_configuration_counts(sandbox: Any, opened: Repository, value: str, blame: str | None) -> None:
    """core.autocrlf of the repository acts like text=auto on paths without attributes."""
    commit = sandbox.commit({b".gitattributes": b"*.bin -text\n"})
    sandbox.git("config", "core.autocrlf", value)
    found = converted_paths(opened, commit, {b"a": CRLF, b"b": LF, b"c.bin": CRLF, b"d": b"\0" + CRLF})
    assert found == ([] if blame is None else [(b"a", blame)])


def test_a_base_with_crlf_stays_so(sandbox: Any, opened: Repository) -> None:
    """Where the base's blob has CR LF, text=auto leaves the new content alone, as git does; text does not."""
    commit = sandbox.commit({b".gitattributes": b"* text=auto\n", b"a": b"x\r\n", b"b": b"x\n", b"c\n": b"x\r\n"})
    contents = {b"a": CRLF, b"b": CRLF, b"new": CRLF, b"c\n": CRLF}
    assert [path for path, _ in converted_paths(opened, commit, contents)] == [b"b", b"c\n", b"new"]
    commit = sandbox.commit({b".gitattributes": b"* text\n", b"a": b"x\r\n"}, branch="text")
    assert converted_paths(opened, commit, {b"a": CRLF}) == [(b"a", "text")]


def test_the_candidates_attributes_count(sandbox: Any, opened: Repository) -> None:
    """Attributes that the candidate adds, changes or removes are those in force; nothing is written for that."""
    commit = sandbox.commit({b".gitattributes": b"* text\n", b"d/.gitattributes": b"* -text\n"})
    before, objects = control_state(opened), sorted(sandbox.path.rglob(".git/objects/**/*"))
    contents = {b"a": CRLF, b"d/a": CRLF}
    assert converted_paths(opened, commit, contents) == [(b"a", "text")]
    assert converted_paths(opened, commit, {**contents, b".gitattributes": b"\n"}) == []
    assert converted_paths(opened, commit, contents, removed=[b"d/.gitattributes", b"gone"]) == [
        (b"a", "text"),
        (b"d/a", "text"),
    ]
    new = {b"e/.gitattributes": b"* filter=x\n", b"e/a": b"x"}
    assert converted_paths(opened, commit, new) == [(b"e/a", "filter=x"), (b"e/.gitattributes", "filter=x")][::-1]
    assert control_state(opened) == before
    assert sorted(sandbox.path.rglob(".git/objects/**/*")) == objects


def test_lfs(sandbox: Any, opened: Repository) -> None:
    """An LFS path may hold a pointer, which the filter leaves alone; anything else it would replace."""
    commit = sandbox.commit({b".gitattributes": b"*.psd filter=lfs diff=lfs -text\n"})
    contents = {b"a.psd": POINTER, b"b.psd": b"pixels", b"c.psd": b""}
    assert converted_paths(opened, commit, contents) == [(b"b.psd", "filter=lfs")]
    assert is_lfs_pointer(POINTER)
    assert not is_lfs_pointer(POINTER + b"x" * 2000)


def test_filters_do_not_run(sandbox: Any, opened: Repository, tmp_path: Path) -> None:
    """Asking starts no filter program of the repository."""
    canary = tmp_path / "canary"
    sandbox.git("config", "filter.evil.clean", f"touch {canary}; cat")
    commit = sandbox.commit({b".gitattributes": b"* filter=evil\n"})
    assert converted_paths(opened, commit, {b"a": b"x"}) == [(b"a", "filter=evil")]
    assert not canary.exists()
    sandbox.checkout()
    canary.unlink(missing_ok=True)
    sandbox.git("hash-object", "--path=a", "--stdin", stdin=b"x")
    assert canary.exists()  # the control


def test_info_attributes_count(sandbox: Any, opened: Repository) -> None:
    """Attributes that a person put into .git/info are in force for git, so they are for us."""
    commit = sandbox.commit({b"a": b"x"})
    (sandbox.path / ".git/info").mkdir(exist_ok=True)
    (sandbox.path / ".git/info/attributes").write_text("odd* text\n")
    odd = b'odd "\n\xff'
    assert converted_paths(opened, commit, {odd: CRLF, b"a": CRLF}) == [(odd, "text")]
    assert converted_paths(opened, commit, {}) == []


def test_other_repositories(make: Callable[..., Any]) -> None:
    """The question can be asked in bare and in SHA-256 repositories."""
    for name, init in (("bare.git", "--bare"), ("long", "--object-format=sha256")):
        sandbox = make(name, init)
        commit = sandbox.commit({b".gitattributes": b"* text\n", b"d/.gitattributes": b"* -text\n"})
        with Repository.open(sandbox.path) as repository:
            found = converted_paths(repository, commit, {b"a": CRLF, b"d/a": CRLF}, removed=[b"d/.gitattributes"])
            assert found == [(b"a", "text"), (b"d/a", "text")]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", False),
        (b"text\r\n", False),
        (b"lone\r", True),
        (b"\0", True),
        (b"\x01", True),
        (b"x" * 128 + b"\x01", False),
        (b"x" * 127 + b"\x01", True),
        (b"x\x1a", False),
        (b"\x1ax", True),
        (b"\x1b[0m\t\x08\x0c", False),
        ("\u00e9".encode(), False),
    ],
)
def test_what_git_takes_for_binary(data: bytes, expected: bool, sandbox: Any) -> None:
    """The text heuristic is git's: one control character per 128 printable ones makes it binary."""
    assert is_binary(data) == expected
    probe = data + b"\r\n" if not data.endswith((b"\r", b"\x1a")) else b"\r\n" + data
    sandbox.git("config", "core.autocrlf", "input")
    by_git = sandbox.git("hash-object", "--path=a", "--stdin", stdin=probe).decode().strip()
    assert (by_git == sandbox.blob(probe)) == is_binary(probe)
