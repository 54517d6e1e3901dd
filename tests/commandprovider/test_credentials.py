"""Credentials: the first source that is there is used, one that cannot be used stops, and only names are shown."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from commandprovider.credentials import (
    NO_SECRETS,
    Missing,
    NotReady,
    Secrets,
    credential_names,
    redactor,
    resolve_sources,
    without_credentials,
    write_files,
)
from commandprovider.profiles import PROFILES, Source
from commandprovider.redaction import MARK

NOW_MS = 1_800_000_000_000
KEY = "sk-ant-0123456789abcdef"
VARIABLE = Source(kind="environment", name="FIRST_API_KEY", target="AGENT_KEY", help="export FIRST_API_KEY=...")
SECOND = Source(
    kind="environment",
    name="SECOND_TOKEN",
    target="SECOND_TOKEN",
    help="agent setup-token",
    also=("AGENT_ORG",),
    billing="subscription",
)
FILE = Source(
    kind="file", name=".codex/auth.json", target=".codex/auth.json", help="codex login", billing="subscription"
)
CLOUD = Source(
    kind="cloud",
    name="CLAUDE_CODE_USE_BEDROCK",
    target="CLAUDE_CODE_USE_BEDROCK",
    help="export CLAUDE_CODE_USE_BEDROCK=1",
    also=("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_PROFILE"),
    files=(".aws/credentials", ".aws/config"),
)
SOURCES = (VARIABLE, SECOND, FILE, CLOUD)


def resolve(home: Path, chosen: str | None = None, **ambient: str) -> Secrets | NotReady:
    return resolve_sources(SOURCES, ambient, home, chosen, now_ms=NOW_MS)


def found(result: Secrets | NotReady) -> Secrets:
    assert isinstance(result, Secrets), result
    return result


def missing(result: Secrets | NotReady) -> tuple[Missing, ...]:
    assert isinstance(result, NotReady), result
    assert result.missing
    return result.missing


def login(home: Path, mode: int = 0o600) -> bytes:
    path = home / ".codex/auth.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"OPENAI_API_KEY": KEY}))
    path.chmod(mode)
    return path.read_bytes()


def test_the_first_source_that_is_there_is_used(tmp_path: Path) -> None:
    """Sources are tried in the profile's order; the agent gets its own variable, the record the source's name."""
    assert found(resolve(tmp_path, FIRST_API_KEY=f"{KEY}\n", SECOND_TOKEN="another-one")) == Secrets(
        environment=(("AGENT_KEY", KEY),), sources=("FIRST_API_KEY",)
    )
    assert found(resolve(tmp_path, FIRST_API_KEY="", SECOND_TOKEN="another-one", AGENT_ORG="org")) == Secrets(
        environment=(("SECOND_TOKEN", "another-one"),),
        settings=(("AGENT_ORG", "org"),),
        sources=("SECOND_TOKEN",),
        billing="subscription",
    )
    raw = login(tmp_path)
    assert found(resolve(tmp_path)) == Secrets(
        files=((".codex/auth.json", raw),), sources=("~/.codex/auth.json",), billing="subscription"
    )


def test_nothing_there_names_every_source_and_its_command(tmp_path: Path) -> None:
    """What is missing is a value: each source says why, and any one of the commands helps."""
    result = resolve(tmp_path, FIRST_API_KEY=" ")
    assert missing(result) == (
        Missing("FIRST_API_KEY", "it is not set", "export FIRST_API_KEY=..."),
        Missing("SECOND_TOKEN", "it is not set", "agent setup-token"),
        Missing("~/.codex/auth.json", f"{tmp_path}/.codex/auth.json is not there", "codex login"),
    )
    assert isinstance(result, NotReady)
    assert result.fix == "export FIRST_API_KEY=..., or: agent setup-token, or: codex login"
    assert result.detail.startswith("FIRST_API_KEY: it is not set; SECOND_TOKEN: it is not set; ~/.codex/auth.json: ")


@pytest.mark.parametrize(
    "value", ["short", "sk-ant 0123456789", "sk-ant-\n0123456789", "sk-ant-\u00e40123456789", "\x1b[31m12345"]
)
def test_a_key_that_is_none_stops(tmp_path: Path, value: str) -> None:
    """A value that cannot be a key is not passed over for another account's; the value is not shown."""
    result = resolve(tmp_path, FIRST_API_KEY=value, SECOND_TOKEN="another-one")
    (one,) = missing(result)
    assert (one.source, one.help) == ("FIRST_API_KEY", "export FIRST_API_KEY=...")
    assert value not in repr(result)


