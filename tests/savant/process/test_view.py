"""What a contained command sees: toolchains whole, what a person keeps not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from savant.contracts.errors import PortError, UsageError
from savant.process.port import Ended, Mount, Sandbox
from savant.process.view import (
    Hidden,
    arranged,
    at_their_paths,
    confined,
    containment_of,
    hide,
    toolchain_roots,
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def program(path: Path, text: str = "\x7fELF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def environment(folder: Path, base: Path) -> Path:
    """A virtual environment made from the interpreter in ``base``."""
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {base}\nversion = 3.11.2\n")
    (folder / "bin" / "python").symlink_to(base / "python3")
    return folder / "bin" / "python"


def plain(place: Path) -> tuple[Path, set[Path]]:
    return program(place / "opt/tool/tool"), {place / "opt/tool"}


def with_prefix(place: Path) -> tuple[Path, set[Path]]:
    (place / "opt/tool/lib").mkdir(parents=True)
    return program(place / "opt/tool/bin/tool"), {place / "opt/tool"}


def bin_without_libraries(place: Path) -> tuple[Path, set[Path]]:
    return program(place / "opt/tool/bin/tool"), {place / "opt/tool/bin"}


def venv_script(place: Path) -> tuple[Path, set[Path]]:
    (place / "python/lib").mkdir(parents=True)
    program(place / "python/bin/python3")
    python = environment(place / "venv", place / "python/bin")
    script = program(place / "venv/bin/pytest", f"#!{python}\nimport pytest\n")
    return script, {place / "venv", place / "python"}


def venv_script_with_a_long_path(place: Path) -> tuple[Path, set[Path]]:
    (place / "python/lib").mkdir(parents=True)
    program(place / "python/bin/python3")
    python = environment(place / "venv", place / "python/bin")
    script = program(place / "scripts/tool", f"#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n' '''\n")
    return script, {place / "scripts", place / "venv", place / "python"}


def link_to_a_venv_elsewhere(place: Path) -> tuple[Path, set[Path]]:
    python = environment(place / "share/tools/black", Path("/usr/bin"))
    program(place / "share/tools/black/bin/black", f"#!{python}\n")
    (place / "links").mkdir()
    (place / "links/black").symlink_to("../share/tools/black/bin/black")
    return place / "links/black", {place / "links", place / "share/tools/black"}


def node_tool(place: Path) -> tuple[Path, set[Path]]:
    (place / "node/lib").mkdir(parents=True)
    program(place / "node/bin/node")
    program(place / "project/node_modules/pretty/cli.js", f"#!{place}/node/bin/node\n")
    (place / "project/node_modules/.bin").mkdir()
    (place / "project/node_modules/.bin/pretty").symlink_to("../pretty/cli.js")
    return place / "project/node_modules/.bin/pretty", {place / "project/node_modules", place / "node"}


def global_node_tool(place: Path) -> tuple[Path, set[Path]]:
    (place / "node/bin").mkdir(parents=True)
    program(place / "node/lib/node_modules/agent/cli.js", "#!/usr/bin/env sh\n")
    (place / "node/bin/agent").symlink_to("../lib/node_modules/agent/cli.js")
    return place / "node/bin/agent", {place / "node", place / "node/lib/node_modules"}


def shim(place: Path) -> tuple[Path, set[Path]]:
    (place / "manager/versions/3/bin").mkdir(parents=True)
    return program(place / "manager/shims/python", "#!/usr/bin/env bash\n"), {place / "manager"}


def of_the_system(place: Path) -> tuple[Path, set[Path]]:
    del place
    return Path("/bin/sh"), set()


def gone(place: Path) -> tuple[Path, set[Path]]:
    return place / "opt/nothing", {place / "opt"}


def a_circle_of_links(place: Path) -> tuple[Path, set[Path]]:
    (place / "one").symlink_to(place / "two")
    (place / "two").symlink_to(place / "one")
    return place / "one", {place}


def interpreter_not_there(place: Path) -> tuple[Path, set[Path]]:
    return program(place / "opt/tool", "#!/nonexistent/python3\n"), {place / "opt"}


@pytest.mark.parametrize(
    "layout",
    [
        plain,
        with_prefix,
        bin_without_libraries,
        venv_script,
        venv_script_with_a_long_path,
        link_to_a_venv_elsewhere,
        node_tool,
        global_node_tool,
        shim,
        of_the_system,
        gone,
        a_circle_of_links,
        interpreter_not_there,
    ],
)
def test_a_program_brings_what_it_works_in(layout: Callable[[Path], tuple[Path, set[Path]]], place: Path) -> None:
    """The smallest folder of each kind of toolchain, with every link on the way and every interpreter."""
    executable, expected = layout(place)
    assert set(toolchain_roots(executable, Hidden())) == expected


def test_env_looks_a_name_up_on_the_path(place: Path) -> None:
    """The interpreter that ``env`` would find is found, with its prefix."""
    (place / "node/lib").mkdir(parents=True)
    program(place / "node/bin/node")
    script = program(place / "tools/cli.js", "#!/usr/bin/env -S A=b node --flag\n")
    assert toolchain_roots(script, Hidden(), search_path=f"{place}/node/bin") == (place / "tools", place / "node")
    assert toolchain_roots(script, Hidden(), search_path="/usr/bin")[0] == place / "tools"


def test_in_a_home_a_toolchain_shrinks_until_nothing_that_is_kept_is_in_it(place: Path) -> None:
    """An interpreter's own prefix is shown; ``~/.local`` is not, its ``bin`` is; of the home itself only the file."""
    home = place / "home"
    (home / ".pyenv/versions/3/lib").mkdir(parents=True)
    (home / ".local/lib").mkdir(parents=True)
    hidden = hide(home)
    for executable, expected in (
        (program(home / ".pyenv/versions/3/bin/python"), home / ".pyenv/versions/3"),
        (program(home / ".local/bin/tool"), home / ".local/bin"),
        (program(home / "tool"), home / "tool"),
    ):
        assert toolchain_roots(executable, hidden) == (expected,)
    assert toolchain_roots(program(home / ".ssh/tool"), hidden) == ()


