"""What of a repository an agent is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from commandprovider.material import MAX_FILE_BYTES, DisclosedBase, Disclosure, instructions, select
from providerport.documents import Prior
from providerport.port import FileMode
from savant.contracts.errors import RefusedInput
from synthesis.documents import Finding


class Tree:
    """A base in memory; a value of None is a link."""

    def __init__(self, files: Mapping[str, bytes | None]) -> None:
        self._files = {name.encode(): data for name, data in files.items()}

    def mode(self, path: bytes) -> FileMode | None:
        if path not in self._files:
            return None
        return "symlink" if self._files[path] is None else "regular"

    def read(self, path: bytes) -> bytes:
        return self._files[path] or b""

    def paths(self) -> Iterator[bytes]:
        return iter(sorted(self._files))


def prior(*paths: str | None) -> Prior:
    return Prior(
        plan_review_digest=None,
        attempt_digest=None,
        evaluation_digest=None,
        outcome=None,
        failure_kind=None,
        findings=tuple(
            Finding(check="c", status="failed", path=path, line=None, message="m", excerpt="") for path in paths
        ),
        review_findings=(),
        dropped=0,
    )


def shown(tree: Tree, *, wanted: tuple[str, ...] = (), about: str = "", found: Prior | None = None) -> list[str]:
    selection = select(tree, wanted=wanted, about=(about,), prior=found, max_bytes=100_000)
    return [file.path for file in selection.files]


TREE = Tree(
    {
        "README.md": b"readme\n",
        "a/first.py": b"1\n",
        "shop/money.py": b"2\n",
        "shop/totals.py": b"3\n",
        "tests/test_totals.py": b"4\n",
    }
)


def test_what_matters_most_comes_first() -> None:
    """First what findings name, then a path in the text, a file name in it, a word in common, then the rest."""
    order = shown(TREE, about="Round totals in money.py, see shop/totals.py", found=prior("tests/test_totals.py", None))
    assert order == ["tests/test_totals.py", "shop/totals.py", "shop/money.py", "README.md", "a/first.py"]
    assert shown(TREE, about="the totals") == [
        "shop/totals.py",
        "tests/test_totals.py",
        "README.md",
        "a/first.py",
        "shop/money.py",
    ]


def test_outside_the_wanted_paths_only_what_is_named_is_shown() -> None:
    """A plan's files are shown whole; another file only where the text or a finding names it."""
    assert shown(TREE, wanted=("shop/**",), about="the totals") == ["shop/totals.py", "shop/money.py"]
    assert shown(TREE, wanted=("shop/**",), about="as in README.md", found=prior("a/first.py")) == [
        "a/first.py",
        "README.md",
        "shop/money.py",
        "shop/totals.py",
    ]


def test_what_is_no_text_or_too_large_is_named_and_left_out() -> None:
    """Binary files, other encodings, links, and files above the limit."""
    tree = Tree(
        {
            "bin": b"\0",
            "latin": b"\xe9",
            "link": None,
            "big.txt": b"x" * (MAX_FILE_BYTES + 1),
            "fits.txt": b"x" * MAX_FILE_BYTES,
        }
    )
    selection = select(tree, wanted=(), about=(), prior=None, max_bytes=200_000)
    assert [file.path for file in selection.files] == ["fits.txt"]
    assert selection.left_out == ("big.txt", "bin", "latin", "link")
    assert selection.listing == ("big.txt", "bin", "fits.txt", "latin", "link")


@pytest.mark.parametrize("max_bytes", [0, 10, 100, 200, 1_000, 5_000])
def test_the_limit_holds(max_bytes: int) -> None:
    """Paths and contents together stay within the bytes there are; what does not fit is counted or named."""
    tree = Tree({f"folder/file-{number:03}.txt": b"y" * 50 for number in range(60)})
    selection = select(tree, wanted=(), about=(), prior=None, max_bytes=max_bytes)
    size = sum(len(path) + 1 for path in selection.listing) + sum(len(f.text) + len(f.path) for f in selection.files)
    assert size <= max_bytes
    assert len(selection.listing) + selection.unlisted == 60
    assert len(selection.left_out) <= 50


def test_a_smaller_file_may_still_fit() -> None:
    """A file that does not fit does not keep the next one out."""
    tree = Tree({"a": b"x" * 3_000, "b": b"y" * 100})
    selection = select(tree, wanted=(), about=(), prior=None, max_bytes=1_000)
    assert [file.path for file in selection.files] == ["b"]
    assert selection.left_out == ("a",)


INSTRUCTED = Tree(
    {
        "CLAUDE.md": b"x",
        "pkg/CLAUDE.md": b"x",
        "AGENTS.md": b"x",
        "GEMINI.md": b"x",
        ".cursorrules": b"x",
        ".cursor/rules/a.mdc": b"x",
        ".github/copilot-instructions.md": b"x",
        ".claude/settings.json": b"x",
        "pkg/.codex/config.toml": b"x",
        ".mcp.json": b"x",
        "docs/claude.txt": b"x",
        "src/agents.py": b"x",
        ".github/workflows/ci.yml": b"x",
    }
)


def test_instruction_files_are_hidden_unless_disclosed() -> None:
    """A base without them is listed, read and written without them; a disclosed pattern shows what it matches."""
    left = [b".github/workflows/ci.yml", b"docs/claude.txt", b"src/agents.py"]
    hidden = DisclosedBase(INSTRUCTED, Disclosure())
    assert list(hidden.paths()) == left
    assert [path for path, _ in hidden.read_many(INSTRUCTED.paths())] == left
    assert hidden.mode(b"CLAUDE.md") is None
    assert hidden.mode(b"src/agents.py") == "regular"
    assert hidden.read(b"src/agents.py") == b"x"
    with pytest.raises(RefusedInput) as caught:
        hidden.read(b"CLAUDE.md")
    assert caught.value.code == "refused.no-such-path"
    shown_one = DisclosedBase(INSTRUCTED, Disclosure(("/CLAUDE.md",)))
    assert set(shown_one.paths()) == {*left, b"CLAUDE.md"}


def test_only_instruction_files_can_be_disclosed_as_instructions() -> None:
    """A pattern for everything discloses the instruction files and presents nothing else as instructions."""
    assert instructions(INSTRUCTED, Disclosure()) == ()
    everything = instructions(INSTRUCTED, Disclosure(("**",)))
    assert [file.path for file in everything] == [
        path.decode() for path in INSTRUCTED.paths() if not path.startswith((b"docs", b"src", b".github/work"))
    ]
    assert [file.path for file in instructions(INSTRUCTED, Disclosure(("AGENTS.md",)))] == ["AGENTS.md"]


def test_a_base_that_reads_in_bulk_is_read_in_bulk() -> None:
    """The view passes one request on."""

    class Bulk(Tree):
        asked = 0

        def read_many(self, paths: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
            self.asked += 1
            return ((path, self.read(path)) for path in paths)

    bulk = Bulk({"a": b"1", "CLAUDE.md": b"2", "b": b"3"})
    assert dict(DisclosedBase(bulk, Disclosure()).read_many(bulk.paths())) == {b"a": b"1", b"b": b"3"}
    assert bulk.asked == 1
