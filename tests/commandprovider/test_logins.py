"""Login files: read without following a link, judged without asking anybody, and their secrets known by value."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest

from commandprovider.logins import MAX_LOGIN_BYTES, LoginFile, Unusable, login_values, read_login

NOW_MS = 1_800_000_000_000
MARGIN_MS = 600_000
SOON_MS = NOW_MS + MARGIN_MS


def jwt(claims: Any) -> str:
    """A token of three parts whose claims anybody can read."""
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"eyJhbGciOiJub25lIn0.{body}.c2lnbmF0dXJl"


def write(home: Path, name: str, content: Any, mode: int = 0o600) -> Path:
    path = home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    path.chmod(mode)
    return path


def read(home: Path, name: str, ambient: dict[str, str] | None = None) -> LoginFile | Unusable:
    return read_login(name, ambient or {}, home, now_ms=NOW_MS, margin_ms=MARGIN_MS)


def why(found: LoginFile | Unusable) -> str:
    assert isinstance(found, Unusable), found
    return found.why


def codex(expires_s: float | None) -> dict[str, Any]:
    claims = {} if expires_s is None else {"exp": expires_s}
    return {"OPENAI_API_KEY": None, "tokens": {"access_token": jwt(claims), "refresh_token": "rt-0123456789abcdef"}}


def claude(expires_ms: Any) -> dict[str, Any]:
    return {"claudeAiOauth": {"accessToken": "sk-ant-oat-0123456789", "expiresAt": expires_ms}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".codex/auth.json", codex(SOON_MS / 1000)),
        (".codex/auth.json", codex(None)),
        (".codex/auth.json", {"OPENAI_API_KEY": "sk-proj-0123456789"}),
        (".codex/auth.json", {"OPENAI_API_KEY": "sk-proj-0123456789", "tokens": {"access_token": jwt({"exp": 1})}}),
        (".codex/auth.json", {"tokens": {"access_token": "opaque"}}),
        (".codex/auth.json", {"tokens": {"access_token": "a.%%%.c"}}),
        (".codex/auth.json", {"tokens": {"access_token": jwt([1])}}),
        (".codex/auth.json", {"tokens": {"access_token": jwt({"exp": "later"})}}),
        (".claude/.credentials.json", claude(SOON_MS)),
        (".claude/.credentials.json", claude("never")),
        (".gemini/oauth_creds.json", {"refresh_token": "1//0123456789", "expiry_date": 1}),
        (".other/auth.json", {"anything": 1}),
        (".other/netrc", b"machine example.test password hunter2hunter2"),
    ],
)
def test_a_login_that_still_holds_is_given_on_as_it_is(tmp_path: Path, name: str, content: Any) -> None:
    """The bytes are those of the file, and the file stays what it is."""
    path = write(tmp_path, name, content)
    before = path.read_bytes(), path.stat()
    found = read(tmp_path, name)
    assert isinstance(found, LoginFile), found
    assert found.raw == before[0] == path.read_bytes()
    assert path.stat().st_mtime_ns == before[1].st_mtime_ns
    assert repr(found) == f"LoginFile({len(found.raw)} bytes)"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (".codex/auth.json", codex((SOON_MS - 1000) / 1000), "is about to expire"),
        (".codex/auth.json", codex(NOW_MS / 1000), "expired"),
        (".claude/.credentials.json", claude(NOW_MS - 1), "expired"),
        (".claude/.credentials.json", claude(SOON_MS - 1), "is about to expire"),
        (".gemini/oauth_creds.json", {"access_token": "ya29.0123", "expiry_date": 1}, "expired"),
        (".codex/auth.json", {"tokens": {}}, "holds no login"),
        (".codex/auth.json", {"tokens": "none"}, "holds no login"),
        (".codex/auth.json", [], "not a JSON object"),
        (".codex/auth.json", {}, "not a JSON object"),
        (".codex/auth.json", b"{", "not JSON"),
        (".other/auth.json", b"[" * 100_000, "not JSON"),
    ],
)
def test_a_login_that_is_over_or_none_says_so(tmp_path: Path, name: str, content: Any, reason: str) -> None:
    """What the file itself says is believed: nobody is asked, and nothing of its content is shown."""
    write(tmp_path, name, content)
    found = read(tmp_path, name)
    assert reason in why(found)
    assert isinstance(found, Unusable)
    assert not found.absent
    assert ("start " in found.fix) is ("expire" in reason)


def test_a_file_that_is_not_there_is_absent(tmp_path: Path) -> None:
    """Neither the file nor its folder has to be there; only then another source may be tried."""
    assert read(tmp_path, ".codex/auth.json") == Unusable(f"{tmp_path}/.codex/auth.json is not there", absent=True)
    (tmp_path / ".codex").mkdir()
    found = read(tmp_path, ".codex/auth.json")
    assert isinstance(found, Unusable)
    assert found.absent
    found = read(tmp_path / "nowhere", ".codex/auth.json")
    assert isinstance(found, Unusable)
    assert found.absent


@pytest.mark.parametrize(
    ("mode", "reason"), [(0o620, "write"), (0o602, "write"), (0o640, "read"), (0o604, "read"), (0o666, "write")]
)
def test_a_file_that_others_can_write_or_read_is_not_used(tmp_path: Path, mode: int, reason: str) -> None:
    """The command that closes it is named; closed, it is used."""
    path = write(tmp_path, ".codex/auth.json", codex(None), mode)
    found = read(tmp_path, ".codex/auth.json")
    assert f"others can {reason} {path}" in why(found)
    assert isinstance(found, Unusable)
    assert f"chmod 600 {path}" in found.fix
    path.chmod(0o600)
    assert isinstance(read(tmp_path, ".codex/auth.json"), LoginFile)


def test_settings_may_be_read_by_others(tmp_path: Path) -> None:
    """A file without secrets may be read by everybody, and still not be written."""
    path = write(tmp_path, ".aws/config", b"[default]\nregion = eu-west-1\n", 0o644)
    assert isinstance(read(tmp_path, ".aws/config"), LoginFile)
    path.chmod(0o664)
    assert "others can write" in why(read(tmp_path, ".aws/config"))


def test_a_folder_that_everybody_can_write_is_not_trusted(tmp_path: Path) -> None:
    """Who can write the folder can replace the file."""
    path = write(tmp_path, ".codex/auth.json", codex(None))
    path.parent.chmod(0o777)
    found = read(tmp_path, ".codex/auth.json")
    assert "everybody can write" in why(found)
    path.parent.chmod(0o775)
    assert isinstance(read(tmp_path, ".codex/auth.json"), LoginFile)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    """A file that another user owns is that user's word."""
    path = write(tmp_path, ".codex/auth.json", codex(None))
    os.chown(path, 12345, -1)
    assert "belongs to somebody else" in why(read(tmp_path, ".codex/auth.json"))


