"""A credential reaches the provider's call and nothing else: not the record, not the candidate, not a screen."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

from commandprovider.credentials import credential_names
from commandprovider.logins import FILES, FOLDERS
from commandprovider.profiles import PROFILES
from commandprovider.redaction import MARK, Redactor
from tests.commandprovider.fakeagent import install, step
from tests.e2e.conftest import Ended, Shop

KEY = "sk-ant-api03-Zq7x_9Lw-0123456789"
SCANNER = Redactor([("KEY", KEY.encode())])
LOGIN: dict[str, Any] = {"claudeAiOauth": {"accessToken": "sk-ant-oat01-9876543210zyx", "expiresAt": 4_000_000_000_000}}

WIRE = """
import base64, json, os, sys
from pathlib import Path
asked = json.load(sys.stdin)
KEY = os.environ["AGENT_API_KEY"]
operation = asked["request"]["operation"]
answer = {"wire": asked["wire"], "request_digest": asked["request_digest"]}
if operation == "planning":
    change = {"pattern": "**", "operations": ["create", "modify"]}
    answer["plan"] = {"steps": [{"id": "s1", "description": "Change it", "intended_changes": [change]}]}
else:
    answer["generation"] = {"summary": "done"}
    Path("note.txt").write_text("a note\\n")
@ACT@
json.dump(answer, sys.stdout)
"""
"""A provider that plans and generates; what it does with its key is put in the middle."""

REFUSED = {
    "a plan": 'if operation == "planning": answer["plan"]["steps"][0]["description"] = f"use {KEY}"',
    "an escaped plan": """
        if operation == "planning":
            answer["plan"]["steps"][0]["description"] = "@@"
            spelled = "".join(f"\\\\u{ord(c):04x}" for c in KEY)
            sys.stdout.write(json.dumps(answer).replace("@@", spelled))
            sys.exit()
    """,
    "a file": 'if operation == "generation": Path("note.txt").write_text(f"key = {KEY}")',
    "an encoded edit": """
        if operation == "generation":
            encoded = base64.b64encode(f"key = {KEY}".encode()).decode()
            answer["generation"]["edits"] = [{"op": "write", "path": "e.txt", "base64": encoded}]
    """,
    "a path that is refused": """
        if operation == "generation":
            answer["generation"]["edits"] = [{"op": "write", "path": f"../{KEY}", "text": "x"}]
    """,
    "a failure": """
        if operation == "generation":
            del answer["generation"]
            answer["failure"] = {"outcome": "unavailable", "failure_kind": "auth", "detail": f"{KEY} is not known"}
    """,
    "prose": 'if operation == "generation": print(f"Sure! The key is {KEY}")',
}
"""Exits that end in no candidate: what an answer says, what a candidate holds, what a failure quotes."""

TAKEN_OUT = """
print(f"x-api-key: {KEY}\\nusing {KEY}\\nOTHER_TOKEN=abcdefgh12", file=sys.stderr)
for folder in ("HOME", "TMPDIR"):
    Path(os.environ[folder], "log").write_text(KEY)
"""
"""Exits that do no harm to the answer: standard error, the private home, the temporary folder."""


def provider(shop: Shop, act: str) -> str:
    path = shop.root / "provider.py"
    path.write_text(WIRE.replace("@ACT@", indent(dedent(act), "")))
    return f"{sys.executable} {path}"


def held(shop: Shop, ended: Ended) -> list[str]:
    """Where the key stands, in whatever spelling: every file that is left, and what a person saw."""
    places = [
        str(path.relative_to(shop.root))
        for path in shop.root.rglob("*")
        if SCANNER.find(str(path).encode()) or (path.is_file() and SCANNER.find(path.read_bytes()))
    ]
    return [*places, *(name for name, text in (("out", ended.out), ("err", ended.err)) if SCANNER.find(text.encode()))]


def is_recorded(shop: Shop, text: str) -> bool:
    """Whether a text stands in the ledger, as it is or inside an envelope's base64, or in the object store."""
    scanner = Redactor([("text", text.encode())])
    places = (shop.path / ".git" / "savant").rglob("*")
    return any(scanner.find(path.read_bytes()) for path in places if path.is_file())


def run(shop: Shop, act: str, *arguments: str) -> Ended:
    return shop.savant(
        "run",
        "Change it",
        *("--provider", provider(shop, act)),
        *("--provider-operation", "planning", "--provider-operation", "generation"),
        *("--env", "AGENT_API_KEY", "--must-pass", "/bin/true", "--retries", "0", "--format", "json"),
        *arguments,
    )


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AGENT_API_KEY", KEY)
    return KEY


