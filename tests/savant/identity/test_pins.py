"""Pins: what was trusted is remembered durably, together, and never guessed at."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from savant.contracts.digest import digest
from savant.contracts.errors import RefusedInput
from savant.identity.pins import NOTHING, PIN_FILE, add_pin, find_pin, read_pins, trust_policy

LEDGER, OTHER = digest(b"ledger"), digest(b"other")
ROOT, OTHER_ROOT = "SHA256:" + "A" * 43, "SHA256:" + "B" * 42 + "A"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config" / "savant"


def test_nothing_is_trusted_at_first(config: Path, tmp_path: Path) -> None:
    """No file is no pins, and reading makes none."""
    assert read_pins(config) == NOTHING
    assert find_pin(NOTHING, tmp_path) is None
    assert not config.exists()


def test_a_pin_is_found_by_its_repository(config: Path, tmp_path: Path) -> None:
    """By the folder itself, whatever path leads to it; other repositories have none."""
    repository = tmp_path / "repo" / ".git"
    repository.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "repo")
    add_pin(config, repository, ledger=LEDGER, root_keyid=ROOT)
    for path in (repository, tmp_path / "link" / ".git", tmp_path / "repo" / ".." / "repo" / ".git"):
        pin = find_pin(read_pins(config), path)
        assert pin is not None
        assert (pin.ledger, pin.root_keyid) == (LEDGER, ROOT)
    assert find_pin(read_pins(config), tmp_path) is None


def test_a_repositorys_new_pin_replaces_its_old_one(config: Path, tmp_path: Path) -> None:
    """The others, and what was trusted, stay."""
    add_pin(config, tmp_path / "a", ledger=LEDGER, root_keyid=ROOT)
    add_pin(config, tmp_path / "b", ledger=LEDGER, root_keyid=ROOT)
    trust_policy(config, LEDGER)
    add_pin(config, tmp_path / "a", ledger=OTHER, root_keyid=OTHER_ROOT)
    pins = read_pins(config)
    assert sorted((Path(pin.repository).name, pin.ledger) for pin in pins.ledgers) == [("a", OTHER), ("b", LEDGER)]
    assert pins.trusted_policies == (LEDGER,)


def test_a_policy_is_trusted_once(config: Path) -> None:
    """Twice is the same; another is added."""
    trust_policy(config, LEDGER)
    trust_policy(config, LEDGER)
    assert read_pins(config).trusted_policies == (LEDGER,)
    trust_policy(config, OTHER)
    assert set(read_pins(config).trusted_policies) == {LEDGER, OTHER}


def test_a_path_that_is_no_text_can_be_pinned(config: Path, tmp_path: Path) -> None:
    """Odd bytes are spelt as everywhere, and found again."""
    repository = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff%"))
    add_pin(config, repository, ledger=LEDGER, root_keyid=ROOT)
    assert find_pin(read_pins(config), repository) is not None


def test_nobody_else_reads_or_writes_them(config: Path) -> None:
    """The folder is made 700 and the file 600."""
    trust_policy(config, LEDGER)
    assert stat.S_IMODE(config.stat().st_mode) == 0o700
    assert stat.S_IMODE((config / PIN_FILE).stat().st_mode) == 0o600


def test_concurrent_updates_lose_nothing(config: Path, tmp_path: Path) -> None:
    """Each of many writers at once finds its own pin afterwards."""
    with ThreadPoolExecutor(8) as pool:
        list(
            pool.map(
                lambda n: add_pin(config, tmp_path / f"r{n}", ledger=digest(b"%d" % n), root_keyid=ROOT), range(24)
            )
        )
    pins = read_pins(config)
    for number in range(24):
        pin = find_pin(pins, tmp_path / f"r{number}")
        assert pin is not None
        assert pin.ledger == digest(b"%d" % number)


@pytest.mark.parametrize("damage", [b"", b"{}", b"not json", None])
def test_a_damaged_file_is_refused_and_kept(damage: bytes | None, config: Path, tmp_path: Path) -> None:
    """Neither reading nor adding guesses; the message names the file and what to do."""
    trust_policy(config, LEDGER)
    path = config / PIN_FILE
    raw = path.read_bytes() + b"\n" if damage is None else damage
    assert read_pins(config) != NOTHING
    path.write_bytes(raw)
    for act in (
        lambda: read_pins(config),
        lambda: trust_policy(config, OTHER),
        lambda: add_pin(config, tmp_path, ledger=LEDGER, root_keyid=ROOT),
    ):
        with pytest.raises(RefusedInput) as error:
            act()
        assert error.value.code == "refused.pins"
        assert str(path) in str(error.value)
        assert str(path) in error.value.fix
    assert path.read_bytes() == raw


def test_a_link_in_place_of_the_file_is_refused(config: Path, tmp_path: Path) -> None:
    """What is trusted stands in the person's own folder."""
    trust_policy(config, LEDGER)
    (config / PIN_FILE).rename(tmp_path / "elsewhere")
    (config / PIN_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RefusedInput) as error:
        read_pins(config)
    assert error.value.code == "refused.not-regular"
