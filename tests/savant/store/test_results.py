"""Results that may be used again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from savant.contracts.digest import digest
from savant.contracts.errors import UsageError
from savant.store.results import MAX_RESULT_BYTES, KeptResults

KEY, OTHER = digest(b"key"), digest(b"other")


def test_what_was_kept_is_there_for_its_key_alone(tmp_path: Path) -> None:
    """An entry comes back whole, another key has none, and the newest bytes win."""
    results = KeptResults(tmp_path / "results")
    assert results.get(KEY) is None
    for body in (b"", b"one\ntwo\n", b"three"):
        results.put(KEY, body)
        assert (results.get(KEY), results.get(OTHER)) == (body, None)


@pytest.mark.parametrize("damage", [b"", b"x", b"blake3:00\nbody"])
def test_a_damaged_entry_is_none_and_can_be_replaced(tmp_path: Path, damage: bytes) -> None:
    """Whatever stands where an entry was, it is no entry; the next one that is kept is."""
    results = KeptResults(tmp_path)
    results.put(KEY, b"body")
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(damage or whole[:-1])
    assert results.get(KEY) is None
    results.put(KEY, b"body")
    assert results.get(KEY) == b"body"


def test_an_entry_under_another_name_is_none(tmp_path: Path) -> None:
    """An entry that was moved to another key is not that key's."""
    results = KeptResults(tmp_path)
    results.put(KEY, b"body")
    (file,) = tmp_path.iterdir()
    file.rename(tmp_path / OTHER.removeprefix("blake3:"))
    assert results.get(OTHER) is None


def test_a_link_is_no_entry(tmp_path: Path) -> None:
    """A link to a whole entry is not followed."""
    results = KeptResults(tmp_path / "results")
    results.put(KEY, b"body")
    (file,) = (tmp_path / "results").iterdir()
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    assert results.get(KEY) is None


def test_the_entries_that_were_not_used_go_first(tmp_path: Path) -> None:
    """Above the bound the entry goes that was not used for the longest."""
    results = KeptResults(tmp_path, max_kept=2)
    keys = [digest(name) for name in (b"a", b"b", b"c")]
    for at, key in enumerate(keys[:2]):
        results.put(key, b"body")
        os.utime(tmp_path / key.removeprefix("blake3:"), ns=(at, at))
    assert results.get(keys[0]) == b"body"
    results.put(keys[2], b"body")
    assert [results.get(key) for key in keys] == [b"body", None, b"body"]


def test_what_cannot_be_kept_is_not(tmp_path: Path) -> None:
    """No room, or too much, is no error: there is no entry."""
    (tmp_path / "file").write_bytes(b"")
    blocked, results = KeptResults(tmp_path / "file"), KeptResults(tmp_path / "results")
    blocked.put(KEY, b"body")
    results.put(KEY, bytes(MAX_RESULT_BYTES + 1))
    assert (blocked.get(KEY), results.get(KEY)) == (None, None)
    with pytest.raises(UsageError, match="not a digest"):
        results.get("../escape")
