"""Cassettes through the command line: a recorded run comes again, to the byte, where its tool does not exist."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from providerport.documents import Result
from savant.process.cassettefolder import open_cassette
from tests.commandprovider.fakeagent import install, step
from tests.e2e.conftest import Shop
from tests.e2e.tapes import documents, everything, histories

CHECK = "grep -q 'amount . 2' shop/totals.py"
KEY = "sesame-open-0123456789"

RECIPE = """#!/bin/sh
echo calling >&2
test -n "$SHOP_API_KEY" && echo "key $SHOP_API_KEY" >&2
case "$1" in
  first) echo >> shop/totals.py; ln -sf README.txt link; chmod +x README.txt ;;
  fix) printf 'def total(amount):\\n    return amount * 2\\n' > shop/totals.py; rm -f link; chmod -x README.txt ;;
esac
"""

WIRE = """#!{python}
import json, os, sys
request = json.load(sys.stdin)
assert os.environ["SHOP_API_KEY"]
print("using", os.environ["SHOP_API_KEY"], "in", os.getcwd(), file=sys.stderr)
here = os.getcwd()
answer = {{"wire": "savant.wire/v1", "request_digest": request["request_digest"]}}
if request["request"]["operation"] == "planning":
    change = {{"pattern": "shop/**", "operations": ["modify", "create"]}}
    answer["plan"] = {{"steps": [{{"id": "one", "description": "double", "intended_changes": [change]}}]}}
else:
    again = request["request"]["prior"] is not None
    text = "def total(amount):\\n    return amount * 2\\n" if again else "def total(amount):\\n    return amount + 0\\n"
    open("shop/totals.py", "w").write(text)
    edits = [{{"op": "write", "path": "shop/note.txt", "text": "again" if again else "first"}}]
    answer["generation"] = {{"summary": "doubled " + here, "edits": edits}}
json.dump(answer, sys.stdout)
"""


def program(shop: Shop, text: str) -> Path:
    made = shop.root / "bin" / "doubler"
    made.parent.mkdir()
    made.write_text(text)
    made.chmod(0o755)
    return made


@pytest.mark.parametrize("kind", ["recipe", "wire"])
def test_a_retry_run_comes_again_without_tool_and_key(shop: Shop, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay of a run with a retry gives the same documents, says that nothing was called, and holds no key."""
    made = program(shop, RECIPE if kind == "recipe" else WIRE.format(python=sys.executable))
    provider = (
        ["--recipe", f"{made} first", "--on-failure", f"grep-amount-.-2={made} fix"]
        if kind == "recipe"
        else ["--provider", str(made), "--provider-operation", "generation", "--provider-operation", "planning"]
    )
    provider += ["--env", "SHOP_API_KEY"]
    cassette = shop.root / "cassette"
    monkeypatch.setenv("SHOP_API_KEY", KEY)
    before = shop.state()
    recorded = shop.run("Double it", *provider, "--must-pass", CHECK, "--record-cassette", str(cassette))
    assert (recorded.code, recorded.json["disposition"]) == (0, "admitted"), recorded.out + recorded.err
    assert recorded.json["cassette"] == {"mode": "recorded", "folder": str(cassette), "complete": True}
    calls = open_cassette(cassette).sealed.document.calls
    assert len(calls) == 3
    assert KEY.encode() not in everything(cassette)
    assert str(shop.root / "home").encode() not in (cassette / "cassette.json").read_bytes()

    monkeypatch.delenv("SHOP_API_KEY")
    made.unlink()
    words = ["Double it", *provider] if kind == "recipe" else []
    played = shop.run(*words, "--must-pass", CHECK, "--cassette", str(cassette))
    assert (played.code, played.json["disposition"]) == (0, "admitted"), played.out + played.err
    assert "no agent ran" in played.err
    assert (played.json["cassette"]["left"], played.json["cassette"]["missed"]) == (0, None)
    first, second = histories(shop)
    assert documents(first) == documents(second)
    assert len(documents(first)) > 30
    said = {e.observed.detail for e in second.entries if e.role == "provider-host"}
    assert all(detail is not None and "no agent ran" in detail for detail in said)
    assert not any("no agent ran" in (e.observed.detail or "") for e in first.entries)
    assert shop.savant("show", second.run_id, "--format", "json").json["played"] is not None
    assert "no agent ran" in shop.savant("show", second.run_id).out
    assert "no agent ran" not in shop.savant("show", first.run_id).out
    assert shop.savant("replay", second.run_id).code == 0
    assert shop.state() == before


