"""A person's configuration: read strictly, only when it is the person's own, and wrong keys are named with a fix."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import asdict

from savant.cli.person import MAX_CONFIG_BYTES, AgentSettings, PersonConfig, Price, read_person
from savant.cli.places import Places, find_places
from savant.contracts.errors import PortError, RefusedInput

FULL = """
[agents.claude]
model = "claude-sonnet-4-5"
executable = "/opt/claude/bin/claude"
base_url = "http://127.0.0.1:8080/v1"
mode = "answer"
network = "none"
credential = "ANTHROPIC_API_KEY"
environment = ["HTTPS_PROXY", "NODE_EXTRA_CA_CERTS"]

[agents.codex]
credential = "~/.codex/auth.json"

[prices."claude-sonnet-4-5"]
input_per_mtok = "3.00"
output_per_mtok = "15"
cached_per_mtok = "0.300001"

[prices."openai/gpt-5"]
input_per_mtok = "1.25"
output_per_mtok = "10.000001"

[sandbox]
read = ["/opt/sdk", "~/go/pkg"]
"""


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return find_places({"HOME": str(tmp_path / "home"), "SAVANT_HOME": str(tmp_path)})


def write(places: Places, content: str | bytes, mode: int = 0o600) -> Path:
    path = places.config / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


def refusal(places: Places) -> RefusedInput:
    with pytest.raises(RefusedInput) as caught:
        read_person(places)
    error = caught.value
    assert error.code == "refused.person-config"
    assert str(places.config / "config.toml") in error.message
    assert error.fix
    assert error.untouched
    return error


def test_everything_that_can_be_said_is_read(places: Places) -> None:
    """Agents, prices in millionths per million tokens, and folders; ``~/`` is the person's home."""
    write(places, FULL)
    read = read_person(places)
    assert read.agent("claude") == AgentSettings(
        model="claude-sonnet-4-5",
        executable="/opt/claude/bin/claude",
        base_url="http://127.0.0.1:8080/v1",
        mode="answer",
        network="none",
        credential="ANTHROPIC_API_KEY",
        environment=("HTTPS_PROXY", "NODE_EXTRA_CA_CERTS"),
    )
    assert read.agent("codex") == AgentSettings(credential="~/.codex/auth.json")
    assert read.agent("gemini") == AgentSettings()
    assert read.prices["claude-sonnet-4-5"] == Price(
        input_per_mtok=3_000_000, output_per_mtok=15_000_000, cached_per_mtok=300_001
    )
    assert read.prices["openai/gpt-5"] == Price(
        input_per_mtok=1_250_000, output_per_mtok=10_000_001, cached_per_mtok=1_250_000
    )
    assert read.sandbox_read == (Path("/opt/sdk"), places.home / "go/pkg")


def test_the_documented_example_is_accepted(places: Places) -> None:
    """The page's example is a configuration, and it names every key that there is."""
    page = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text("utf-8")
    (example,) = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    write(places, example)
    read = read_person(places)
    (agent,), (price,) = read.agents.values(), read.prices.values()
    assert all(asdict(agent).values())
    assert all(asdict(price).values())
    assert read.sandbox_read


def test_nothing_written_is_every_default(places: Places) -> None:
    """No file and an empty file say the same."""
    assert read_person(places) == PersonConfig()
    write(places, "")
    assert read_person(places) == PersonConfig()


