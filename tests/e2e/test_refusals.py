"""Every refusal through the command line: its own code, and nothing written. Each beside a positive control."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import Shop, git

PYTHON = sys.executable
PROLOGUE = (
    "import json,os,subprocess,sys,time\n"
    "asked=json.load(sys.stdin)\n"
    "def answer(**m): print(json.dumps({'wire':asked['wire'],'request_digest':asked['request_digest'],**m}))\n"
)


def provider(program: str) -> str:
    return shlex.join((PYTHON, "-I", "-c", PROLOGUE + program))


def test_nothing_is_applied_without_being_told_to(shop: Shop) -> None:
    """An admitted run leaves the repository as it was; applying is a command of its own."""
    before = shop.state()
    run = shop.admitted()
    assert shop.state() == before
    refused = shop.savant("apply", run, "--format", "json")
    assert (refused.code, refused.json["code"]) == (2, "usage.apply-target")
    assert shop.state() == before
    applied = shop.savant("apply", run, "--new", "--format", "json")
    assert (applied.code, applied.json["ending"]) == (0, "applied-compliant")
    assert Path(applied.json["target"]).is_dir()


def test_the_checkout_itself_is_never_a_target(shop: Shop) -> None:
    """The invoking checkout, a folder in it and a folder around it are refused by code; beside it is fine."""
    run = shop.admitted()
    before = shop.state()
    for target in (shop.path, shop.path / "inside", shop.path.parent):
        refused = shop.savant("apply", run, str(target), "--format", "json")
        assert (refused.code, refused.json["code"]) == (50, "refused.apply-invoking-checkout")
    assert shop.state() == before
    assert shop.savant("apply", run, str(shop.root / "beside")).code == 0


@pytest.mark.parametrize("hidden", [False, True])
def test_a_dirty_target_is_refused_even_when_git_status_is_clean(shop: Shop, hidden: bool) -> None:
    """Bytes that differ from the base are refused, also behind assume-unchanged, where git status shows nothing."""
    run = shop.admitted()
    target = shop.root / "target"
    git(shop.path, "worktree", "add", "-q", "--detach", str(target), "HEAD")
    if hidden:
        git(target, "update-index", "--assume-unchanged", "README.txt")
    (target / "README.txt").write_text("Another shop.\n")
    if hidden:
        assert git(target, "status", "--porcelain") == ""
    before = shop.state()
    refused = shop.savant("apply", run, str(target), "--format", "json")
    assert (refused.code, refused.json["code"]) == (50, "refused.apply-dirty")
    assert "README.txt" in refused.json["message"]
    assert (target / "README.txt").read_text() == "Another shop.\n"
    assert shop.state() == before
    (target / "README.txt").write_text("A shop.\n")
    assert shop.savant("apply", run, str(target)).code == 0


def test_a_target_at_another_commit_or_on_a_branch_is_refused(shop: Shop) -> None:
    """HEAD must be detached at the admitted base."""
    run = shop.admitted()
    target = shop.root / "target"
    git(shop.path, "worktree", "add", "-q", "-b", "work", str(target), "HEAD")
    for _ in range(1):
        refused = shop.savant("apply", run, str(target), "--format", "json")
        assert (refused.code, refused.json["code"]) == (50, "refused.apply-wrong-head")
    (target / "new.txt").write_text("x")
    git(target, "add", "-A")
    git(target, "commit", "-q", "-m", "moved")
    git(target, "checkout", "-q", "--detach")
    refused = shop.savant("apply", run, str(target), "--format", "json")
    assert (refused.code, refused.json["code"]) == (50, "refused.apply-wrong-head")
    git(target, "checkout", "-q", "--detach", "main")
    assert shop.savant("apply", run, str(target)).code == 0


def test_a_folder_that_is_no_worktree_is_refused(shop: Shop) -> None:
    """A plain folder with files is not a dedicated target."""
    run = shop.admitted()
    plain = shop.root / "plain"
    plain.mkdir()
    (plain / "mine.txt").write_text("mine")
    refused = shop.savant("apply", run, str(plain), "--format", "json")
    assert (refused.code, refused.json["code"]) == (50, "refused.apply-not-dedicated")
    assert [p.name for p in plain.iterdir()] == ["mine.txt"]


def test_a_second_application_into_a_target_is_refused_until_it_is_undone(shop: Shop) -> None:
    """A target is consumed by one application."""
    run = shop.admitted()
    target = str(shop.root / "target")
    assert shop.savant("apply", run, target).code == 0
    refused = shop.savant("apply", run, target, "--format", "json")
    assert (refused.code, refused.json["code"]) == (50, "conflict.apply-consumed")
    assert shop.savant("undo", target).code == 0
    assert shop.savant("apply", run, target).code == 0


def test_a_tampered_artifact_is_refused(shop: Shop) -> None:
    """A blob that is not what its digest says is found before anything is written."""
    run = shop.admitted()
    candidate = shop.savant("show", run, "--format", "json").json["candidate"]["digest"]
    objects = shop.path / ".git" / "savant" / "objects"
    blobs = [p for p in objects.rglob("*") if p.is_file() and p.read_bytes().startswith(b"def total")]
    blobs = [p for p in blobs if b"# more" in p.read_bytes()]
    assert candidate is not None
    assert blobs
    good = blobs[0].read_bytes()
    blobs[0].chmod(0o600)
    blobs[0].write_bytes(good.replace(b"# more", b"# evil"))
    before = shop.state()
    refused = shop.savant("apply", run, "--new", "--format", "json")
    assert (refused.code, refused.json.get("code")) == (23, "unverified.object"), refused
    assert shop.state() == before
    blobs[0].write_bytes(good)
    assert shop.savant("apply", run, "--new").code == 0


def test_a_tampered_ledger_is_refused(shop: Shop) -> None:
    """Nothing is applied from a record that does not verify."""
    import sqlite3

    run = shop.admitted()
    database = shop.path / ".git" / "savant" / "ledger.sqlite3"
    with sqlite3.connect(database) as connection:
        (line,) = connection.execute("SELECT line FROM record WHERE seq = 5").fetchone()
        changed = bytearray(line)
        changed[300] ^= 1
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f'DROP TRIGGER "{name}"')
        connection.execute("UPDATE record SET line = ? WHERE seq = 5", (bytes(changed),))
    connection.close()
    before = shop.state()
    refused = shop.savant("apply", run, "--new", "--format", "json")
    assert refused.code == 23
    assert refused.json["code"].startswith("unverified.")
    assert shop.state() == before


def test_a_candidate_may_not_edit_the_rules(shop: Shop) -> None:
    """A changed .savant/ is refused by a rule, whatever the checks say."""
    before = shop.state()
    script = "mkdir -p .savant && echo 'allow = [\"**\"]' > .savant/policy.toml"
    ended = shop.run("Loosen", "--recipe", f"/bin/sh -c {json.dumps(script)}", "--must-pass", "/bin/true")
    assert (ended.code, ended.json["disposition"]) == (20, "admission-refused")
    assert ended.json["reasons"] == [{"code": "admission.scope.refused", "path": ".savant/policy.toml"}]
    assert shop.state() == before
    refused = shop.savant("apply", ended.json["run"], "--new", "--format", "json")
    assert (refused.code, refused.json["code"]) == (50, "refused.apply-not-admitted")
    assert shop.state() == before


def test_a_promise_that_the_policy_refuses_stops_before_generation(shop: Shop) -> None:
    """A scope inside .savant/ is refused in the plan review, and nothing is generated."""
    shop.uncontained()
    marker = shop.root / "called"
    ended = shop.run(
        "Loosen", "--recipe", f"/bin/sh -c 'touch {marker}'", "--must-pass", "/bin/true", "--scope", ".savant/**"
    )
    assert (ended.code, ended.json["reason"]) == (30, "plan-not-converged")
    assert not marker.exists()


def test_a_path_outside_the_promise_is_no_candidate(shop: Shop) -> None:
    """What the plan did not promise is sent back, and in the end refused."""
    before = shop.state()
    script = "echo x >> README.txt"
    recipe = ("--recipe", f"/bin/sh -c '{script}'", "--must-pass", "/bin/true")
    ended = shop.run("Change", *recipe, "--scope", "shop/**")
    assert (ended.code, ended.json["reason"]) == (30, "replan-budget-exhausted")
    assert shop.state() == before
    shown = shop.savant("show", ended.json["run"], "--format", "json").json
    assert [f["path"] for e in shown["evaluations"] for c in e["checks"] for f in c["findings"]][:1] == ["README.txt"]
    assert shop.run("Change", *recipe, "--scope", "README.txt").code == 0


def test_a_moved_submodule_is_a_named_refusal(shop: Shop) -> None:
    """A gitlink that moved is kept as an unsupported operation and refused; one that stands still is no obstacle."""
    for commit in ("a" * 40, "b" * 40):
        git(shop.path, "update-index", "--add", "--cacheinfo", f"160000,{commit},sub")
        git(shop.path, "commit", "-q", "-m", commit[0])
    before = shop.state()
    ended = shop.run("--from-commit", "HEAD~1..HEAD", "--must-pass", "/bin/true")
    assert (ended.code, ended.json["disposition"]) == (20, "admission-refused")
    assert ended.json["reasons"][0] == {"code": "admission.operation.unsupported", "path": "sub"}
    assert shop.state() == before
    shop.admitted()


@pytest.mark.parametrize(
    ("program", "code", "reason"),
    [
        ("sys.exit(3)", 30, "provider-unavailable"),
        ("print('not json')", 30, "invalid-provider-output"),
        ("print('x'*3_000_000)", 30, "invalid-provider-output"),
        ("answer(generation={}); answer(generation={})", 30, "invalid-provider-output"),
        ('print(\'{"wire":1,"wire":2}\')', 30, "invalid-provider-output"),
        (
            "answer(generation={'edits':[{'op':'write','path':'.git/hooks/x','text':''}]})",
            30,
            "invalid-provider-output",
        ),
    ],
)
def test_a_provider_that_misbehaves_leaves_no_candidate(shop: Shop, program: str, code: int, reason: str) -> None:
    """A crash, prose, too much, two documents, a member twice, a control path: each typed, nothing written."""
    before = shop.state()
    ended = shop.run(
        "Change",
        "--provider",
        provider(program),
        "--retries",
        "0",
        "--max-output",
        "1000000",
        "--must-pass",
        "/bin/true",
    )
    assert (ended.code, ended.json["reason"]) == (code, reason), ended.err
    assert ended.json["candidate"] is None
    assert shop.state() == before
    good = provider("answer(generation={'edits':[{'op':'write','path':'new.txt','text':'x'}]})")
    assert shop.run("Change", "--provider", good, "--must-pass", "/bin/true").code == 0


def test_a_provider_past_its_deadline_is_ended_with_its_hidden_child(shop: Shop) -> None:
    """A timeout ends the provider and a background child that made a session of its own."""
    shop.uncontained()
    pid_file = shop.root / "pid"
    child = f"open({str(pid_file)!r},'w').write(str(os.getpid())); time.sleep(600)"
    program = (
        f"subprocess.Popen([sys.executable,'-c',{('import os,time;' + child)!r}], start_new_session=True)\n"
        f"while not os.path.exists({str(pid_file)!r}): time.sleep(0.01)\n"
        "time.sleep(600)\n"
    )
    before = shop.state()
    ended = shop.run(
        "Change", "--provider", provider(program), "--retries", "0", "--deadline", "2", "--must-pass", "/bin/true"
    )
    assert (ended.code, ended.json["reason"]) == (30, "provider-timed-out")
    pid = int(pid_file.read_text())
    for _ in range(200):
        if not Path(f"/proc/{pid}").exists():
            break
        time.sleep(0.01)
    assert not Path(f"/proc/{pid}").exists()
    assert shop.state() == before


def test_a_target_that_the_person_changed_is_not_undone(shop: Shop) -> None:
    """Undo refuses and loses nothing; verification records the change; after it is taken out, undo works."""
    run = shop.admitted()
    target = shop.root / "target"
    assert shop.savant("apply", run, str(target)).code == 0
    applied = (target / "shop/totals.py").read_text()
    (target / "shop/totals.py").write_text(applied + "# mine\n")
    (target / "notes.txt").write_text("mine")
    refused = shop.savant("undo", str(target), "--format", "json")
    assert (refused.code, refused.json["code"]) == (56, "conflict.undo-target-changed")
    assert "shop/totals.py" in refused.json["message"]
    assert (target / "shop/totals.py").read_text() == applied + "# mine\n"
    violated = shop.savant("verify", str(target), "--format", "json")
    assert (violated.code, violated.json["status"]) == (53, "scope-violated")
    assert {v["path"] for v in violated.json["violations"]} == {"shop/totals.py", "notes.txt"}
    (target / "shop/totals.py").write_text(applied)
    (target / "notes.txt").unlink()
    assert shop.savant("undo", str(target)).code == 0
    assert (target / "shop/totals.py").read_text() == "def total(amount):\n    return amount\n"


def test_a_repositorys_own_commands_need_trust_once(shop: Shop) -> None:
    """Check commands that the repository names do not run before the person trusted their policy digest."""
    shop.uncontained()
    marker = shop.root / "ran"
    shop.write(".savant/config.toml", f'domain = "shop"\n[[check]]\nid = "own"\ncommand = "touch {marker}"\n')
    shop.commit("rules")
    ended = shop.run("Change", "--recipe", "/bin/sh -c 'echo x >> README.txt'")
    assert (ended.code, ended.json["ending"]) == (40, "not-ready")
    assert [i["code"] for i in ended.json["items"] if not i["ready"]] == ["driver.policy-untrusted"]
    assert not marker.exists()
    digest = shop.savant("trust", "--format", "json").json["policy"]
    assert shop.savant("trust", "blake3:" + "0" * 64, "--format", "json").json["code"] == "refused.trust"
    assert shop.savant("trust", digest).code == 0
    assert shop.run("Change", "--recipe", "/bin/sh -c 'echo x >> README.txt'").json["disposition"] == "admitted"
    assert marker.exists()


def test_a_provider_is_needed_and_only_one(shop: Shop) -> None:
    """None or two providers are a usage error before anything is made."""
    before = shop.state()
    for flags in ((), ("--recipe", "true", "--from-commit", "HEAD")):
        refused = shop.run("Change", *flags)
        assert (refused.code, refused.json["code"]) == (2, "usage.provider")
    assert shop.state() == before
    assert not (shop.path / ".git" / "savant").exists()
