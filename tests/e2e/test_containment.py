"""Containment through the command line: what commands see, what is demanded, refused, waived, recorded and said."""

from __future__ import annotations

import json
import shlex
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from admission.documents import Sandboxes
from admission.policy import policy_toml, starter_policy
from savant.contracts.containment import Containment, level_words
from savant.contracts.envelope import parse_envelope
from savant.ledger.record import parse_statement
from savant.ledger.sqlitestore import SqliteStore
from tests.e2e.conftest import Shop, strongest

WRITES = "echo x >> README.txt"
GREEN = ("--must-pass", "/bin/true")


def recipe(script: str) -> tuple[str, ...]:
    return ("--recipe", f"/bin/sh -c {shlex.quote(script)}")


def require(level: str) -> None:
    """Skip what needs a level that cannot be had here."""
    if strongest() < level:
        pytest.skip(f"sandbox level {level} cannot be had here, only {strongest()}")


def records(shop: Shop, run: str) -> list[tuple[str, str, Containment | None]]:
    """Kind, digest and observed containment of every record of a run."""
    with closing(SqliteStore(shop.path / ".git" / "savant")) as store:
        lines = list(store.lines(0, store.tail().size))
    found = []
    for line in lines:
        predicate = parse_statement(parse_envelope(line)[0]).predicate
        if predicate.run == run:
            found.append((predicate.body_kind, predicate.body_blake3, predicate.observed.containment))
    return found


def demand(shop: Shop, **changes: str) -> None:
    """Commit a policy that demands more than the starter's."""
    sandbox = structs.replace(starter_policy().sandbox, **changes)
    assert isinstance(sandbox, Sandboxes)
    shop.write(".savant/policy.toml", policy_toml(structs.replace(starter_policy(), sandbox=sandbox)))
    shop.commit("a policy")


def not_ready(shop: Shop, *flags: str) -> dict[str, Any]:
    """The one thing that a run lacks; nothing was recorded or changed for it."""
    before = shop.state()
    ended = shop.run("Change", *flags)
    assert ended.code == 40, (ended.out, ended.err)
    (item,) = [item for item in ended.json["items"] if not item["ready"]]
    assert shop.state() == before
    return dict(item)


def test_every_receipt_says_what_contained_its_commands_and_no_document_does(shop: Shop) -> None:
    """The same run, contained fully and not at all, makes the same documents; the records differ in what was seen."""
    require("S2")
    shop.write("check.py", "import shop\n")
    shop.commit("something to import")
    flags = ("Change", *recipe(WRITES), "--must-pass", "/bin/sh -c true")
    seen, told = {}, []
    kinds = ("savant.providerport.receipt/v1", "savant.runner.receipt/v1", "savant.evaluator.receipt/v1")
    for word, level, network in (("full", strongest(), "none"), ("none", "S0", "open")):
        shop.contained(word)
        ended = shop.run(*flags)
        assert ended.code == 0, ended.out
        told.append(ended.json["limitations"])
        seen[word] = records(shop, ended.json["run"])
        for kind in kinds:
            containments = [found for name, _, found in seen[word] if name == kind and found is not None]
            assert [(found.level, found.network) for found in containments] == [(level, network)], (word, kind)
            assert "session" in containments[0].layers
        shown = shop.savant("show", ended.json["run"], "--format", "json").json
        for whose in ("provider", "checks"):
            assert (shown["containment"][whose]["level"], shown["containment"][whose]["network"]) == (level, network)
        assert f"  checks: sandbox {level_words(level)}; network: {network}\n" in shop.savant("show").out
    meaning = [{(kind, digest) for kind, digest, _ in seen[word] if ".ledger." not in kind} for word in seen]
    assert meaning[0] == meaning[1]
    assert told[0] == told[1]