def test_no_link_is_followed(tmp_path: Path) -> None:
    """Neither the file nor its folder may be a link; the home itself may."""
    real = write(tmp_path / "real", ".codex/auth.json", codex(None))
    home = tmp_path / "home"
    home.mkdir()
    (home / ".codex").symlink_to(real.parent)
    assert "never followed" in why(read(home, ".codex/auth.json"))
    (home / ".codex").unlink()
    (home / ".codex").mkdir()
    (home / ".codex/auth.json").symlink_to(real)
    assert "no link" in why(read(home, ".codex/auth.json"))
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    assert isinstance(read(tmp_path / "linked", ".codex/auth.json"), LoginFile)


def test_only_a_regular_file_of_a_bounded_size_is_read(tmp_path: Path) -> None:
    """A FIFO is not waited for, a folder is no file, and a file that is too large is not read."""
    (tmp_path / ".codex").mkdir()
    os.mkfifo(tmp_path / ".codex/auth.json", 0o600)
    assert "not a regular file" in why(read(tmp_path, ".codex/auth.json"))
    (tmp_path / ".codex/auth.json").unlink()
    (tmp_path / ".codex/auth.json").mkdir()
    assert "not a regular file" in why(read(tmp_path, ".codex/auth.json"))
    (tmp_path / ".codex/auth.json").rmdir()
    path = write(tmp_path, ".codex/auth.json", b'{"a": "' + b"x" * MAX_LOGIN_BYTES + b'"}')
    assert "larger than" in why(read(tmp_path, ".codex/auth.json"))
    path.unlink()
    path.parent.rmdir()
    path.parent.write_text("no folder")
    assert "not a folder" in why(read(tmp_path, ".codex/auth.json"))


def test_the_agents_own_variables_say_where_a_file_lies(tmp_path: Path) -> None:
    """A folder or file that the person moved is found there; a relative path is not believed."""
    write(tmp_path / "moved", "auth.json", codex(None))
    assert isinstance(read(tmp_path, ".codex/auth.json", {"CODEX_HOME": str(tmp_path / "moved")}), LoginFile)
    assert "is not there" in why(read(tmp_path, ".codex/auth.json", {"CODEX_HOME": "moved"}))
    write(tmp_path / "g", "key.json", {"private_key": "-----BEGIN"})
    name = ".config/gcloud/application_default_credentials.json"
    ambient = {"GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path / "g/key.json")}
    assert isinstance(read(tmp_path, name, ambient), LoginFile)


def test_of_the_aws_file_only_the_chosen_profile_is_given_on(tmp_path: Path) -> None:
    """The keys of a person's other accounts stay at home."""
    text = b"[default]\naws_secret_access_key = default0default0\n\n[work]\naws_secret_access_key=work0work0work0%\n"
    write(tmp_path, ".aws/credentials", text)
    name = ".aws/credentials"
    found = read(tmp_path, name)
    assert isinstance(found, LoginFile)
    assert found.raw == b"[default]\naws_secret_access_key = default0default0\n"
    found = read(tmp_path, name, {"AWS_PROFILE": "work"})
    assert isinstance(found, LoginFile)
    assert found.raw == b"[work]\naws_secret_access_key = work0work0work0%\n"
    found = read(tmp_path, name, {"AWS_PROFILE": "none"})
    assert why(found) == "it has no profile 'none'"
    for broken in (b"\xff", b"no section = 1\n"):
        write(tmp_path, name, broken)
        assert "not the credentials file" in why(read(tmp_path, name))


def test_the_secrets_of_a_file_are_known_by_value() -> None:
    """Members whose names say that they are secret are secrets, at any depth; words, addresses and names are not."""
    document = {
        "auth_mode": "chatgpt-subscription",
        "token_type": "Bearer",
        "token_uri": "https://oauth2.example.test/token",
        "token_note": "a sentence about a token",
        "tokens": {"access_token": "at-0123456789abcdef", "account_id": "0123456789abcdef"},
        "api_keys": ["k1-0123456789abcdef", 7, None],
        "private_key": "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n",
    }
    raw = json.dumps(document).encode()
    assert list(login_values(raw)) == [
        raw,
        b"at-0123456789abcdef",
        b"k1-0123456789abcdef",
        b"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n",
    ]


def test_a_file_of_lines_is_looked_through_too() -> None:
    """NAME = value lines of a file that is no JSON give their secrets."""
    raw = b"[default]\naws_secret_access_key = 0123456789abcdef0123\nregion = eu-west-1-and-more\ntoken\n"
    assert list(login_values(raw)) == [raw, b"0123456789abcdef0123"]
