"""The commands of docs/audit.md, run with tools that are not ours; each of them sees what was changed."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from savant.cli.app import run_command
from tests.driver.runkit import record_run

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
FOUND = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
BLOCKS = dict(zip(("ssh-keygen", "openssl", "checkpoint"), FOUND, strict=True))
TOOLS = {"ssh-keygen": ("ssh-keygen",), "openssl": ("openssl", "jq"), "checkpoint": ("openssl",)}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the page's first commands make of a recorded run."""
    root = tmp_path_factory.mktemp("outside")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAVANT_HOME", str(root / "home"))
        recorded = record_run(root)
        place = root / "place"
        place.mkdir()
        assert recorded.command("bundle", "latest", "--output", place / "evidence", "--repo", recorded.repo) == 0
        assert recorded.command("keys", "export", place / "keys", "--ledger", place / "evidence") == 0
        yield place


def checked(block: str, place: Path) -> subprocess.CompletedProcess[str]:
    """One block of the page, as a person's shell would run it, stopping at the first command that fails."""
    missing = [tool for tool in TOOLS[block] if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", BLOCKS[block]]
    return subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("block", BLOCKS)
def test_what_we_wrote_is_checked_without_us(exported: Path, block: str) -> None:
    """The positive control: ssh-keygen, openssl and coreutils agree with what was recorded."""
    done = checked(block, exported)
    assert done.returncode == 0, done.stdout + done.stderr


def _other_genesis(place: Path) -> None:
    path = place / "keys" / "statement-0.json"
    path.write_text(path.read_text().replace('"role":"driver"', '"role":"admission"', 1))


def _other_record(place: Path) -> None:
    path = place / "evidence" / "ledger.intoto.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    lines[4] = lines[5]
    signature = re.search(r'"sig":"[^"]*"', path.read_text().splitlines()[4])
    assert signature is not None
    lines[4] = re.sub(r'"sig":"[^"]*"', signature[0], lines[4])
    path.write_text("".join(lines))


def _cut(place: Path) -> None:
    path = place / "evidence" / "ledger.intoto.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def _other_size(place: Path) -> None:
    path = place / "evidence" / "checkpoint"
    lines = path.read_text().splitlines(keepends=True)
    lines[1] = "1\n"
    path.write_text("".join(lines))


@pytest.mark.parametrize(
    ("block", "spoil"),
    [("ssh-keygen", _other_genesis), ("openssl", _other_record), ("checkpoint", _cut), ("checkpoint", _other_size)],
)
def test_each_of_them_sees_what_was_changed(
    exported: Path, tmp_path: Path, block: str, spoil: Callable[[Path], None]
) -> None:
    """Another key in the genesis, a record under another's signature, a line less, another size."""
    place = tmp_path / "place"
    shutil.copytree(exported, place)
    spoil(place)
    assert checked(block, place).returncode != 0


def test_keys_are_listed_and_no_private_one_is_shown(exported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By role, from a bundle; what is exported is public, and nothing is overwritten."""
    assert run_command(["keys", "list", "--ledger", str(exported / "evidence")]) == 0
    out = capsys.readouterr().out
    assert {"driver", "runner", "evaluator", "admission", "log"} <= set(out.split())
    files = sorted(path.name for path in (exported / "keys").iterdir())
    assert {"allowed_signers", "ledger", "log-0.pem", "statement-0.json", "statement-0.sig"} <= set(files)
    assert not any(b"PRIVATE" in path.read_bytes() for path in (exported / "keys").iterdir())
    assert run_command(["keys", "export", str(exported / "keys"), "--ledger", str(exported / "evidence")]) == 43