@pytest.mark.usefixtures("key")
def test_a_key_on_the_side_is_taken_out(shop: Shop) -> None:
    """What a provider writes beside its answer loses the key, and its candidate is judged as any other."""
    ended = run(shop, TAKEN_OUT)
    assert ended.code == 0, ended.err
    assert ended.json["disposition"] == "admitted"
    assert held(shop, ended) == []
    assert is_recorded(shop, f"using [{MARK}:AGENT_API_KEY]")
    assert is_recorded(shop, f"OTHER_TOKEN=[{MARK}]")


@pytest.mark.usefixtures("key")
@pytest.mark.parametrize("exit_", sorted(REFUSED))
def test_a_key_in_an_answer_ends_it(shop: Shop, exit_: str) -> None:
    """An answer or a candidate that holds the key is none; nothing that is left of the run holds it."""
    ended = run(shop, REFUSED[exit_])
    assert ended.code in {30, 31}, ended.out
    assert held(shop, ended) == []
    shown = shop.savant("show", "--format", "json")
    assert held(shop, shown) == []


def test_the_scan_would_see_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The positive control: a value that no name calls secret is recorded, and found in the record and the store."""
    monkeypatch.setenv("AGENT_API_KEY", "not-the-key")
    monkeypatch.setenv("AGENT_COLOUR", KEY)
    act = 'Path("note.txt").write_text(os.environ["AGENT_COLOUR"]); print(os.environ["AGENT_COLOUR"], file=sys.stderr)'
    ended = run(shop, act, "--env", "AGENT_COLOUR")
    assert ended.json["disposition"] == "admitted"
    assert any("objects" in place for place in held(shop, ended))


@pytest.mark.usefixtures("key")
def test_a_key_that_the_person_types_is_not_recorded(shop: Shop) -> None:
    """A task that quotes the value is refused before anything is called or written."""
    before = shop.state()
    ended = shop.savant(
        "run", f"Use {KEY}", "--provider", provider(shop, ""), "--env", "AGENT_API_KEY", "--format", "json"
    )
    assert ended.code == 2
    assert "usage.credential-in-words" in ended.out
    assert held(shop, ended) == []
    assert shop.state() == before


def test_checks_do_not_get_credentials_of_agents(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that a profile knows as a credential is not there for a check, whatever the repository asks for."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("MY_SETTING", "here")
    shop.write(".savant/config.toml", 'domain = "example.org/shop"\nenvironment = ["OPENAI_API_KEY", "MY_SETTING"]\n')
    shop.commit("rules")
    check = '/bin/sh -c \'test -z "$OPENAI_API_KEY" && test "$MY_SETTING" = here\''
    recipe = "/bin/sh -c 'echo more >> README.txt'"
    ended = shop.run("Change it", "--recipe", recipe, "--must-pass", check)
    assert ended.json["disposition"] == "admitted", ended.out
    assert "not given to checks, because an agent's credential: OPENAI_API_KEY\n" in ended.err
    assert held(shop, ended) == []


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home without any login, and an environment without any key."""
    for name in credential_names(source for profile in PROFILES.values() for source in profile.sources):
        monkeypatch.delenv(name, raising=False)
    for name in (*FOLDERS.values(), *FILES.values()):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "person"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def log_in(person: Path, login: dict[str, Any] = LOGIN, mode: int = 0o600) -> Path:
    path = person / ".claude" / ".credentials.json"
    path.parent.mkdir()
    path.write_text(json.dumps(login))
    path.chmod(mode)
    return path


@pytest.fixture
def agent(shop: Shop, home: Path) -> Callable[..., Any]:
    """Runs an agent that does a line of shell in the candidate; the home's configuration names it."""

    def started(shell: str, **settings: str) -> Ended:
        plan = {"answer": step("**", "create", "modify")}
        program = install(
            shop.root / "agent", {"planning": plan, "generation": {"shell": f"echo >> README.txt; {shell}"}}
        )
        path = home / "config" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = {"executable": str(program), **settings}
        path.write_text("[agents.claude]\n" + "".join(f'{name} = "{value}"\n' for name, value in lines.items()))
        path.chmod(0o600)
        flags = ("--agent", "claude", "--agent-mode", "workspace", "--must-pass", "/bin/true", "--retries", "0")
        return shop.savant("run", "Change it", *flags, "--format", "json")

    return started


