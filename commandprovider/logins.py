"""Login files of a person's agents: read as they are, judged without asking anybody, never changed.

A file is read below the person's home (or where the agent's own variable says it lies) without following a link, up to
a size limit, and only if nobody else can write it, read it, or replace it.
"""

from __future__ import annotations

import base64
import binascii
import configparser
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from savant.contracts.errors import SavantError
from savant.files.tree import disk_error, open_parent, open_root, read_bounded

MAX_LOGIN_BYTES: Final = 256 * 1024
MIN_VALUE_CHARACTERS: Final = 16
"""Shorter members of a login file are words, not secrets."""

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_SECRET_MEMBER: Final = re.compile(r"token|secret|key|password|passwd|credential|cookie|signature", re.IGNORECASE)
_AWS_DEFAULT: Final = "default"

FOLDERS: Final[Mapping[str, str]] = MappingProxyType({".codex": "CODEX_HOME", ".claude": "CLAUDE_CONFIG_DIR"})
"""First folder below HOME -> the agent's own variable that names another place for it."""

FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        ".aws/credentials": "AWS_SHARED_CREDENTIALS_FILE",
        ".aws/config": "AWS_CONFIG_FILE",
        ".config/gcloud/application_default_credentials.json": "GOOGLE_APPLICATION_CREDENTIALS",
    }
)
"""File below HOME -> the variable that names another file for it."""

PUBLIC: Final = frozenset({".aws/config"})
"""Files that hold settings and no secret: others may read them."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent's login file must hold.

    :param needs: members, by dotted path, one of which must be a text.
    :param expires: the member that says when the login ends, and how: milliseconds since 1970, or the ``exp`` of a JWT.
    :param endless: a member that makes ``expires`` meaningless where it is a text.
    :param renewal: what a person does when it is over.
    """

    needs: tuple[str, ...]
    expires: str = ""
    form: Literal["milliseconds", "jwt"] = "milliseconds"
    endless: str = ""
    renewal: str = ""


LOGINS: Final[Mapping[str, Login]] = MappingProxyType(
    {
        ".codex/auth.json": Login(
            needs=("tokens.access_token", "OPENAI_API_KEY"),
            expires="tokens.access_token",
            form="jwt",
            endless="OPENAI_API_KEY",
            renewal="start codex once, which renews it, or: codex login",
        ),
        ".claude/.credentials.json": Login(
            needs=("claudeAiOauth.accessToken",),
            expires="claudeAiOauth.expiresAt",
            renewal="start claude once, which renews it, or: claude setup-token, then export CLAUDE_CODE_OAUTH_TOKEN",
        ),
        ".gemini/oauth_creds.json": Login(
            needs=("refresh_token", "access_token"),
            expires="expiry_date",
            endless="refresh_token",
            renewal="start gemini once, which renews it",
        ),
    }
)
"""The files whose form is known. An agent that finds an access token expired would use the refresh token up in its
private home, and the person's own login would be dead: so an expired one is refused, and the person renews it."""


class LoginFile(msgspec.Struct, frozen=True):
    """A login file that may be used: its bytes, as they are to be given on."""

    raw: bytes

    def __repr__(self) -> str:
        """Its size and nothing of it."""
        return f"LoginFile({len(self.raw)} bytes)"


class Unusable(msgspec.Struct, frozen=True):
    """A login file that may not be used: why, and what helps (empty: the source's own command does).

    :param absent: it is not there at all.
    """

    why: str
    fix: str = ""
    absent: bool = False


def read_login(
    name: str, ambient: Mapping[str, str], home: Path, *, now_ms: int, margin_ms: int
) -> LoginFile | Unusable:
    """A login file, if it may be used from now on for ``margin_ms``.

    :param name: the file, below the home.
    """
    path = _place(name, ambient, home)
    found = _read(path, secret=name not in PUBLIC)
    if isinstance(found, Unusable):
        return found
    if name == ".aws/credentials":
        return _one_aws_profile(found.raw, ambient.get("AWS_PROFILE", "") or _AWS_DEFAULT)
    if name.endswith(".json"):
        return _judge(found, LOGINS.get(name), now_ms=now_ms, margin_ms=margin_ms)
    return found


def login_values(raw: bytes) -> Iterator[bytes]:
    """The secrets in a login file: all of it, and the values of members whose names say that they are secret."""
    yield raw
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        for line in raw.decode("utf-8", "replace").splitlines():
            name, sign, value = line.partition("=")
            if sign and _is_secret(name, value.strip()):
                yield value.strip().encode()
        return
    yield from _members(document, "")


