"""What a command sees of the environment, and how its executable is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts.errors import UsageError
from savant.process.environment import DEFAULT_PATH, FIXED, allowed_environment, resolve_executable

HOME, TMP = Path("/private/home"), Path("/private/tmp")


def made(ambient: dict[str, str], *allow: str, **extra: str) -> dict[str, str]:
    return dict(allowed_environment(ambient, allow, HOME, TMP, extra))


def test_nothing_is_copied_that_was_not_named() -> None:
    """Secrets, loader variables and the person's home stay outside."""
    ambient = {"AWS_SECRET_ACCESS_KEY": "s", "LD_PRELOAD": "x", "HOME": "/root", "PYTHONPATH": "x", "PATH": "/evil"}
    assert made(ambient) == {**FIXED, "PATH": DEFAULT_PATH, "HOME": str(HOME), "TMPDIR": str(TMP)}


def test_what_was_named_is_copied_as_it_is() -> None:
    """A named variable comes along if it is there; a name is a name and no pattern."""
    ambient = {"TOKEN": "s", "TOKEN_2": "t", "LANG": "de_DE.UTF-8"}
    environment = made(ambient, "TOKEN", "ABSENT", "LANG", "TOKEN*")
    assert environment["TOKEN"] == "s"
    assert environment["LANG"] == "de_DE.UTF-8"
    assert {"ABSENT", "TOKEN_2"}.isdisjoint(environment)


def test_home_and_tmp_are_private_even_when_named() -> None:
    """Naming HOME does not let the person's home in; only an explicit value does."""
    ambient = {"HOME": "/root", "TMPDIR": "/tmp"}
    environment = made(ambient, "HOME", "TMPDIR")
    assert (environment["HOME"], environment["TMPDIR"]) == (str(HOME), str(TMP))
    assert made(ambient, HOME="/other")["HOME"] == "/other"


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/a:/b", "/a:/b"),
        (":/a::.:bin:/b:", "/a:/b"),
        ("", DEFAULT_PATH),
        (".", DEFAULT_PATH),
    ],
)
def test_a_named_path_loses_its_relative_entries(path: str, kept: str) -> None:
    """Nothing is ever looked up in the working directory."""
    assert made({"PATH": path}, "PATH")["PATH"] == kept
    assert made({"PATH": path})["PATH"] == DEFAULT_PATH


@pytest.mark.parametrize("name", ["", "A=B", "A\0"])
def test_what_is_no_name_is_refused(name: str) -> None:
    """A name that no environment could hold is misuse."""
    with pytest.raises(UsageError) as caught:
        made({}, name)
    assert caught.value.code == "usage.bad-environment"


@given(st.dictionaries(st.text("ABC_", min_size=1), st.text("abc/:.")), st.lists(st.text("ABC_", min_size=1)))
def test_it_is_a_function_of_what_was_named(ambient: dict[str, str], allow: list[str]) -> None:
    """The result is sorted, has each name once, and does not depend on anything that was not named."""
    environment = allowed_environment(ambient, allow, HOME, TMP)
    names = [name for name, _ in environment]
    assert names == sorted(set(names))
    named = {name: value for name, value in ambient.items() if name in allow}
    assert environment == allowed_environment(named, reversed(allow), HOME, TMP)
    assert set(names) == {*FIXED, "PATH", "HOME", "TMPDIR", *named}


def test_executables_are_found_where_they_are(tmp_path: Path) -> None:
    """The first folder that has an executable file wins; links stay as they are called."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    (tmp_path / "one/tool").write_text("")  # not executable
    (tmp_path / "one/folder").mkdir()
    (tmp_path / "two/tool").write_text("")
    (tmp_path / "two/tool").chmod(0o755)
    (tmp_path / "two/link").symlink_to("tool")
    path = f":relative:{tmp_path}/one:{tmp_path}/two"
    assert resolve_executable("tool", path) == tmp_path / "two/tool"
    assert resolve_executable("link", path) == tmp_path / "two/link"
    assert resolve_executable(str(tmp_path / "two/tool"), "") == tmp_path / "two/tool"
    for name in ("folder", "absent", str(tmp_path / "one/tool"), str(tmp_path / "one"), "a\0b"):
        with pytest.raises(UsageError) as caught:
            resolve_executable(name, path)
        assert caught.value.code == "usage.executable-not-found"
    assert resolve_executable("sh").is_absolute()


@pytest.mark.parametrize("name", ["", ".", "..", "./tool", "bin/tool", "../tool"])
def test_relative_executables_are_refused(name: str) -> None:
    """What depends on the working directory is never run."""
    with pytest.raises(UsageError) as caught:
        resolve_executable(name)
    assert caught.value.code == "usage.relative-executable"