def credential_item(ended: Ended) -> dict[str, Any]:
    assert ended.code == 40, ended.out + ended.err
    (item,) = [item for item in ended.json["items"] if not item["ready"]]
    assert (item["name"], item["code"]) == ("credential:claude", "driver.credential-missing")
    return dict(item)


def test_an_agent_without_a_credential_is_not_ready(shop: Shop, person: Path, agent: Callable[..., Ended]) -> None:
    """Nothing is called for work and nothing is recorded; each source is named with the command that supplies it."""
    before, marker = shop.state(), person / "called"
    ended = agent(f"touch {marker}")
    item = credential_item(ended)
    for text in ("ANTHROPIC_API_KEY: it is not set", "CLAUDE_CODE_OAUTH_TOKEN", "~/.claude/.credentials.json"):
        assert text in item["detail"]
    assert "export ANTHROPIC_API_KEY=..." in item["fix"]
    assert "claude setup-token" in item["fix"]
    assert not marker.exists()
    assert not (shop.path / ".git" / "savant" / "ledger.db").exists()
    assert shop.state() == before


def test_a_login_that_cannot_be_used_is_not_ready(person: Path, agent: Callable[..., Ended]) -> None:
    """One that is over, and one that others can read, are said before anything is called, with what helps."""
    path = log_in(person, {"claudeAiOauth": {**LOGIN["claudeAiOauth"], "expiresAt": 1}})
    item = credential_item(agent("true"))
    assert "the login expired" in item["detail"]
    assert "claude setup-token" in item["fix"]
    path.write_text(json.dumps(LOGIN))
    path.chmod(0o644)
    assert credential_item(agent("true"))["fix"] == f"chmod 600 {path}"


@pytest.mark.usefixtures("person")
def test_the_record_names_the_source(shop: Shop, monkeypatch: pytest.MonkeyPatch, agent: Callable[..., Ended]) -> None:
    """The agent has the key, the configuration in the record has the name of the variable, nobody has the value."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    ended = agent('test -n "$ANTHROPIC_API_KEY"; echo "$ANTHROPIC_API_KEY" >&2')
    assert ended.code == 0, ended.out + ended.err
    assert held(shop, ended) == []
    assert is_recorded(shop, '"credentials":["ANTHROPIC_API_KEY"]')


@pytest.mark.usefixtures("person")
def test_an_agent_that_writes_its_key_makes_no_candidate(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, agent: Callable[..., Ended]
) -> None:
    """A candidate that holds the key of the agent that made it is refused before it is sealed."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    ended = agent('echo "$ANTHROPIC_API_KEY" > key.txt')
    assert ended.code in {30, 31}, ended.out
    assert held(shop, ended) == []


def test_a_login_file_stays_what_it_is(shop: Shop, person: Path, agent: Callable[..., Ended]) -> None:
    """The agent gets a copy for itself: it may use and change it, not give it away, and the person's is untouched."""
    path = log_in(person)
    before = path.read_bytes(), path.stat()
    token = LOGIN["claudeAiOauth"]["accessToken"]
    scanner = Redactor([("login", token.encode())])
    private = "$HOME/.claude/.credentials.json"
    ended = agent(f'test "$(stat -c %a {private})" = 600; cat {private} >&2; echo changed > {private}')
    assert ended.code == 0, ended.out + ended.err
    assert is_recorded(shop, '"credentials":["~/.claude/.credentials.json"]')
    ended = agent(f"cp {private} login.json")
    assert ended.code in {30, 31}, ended.out
    assert path.read_bytes() == before[0]
    assert path.stat().st_mtime_ns == before[1].st_mtime_ns
    left = [found for found in shop.root.rglob("*") if found.is_file() and scanner.find(found.read_bytes())]
    assert left == [path]


@pytest.mark.usefixtures("person")
def test_a_person_chooses_the_source(monkeypatch: pytest.MonkeyPatch, agent: Callable[..., Ended]) -> None:
    """Another key that lies around is not used instead of the chosen one."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    item = credential_item(agent("true", credential="CLAUDE_CODE_OAUTH_TOKEN"))
    assert item["detail"] == "claude has no credential that can be used: CLAUDE_CODE_OAUTH_TOKEN: it is not set."
    assert item["fix"] == "claude setup-token"