FIXED = "def total(amount):\n    return amount * 2\n"
WRONG = "def total(amount):\n    return amount * 3\n"


def edited(mode: str, text: str) -> dict[str, Any]:
    """An edit of the one file, in the way of a mode of an agent."""
    if mode == "workspace":
        return {"write": {"shop/totals.py": text}, "text": "Changed {cwd}/shop/totals.py."}
    return {"answer": {"summary": "Changed total.", "edits": [{"op": "write", "path": "shop/totals.py", "text": text}]}}


@pytest.mark.parametrize("mode", ["answer", "workspace"])
def test_an_agent_is_played_without_being_installed_or_configured(
    shop: Shop, home: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planning, generation and a retry of an agent come again on a machine that has neither it nor a key for it."""
    script = {
        "planning": {"answer": step("shop/totals.py")},
        "generation": edited(mode, WRONG),
        "generation-again": edited(mode, FIXED),
    }
    agent = install(shop.root / "agent", script)
    config = home / "config" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f'[agents.claude]\nexecutable = "{agent}"\n')
    config.chmod(0o600)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    flags = ("--agent", "claude", "--agent-mode", mode)
    cassette = shop.root / "cassette"
    recorded = shop.run("Double it", *flags, "--must-pass", CHECK, "--record-cassette", str(cassette))
    assert (recorded.code, recorded.json["disposition"]) == (0, "admitted"), recorded.out + recorded.err
    assert KEY.encode() not in everything(cassette)

    monkeypatch.delenv("ANTHROPIC_API_KEY")
    config.unlink()
    agent.unlink()
    words = ("Double it", *flags) if mode == "answer" else ()
    played = shop.run(*words, "--must-pass", CHECK, "--cassette", str(cassette))
    assert (played.code, played.json["disposition"]) == (0, "admitted"), played.out + played.err
    assert (played.json["cassette"]["left"], played.json["cassette"]["missed"]) == (0, None)
    first, second = histories(shop)
    assert documents(first) == documents(second)
    summaries = [entry.body.document for entry in second.entries if isinstance(entry.body.document, Result)]
    told = [document.generation.summary for document in summaries if document.generation is not None]
    assert told == ["Changed ./shop/totals.py." if mode == "workspace" else "Changed total."] * 2
    usage = [e.observed for e in second.entries if e.kind == "savant.providerport.receipt/v1" and e.observed.tokens_in]
    assert usage
    assert all(observed.cost_notional for observed in usage)
    other = shop.run("Double it", "--agent", "claude", "--model", "other", "--cassette", str(cassette))
    assert (other.code, other.json["code"]) == (2, "usage.cassette-config")


def admitted(shop: Shop, cassette: Path) -> tuple[str, ...]:
    """Record one run of one step; the flags that play it."""
    task = ("Change it", "--recipe", "/bin/sh -c 'echo x >> README.txt'", "--must-pass", "/bin/true")
    ended = shop.run(*task, "--record-cassette", str(cassette))
    assert ended.code == 0, ended.out + ended.err
    return (*task, "--cassette", str(cassette))


def test_a_miss_is_named_and_nothing_is_applied(shop: Shop) -> None:
    """On another base the tree differs: the run has no candidate, and the ending says why."""
    play = admitted(shop, shop.root / "cassette")
    shop.write("README.txt", "Another shop.\n")
    shop.commit("another base")
    ended = shop.run(*play)
    assert ended.code == 30, ended.out + ended.err
    assert "Different: tree (" in ended.json["cassette"]["missed"]
    assert "port.cassette-miss" in ended.json["detail"]
    assert "THE CASSETTE DOES NOT FIT" in shop.savant("run", *play).out
    text = next(e for e in histories(shop)[1].entries if e.kind == "savant.synthesis.attempt/v1").body.raw
    assert json.loads(text)["outcome"] == "unavailable"
    git_base = ("--base", "HEAD~1")
    assert shop.run(*play, *git_base).code == 0


OTHERS = (
    (("--recipe", "/bin/sh -c 'echo y >> README.txt'"), "usage.cassette-config"),
    (("--recipe", "/bin/false"), "usage.cassette-config"),
    (("--provider", "/bin/cat"), "usage.cassette-config"),
    (("--agent", "claude"), "usage.cassette-config"),
    (("--recipe", "/bin/true", "--record-cassette", "other"), "usage.cassette-both"),
)


def test_another_provider_is_not_played(shop: Shop) -> None:
    """A cassette answers for the provider that it was recorded with, and for no other."""
    play = admitted(shop, shop.root / "cassette")
    for instead, code in OTHERS:
        refused = shop.run("Change it", *instead, "--must-pass", "/bin/true", "--cassette", str(shop.root / "cassette"))
        assert (refused.code, refused.json["code"]) == (2, code)
    assert len(histories(shop)) == 1
    assert shop.run(*play).code == 0


def test_a_tampered_cassette_is_refused_before_anything(shop: Shop) -> None:
    """No record is made and nothing is called when a byte of the cassette was changed."""
    cassette = shop.root / "cassette"
    play = admitted(shop, cassette)
    document = cassette / "cassette.json"
    blob = next(path for path in (cassette / "blobs").iterdir() if path.read_bytes() == b"A shop.\nx\n")
    kept = document.read_bytes()
    tampers: tuple[tuple[Path, bytes | None, tuple[int, str]], ...] = (
        (blob, b"A shop.\nevil\n", (23, "unverified.cassette")),
        (blob, None, (42, "port.not-found")),
        (document, kept + b"\n", (22, "refused.not-canonical")),
        (document, kept.replace(b'"README.txt"', b'"../evil"'), (22, "refused.path-traversal")),
        (document, kept.replace(b'"complete":true', b'"complete":false'), (22, "refused.cassette-incomplete")),
        (document, None, (42, "port.not-found")),
    )
    for path, data, expected in tampers:
        before = path.read_bytes()
        path.unlink()
        if data is not None:
            path.write_bytes(data)
        refused = shop.run(*play)
        assert (refused.code, refused.json["code"]) == expected
        path.write_bytes(before)
    assert len(histories(shop)) == 1
    assert shop.run(*play).code == 0


def test_a_patch_is_played_where_git_is_not_called_for_it(shop: Shop) -> None:
    """An import of a patch is recorded and played like any other provider; without the patch it is refused."""
    patch = shop.root / "change.patch"
    patch.write_text("--- a/README.txt\n+++ b/README.txt\n@@ -1 +1,2 @@\n A shop.\n+Open.\n")
    cassette = str(shop.root / "cassette")
    flags = ("--patch", str(patch), "--must-pass", "/bin/true")
    assert shop.run(*flags, "--record-cassette", cassette).code == 0
    assert shop.run(*flags, "--cassette", cassette).code == 0
    first, second = histories(shop)
    assert documents(first) == documents(second)
    refused = shop.run("--must-pass", "/bin/true", "--cassette", cassette)
    assert (refused.code, refused.json["code"]) == (2, "usage.cassette-import")


def test_a_folder_in_use_is_not_recorded_into(shop: Shop) -> None:
    """Recording overwrites nothing, and calls nobody when it cannot record."""
    admitted(shop, shop.root / "cassette")
    kept = everything(shop.root / "cassette")
    refused = shop.run("x", "--recipe", "/bin/true", "--record-cassette", str(shop.root / "cassette"))
    assert (refused.code, refused.json["code"]) == (2, "usage.cassette-exists")
    assert everything(shop.root / "cassette") == kept
    assert len(histories(shop)) == 1