def test_a_file_that_cannot_be_used_stops(tmp_path: Path) -> None:
    """A login file with a wrong mode is a reason to stop, with the command that closes it."""
    login(tmp_path, 0o644)
    (one,) = missing(resolve(tmp_path))
    assert one.source == "~/.codex/auth.json"
    assert one.help == f"chmod 600 {tmp_path}/.codex/auth.json"


def test_a_person_chooses_the_source(tmp_path: Path) -> None:
    """Only the chosen source is looked at; a name that is none is refused, and not shown when it may be a key."""
    login(tmp_path)
    assert found(resolve(tmp_path, "SECOND_TOKEN", FIRST_API_KEY=KEY, SECOND_TOKEN="another-one")).sources == (
        "SECOND_TOKEN",
    )
    assert found(resolve(tmp_path, "~/.codex/auth.json", FIRST_API_KEY=KEY)).sources == ("~/.codex/auth.json",)
    (one,) = missing(resolve(tmp_path, "SECOND_TOKEN", FIRST_API_KEY=KEY))
    assert one.source == "SECOND_TOKEN"
    (one,) = missing(resolve(tmp_path, "THIRD_KEY"))
    assert one.source == "THIRD_KEY"
    assert "FIRST_API_KEY, SECOND_TOKEN, ~/.codex/auth.json, CLAUDE_CODE_USE_BEDROCK" in one.why
    assert one.help
    assert KEY not in repr(resolve(tmp_path, KEY))


def test_an_agent_may_need_nothing(tmp_path: Path) -> None:
    """No sources, or the choice of none, give no secrets and no complaint; a choice among none is one."""
    assert resolve_sources((), {}, tmp_path, now_ms=NOW_MS) is NO_SECRETS
    assert resolve(tmp_path, "none", FIRST_API_KEY=KEY) is NO_SECRETS
    (one,) = missing(resolve_sources((), {}, tmp_path, "FIRST_API_KEY", now_ms=NOW_MS))
    assert "none at all" in one.why


