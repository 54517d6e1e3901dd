"""Real input: the sources of a real package, every kind of change at once, this project's own history."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from savant.repository.worktree import observe_tree
from tests.e2e.conftest import GIT_ENV, Shop, git

PROJECT = Path(__file__).resolve().parents[2]


def test_a_real_fix_on_a_real_package_goes_through_the_whole_chain(shop: Shop, tool: Callable[[str], str]) -> None:
    """Ruff removes unnecessary placeholders in the several hundred files of an installed package; then it is undone."""
    spec = importlib.util.find_spec("pip")
    if spec is None or spec.origin is None:
        pytest.skip("pip is not installed in this environment, so there is no package of this size to work on")
    shutil.copytree(Path(spec.origin).parent, shop.path / "pip", ignore=shutil.ignore_patterns("__pycache__"))
    shop.commit("a real package")
    files = git(shop.path, "ls-files").splitlines()
    assert len(files) > 300
    before = shop.state()
    ruff = tool("ruff")
    ended = shop.run(
        "Remove unnecessary placeholders",
        "--scope",
        "pip/**",
        "--recipe",
        f"{ruff} check --isolated --select PIE790 --fix --quiet pip",
        "--must-pass",
        f"{ruff} check --isolated --select PIE790 pip",
    )
    assert (ended.code, ended.json["disposition"]) == (0, "admitted"), ended.err
    assert shop.state() == before
    target = shop.root / "target"
    assert shop.savant("apply", ended.json["run"], str(target)).code == 0
    status = git(target, "diff", "--name-only").splitlines()
    shown = shop.savant("show", "--format", "json").json
    assert sorted(o["path"] for o in shown["candidate"]["operations"]) == sorted(status)
    assert len(status) > 3
    subprocess.run([ruff, "check", "--isolated", "--no-cache", "--select", "PIE790", "pip"], cwd=target, check=True)
    assert shop.savant("ledger", "verify").code == 0
    assert shop.savant("replay").code == 0
    assert shop.savant("undo", str(target)).code == 0
    assert observe_tree(target) == observe_tree(shop.path)


SCRIPT = """
set -e
printf 'new\\n' > created.txt
printf 'changed\\n' > modified.txt
rm deleted.txt
mkdir -p moved && mv renamed.txt moved/renamed.txt
cp copied.txt copy.txt
chmod +x mode.sh
ln -s modified.txt link
rm was-file && ln -s modified.txt was-file
rm was-link && printf 'plain\\n' > was-link
rm folder && mkdir folder && printf 'in\\n' > folder/inner
rm -r emptied && printf 'flat\\n' > emptied
"""


def test_every_kind_of_change_at_once_and_back_again_to_the_byte(shop: Shop, tool: Callable[[str], str]) -> None:
    """Create, modify, delete, rename, copy, mode, link and type changes: acknowledged, applied, undone."""
    for name in ("modified.txt", "deleted.txt", "renamed.txt", "copied.txt", "mode.sh", "was-file", "folder"):
        shop.write(name, f"{name} is here\n")
    shop.write("emptied/one.txt", "one\n")
    (shop.path / "was-link").symlink_to("copied.txt")
    shop.commit("every kind")
    before = shop.state()
    (shop.root / "script.sh").write_text(SCRIPT)
    ended = shop.run("Change everything", "--recipe", f"/bin/sh {shop.root}/script.sh", "--must-pass", "/bin/true")
    assert (ended.code, ended.json["disposition"]) == (10, "waiting"), ended.out
    assert set(ended.json["conditions"]) == {"new-links", "new-executables"}
    run = ended.json["run"]
    kinds = {o["path"]: o["kind"] for o in shop.savant("show", run, "--format", "json").json["candidate"]["operations"]}
    assert kinds == {
        "created.txt": "create",
        "modified.txt": "modify",
        "deleted.txt": "delete",
        "renamed.txt": "delete",
        "moved/renamed.txt": "rename",
        "copy.txt": "copy",
        "mode.sh": "mode-change",
        "link": "symlink-change",
        "was-file": "type-change",
        "was-link": "type-change",
        "folder": "delete",
        "folder/inner": "create",
        "emptied": "create",
        "emptied/one.txt": "delete",
    }
    key = shop.root / "key"
    subprocess.run([tool("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    refused = shop.savant("apply", run, "--new", "--format", "json")
    assert (refused.code, refused.json["code"]) == (50, "refused.apply-not-admitted")
    assert shop.savant("acknowledge", "new-links", run, "--key", str(key), "--by", "ada").code == 0
    assert shop.savant("admit", run).code == 10
    assert shop.savant("acknowledge", "new-executables", run, "--key", str(key), "--by", "ada").code == 0
    admitted = shop.savant("admit", run, "--explain", "--format", "json")
    assert (admitted.code, admitted.json["outcome"]) == (0, "admitted-with-conditions")
    assert {p["verdict"] for p in admitted.json["paths"]} == {"allowed", "acknowledged"}
    target = shop.root / "target"
    applied = shop.savant("apply", run, str(target), "--format", "json")
    assert (applied.code, applied.json["verification"]) == (0, "scope-compliant"), applied.err
    assert (target / "mode.sh").stat().st_mode & 0o111
    assert (target / "link").readlink() == Path("modified.txt")
    assert (target / "folder/inner").read_text() == "in\n"
    assert (target / "emptied").read_text() == "flat\n"
    assert not (target / "was-link").is_symlink()
    patch = subprocess.run(
        ["git", "apply", "--check", "-"], cwd=shop.path, env=GIT_ENV, input=shop.savant("patch", run).out, text=True,
        check=False, capture_output=True,
    )  # fmt: skip
    assert patch.returncode == 0, patch.stderr
    assert shop.savant("replay").code == 0
    assert shop.savant("undo", str(target)).code == 0
    assert observe_tree(target) == observe_tree(shop.path)
    assert git(target, "status", "--porcelain") == ""
    after = shop.state()
    assert (after.files, after.control.refs, after.control.index, after.control.config, after.control.hooks) == (
        before.files,
        before.control.refs,
        before.control.index,
        before.control.config,
        before.control.hooks,
    )


@pytest.fixture
def own(shop: Shop) -> Shop:
    """A clone of this project's own repository."""
    if not (PROJECT / ".git").exists():
        pytest.skip("the project is not a git checkout here, so it has no history to judge")
    shutil.rmtree(shop.path)
    git(shop.root, "clone", "-q", "--no-hardlinks", str(PROJECT), str(shop.path))
    return shop