def test_commands_see_neither_home_nor_keys_nor_ledger_nor_repository(shop: Shop, home: Path, tmp_path: Path) -> None:
    """What the person opened for reading can be read and not changed; uncontained, all of it is there."""
    require("S1")
    shop.admitted()
    opened, letter = tmp_path / "opened", tmp_path / "home/letter"
    opened.mkdir()
    (opened / "file").write_text("open\n")
    letter.write_text("mine\n")
    (shop.path / "untracked").write_text("mine\n")
    (home / "config").mkdir(exist_ok=True)
    (home / "config/config.toml").write_text(f'[sandbox]\nread = ["{opened}"]\n')
    key = next((home / "data/keys").rglob("*.pem"), None) or next(p for p in (home / "data").rglob("*") if p.is_file())
    hidden = (key, shop.path / ".git/HEAD", shop.path / "untracked", letter)
    script = "; ".join(f"cat {path} > /dev/null 2>> README.txt && echo SEEN >> README.txt" for path in hidden)
    script += f"; cat {opened}/file >> README.txt && echo x > {opened}/file; true"
    for word, count in (("full", 0), ("none", len(hidden))):
        shop.contained(word)
        ended = shop.run("Change", *recipe(script), *GREEN)
        assert ended.code == 0, ended.out
        changed = shop.savant("diff", ended.json["run"]).out
        assert (changed.count("+SEEN"), "+open" in changed) == (count, True), (word, changed)
        assert (opened / "file").read_text() == ("open\n" if word == "full" else "x\n")
        (opened / "file").write_text("open\n")


@contextmanager
def listener() -> Iterator[tuple[int, list[bytes]]]:
    """A port of this machine, and what was said to it."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    heard.append(connection.recv(100))

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], heard
        server.shutdown(socket.SHUT_RDWR)


CALLS = """
import json, socket, sys
asked = json.load(sys.stdin)
try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20) as connection:
        connection.sendall(b"hello")
    said = "reached"
except OSError as error:
    said = "refused"
