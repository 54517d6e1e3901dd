"""What contained commands, and what several of them had at least."""

from __future__ import annotations

from itertools import permutations

from savant.contracts.containment import LEVEL_WORDS, LEVELS_BY_WORD, Containment, level_words, weakest

FULL = Containment(level="S3", layers=("bwrap", "seccomp"), network="none")
OPEN = Containment(level="S3", layers=("bwrap", "landlock", "seccomp"), network="open")
BARE = Containment(level="S0", layers=("seccomp",), network="open")


def test_the_weakest_of_several_is_what_all_of_them_had() -> None:
    """The lowest level, the layers in common, an open network if one had it; in any order."""
    for several in permutations((FULL, None, OPEN)):
        assert weakest(several) == Containment(level="S3", layers=("bwrap", "seccomp"), network="open")
    assert weakest((FULL, BARE)) == Containment(level="S0", layers=("seccomp",), network="open")
    assert weakest((FULL, FULL)) == FULL


def test_nothing_has_no_containment() -> None:
    """No command, or only ones that were never started."""
    assert weakest(()) is None
    assert weakest((None, None)) is None


def test_every_level_has_one_word() -> None:
    """The words are what people read and write; the stronger level is the greater one."""
    assert {LEVELS_BY_WORD[word] for word in LEVEL_WORDS.values()} == set(LEVEL_WORDS)
    assert sorted(LEVEL_WORDS) == ["S0", "S1", "S2", "S3"]
    assert level_words("S2") == "reduced (S2)"
