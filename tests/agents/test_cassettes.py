"""Whole runs of real agents, recorded, and played again where there is no agent, no key and no model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from savant.process.cassettefolder import open_cassette
from tests.agents.product import BEFORE, FILE, PLAN, RIGHT, WRONG, Product, edits
from tests.agents.rawkit import KEY
from tests.agents.script import Say, Script, Structured, Use
from tests.agents.toolbox import Edit, Read
from tests.e2e.tapes import documents, everything, histories

pytestmark = [pytest.mark.slow, pytest.mark.e2e]

ATTEMPTS = [step for line in (WRONG, RIGHT) for step in (Use(Read(FILE)), Use(Edit(FILE, BEFORE, line)), Say("Done."))]
STEPS = {
    "answer": (Structured(PLAN), Structured(edits(WRONG)), Structured(edits(RIGHT))),
    "workspace": (Use(Read(FILE)), Structured(PLAN), *ATTEMPTS),
}


@pytest.mark.parametrize("mode", STEPS)
@pytest.mark.parametrize("agent", ["claude", "codex"], indirect=True)
def test_a_run_with_a_retry_comes_again(
    product: Product, home: Path, script: Callable[..., Script], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plan, red attempt and repair come again to the byte; the model is not asked and the key is nowhere."""
    one = script(*STEPS[mode])
    product.configure(home, one)
    words, cassette = product.words(mode)[:-2], str(product.shop.root / "cassette")
    recorded = product.shop.run(*words, "--record-cassette", cassette)
    assert (recorded.code, recorded.json["disposition"]) == (0, "admitted"), recorded.out + recorded.err
    asked = len(one.requests)
    assert len(open_cassette(Path(cassette)).sealed.document.calls) == 3
    assert KEY.encode() not in everything(Path(cassette))

    (home / "config" / "config.toml").unlink()
    monkeypatch.undo()
    monkeypatch.setenv("SAVANT_HOME", str(home))
    monkeypatch.setenv("HOME", str(product.shop.root / "somebody"))
    for again in (words, words[words.index("--must-pass") :]):
        played = product.shop.run(*again, "--cassette", cassette)
        assert (played.code, played.json["disposition"]) == (0, "admitted"), played.out + played.err
        assert (played.json["cassette"]["left"], played.json["cassette"]["missed"]) == (0, None)
    assert len(one.requests) == asked
    first, second, third = histories(product.shop)
    assert documents(first) == documents(second) == documents(third)