def test_commits_of_this_projects_own_history_are_judged(own: Shop) -> None:
    """``run --from-commit`` seals and judges real commits; what it seals is the commit's own tree."""
    commits = git(own.path, "log", "--no-merges", "--format=%H", "-12").splitlines()
    judged = 0
    for commit in commits:
        if judged == 3 or not git(own.path, "rev-list", "--parents", "-1", commit).split()[1:]:
            break
        ended = own.run("--from-commit", f"{commit}~1..{commit}", "--must-pass", "/bin/true")
        assert ended.json["disposition"] in ("admitted", "waiting", "admission-refused"), ended.out + ended.err
        operations = own.savant("show", ended.json["run"], "--format", "json").json["candidate"]["operations"]
        changed = git(own.path, "diff-tree", "-r", "--no-renames", "--name-only", "--no-commit-id", commit).splitlines()
        assert sorted(o["path"] for o in operations) == sorted(changed)
        judged += 1
    if judged == 0:
        pytest.skip("this checkout holds no commit with a parent")
    assert own.savant("ledger", "verify").code == 0


def test_savant_works_on_its_own_repository(own: Shop, tool: Callable[[str], str]) -> None:
    """A deterministic tool changes this project, the project's own linter judges it, and the change is admitted."""
    script = "printf '\\n\\nX=1\\n' >> savant/cli/exits.py"
    ended = own.run(
        "Tidy up",
        "--scope",
        "savant/**",
        "--recipe",
        f"/bin/sh -c {json.dumps(script)}",
        "--recipe",
        f"{tool('ruff')} format --quiet savant/cli/exits.py",
        "--must-pass",
        f"{tool('ruff')} format --check savant/cli/exits.py",
    )
    assert (ended.code, ended.json["disposition"]) == (0, "admitted"), ended.out + ended.err
    assert "X = 1" in own.savant("diff", ended.json["run"]).out
