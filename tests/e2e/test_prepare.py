"""``[[prepare]]`` through the command line: a step that copies, its network, its trust, what a person reads of it."""

from __future__ import annotations

import json
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Shop, git, strongest

CONFIG = """\
domain = "shop"

[[prepare]]
id = "deps"
command = {command}
locks = ["copy.sh", "tool.lock"]
outputs = ["deps"]
{more}

[[check]]
id = "unit"
command = "tool"
"""
COPY = "set -e\nmkdir -p deps/bin\ncp tool.lock deps/bin/tool\nchmod +x deps/bin/tool\n"
TOOL = "#!/bin/sh\ngrep -q return shop/totals.py\n"


@pytest.fixture
def prepared(shop: Shop) -> Shop:
    """The shop with a check whose tool a step makes; nobody has trusted it."""
    configure(shop)
    return shop


def configure(shop: Shop, more: str = "", copy: str = COPY, command: str = '"/bin/sh copy.sh"') -> None:
    shop.write(".savant/config.toml", CONFIG.replace("{more}", more).replace("{command}", command))
    shop.write("copy.sh", copy)
    shop.write("tool.lock", TOOL)
    shop.commit("prepare")


def trust(shop: Shop) -> None:
    digest = shop.savant("trust", "--format", "json").json["policy"]
    assert shop.savant("trust", digest).code == 0


def change(shop: Shop, script: str, *flags: str) -> tuple[dict[str, Any], str]:
    """A run of a recipe; what it says, and what a person saw meanwhile."""
    ended = shop.run("Change it", "--recipe", f"/bin/sh -c {shlex.quote(script)}", "--retries", "0", *flags)
    assert "disposition" in ended.json, (ended.out, ended.err)
    return ended.json, ended.err


def replay(shop: Shop, told: dict[str, Any]) -> None:
    replayed = shop.savant("replay", told["run"], "--format", "json")
    assert replayed.code == 0, (replayed.out, replayed.err)


GROWS = "echo '# more' >> shop/totals.py"


@pytest.mark.parametrize("word", ["none", "full"])
def test_a_tool_is_prepared_once_and_judges_each_run(prepared: Shop, home: Path, word: str) -> None:
    """The first run prepares what the second uses; a change that breaks the check is refused; the checkout has none."""
    prepared.contained(word)
    trust(prepared)
    first, err = change(prepared, GROWS)
    assert (first["disposition"], err.count("preparing deps: /bin/sh copy.sh")) == ("admitted", 1)
    second, err = change(prepared, GROWS + "; echo '# again' >> shop/totals.py")
    assert second["disposition"] == "admitted"
    is_kept = word != "none" and strongest() != "S0"
    assert err.count("preparing deps") == (0 if is_kept else 1)
    assert bool(list(home.glob("prepared/*/done.json"))) is is_kept
    _, err = change(prepared, "echo nothing > shop/totals.py")
    assert "evaluation: retry-generation; 1 checks failed, first unit: exit status 1" in err
    replay(prepared, second)
    assert not (prepared.path / "deps").exists()
    assert git(prepared.path, "status", "--porcelain") == ""


def test_without_a_cache_it_is_prepared_again(prepared: Shop, home: Path) -> None:
    """``--no-cache`` keeps nothing and uses nothing that was kept."""
    trust(prepared)
    for _ in range(2):
        told, err = change(prepared, GROWS, "--no-cache")
        assert (told["disposition"], err.count("preparing deps")) == ("admitted", 1)
    assert not (home / "prepared").exists()


def test_a_candidate_that_changes_its_lock_gets_its_own(prepared: Shop) -> None:
    """The tool of another lock judges the candidate; a lock that cannot be prepared is a finding, not a pass."""
    trust(prepared)
    mine, err = change(prepared, "echo 'exit 0' >> tool.lock")
    assert mine["disposition"] == "admitted", mine
    assert err.count("preparing deps") == 2
    replay(prepared, mine)
    gone, err = change(prepared, "rm tool.lock")
    assert gone["disposition"] == "terminal-failure"
    assert "evaluation: retry-generation; 1 checks failed, first unit: preparing deps failed: exit status 1" in err
    replay(prepared, gone)


def test_a_step_that_fails_at_the_base_gives_no_verdict(shop: Shop) -> None:
    """Nothing was measured, so nothing is admitted; the words of the step are told."""
    configure(shop, copy="echo no such package >&2\nexit 4\n")
    trust(shop)
    told, err = change(shop, GROWS)
    assert told["disposition"] == "terminal-failure"
    assert "evaluation: " not in err
    assert "unit DID NOT RUN: preparing deps failed: exit status 4" in str(told) + err
    replay(shop, told)


def test_the_network_is_named_wherever_a_person_looks(shop: Shop) -> None:
    """First screen, progress, ``trust`` and ``doctor`` say which step has the network; without it none does."""
    configure(shop)
    for place in (shop.savant("trust").out, shop.savant("doctor").out, change_said(shop)):
        assert "deps: /bin/sh copy.sh" in place
        assert "network: open)" not in place
    configure(shop, 'network = "open"')
    for place in (shop.savant("trust").out, shop.savant("doctor").out, change_said(shop)):
        assert "deps (network: open): /bin/sh copy.sh" in place


def change_said(shop: Shop) -> str:
    trust(shop)
    _, err = change(shop, GROWS)
    assert "prepares deps" in err
    assert "preparing deps" in err
    return err


@pytest.mark.parametrize("network", ["none", "open"])
def test_a_step_has_the_network_only_where_it_says_so(shop: Shop, network: str) -> None:
    """The same step reaches a server with ``network = "open"`` and fails without it."""
    if strongest() < "S2":
        pytest.skip("nothing keeps the network from a command below S2")
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = [
            f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)",
            "import os, shutil; os.makedirs('deps/bin'); shutil.copy('tool.lock', 'deps/bin/tool')",
            "os.chmod('deps/bin/tool', 0o755)",
        ]
        command = json.dumps([sys.executable, "-c", "; ".join(words)])
        configure(shop, f'network = "{network}"', command=command)
        told, _ = change(shop, GROWS)
    assert told["disposition"] == ("admitted" if network == "open" else "terminal-failure")


def test_nobody_trusted_a_step(prepared: Shop) -> None:
    """A step is a command of the repository: without a sandbox it runs only for a person who trusted it."""
    prepared.contained("none")
    refused = prepared.run("Change it", "--recipe", "/bin/sh -c true")
    assert refused.json["ending"] == "not-ready"
    assert "/bin/sh copy.sh" in refused.out
    trust(prepared)
    told, _ = change(prepared, GROWS)
    assert told["disposition"] == "admitted"


def test_a_step_without_its_tool_is_not_ready(shop: Shop) -> None:
    """Before anything is called a person hears that the tool of a step is missing."""
    configure(shop, command='"no-such-tool"')
    ended = shop.run("Change it", "--recipe", "/bin/sh -c true")
    assert "driver.tool-missing" in ended.out
    assert "no-such-tool" in ended.out
    assert "MISSING" in shop.savant("doctor").out
