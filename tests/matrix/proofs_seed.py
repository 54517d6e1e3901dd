"""Proofs of what the project began with. Each runs through the command line, beside a positive control."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from savant.cli import applying
from savant.repository.worktree import observe_tree
from tests.e2e.conftest import Shop, git
from tests.matrix.shell import BASE_TEXT, GREEN, WRITES, foreign, refused, rules, run, said, shell


def happy_path(shop: Shop) -> None:
    """Run, admit, apply, verify, undo: each step says so, and the target is the base again."""
    target = shop.root / "target"
    admitted = run(shop, *shell(WRITES), *GREEN)
    assert admitted["disposition"] == "admitted"
    applied = said(shop, "apply", admitted["run"], str(target))
    assert (applied["ending"], applied["verification"]) == ("applied-compliant", "scope-compliant")
    assert (target / "README.txt").read_text() == BASE_TEXT + "x\n"
    assert said(shop, "verify", str(target))["status"] == "scope-compliant"
    assert said(shop, "undo", str(target))["paths"] == ["README.txt"]
    assert (target / "README.txt").read_text() == BASE_TEXT


def accepted_then_refused(shop: Shop) -> None:
    """Evaluation accepts two files; a limit that only admission checks refuses them; one file is admitted."""
    limits = {"files_ask": 1, "files_refuse": 1}
    from msgspec import structs

    from admission.policy import starter_policy

    rules(shop, limits=structs.replace(starter_policy().limits, **limits))
    ended = run(shop, *shell("echo x >> README.txt; echo x >> shop/totals.py"), *GREEN, code=20)
    assert ended["disposition"] == "admission-refused"
    assert ended["reason"] == "candidate-ready-for-admission"
    shown = said(shop, "show", ended["run"])
    assert [e["recommendation"] for e in shown["evaluations"]] == ["accept"]
    refused(shop, ended["run"], code=50, name="refused.apply-not-admitted")
    assert run(shop, *shell(WRITES), *GREEN)["disposition"] == "admitted"


def _key(shop: Shop, name: str) -> str:
    key = shop.root / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    return str(key)


def admitted_with_conditions(shop: Shop) -> None:
    """Every condition, acknowledged exactly, admits; one of two is not enough, and another run's is none."""
    script = "ln -s README.txt link; echo '#!/bin/sh' > tool; chmod +x tool"
    waiting = run(shop, *shell(script), *GREEN, code=10)
    assert set(waiting["conditions"]) == {"new-links", "new-executables"}
    key = _key(shop, "key")
    said(shop, "acknowledge", "new-links", waiting["run"], "--key", key)
    assert said(shop, "admit", waiting["run"], code=10)["outcome"] == "waiting"
    refused(shop, waiting["run"], code=50, name="refused.apply-not-admitted")
    said(shop, "acknowledge", "new-executables", waiting["run"], "--key", key)
    assert said(shop, "admit", waiting["run"])["outcome"] == "admitted-with-conditions"
    assert said(shop, "apply", waiting["run"], "--new")["verification"] == "scope-compliant"
    other = run(shop, *shell("ln -s shop link"), *GREEN, code=10)
    assert said(shop, "admit", other["run"], code=10)["outcome"] == "waiting"


def waiting_for_a_person(shop: Shop) -> None:
    """Without a required check somebody is asked, and nothing can be applied; with one it is admitted."""
    ended = run(shop, *shell(WRITES), code=10)
    assert (ended["disposition"], ended["conditions"]) == ("waiting", ["no-required-check"])
    refused(shop, ended["run"], code=50, name="refused.apply-not-admitted")
    assert run(shop, *shell(WRITES), *GREEN)["disposition"] == "admitted"


def _blob(shop: Shop, needle: bytes) -> Path:
    objects = shop.path / ".git" / "savant" / "objects"
    (found,) = [p for p in objects.rglob("*") if p.is_file() and p.read_bytes() == needle]
    found.chmod(0o600)
    return found


def uncertifiable(shop: Shop) -> None:
    """A candidate whose content is no longer what was sealed cannot be certified; put back, it can."""
    ended = run(shop, *shell(WRITES), *GREEN)
    blob = _blob(shop, b"A shop.\nx\n")
    blob.write_bytes(b"A shop.\ny\n")
    again = said(shop, "admit", ended["run"], code=21)
    assert again["outcome"] == "uncertifiable"
    refused(shop, ended["run"], code=50, name="refused.apply-not-admitted")
    blob.write_bytes(b"A shop.\nx\n")
    assert said(shop, "admit", ended["run"])["outcome"] == "admitted"