def test_a_home_that_is_the_root_hides_no_toolchain(place: Path) -> None:
    """Keys below it stay hidden, the root itself is never shown, and tools on the PATH are seen."""
    (place / "sdk/bin").mkdir(parents=True)
    made = confined(
        "S3",
        "S0",
        network=False,
        writable={},
        executables=(),
        search_path=f"{place}/sdk/bin",
        hidden=hide(Path("/")),
    )
    assert made.mounts == (Mount(place / "sdk/bin", place / "sdk/bin"),)
    for path in (Path("/"), Path("/.ssh")):
        assert hide(Path("/")).is_shown_by(path)


def test_in_a_repository_a_program_is_seen_alone(place: Path) -> None:
    """Its environment may be reused; what lies beside a script of it is not seen."""
    repository = place / "repo"
    hidden = hide(place / "home", repositories=[repository])
    python = environment(repository / ".venv", Path("/usr/bin"))
    assert toolchain_roots(program(repository / "scripts/fix"), hidden) == (repository / "scripts/fix",)
    assert toolchain_roots(python, hidden) == (repository / ".venv",)
    assert toolchain_roots(program(place / "tools/fix"), hidden) == (place / "tools",)


def test_a_path_brings_toolchains_that_are_nobodys_private_ones(place: Path) -> None:
    """Folders outside the home and the repository, each with its prefix."""
    home, repository = place / "home", place / "repo"
    for folder in (place / "sdk/lib", place / "sdk/bin", home / "bin", repository / "bin", place / "one/tools"):
        folder.mkdir(parents=True)
    path = f"/usr/bin:{place}/sdk/bin:{place}/one/tools:{home}/bin:{repository}/bin:relative:{place}/none"
    hidden = hide(home, repositories=[repository])
    made = confined("S3", "S0", network=False, writable={}, executables=(), search_path=path, hidden=hidden)
    assert {mount.source for mount in made.mounts} == {place / "sdk", place / "one/tools"}


def test_the_best_that_is_offered_and_never_less_than_demanded(place: Path) -> None:
    """At S0 nothing is mounted; below the minimum nothing is started."""
    kept = at_their_paths(place)
    made = confined("S2", "S2", network=False, writable=kept, executables=(Path("/bin/sh"),))
    assert made == Sandbox(level="S2", network=False, mounts=(Mount(place, place, writable=True),))
    assert confined("S0", "S0", network=True, writable=kept, executables=()) == Sandbox(level="S0", network=True)
    with pytest.raises(PortError) as caught:
        confined("S1", "S2", network=False, writable=kept, executables=())
    assert caught.value.code == "port.sandbox-level"


def test_a_folder_that_stands_for_another_covers_the_toolchains_in_it(place: Path) -> None:
    """What lies in the checkout is the candidate's; only what was named is bound over it."""
    surface, checkout = place / "surface", place / "repo"
    surface.mkdir()
    python = environment(checkout / ".venv", Path("/usr/bin"))
    script = program(checkout / "bin/check")
    made = confined(
        "S3",
        "S0",
        network=False,
        writable={surface: checkout},
        executables=(python, script),
        read_only=(checkout / ".venv", place / "nothing"),
    )
    assert made.mounts == (
        Mount(surface, checkout, writable=True),
        Mount(checkout / ".venv", checkout / ".venv"),
    )
    assert confined("S3", "S0", network=False, writable={surface: checkout}, executables=(python, script)).mounts == (
        Mount(surface, checkout, writable=True),
    )


