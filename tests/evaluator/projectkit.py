"""A checkout with a virtual environment of its own, in which the project is installed in one way or another.

The base and the checkout hold VALUE 1, the candidate VALUE 2, and the test asks for 2: whoever judges the checkout
fails it, and whoever judges the candidate passes it.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from evaluator.checks.command import Measured, measure_command
from evaluator.documents import EvaluatorConfig
from evaluator.toolchain import Toolchain
from savant.process.view import Sight
from tests.evaluator.kit import Bench, config_of

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
FILES = {
    "src/app/__init__.py": "VALUE = 1\n",
    "src/app/inner.py": "",
    "src/old.py": "",
    "src/space/part.py": "VALUE = 1\n",
    "src/space/old.py": "",
    "tests/test_app.py": "import app\n\n\ndef test_app():\n    assert app.VALUE == 2\n",
}
CANDIDATE = {"src/app/__init__.py": "VALUE = 2\n"}
FINDER = """\
import sys
from importlib.machinery import PathFinder
from importlib.util import spec_from_file_location

MAPPING = {{"app": {place!r}}}


class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in MAPPING:
            place = MAPPING[name]
            return spec_from_file_location(name, place + "/__init__.py", submodule_search_locations=[place])


def install():
    sys.meta_path.{how}
"""


JUDGE = """\
import runpy
for name, test in runpy.run_path("tests/test_app.py").items():
    if name.startswith("test_"):
        test()
"""
"""A small pytest: most of what is proven here does not need the large one."""

PYTEST = "import sys\nfrom pytest import console_main\nsys.exit(console_main())\n"
JUDGED = config_of("pytest", argv=("judge",), rule="all-pass", result_format="exit-status", report_path=None)


class Project:
    """A bench whose checkout has a virtual environment of its own, with pytest and a small judge in it."""

    def __init__(self, made: Bench) -> None:
        self.bench = made
        self.root = made.checkout / ".venv"
        self.site = self.root / "lib" / VERSION / "site-packages"
        self.toolchain = Toolchain(made.checkout, (".venv",), (Path("/usr/bin"), Path("/bin")))
        self.site.mkdir(parents=True)
        (self.root / "bin").mkdir()
        base = Path(sys.base_prefix) / "bin" / VERSION
        (self.root / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
        for name in ("python", "python3"):
            (self.root / "bin" / name).symlink_to(base)
        (self.site / "tools.pth").write_text(sysconfig.get_path("purelib") + "\n")
        self.script("pytest", f"#!{self.root}/bin/python\n", PYTEST)
        self.script("judge", f"#!{self.root}/bin/python\n", JUDGE)

    def script(self, name: str, head: str, body: str = JUDGE) -> None:
        path = self.root / "bin" / name
        path.write_text(head + body)
        path.chmod(0o755)

    def pth(self, folder: str = "src") -> None:
        (self.site / "__editable__.app.pth").write_text(f"{self.bench.checkout / folder}\n")

    def finder(self, how: str) -> None:
        place = str(self.bench.checkout / "src" / "app")
        (self.site / "__editable___app_finder.py").write_text(FINDER.format(place=place, how=how))
        line = "import __editable___app_finder; __editable___app_finder.install()\n"
        (self.site / "__editable__.app.pth").write_text(line)

    def installed(self) -> None:
        (self.site / "app").mkdir()
        (self.site / "app" / "__init__.py").write_text("VALUE = 1\n")

    def measure(self, changes: dict[str, str | None], config: EvaluatorConfig | None = None) -> Measured:
        tree = self.bench.tree(changes)[1]
        given = config or JUDGED
        before = self.bench.checkout_files()
        sight = Sight(read_only=(Path(sys.prefix),))
        measured = measure_command(given, tree, self.bench.host(self.toolchain, sight=sight))  # type: ignore[arg-type]
        assert self.bench.checkout_files() == before
        return measured

    def naive(self, changes: dict[str, str | None], place: Path, *argv: str) -> bool:
        """Whether the test passes when the tool is just run in the candidate's folder."""
        for name, content in self.bench.tree(changes)[1].read_many(self.bench.tree(changes)[1].paths()):
            path = place / name.decode()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        tool, *words = argv or ("judge",)
        env = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
        return (
            subprocess.run(
                [str(self.root / "bin" / tool), *words], cwd=place, env=env, capture_output=True, check=False
            ).returncode
            == 0
        )


def status(measured: Measured) -> str:
    return "unavailable: " + measured.problem if measured.problem else measured.cases["pytest"].status


INSTALLS: dict[str, Callable[[Project], None]] = {
    "a path file": lambda project: project.pth(),
    "a finder": lambda project: project.finder("append(Finder)"),
    "an installed copy": lambda project: project.installed(),
}
