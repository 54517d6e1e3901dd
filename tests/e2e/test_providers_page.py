"""What the page about providers shows is a provider."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

from tests.e2e.conftest import Shop

PAGE = Path(__file__).resolve().parents[2] / "docs" / "providers.md"
PROGRAM = re.compile(r"^<!-- provider -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^savant run .*--provider .*$", re.MULTILINE)


def test_the_program_on_the_page_is_a_complete_provider(shop: Shop, tmp_path: Path) -> None:
    """Fifteen lines, written to a file as they stand and run by the command as it stands, make an admitted change."""
    text = PAGE.read_text("utf-8")
    (program,) = PROGRAM.findall(text)
    assert len(program.splitlines()) <= 15
    provider = tmp_path / "programs" / "provider.py"
    provider.parent.mkdir()
    provider.write_text(program)
    (command,) = COMMAND.findall(text)
    words = shlex.split(command.replace("/path/of/provider.py", str(provider)).replace("python3", sys.executable))
    ended = shop.run(*words[2:])
    assert ended.code == 0, ended.out + ended.err
    assert ended.json["disposition"] == "admitted"
    diff = shop.savant("diff", ended.json["run"]).out
    assert "NOTES.md" in diff
    assert "+- " in diff