def tampered_candidate(shop: Shop) -> None:
    """A changed blob is found before anything is written; put back, it is applied."""
    ended = run(shop, *shell(WRITES), *GREEN)
    blob = _blob(shop, b"A shop.\nx\n")
    blob.write_bytes(b"A shop.\nevil\n")
    refused(shop, ended["run"], code=23, name="unverified.object")
    blob.write_bytes(b"A shop.\nx\n")
    assert said(shop, "apply", ended["run"], "--new")["verification"] == "scope-compliant"


def foreign_lineage(shop: Shop) -> None:
    """An admission that somebody with the keys composed from another run's evaluation is not believed by a replay."""
    from msgspec import structs

    from admission.documents import Decision, Request
    from admission.documents import Receipt as AdmissionReceipt
    from savant.cli.cmd_apply import recording
    from savant.cli.workbench import Workbench
    from savant.contracts.document import seal
    from synthesis.documents import Attempt, Evaluation

    first = run(shop, *shell("echo y >> README.txt"), *GREEN)["run"]
    second = run(shop, *shell(WRITES), *GREEN)["run"]
    for run_id in (first, second):
        assert said(shop, "replay", run_id)["outcome"] == "replayed"
    for member, type_ in (("evaluation_digest", Evaluation), ("attempt_digest", Attempt)):
        with Workbench(shop.path) as bench, recording(bench, first) as (history, _):
            other = history.need(type_)
        with Workbench(shop.path) as bench, recording(bench, second) as (history, recorder):
            request = seal(structs.replace(history.need(Request).document, **{member: other.digest}))
            decision = seal(structs.replace(history.need(Decision).document, request_digest=request.digest))
            receipt = history.need(AdmissionReceipt).document
            forged = structs.replace(receipt, request_digest=request.digest, decision_digest=decision.digest)
            recorder.record("driver", other)
            for document in (request, decision, seal(forged)):
                recorder.record("admission", document)
            recorder.checkpoint()
        assert said(shop, "ledger", "verify")["outcome"] == "verified"
        assert said(shop, "replay", second, code=23)["outcome"] == "diverged"
        assert said(shop, "replay", first)["outcome"] == "replayed"


def base_drift(shop: Shop) -> None:
    """A target that moved away from the admitted base is stale, and no target for another application."""
    ended = run(shop, *shell(WRITES), *GREEN)
    target = shop.root / "target"
    said(shop, "apply", ended["run"], str(target))
    git(target, "commit", "-q", "-a", "-m", "moved on")
    assert said(shop, "verify", str(target), code=54)["status"] == "stale"
    moved = shop.root / "moved"
    shop.write("more.txt", "more\n")
    commit = shop.commit("the base moved on")
    git(shop.path, "worktree", "add", "-q", "--detach", str(moved), commit)
    answer = said(shop, "apply", ended["run"], str(moved), code=50)
    assert answer["code"] == "refused.apply-wrong-head"
    assert (moved / "README.txt").read_text() == BASE_TEXT
    assert said(shop, "apply", ended["run"], str(shop.root / "fresh"))["verification"] == "scope-compliant"


def dirty_target(shop: Shop) -> None:
    """A changed, an added and a hidden change of the target are refused; a clean one is applied to."""
    ended = run(shop, *shell(WRITES), *GREEN)
    target = shop.root / "target"
    git(shop.path, "worktree", "add", "-q", "--detach", str(target), "HEAD")
    (target / "shop/totals.py").write_text("mine\n")
    git(target, "update-index", "--assume-unchanged", "shop/totals.py")
    assert git(target, "status", "--porcelain") == ""
    assert said(shop, "apply", ended["run"], str(target), code=50)["code"] == "refused.apply-dirty"
    assert (target / "shop/totals.py").read_text() == "mine\n"
    (target / "shop/totals.py").write_text("def total(amount):\n    return amount\n")
    assert said(shop, "apply", ended["run"], str(target))["verification"] == "scope-compliant"


def unsupported_operation(shop: Shop) -> None:
    """A moved submodule is refused by its name; a file beside the submodule is fine."""
    for letter in "ab":
        git(shop.path, "update-index", "--add", "--cacheinfo", f"160000,{letter * 40},sub")
        git(shop.path, "commit", "-q", "-m", letter)
    ended = run(shop, "--from-commit", "HEAD~1..HEAD", *GREEN, code=20, objective="")
    assert ended["reasons"][0] == {"code": "admission.operation.unsupported", "path": "sub"}
    refused(shop, ended["run"], code=50, name="refused.apply-not-admitted")
    assert run(shop, *shell(WRITES), *GREEN)["disposition"] == "admitted"


