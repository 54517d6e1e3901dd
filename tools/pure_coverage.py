"""Run the tests and demand that every branch of the pure modules was taken.

The modules are the data of ``tool.savant.pure`` in ``pyproject.toml``. A pattern that matches no file, and a module
that no test imports, fail as well: what was not measured is not covered. Arguments are handed to pytest.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from coverage import Coverage

ROOT = Path(__file__).resolve().parent.parent


def pure_modules(root: Path) -> list[Path]:
    """The files of ``tool.savant.pure``, sorted.

    :raises SystemExit: when a pattern matches nothing: the list has gone stale.
    """
    patterns = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["savant"]["pure"]
    found: set[Path] = set()
    for pattern in patterns:
        matches = set(root.glob(pattern))
        if not matches:
            sys.exit(f"tool.savant.pure: {pattern} matches no file")
        found |= matches
    return sorted(found)


def main(arguments: list[str]) -> int:
    """Measure, report, and say what is missing; 0 only when nothing is."""
    modules = pure_modules(ROOT)
    for stale in ROOT.glob(".coverage*"):
        stale.unlink()
    include = ",".join(str(module) for module in modules)
    run = [sys.executable, "-m", "coverage", "run", f"--include={include}", "-m", "pytest", *arguments]
    ended = subprocess.run(run, cwd=ROOT, check=False)
    if ended.returncode != 0:
        return ended.returncode
    coverage = Coverage(config_file=str(ROOT / "pyproject.toml"))
    coverage.combine()
    measured = {Path(name) for name in coverage.get_data().measured_files()}
    unmeasured = [module for module in modules if module not in measured and module.read_bytes().strip()]
    for module in unmeasured:
        print(f"{module.relative_to(ROOT)}: no test imports it")
    percent = coverage.report(include=[str(module) for module in modules])
    return 1 if unmeasured or percent < 100 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