def test_a_cloud_counts_only_when_it_is_switched_on(tmp_path: Path) -> None:
    """Keys of a cloud lie in many environments: without its switch they are not used, with it they come first."""
    keys = {"AWS_ACCESS_KEY_ID": "AKIA0123456789", "AWS_SECRET_ACCESS_KEY": KEY, "AWS_REGION": "eu-west-1"}
    assert isinstance(resolve(tmp_path, **keys), NotReady)
    expected = Secrets(
        environment=(("AWS_ACCESS_KEY_ID", "AKIA0123456789"), ("AWS_SECRET_ACCESS_KEY", KEY)),
        settings=(("CLAUDE_CODE_USE_BEDROCK", "1"), ("AWS_REGION", "eu-west-1")),
        sources=("CLAUDE_CODE_USE_BEDROCK", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    )
    assert found(resolve(tmp_path, CLAUDE_CODE_USE_BEDROCK="true", FIRST_API_KEY=KEY, **keys)) == expected
    assert found(resolve(tmp_path, "CLAUDE_CODE_USE_BEDROCK", **keys)) == expected
    assert found(resolve(tmp_path, CLAUDE_CODE_USE_BEDROCK="0", FIRST_API_KEY=KEY, **keys)).sources == (
        "FIRST_API_KEY",
    )


@pytest.mark.parametrize(
    ("ambient", "why", "fix"),
    [
        ({}, "AWS_REGION", "export AWS_REGION=..."),
        ({"AWS_REGION": "r"}, "none of its credentials", "export CLAUDE_CODE_USE_BEDROCK=1"),
        (
            {"AWS_REGION": "r", "AWS_ACCESS_KEY_ID": "AKIA0123456789"},
            "AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not",
            "export AWS_SECRET_ACCESS_KEY=...",
        ),
        ({"AWS_REGION": "r", "AWS_ACCESS_KEY_ID": "short"}, "AWS_ACCESS_KEY_ID: ", "export CLAUDE_CODE_USE_BEDROCK=1"),
        (
            {"AWS_REGION": "r", "AWS_SESSION_TOKEN": "0123456789"},
            "AWS_SESSION_TOKEN is set and AWS_ACCESS_KEY_ID is not",
            "export AWS_ACCESS_KEY_ID=...",
        ),
    ],
)
def test_a_cloud_that_is_not_complete_stops(tmp_path: Path, ambient: dict[str, str], why: str, fix: str) -> None:
    """Its settings and its keys must be there, and what is missing is named with the command that supplies it."""
    (one,) = missing(resolve(tmp_path, CLAUDE_CODE_USE_BEDROCK="1", FIRST_API_KEY=KEY, **ambient))
    assert why in one.why
    assert one.help == fix


def test_a_clouds_files_are_used_where_no_key_is_set(tmp_path: Path) -> None:
    """The person's profile goes along; a file that others can read stops."""
    path = tmp_path / ".aws/credentials"
    path.parent.mkdir()
    (tmp_path / ".aws/config").write_text("[profile work]\nregion = r\n")
    switched_on = {"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "r"}
    (one,) = missing(resolve(tmp_path, **switched_on))
    assert "none of its credentials" in one.why
    path.write_text("[work]\naws_secret_access_key = 0123456789abcdef\n")
    path.chmod(0o600)
    ambient = {**switched_on, "AWS_PROFILE": "work"}
    secrets = found(resolve(tmp_path, **ambient))
    assert secrets.sources == ("CLAUDE_CODE_USE_BEDROCK", "~/.aws/credentials", "~/.aws/config")
    assert secrets.files == (
        (".aws/credentials", b"[work]\naws_secret_access_key = 0123456789abcdef\n"),
        (".aws/config", b"[profile work]\nregion = r\n"),
    )
    assert ("AWS_PROFILE", "work") in secrets.settings
    path.chmod(0o604)
    (one,) = missing(resolve(tmp_path, **ambient))
    assert one.help == f"chmod 600 {path}"


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    """No representation of a value that holds secrets holds one of them."""
    secrets = Secrets(
        environment=(("A", KEY),), files=(("f", KEY.encode()),), sources=("A", "~/f"), settings=(("R", "eu"),)
    )
    assert repr(secrets) == str(secrets) == "Secrets(sources=('A', '~/f'))"
    assert secrets.__rich_repr__() == [("sources", ("A", "~/f"))]
    assert KEY not in repr([secrets, redactor(secrets), resolve(tmp_path, FIRST_API_KEY=KEY)])


def test_the_redactor_knows_every_value(tmp_path: Path) -> None:
    """Variables, files and their members, and further variables whose name says that they are secret."""
    raw = login(tmp_path)
    secrets = Secrets(environment=(("A_KEY", "a-0123456789"),), files=((".codex/auth.json", raw), ("empty", b"")))
    known = redactor(secrets, [("MY_TOKEN", "m-0123456789"), ("MY_PATH", "/opt/0123456789"), ("X_TOKEN", "short")])
    assert known.labels == ("A_KEY", "~/.codex/auth.json", "MY_TOKEN")
    assert known.redact_values(f"a-0123456789 {KEY} m-0123456789 /opt/0123456789 short".encode()) == (
        f"[{MARK}:A_KEY] [{MARK}:~/.codex/auth.json] [{MARK}:MY_TOKEN] /opt/0123456789 short".encode()
    )


def test_the_password_of_a_proxy_is_a_secret() -> None:
    """An address that a command is given may hold a password; the rest of it is no secret."""
    known = redactor(NO_SECRETS, [("HTTPS_PROXY", "http://me:proxy-pass-word@proxy:3128"), ("NO_PROXY", "a:b@c")])
    assert known.labels == ("HTTPS_PROXY",)
    assert known.redact_values(b"proxy:3128 proxy-pass-word") == f"proxy:3128 [{MARK}:HTTPS_PROXY]".encode()


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    """Whatever the umask is, a login file in a private home has mode 600; one that is there already is not touched."""
    secrets = Secrets(files=((".codex/auth.json", b"{}"),))
    before = os.umask(0)
    try:
        write_files(secrets, tmp_path)
    finally:
        os.umask(before)
    path = tmp_path / ".codex/auth.json"
    assert path.read_bytes() == b"{}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    with pytest.raises(FileExistsError):
        write_files(secrets, tmp_path)


def test_checks_do_not_see_the_credentials_of_any_agent() -> None:
    """Every secret variable of every profile is hidden; settings, switches and other people's tokens are not."""
    sources = [source for profile in PROFILES.values() for source in profile.sources]
    hidden = credential_names(sources)
    assert {"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY"} <= hidden
    assert {"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID"} <= hidden
    ambient = dict.fromkeys(hidden, KEY) | {"PATH": "/bin", "AWS_REGION": "r", "MY_TOKEN": "mine"}
    assert without_credentials(ambient, sources) == {"PATH": "/bin", "AWS_REGION": "r", "MY_TOKEN": "mine"}


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_profile_names_sources_that_can_be_looked_for(tmp_path: Path, name: str) -> None:
    """With nothing there each profile that needs a credential says how to supply one."""
    profile = PROFILES[name]
    result = resolve_sources(profile.sources, {}, tmp_path, now_ms=NOW_MS)
    if profile.sources:
        assert isinstance(result, NotReady)
        assert result.fix
    for source in profile.sources:
        if source.kind == "environment":
            one = found(resolve_sources(profile.sources, {source.name: KEY}, tmp_path, source.name, now_ms=NOW_MS))
            assert one.environment == ((source.target, KEY),)