def apply_mismatch(shop: Shop) -> None:
    """Somebody writes into the target while it is written to: the recomputed digests differ, and it is said."""
    ended = run(shop, *shell(WRITES), *GREEN)
    genuine: Callable[..., Any] = applying.announcer
    target = shop.root / "target"

    def meddling(*given: Any) -> Any:
        announce = genuine(*given)

        def meddle(*words: Any) -> None:
            announce(*words)
            (target / "shop/totals.py").write_text("meanwhile\n")

        return meddle

    git(shop.path, "worktree", "add", "-q", "--detach", str(target), "HEAD")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(applying, "announcer", meddling)
        applied = said(shop, "apply", ended["run"], str(target), code=51)
    assert (applied["ending"], applied["disposition"]) == ("applied-violated", "mismatch-kept")
    assert applied["verification"] == "scope-violated"
    assert (target / "shop/totals.py").read_text() == "meanwhile\n"
    assert said(shop, "apply", ended["run"], str(shop.root / "calm"))["disposition"] == "applied"


def changed_after_apply(shop: Shop) -> None:
    """A target that was changed afterwards is recorded as violated, by path; put back, it is compliant."""
    ended = run(shop, *shell(WRITES), *GREEN)
    target = shop.root / "target"
    said(shop, "apply", ended["run"], str(target))
    (target / "shop/totals.py").write_text("mine\n")
    violated = said(shop, "verify", str(target), code=53)
    assert (violated["status"], [v["path"] for v in violated["violations"]]) == ("scope-violated", ["shop/totals.py"])
    assert said(shop, "show", ended["run"])["verification"] == "scope-violated"
    (target / "shop/totals.py").write_text("def total(amount):\n    return amount\n")
    assert said(shop, "verify", str(target))["status"] == "scope-compliant"


def _no_candidate(shop: Shop, program: str, reason: str, *flags: str) -> None:
    before = shop.state()
    ended = run(shop, *foreign(program), *GREEN, "--retries", "0", *flags, code=30)
    assert (ended["reason"], ended["candidate"]) == (reason, None)
    assert shop.state() == before


def provider_crash(shop: Shop) -> None:
    """A provider that exits with a status, or is killed, leaves no candidate; the same one whole is admitted."""
    _no_candidate(shop, "write('new.txt', 'x'); sys.stdout.flush(); sys.exit(3)", "provider-unavailable")
    _no_candidate(shop, "os.kill(os.getpid(), 9)", "provider-unavailable")
    assert run(shop, *foreign("write('new.txt', 'x')"), *GREEN)["disposition"] == "admitted"


def malformed_and_oversized_output(shop: Shop) -> None:
    """Prose, half a document, another request's answer, too many bytes: all invalid, none repaired."""
    for program in (
        "print('here you are:')",
        "print('{\"wire\":')",
        "asked['request_digest'] = 'blake3:' + '0' * 64; write('new.txt', 'x')",
    ):
        _no_candidate(shop, program, "invalid-provider-output")
    _no_candidate(shop, "write('new.txt', 'x' * 5000)", "invalid-provider-output", "--max-output", "5000")
    big = foreign("write('new.txt', 'x' * 4000)")
    assert run(shop, *big, *GREEN, "--max-output", "5000")["disposition"] == "admitted"


RED_THEN_GREEN = ("--must-pass", "grep -q fine README.txt")


def retry_then_success(shop: Shop) -> None:
    """The first attempt is red, the second one green: one retry, two evaluations, one admission."""
    fix = ("--on-failure", "grep-fine=/bin/sh -c 'echo fine >> README.txt'")
    ended = run(shop, *shell(WRITES), *fix, *RED_THEN_GREEN)
    shown = said(shop, "show", ended["run"])
    assert ended["disposition"] == "admitted"
    assert [e["recommendation"] for e in shown["evaluations"]] == ["retry-generation", "accept"]
    assert run(shop, *shell(WRITES), *fix, *RED_THEN_GREEN, "--retries", "0", code=30)["decision"] is None


PLANS_ANEW = """
if request["operation"] == "planning":
    found = (request["prior"] or {}).get("findings", [])
    plan("new.txt", *(f["path"] for f in found if f["path"]))
else:
    answer(generation={"edits": [{"op": "write", "path": p, "text": "x"} for p in ("new.txt", "beside.txt")]})
"""