@pytest.mark.parametrize("name", ["", ".ssh", ".ssh/id", ".local/share/savant/keys", "../home/.ssh"])
def test_what_is_hidden_is_not_shown_on_demand_either(place: Path, name: str) -> None:
    """Whoever names it, as a folder or by a link to it; another folder of the home is shown."""
    home = place / "home"
    for folder in (".ssh/id", ".local/share/savant/keys", "projects"):
        (home / folder).mkdir(parents=True)
    (place / "link").symlink_to(home / name)

    def show(path: Path, *, writable: bool) -> Sandbox:
        return confined(
            "S3",
            "S0",
            network=False,
            writable=at_their_paths(path) if writable else {},
            executables=(),
            read_only=() if writable else (path,),
            hidden=hide(home),
        )

    for writable in (False, True):
        assert show(home / "projects", writable=writable).mounts
        for path in (Path(str(home / name).replace("home/../", "")), place / "link"):
            with pytest.raises(UsageError) as caught:
                show(path, writable=writable)
            assert caught.value.code == "usage.view-hidden"


def test_a_mount_that_another_covers_is_left_out() -> None:
    """Unless it is read-only inside a writable one, or leads elsewhere; the outer comes before the inner."""
    a, b, c = Path("/a"), Path("/a/b"), Path("/a/b/c")
    assert arranged([Mount(b, b), Mount(a, a)]) == (Mount(a, a),)
    assert arranged([Mount(b, b), Mount(a, a, writable=True)]) == (Mount(a, a, writable=True), Mount(b, b))
    assert arranged([Mount(a, a), Mount(Path("/x"), b)]) == (Mount(a, a), Mount(Path("/x"), b))
    assert arranged([Mount(c, c), Mount(a, a), Mount(Path("/x"), b)])[2] == Mount(c, c)
    assert arranged([Mount(Path("/x"), a, writable=True), Mount(a, a)]) == (Mount(Path("/x"), a, writable=True),)


def test_the_network_is_closed_only_by_a_namespace() -> None:
    """Below S2 there is none; what was never started had no containment."""

    def ended(level: str, *layers: str, verdict: str = "exited") -> Ended:
        return Ended(
            verdict=verdict,  # type: ignore[arg-type]
            exit_status=0,
            signal=None,
            stdout=b"",
            stderr=b"",
            stdout_truncated=False,
            stderr_truncated=False,
            duration_ms=0,
            cpu_ms=0,
            max_rss_bytes=0,
            survivors=0,
            remaining=0,
            level=level,  # type: ignore[arg-type]
            detail="",
            layers=layers,
        )

    for level, network, expected in (
        ("S3", False, "none"),
        ("S3", True, "open"),
        ("S2", False, "none"),
        ("S1", False, "open"),
        ("S0", False, "open"),
    ):
        seen = containment_of(ended(level, "b", "a"), network=network)
        assert seen is not None
        assert (seen.level, seen.layers, seen.network) == (level, ("a", "b"), expected)
    assert containment_of(ended("S3", verdict="spawn-error"), network=False) is None
    assert containment_of(ended("S3", verdict="cancelled"), network=False) is None
    assert containment_of(ended("S0"), network=False) is not None


NAMES = st.sampled_from(["bin", "lib", "home", "me", ".ssh", ".local", "share", "savant", "node_modules", "venv", "x"])
PATHS = st.lists(NAMES, min_size=1, max_size=5).map("/".join)


@settings(max_examples=60, deadline=None)
@given(
    programs=st.lists(PATHS, max_size=4),
    environments=st.lists(PATHS, max_size=2),
    links=st.lists(st.tuples(PATHS, PATHS), max_size=3),
    entries=st.lists(PATHS, max_size=3),
)
def test_whatever_is_installed_where_nothing_hidden_is_ever_visible(
    programs: list[str], environments: list[str], links: list[tuple[str, str]], entries: list[str]
) -> None:
    """No mount is the home, the repository, the key folder, the ledger, or above them; none lies in a secret place."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name).resolve()
        home, repository = place / "home/me", place / "x/home"
        keys, ledger = place / "x/keys", repository / ".git/savant"
        for folder in (home / ".ssh", keys, ledger):
            folder.mkdir(parents=True, exist_ok=True)
        executables = [place / path / "tool" for path in programs]
        for path in executables:
            program(path)
        for path in environments:
            if not (place / path / "bin" / "python").is_symlink():
                (place / path / "bin").mkdir(parents=True, exist_ok=True)
                executables.append(environment_at(place / path, place / "home/bin"))
        for at, to in links:
            link = place / at / "link"
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(place / to / "tool")
            executables.append(link)
        hidden = hide(home, repositories=[repository], secret=[keys, ledger])
        made = confined(
            "S3",
            "S3",
            network=False,
            writable={},
            executables=executables,
            search_path=":".join(str(place / entry) for entry in entries) or "/usr/bin",
            hidden=hidden,
        )
        for mount in made.mounts:
            real = mount.source.resolve()
            for kept in (home, repository):
                assert not kept.is_relative_to(real), mount
            for secret in (home / ".ssh", home / ".local/share/savant", keys, ledger):
                assert not secret.is_relative_to(real), mount
                assert not real.is_relative_to(secret), mount


def environment_at(folder: Path, base: Path) -> Path:
    (folder / "pyvenv.cfg").write_text(f"home = {base}\n")
    python = folder / "bin" / "python"
    python.symlink_to(base / "python3")
    return python