def test_without_a_file_nothing_is_imported_to_read_it(tmp_path: Path) -> None:
    """The reader of TOML and pydantic are loaded for a file, and only then."""
    program = (
        "import sys\n"
        "from savant.cli.person import read_person\n"
        "from savant.cli.places import find_places\n"
        f"read_person(find_places({{'SAVANT_HOME': {str(tmp_path)!r}, 'HOME': '/'}}))\n"
        "print([name for name in ('pydantic', 'tomllib') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    (tmp_path / "config").mkdir()
    (tmp_path / "config/config.toml").write_text("[sandbox]\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "['pydantic', 'tomllib']\n"


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ('[agents.claude]\nmodell = "m"', "agents.claude.modell", "did you mean model?"),
        ("[agents.claude]\nxyz = 1", "agents.claude.xyz", "known are model, executable"),
        ("[agent.claude]", "agent", "did you mean agents?"),
        ("[sandbox]\nreads = []", "sandbox.reads", "did you mean read?"),
        ('[prices.m]\ninput = "1"\ninput_per_mtok = "1"\noutput_per_mtok = "1"', "prices.m.input", "input_per_mtok"),
        ("allow_unsandboxed = true", "allow_unsandboxed", "--allow-unsandboxed"),
        ("[sandbox]\nallow_unsandboxed = true", "sandbox.allow_unsandboxed", "--allow-unsandboxed"),
    ],
)
def test_an_unknown_key_is_refused_with_a_suggestion(places: Places, text: str, key: str, said: str) -> None:
    """A key that is misspelt is not left out silently; what may not be configured at all says where it belongs."""
    write(places, text)
    error = refusal(places)
    assert f"has an unknown key {key}: " in error.message
    assert said in error.message
    assert key in error.fix


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ('[agents.claude]\nmode = "edit"', "agents.claude.mode", "'answer', 'workspace' or 'acp'"),
        ('[agents.claude]\nnetwork = "some"', "agents.claude.network", "'open' or 'none'"),
        ('[agents.claude]\nmodel = "m x"', "agents.claude.model", "pattern"),
        ('[agents.claude]\nexecutable = "./claude"', "agents.claude.executable", "absolute path"),
        ('[agents.claude]\nbase_url = "ftp://x"', "agents.claude.base_url", "http://"),
        ('[agents.claude]\nenvironment = ["A=b"]', "agents.claude.environment.0", "not NAME=value"),
        ('[agents."a b"]', "agents.a b", "pattern"),
        ("agents = 1", "agents", "dictionary"),
        ("[prices.m]\ninput_per_mtok = 3", "prices.m.input_per_mtok", "a decimal in quotes"),
        ('[prices.m]\ninput_per_mtok = "3"', "prices.m.output_per_mtok", "a decimal in quotes"),
        ('[prices.m]\ninput_per_mtok = "-3"\noutput_per_mtok = "1"', "prices.m.input_per_mtok", "a decimal"),
        ('[prices.m]\ninput_per_mtok = "0.0000001"\noutput_per_mtok = "1"', "prices.m.input_per_mtok", "a decimal"),
        ('[sandbox]\nread = ["sdk"]', "sandbox.read.0", "an absolute path"),
    ],
)
def test_a_wrong_value_is_refused_with_what_the_key_wants(places: Places, text: str, key: str, said: str) -> None:
    """The file, the key and what it wants are named."""
    write(places, text)
    error = refusal(places)
    assert f"has a wrong value at {key}: " in error.message
    assert said in error.message


@pytest.mark.parametrize(
    "text",
    [
        '[agents.claude]\napi_key = "sk-ant-0123456789"',
        '[agents.claude]\ncredential = "sk-ant-0123456789"',
        '[agents.claude]\nbase_url = "https://me:sk-ant-0123456789@host/"',
        '[agents.claude]\nenvironment = ["KEY=sk-ant-0123456789"]',
    ],
)
def test_a_key_that_was_written_into_the_file_is_not_repeated(places: Places, text: str) -> None:
    """Keys do not belong there; the message that says so does not hold it."""
    write(places, text)
    error = refusal(places)
    shown = [error.message, error.fix, repr(error), str(error.__cause__), repr(error.__cause__)]
    assert not any("sk-ant-0123456789" in text for text in shown)


@pytest.mark.parametrize("content", [b"[", b"\xff = 1", b"a = " + b"[" * 100_000, b"a = " + b"1" * 10_000])
def test_what_is_no_toml_is_refused(places: Places, content: bytes) -> None:
    """Broken, not UTF-8, nested too deep, a number without end."""
    write(places, content)
    assert "is not TOML" in refusal(places).message


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_refused(places: Places, mode: int) -> None:
    """Who can write it could run code as the person; others may read it."""
    path = write(places, FULL, mode)
    error = refusal(places)
    assert "can be written by others" in error.message
    assert f"chmod go-w {path}" in error.fix
    path.chmod(0o644)
    assert read_person(places).sandbox_read


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_refused(places: Places) -> None:
    """It must be the person's own."""
    os.chown(write(places, FULL), 12345, -1)
    assert "belongs to somebody else" in refusal(places).message


def test_only_a_regular_file_is_read(places: Places) -> None:
    """A link is not followed, a FIFO not waited for, a file too large not read; a folder is none."""
    path = write(places, FULL)
    path.rename(path.with_name("real.toml"))
    path.symlink_to("real.toml")
    assert "not a regular file" in refusal(places).message
    path.unlink()
    os.mkfifo(path, 0o600)
    assert "not a regular file" in refusal(places).message
    path.unlink()
    path.mkdir(mode=0o700)
    assert "not a regular file" in refusal(places).message
    path.rmdir()
    write(places, b"#" * (MAX_CONFIG_BYTES + 1))
    assert "larger than" in refusal(places).message
    write(places, b"#" * MAX_CONFIG_BYTES)
    assert read_person(places) == PersonConfig()


def test_a_folder_that_is_none_is_an_effect_that_failed(places: Places) -> None:
    """What is no configuration but a broken place is said as such."""
    places.config.write_text("a file")
    with pytest.raises(PortError) as caught:
        read_person(places)
    assert caught.value.code == "port.disk"


def test_the_home_is_where_the_environment_says(tmp_path: Path) -> None:
    """Logins of other programs lie in the person's home, wherever Savant's own files are."""
    assert find_places({"HOME": str(tmp_path), "SAVANT_HOME": "/elsewhere"}).home == tmp_path
    assert find_places({}).home == Path("~").expanduser()