def replan_then_success(shop: Shop) -> None:
    """A change beside the promise goes back to planning with the finding; the second plan promises it."""
    planner = foreign(PLANS_ANEW, "planning", "generation")
    ended = run(shop, *planner, *GREEN)
    assert ended["disposition"] == "admitted"
    shown = said(shop, "show", ended["run"])
    assert [e["recommendation"] for e in shown["evaluations"]] == ["replan", "accept"]
    assert run(shop, *planner, *GREEN, "--replans", "0", code=30)["reason"] == "replan-budget-exhausted"


def exhaustion(shop: Shop) -> None:
    """With a budget of N there are N + 1 attempts, or N + 1 plans, and then a reason of its own."""
    ended = run(shop, *shell(WRITES), *RED_THEN_GREEN, "--retries", "1", code=30)
    assert ended["reason"] == "retry-budget-exhausted"
    assert len(said(shop, "show", ended["run"])["attempts"]) == 2
    for budget in (0, 1):
        ended = run(shop, *shell(WRITES), *GREEN, "--scope", "shop/**", "--replans", str(budget), code=30)
        assert ended["reason"] == "replan-budget-exhausted"
        assert len(said(shop, "show", ended["run"])["evaluations"]) == budget + 1
    assert run(shop, *shell(WRITES), *GREEN, "--scope", "README.txt")["disposition"] == "admitted"


def evaluator_unavailable(shop: Shop) -> None:
    """A required check that cannot say anything is no pass; one that can is."""
    shop.write("empty-tests", "#!/bin/sh\nprintf '<testsuites/>' > out.xml\n")
    (shop.path / "empty-tests").chmod(0o755)
    config = 'domain = "shop"\n[[check]]\nid = "t"\ncommand = "/bin/sh empty-tests"\nreport = "out.xml"\n'
    shop.write(".savant/config.toml", config)
    shop.commit("rules")
    said(shop, "trust", said(shop, "trust")["policy"])
    ended = run(shop, *shell(WRITES), code=30)
    assert (ended["reason"], ended["decision"]) == ("evaluator-unavailable", None)
    report = '<testsuite><testcase classname=\\"a\\" name=\\"b\\"/></testsuite>'
    shop.write("empty-tests", f'#!/bin/sh\nprintf "%s" "{report}" > out.xml\n')
    shop.commit("a test")
    assert run(shop, *shell(WRITES))["disposition"] == "admitted"


def deterministic_replay(shop: Shop) -> None:
    """The records alone give the same documents again; the same run twice gives the same digests."""
    both = [run(shop, *shell(WRITES), *GREEN) for _ in range(2)]
    assert both[0]["run"] != both[1]["run"]
    for member in ("session", "candidate", "decision", "receipt"):
        assert both[0][member] == both[1][member]
    for ended in both:
        assert said(shop, "replay", ended["run"])["outcome"] == "replayed"
    _blob(shop, b"A shop.\nx\n").write_bytes(b"A shop.\ny\n")
    assert said(shop, "replay", both[0]["run"], code=23)["outcome"] == "diverged"


def nothing_else_changes(shop: Shop) -> None:
    """Run, apply, verify and undo leave refs, index, configuration, stash, hooks, rules and files as they were."""
    rules(shop)
    shop.write("README.txt", "stashed\n")
    git(shop.path, "stash", "-q")
    git(shop.path, "tag", "v1")
    git(shop.path, "config", "user.name", "somebody")
    hook = shop.path / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    marker = shop.root / "hook-ran"
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    shop.write("staged.txt", "staged\n")
    git(shop.path, "add", "staged.txt")
    shop.write("untracked.txt", "untracked\n")
    before = shop.state()
    commits = git(shop.path, "rev-list", "--all", "--count")
    stash = git(shop.path, "stash", "list", "--format=%H")
    target = shop.root / "target"
    ended = run(shop, *shell(WRITES), *GREEN)
    assert shop.state() == before
    keys = observe_tree(shop.root / "home").digest
    said(shop, "apply", ended["run"], str(target))
    said(shop, "verify", str(target))
    said(shop, "undo", str(target))
    after = shop.state()
    assert after.files == before.files
    assert before.control.differences(after.control) == ("worktrees",)
    places = [{line.split()[0] for line in state.worktrees} for state in (before, after)]
    assert places[1] - places[0] == {str(target)}
    assert places[0] < places[1]
    assert observe_tree(shop.root / "home").digest == keys
    assert git(shop.path, "rev-list", "--all", "--count") == commits
    assert git(shop.path, "stash", "list", "--format=%H") == stash != ""
    assert not marker.exists()
    git(shop.path, "worktree", "remove", str(target))
    assert shop.state() == before