def _members(value: Any, name: str) -> Iterator[bytes]:
    match value:
        case dict():
            for key, member in value.items():
                yield from _members(member, key)
        case list():
            for member in value:
                yield from _members(member, name)
        case str() if _is_secret(name, value):
            yield value.encode("utf-8", "surrogatepass")
        case _:
            return


def _is_secret(name: str, value: str) -> bool:
    if _SECRET_MEMBER.search(name) is None or len(value) < MIN_VALUE_CHARACTERS:
        return False
    return value.startswith("-----BEGIN") or not (
        value.startswith(("http:", "https:")) or any(c.isspace() for c in value)
    )


def _place(name: str, ambient: Mapping[str, str], home: Path) -> Path:
    moved = ambient.get(FILES.get(name, ""), "")
    if moved.startswith("/"):
        return Path(moved)
    first, _, rest = name.partition("/")
    moved = ambient.get(FOLDERS.get(first, ""), "")
    return Path(moved) / rest if moved.startswith("/") else home / name


def _read(path: Path, *, secret: bool) -> LoginFile | Unusable:
    """The bytes of a file below its nearest anchor: the person's folders may be links, the last two names may not."""
    try:
        anchor = path.parent.parent.resolve(strict=True)
        with (
            open_root(anchor) as root,
            open_parent(root, os.fsencode(PurePosixPath(path.parent.name, path.name))) as (parent, name),
        ):
            if os.fstat(parent).st_mode & stat.S_IWOTH:
                return Unusable(f"everybody can write the folder {path.parent}", f"chmod o-w {path.parent}")
            fd = os.open(name, _FLAGS, dir_fd=parent)
            try:
                return _checked(fd, path, secret=secret)
            finally:
                os.close(fd)
    except FileNotFoundError:
        return Unusable(f"{path} is not there", absent=True)
    except SavantError as error:
        return (
            Unusable(f"{path} is not there", absent=True) if error.code == "port.not-found" else Unusable(error.message)
        )
    except OSError as error:
        return Unusable(disk_error(error, f"Cannot read {path}, which must be a regular file and no link").message)


def _checked(fd: int, path: Path, *, secret: bool) -> LoginFile | Unusable:
    facts = os.fstat(fd)
    if not stat.S_ISREG(facts.st_mode):
        return Unusable(f"{path} is not a regular file")
    if facts.st_uid not in {os.geteuid(), 0}:
        return Unusable(f"{path} belongs to somebody else", f"chown {os.geteuid()} {path}")
    if facts.st_mode & 0o022:
        return Unusable(f"others can write {path}", f"Look whether it still is yours, then: chmod 600 {path}")
    if secret and facts.st_mode & 0o044:
        return Unusable(f"others can read {path}", f"chmod 600 {path}")
    return LoginFile(read_bounded(fd, MAX_LOGIN_BYTES, str(path)))


def _judge(found: LoginFile, login: Login | None, *, now_ms: int, margin_ms: int) -> LoginFile | Unusable:
    try:
        document = json.loads(found.raw)
    except (ValueError, RecursionError):
        return Unusable("it is not JSON")
    if not isinstance(document, dict) or not document:
        return Unusable("it is not a JSON object with members")
    if login is None:
        return found
    if not any(_text(document, path) for path in login.needs):
        return Unusable("it holds no login")
    if login.endless and _text(document, login.endless):
        return found
    ends_ms = _end(_member(document, login.expires), login.form)
    if ends_ms is not None and ends_ms < now_ms + margin_ms:
        state = "expired" if ends_ms <= now_ms else "is about to expire"
        return Unusable(f"the login {state}", login.renewal)
    return found


def _member(document: Any, path: str) -> Any:
    for name in path.split("."):
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _text(document: Any, path: str) -> str:
    value = _member(document, path)
    return value if isinstance(value, str) else ""


def _end(value: Any, form: Literal["milliseconds", "jwt"]) -> int | None:
    """When a login ends, None when it does not say."""
    if form == "milliseconds":
        return value if isinstance(value, int) else None
    parts = value.split(".") if isinstance(value, str) else []
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return None
    seconds = claims.get("exp") if isinstance(claims, dict) else None
    return int(seconds * 1000) if isinstance(seconds, int | float) else None


def _one_aws_profile(raw: bytes, profile: str) -> LoginFile | Unusable:
    """Only the chosen profile of a file that may hold the keys of every account a person has."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(raw.decode("utf-8"))
    except (UnicodeDecodeError, configparser.Error):
        return Unusable("it is not the credentials file of AWS")
    if not parser.has_section(profile):
        return Unusable(f"it has no profile {profile!r}", "export AWS_PROFILE=NAME, one that it has")
    lines = [f"[{profile}]", *(f"{name} = {value}" for name, value in parser.items(profile))]
    return LoginFile(("\n".join(lines) + "\n").encode())
