"""The words for containment: the first screen, the doctor, and what is hidden of a person."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from driver.demands import Demands, Offered
from savant.cli.cmd_init import _sandbox
from savant.cli.containing import Containing, network_words, offer_words
from savant.cli.places import find_places
from savant.cli.workbench import Workbench
from savant.contracts.containment import Demand
from savant.contracts.errors import UsageError
from savant.process.port import Missing, Offer
from savant.repository.sample import create_sample

FULL = Offer("S3", ("bubblewrap", "seccomp"), ())
REDUCED = Offer("S2", ("landlock",), (Missing("bubblewrap", "It is not installed.", "sudo apt install bubblewrap"),))
BARE = Offer("S0", ("session",), (*REDUCED.missing, Missing("landlock", "The kernel is old.", "Use another kernel.")))


@pytest.mark.parametrize(
    ("offer", "open_for", "words"),
    [
        (FULL, (), "network: none"),
        (FULL, ("the provider",), "network: open for the provider, none for checks"),
        (FULL, ("checks",), "network: open for checks, none for the provider"),
        (FULL, ("the provider", "checks"), "network: open"),
        (REDUCED, (), "network: none"),
        (BARE, (), "network: open"),
        (BARE, ("checks",), "network: open"),
    ],
)
def test_an_open_network_is_always_said(offer: Offer, open_for: tuple[str, ...], words: str) -> None:
    """Because it was asked for, or because nothing keeps a command from it."""
    assert network_words(offer, open_for) == words


def test_the_first_screen_says_level_network_and_what_was_waived() -> None:
    """The warning is there only if something has less than it needs, and the person allowed it."""
    demands = Demands(kind="agent", provider=Demand("S2", is_waived=True))

    def lines(offer: Offer, *, is_waived: bool) -> list[str]:
        offered = Offered(offer.level, offer.level)
        return list(Containing(demands, offered, is_waived, offer, ("the provider",)).lines())

    assert lines(FULL, is_waived=True) == ["sandbox full (S3); network: open for the provider, none for checks"]
    assert lines(BARE, is_waived=False) == ["sandbox none (S0); network: open"]
    prepares = ("deps (network: open): npm ci",)
    named = Containing(Demands(), Offered("S3", "S3"), False, FULL, (), prepares)
    assert list(named.lines())[1:] == ["prepares deps (network: open): npm ci"]
    level, warning = lines(BARE, is_waived=True)
    assert (level, warning.startswith("WARNING: A person allowed it")) == ("sandbox none (S0); network: open", True)


def test_the_remedy_is_what_the_system_lacks_first() -> None:
    """The command that installs it; nothing where nothing is lacking."""

    def remedy(offer: Offer) -> str:
        return Containing(Demands(), Offered("S0", "S0"), is_waived=False, offer=offer, open_for=()).remedy

    assert [remedy(offer) for offer in (FULL, REDUCED, BARE)] == ["", *["sudo apt install bubblewrap"] * 2]


@pytest.mark.parametrize(("offer", "ready"), [(FULL, True), (REDUCED, True), (BARE, False)])
def test_the_doctor_says_the_level_its_layers_and_what_is_missing(offer: Offer, *, ready: bool) -> None:
    """Each missing thing with its reason and its command; none of them keeps a recipe from running."""
    bench: Any = SimpleNamespace(processes=SimpleNamespace(offer=lambda: offer))
    first, *missing = _sandbox(bench)
    assert (first.name, first.ready, offer_words(offer) in first.detail) == ("sandbox", ready, True)
    assert [(found.name, found.detail, found.fix) for found in missing] == [
        (f"sandbox: {one.name}", one.why, one.fix) for one in offer.missing
    ]
    assert not any(found.needed for found in (first, *missing))


def test_a_persons_home_keys_ledger_and_repository_are_hidden(tmp_path: Path) -> None:
    """What the person opened in the configuration is seen besides."""
    repository, home = tmp_path / "repo", tmp_path / "home"
    create_sample(repository, {"a.py": b"a = 1\n"}, message="base")
    config = home / ".config/savant"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f'[sandbox]\nread = ["{tmp_path}/sdk", "~/go"]\n')
    with Workbench(repository, places=find_places({"HOME": str(home)})) as bench:
        sight = bench.sight
        for path in (
            home,
            config,
            home / ".local/share/savant/keys",
            home / ".ssh",
            repository,
            repository / ".git",
            bench.directory,
        ):
            assert sight.hidden.is_shown_by(path), path
        for path in (tmp_path / "sdk", repository / ".venv", home / ".pyenv", bench.places.scratch / "run-1"):
            assert not sight.hidden.is_shown_by(path), path
    assert sight.read_only == (tmp_path / "sdk", home / "go")


def test_the_strongest_level_is_a_word_of_the_environment() -> None:
    """Without it every level may be used."""
    assert find_places({"HOME": "/h"}).strongest == "S3"
    assert find_places({"HOME": "/h", "SAVANT_SANDBOX": "reduced"}).strongest == "S2"
    with pytest.raises(UsageError) as caught:
        find_places({"HOME": "/h", "SAVANT_SANDBOX": "S2"})
    assert caught.value.code == "usage.sandbox-word"