edit = {"op": "write", "path": "said.txt", "text": said + "\\n"}
print(json.dumps({"wire": asked["wire"], "request_digest": asked["request_digest"], "generation": {"edits": [edit]}}))
"""


def test_there_is_no_network_unless_it_was_asked_for(shop: Shop) -> None:
    """A provider reaches nobody; with --provider-network it does, the screen says so, and it is another provider."""
    require("S2")
    with listener() as (port, heard):
        command = ("--provider", shlex.join((sys.executable, "-I", "-c", CALLS, str(port))))
        digests = set()
        for flags, said, words in (
            ((), "refused", "network: none"),
            (("--provider-network",), "reached", "network: open for the provider, none for checks"),
        ):
            ended = shop.run("Change", *command, *GREEN, *flags)
            assert ended.code == 0, (ended.out, ended.err)
            assert f"+{said}" in shop.savant("diff", ended.json["run"]).out
            assert f"; {words}\n" in ended.err
            found = records(shop, ended.json["run"])
            digests |= {digest for kind, digest, _ in found if kind == "savant.commandprovider.config/v1"}
            (receipt,) = [seen for kind, _, seen in found if kind == "savant.runner.receipt/v1" and seen is not None]
            assert receipt.network == ("open" if flags else "none")
        assert (len(digests), heard) == (2, [b"hello"])


def test_checks_have_no_network_unless_the_person_gives_it(shop: Shop) -> None:
    """A project cannot open it; the flag is part of the policy that judged."""
    require("S2")
    with listener() as (port, heard):
        program = f"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=20).sendall(b'x')"
        check = ("--must-pass", shlex.join((sys.executable, "-I", "-c", program)), "--retries", "0")
        closed = shop.run("Change", *recipe(WRITES), *check)
        assert (closed.code, heard) == (30, [])
        opened = shop.run("Change", *recipe(WRITES), *check, "--check-network")
        assert opened.code == 0, opened.out
        assert "; network: open for checks, none for the provider\n" in opened.err
        shown = shop.savant("show", opened.json["run"], "--format", "json").json["containment"]
        assert (shown["provider"]["network"], shown["checks"]["network"]) == ("none", "open")


def test_a_policy_may_demand_more_and_a_person_may_allow_less(shop: Shop) -> None:
    """Below the demand nobody is called; allowed, the run goes on, and every verdict of it says so."""
    require("S2")
    demand(shop, recipe="S2", check="S1")
    flags = (*recipe(WRITES), *GREEN)
    assert shop.run("Change", *flags).code == 0
    shop.uncontained()
    item = not_ready(shop, *flags)
    assert item["code"] == "driver.sandbox-level"
    assert "the recipe at sandbox level none (S0), where reduced (S2) is needed" in item["detail"]
    assert "checks and formatters (true) at sandbox level none (S0), where weak (S1) is needed" in item["detail"]
    assert item["fix"].endswith("--allow-unsandboxed")
    ended = shop.run("Change", *flags, "--allow-unsandboxed")
    assert ended.code == 0, ended.out
    assert "WARNING: A person allowed it with --allow-unsandboxed: the recipe" in ended.err
    told = [text for text in ended.json["limitations"] if "--allow-unsandboxed" in text]
    assert [text.partition(" ")[0] for text in told] == ["The", "The", "A"], told
    again = shop.savant("admit", ended.json["run"], "--explain").out
    assert "The provider's commands ran at sandbox level none (S0), and reduced (S2) is demanded" in again
    assert "The commands of true ran at sandbox level none (S0), and weak (S1) is demanded" in again
    assert shop.savant("replay", ended.json["run"], "--format", "json").json["outcome"] == "replayed"


def test_the_waiver_is_part_of_the_session_even_where_it_is_not_needed(shop: Shop) -> None:
    """It changes the session, and nothing is said where nothing had less than it needs."""
    digests = []
    for flags in ((), ("--allow-unsandboxed",), ("--allow-unsandboxed",)):
        ended = shop.run("Change", *recipe(WRITES), *GREEN, *flags)
        assert not [text for text in ended.json["limitations"] if "--allow-unsandboxed" in text]
        digests.append(ended.json["session"])
    assert digests[0] != digests[1] == digests[2]


def test_commands_of_the_repository_run_contained_or_trusted(shop: Shop) -> None:
    """Contained, nobody has to trust them first; uncontained, somebody must, or say for one run that it is allowed."""
    require("S2")
    shop.write(".savant/config.toml", 'domain = "shop"\n[[check]]\nid = "own"\ncommand = "test -f README.txt"\n')
    shop.commit("rules")
    assert shop.run("Change", *recipe(WRITES)).code == 0
    shop.uncontained()
    item = not_ready(shop, *recipe(WRITES))
    assert item["code"] == "driver.policy-untrusted"
    assert "test -f README.txt" in item["detail"]
    allowed = shop.run("Change", *recipe(WRITES), "--allow-unsandboxed")
    assert (allowed.code, any("nobody trusted" in text for text in allowed.json["limitations"])) == (0, True)
    digest = shop.savant("trust", "--format", "json").json["policy"]
    assert shop.savant("trust", digest).code == 0
    trusted = shop.run("Change", *recipe(WRITES))
    assert (trusted.code, [text for text in trusted.json["limitations"] if "sandbox" in text]) == (0, [])


def test_a_policy_that_demands_less_than_it_may_is_refused(shop: Shop) -> None:
    """The words name the key and what is needed at least."""
    shop.write(".savant/policy.toml", '[sandbox]\nagent = "none"\n')
    shop.commit("a weak policy")
    refused = shop.run("Change", *recipe(WRITES), *GREEN)
    assert (refused.code, refused.json["code"]) == (22, "refused.policy")
    assert "agent: no policy may demand less than reduced" in refused.json["message"]


def test_doctor_and_the_first_screen_say_the_level(shop: Shop) -> None:
    """In words, with the layers and what keeps it from more; a word that is no level is refused."""
    shop.uncontained()
    said = json.loads(shop.savant("doctor", "--format", "json").out)
    (finding,) = [finding for finding in said["findings"] if finding["name"] == "sandbox"]
    assert not finding["ready"]
    assert finding["detail"].startswith("none (S0): ")
    assert "network: open" in finding["detail"]
    ended = shop.run("Change", *recipe(WRITES), *GREEN)
    assert "sandbox none (S0); network: open\n" in ended.err
    shop.contained("S0")
    refused = shop.run("Change", *recipe(WRITES), *GREEN)
    assert (refused.code, refused.json["code"]) == (2, "usage.sandbox-word")
    assert "full, reduced, weak, none" in refused.json["fix"]
