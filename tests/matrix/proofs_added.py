"""Proofs of what was added to the contract. Each runs through the command line, beside a positive control."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from commandprovider import RecipeProvider
from providerport.documents import Capabilities, Result
from providerport.port import Call, Usage
from savant.contracts.errors import PortError
from savant.ledger.log import Ledger
from savant.process.effects import SystemClock, SystemEntropy
from tests.e2e.conftest import Shop, git
from tests.matrix.shell import (
    BASE_TEXT,
    GREEN,
    WRITES,
    foreign,
    in_another_process,
    is_gone,
    records,
    refused,
    rules,
    run,
    said,
    shell,
    tamper,
)

PLANS_BADLY_FIRST = """
if request["operation"] == "planning":
    told = (request["prior"] or {}).get("review_findings", [])
    plan("README.txt" if told or "%s" == "always good" else ".savant/config.toml")
else:
    write("README.txt", "A shop.\\nx\\n")
"""


def plan_review_revises(shop: Shop) -> None:
    """A plan that the policy refuses goes back with the finding, and the next one converges."""
    planner = foreign(PLANS_BADLY_FIRST % "", "planning", "generation")
    ended = run(shop, *planner, *GREEN)
    assert ended["disposition"] == "admitted"
    kinds = [record["kind"] for record in records(shop)]
    assert kinds.count("savant.synthesis.plan-review/v1") == 2
    good = foreign(PLANS_BADLY_FIRST % "always good", "planning", "generation")
    assert run(shop, *good, *GREEN, "--replans", "0")["disposition"] == "admitted"


def plan_review_exhaustion(shop: Shop) -> None:
    """Plans that never converge end before anything is generated; without the bad promise the run goes on."""
    shop.uncontained()
    marker = shop.root / "called"
    bad = (*shell(f"touch {marker}"), "--scope", ".savant/**", *GREEN)
    for replans in ("0", "1"):
        assert run(shop, *bad, "--replans", replans, code=30)["reason"] == "plan-not-converged"
    assert not marker.exists()
    assert run(shop, *shell(WRITES), "--scope", "README.txt", *GREEN)["disposition"] == "admitted"


def promise_refused_before_generation(shop: Shop) -> None:
    """A promise that a rule of the base certainly refuses is not generated."""
    shop.uncontained()
    from admission.documents import PathRule

    rules(
        shop,
        refuse=(
            PathRule(id="frozen", patterns=("shop/**",), operations=(), reason="It is frozen.", enforcement="enforce"),
        ),
    )
    marker = shop.root / "called"
    ended = run(shop, *shell(f"touch {marker}"), "--scope", "shop/**", *GREEN, code=30)
    assert (ended["reason"], marker.exists()) == ("plan-not-converged", False)
    assert run(shop, *shell(WRITES), "--scope", "README.txt", *GREEN)["disposition"] == "admitted"


CRASH = """
import os
from savant.cli import applying
announcer, apply_candidate = applying.announcer, applying.apply_candidate
def dies(*given):
    announce = announcer(*given)
    def announced(*words):
        announce(*words)
        if {where!r} == "announced":
            os._exit(9)
    return announced
applying.announcer = dies
if {where!r} == "written":
    applying.apply_candidate = lambda *given: (apply_candidate(*given), os._exit(9))
"""


def crash_inside_apply(shop: Shop) -> None:
    """A process that dies after the announcement or after the writes: the next command settles the target."""
    ended = run(shop, *shell(WRITES), *GREEN)
    for where in ("announced", "written"):
        target = shop.root / where
        words = ["apply", ended["run"], str(target), "--repo", str(shop.path)]
        assert in_another_process(shop, CRASH.format(where=where), words) == 9
        settled = shop.savant("apply", ended["run"], str(target), "--format", "json")
        assert settled.code == 0 or settled.json["code"] == "conflict.apply-consumed", settled
        assert (target / "README.txt").read_text() == BASE_TEXT + "x\n"
        assert said(shop, "verify", str(target))["status"] == "scope-compliant"
        assert said(shop, "undo", str(target))["paths"] == ["README.txt"]
    assert said(shop, "ledger", "verify")["outcome"] == "verified"


def killed_run(shop: Shop) -> None:
    """A run whose process dies is interrupted, never complete: its ledger verifies, and nothing can be applied."""
    patch = "import os\nfrom driver import step\nstep.evaluate_candidate = lambda run: os._exit(9)\n"
    words = ["run", "Change", *shell(WRITES), *GREEN, "--repo", str(shop.path)]
    assert in_another_process(shop, patch, words) == 9
    open_ended = said(shop, "ledger", "verify", code=12)
    assert {check["status"] for check in open_ended["checks"]} == {"pass", "not-shown"}, open_ended["checks"]
    (row,) = said(shop, "runs")["runs"]
    shown = said(shop, "show", row["run"])
    assert (shown["closed"], shown["decision"], row["disposition"]) == (False, None, None)
    assert shop.savant("apply", row["run"], "--new", "--format", "json").code in {24, 50}
    assert run(shop, *shell(WRITES), *GREEN)["disposition"] == "admitted"
    assert said(shop, "ledger", "verify")["outcome"] == "verified"


def call_budget(shop: Shop) -> None:
    """Three calls are needed: three are enough, with two the generation is never made."""
    shop.uncontained()
    marker = shop.root / "called"
    ended = run(shop, *shell(f"{WRITES}; touch {marker}"), *GREEN, "--calls", "2", code=30)
    assert (ended["reason"], marker.exists()) == ("call-budget-exhausted", False)
    ended = run(shop, *shell(f"{WRITES}; touch {marker}"), *GREEN, "--calls", "3")
    assert (ended["disposition"], marker.exists()) == ("admitted", True)


def retry_budget(shop: Shop) -> None:
    """A change that is right at the third attempt needs two retries: with one it fails."""
    shop.uncontained()
    counter = shop.root / "count"
    script = f"echo x >> {counter}; cp {counter} README.txt"
    third = ("--must-pass", "/bin/sh -c 'test $(wc -l < README.txt) -eq 3'")
    assert run(shop, *shell(script), *third, "--retries", "1", code=30)["reason"] == "retry-budget-exhausted"
    counter.unlink()
    assert run(shop, *shell(script), *third, "--retries", "2")["disposition"] == "admitted"


def unmeasured_budgets(shop: Shop) -> None:
    """A budget of tokens that the provider does not report is not ready, rather than unlimited."""
    shop.write(".savant/config.toml", 'domain = "shop"\n[budgets]\ntokens = 10\n')
    shop.commit("a budget")
    answer = run(shop, *shell(WRITES), *GREEN, code=40)
    assert [item["code"] for item in answer["items"] if not item["ready"]] == ["driver.usage-unreported"]
    shop.write(".savant/config.toml", 'domain = "shop"\n')
    shop.commit("none")
    assert run(shop, *shell(WRITES), *GREEN)["disposition"] == "admitted"


def budgets_only_tighten(shop: Shop) -> None:
    """A flag gives no more than the base grants; a smaller one is heeded."""
    shop.write(".savant/config.toml", 'domain = "shop"\n[budgets]\nretries = 1\n')
    shop.commit("a budget")
    red = ("--must-pass", "/bin/false")
    for flag, attempts in (("9", 2), ("0", 1)):
        ended = run(shop, *shell(WRITES), *red, "--retries", flag, code=30)
        assert len(said(shop, "show", ended["run"])["attempts"]) == attempts


# -- the ledger -------------------------------------------------------------------------------------------------------


def _found(shop: Shop, change: Callable[[sqlite3.Connection], object], check: str) -> None:
    """An admitted run; the change is found under the name of a check, and nothing is applied from that ledger."""
    ended = run(shop, *shell(WRITES), *GREEN)
    assert said(shop, "ledger", "verify")["outcome"] == "verified"
    tamper(shop, change)
    answer = said(shop, "ledger", "verify", code=23)
    assert check in [row["name"] for row in answer["checks"] if row["status"] == "fail"], answer["checks"]
    before = shop.state()
    denied = shop.savant("apply", ended["run"], "--new", "--format", "json")
    assert denied.code in {23, 43}, denied
    assert shop.state() == before


def removed_record(shop: Shop) -> None:
    """A record taken out of the middle breaks the chain."""
    _found(shop, lambda c: c.execute("DELETE FROM record WHERE seq = 7"), "chain")


def truncated_tail(shop: Shop) -> None:
    """Records cut from the end are missed by the saved head, though what is left is consistent."""

    def cut(connection: sqlite3.Connection) -> None:
        (size,) = connection.execute("SELECT count(*) FROM record").fetchone()
        connection.execute("DELETE FROM record WHERE seq >= ?", (size - 3,))
        connection.execute("DELETE FROM checkpoint WHERE size > ?", (size - 3,))

    _found(shop, cut, "head")


def swapped_key(shop: Shop) -> None:
    """A record that names another role's key for its signature does not verify."""

    def swap(connection: sqlite3.Connection) -> None:
        import json

        lines = [json.loads(row[0]) for row in connection.execute("SELECT line FROM record ORDER BY seq")]
        keys = [line["signatures"][0]["keyid"] for line in lines]
        seq = next(n for n, key in enumerate(keys) if n > 5 and key != keys[5])
        (raw,) = connection.execute("SELECT line FROM record WHERE seq = ?", (seq,)).fetchone()
        forged = bytes(raw).replace(keys[seq].encode(), keys[5].encode())
        assert forged != bytes(raw)
        connection.execute("UPDATE record SET line = ? WHERE seq = ?", (forged, seq))

    _found(shop, swap, "signatures")


def moved_verdict(shop: Shop) -> None:
    """A whole admission record of one run, put in the place of another's, is at the wrong place."""
    run(shop, *shell("echo y >> README.txt"), *GREEN)
    decided = [r["seq"] for r in records(shop) if r["kind"] == "savant.admission.decision/v1"]

    def move(connection: sqlite3.Connection) -> None:
        seqs = [r["seq"] for r in records(shop) if r["kind"] == "savant.admission.decision/v1"]
        (line,) = connection.execute("SELECT line FROM record WHERE seq = ?", (decided[0],)).fetchone()
        connection.execute("UPDATE record SET line = X'00' WHERE seq = ?", (decided[0],))
        connection.execute("UPDATE record SET line = ? WHERE seq = ?", (line, seqs[-1]))

    _found(shop, move, "chain")


def foreign_ledger(shop: Shop) -> None:
    """Somebody else's whole and intact ledger in the place of the pinned one is refused; its own is not."""
    ended = run(shop, *shell(WRITES), *GREEN)
    place = shop.path / ".git" / "savant"
    kept = shop.root / "kept"
    place.rename(kept)
    other = shop.root / "other"
    git(shop.root, "clone", "-q", "--no-hardlinks", str(shop.path), str(other))
    foreign_run = shop.savant("run", "Change", *shell(WRITES), *GREEN, "--repo", str(other), repo=False)
    assert foreign_run.code == 0, foreign_run
    shutil.copytree(other / ".git" / "savant", place)
    before = shop.state()
    assert said(shop, "ledger", "verify", code=23)["outcome"] == "failed"
    assert shop.savant("apply", "latest", "--new").code in {23, 43}
    denied = shop.run("Change", *shell(WRITES), *GREEN)
    assert denied.code in {23, 43}, denied
    assert shop.state() == before
    shutil.rmtree(place)
    kept.rename(place)
    assert said(shop, "apply", ended["run"], "--new")["verification"] == "scope-compliant"


def shared_key(shop: Shop) -> None:
    """One key for two roles is refused when the ledger is begun: nobody can sign another's verdict."""
    shop.uncontained()
    marker = shop.root / "called"
    before = shop.state()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SystemEntropy, "token", lambda self, size_bytes: b"\1" * size_bytes)
        denied = shop.run("Change", *shell(f"touch {marker}"), *GREEN)
    assert (denied.code, denied.json["code"]) == (22, "refused.shared-key"), denied
    assert not marker.exists()
    assert shop.state() == before
    assert run(shop, *shell(WRITES), *GREEN)["disposition"] == "admitted"


def unwritable_ledger(shop: Shop) -> None:
    """A ledger that refuses a record stops the run under enforce before the call, and is only counted under record."""
    shop.uncontained()
    run(shop, *shell(WRITES), *GREEN)
    marker = shop.root / "called"

    def fails(self: object, *given: object, **named: object) -> None:
        raise PortError("port.disk", "The disk is full.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "append", fails)
        denied = shop.run("Change", *shell(f"touch {marker}; {WRITES}"), *GREEN)
        assert (denied.code, denied.json["code"]) == (42, "port.disk"), denied
        assert not marker.exists()
        counted = run(shop, *shell(f"touch {marker}; {WRITES}"), *GREEN, "--ledger-mode", "record")
        assert marker.exists()
        assert counted["failed_appends"] > 20
    assert run(shop, *shell(WRITES), *GREEN)["failed_appends"] == 0


def no_credit_for_a_failing_evaluator(shop: Shop) -> None:
    """An optional check that cannot run discharges nothing and counts as no required check; one that runs does."""
    config = 'domain = "shop"\n[[check]]\nid = "proof"\ncommand = "{}"\nrequired = {}\n'
    record = '[[record]]\nid = "p"\nkind = "proof-obligation"\ntext = "It is proven."\nevidence = "proof"\n'
    shop.write(".savant/records/p.toml", record)
    for command, required, expected in (
        ("no-such-tool", "false", (30, "retry-budget-exhausted")),
        ("/bin/false", "false", (30, "retry-budget-exhausted")),
        ("/bin/true", "true", (0, "candidate-ready-for-admission")),
    ):
        shop.write(".savant/config.toml", config.format(command, required))
        shop.commit(command)
        said(shop, "trust", said(shop, "trust")["policy"])
        ended = run(shop, *shell(WRITES), *GREEN, "--retries", "0", code=expected[0])
        assert ended["reason"] == expected[1]
    assert len([r for r in records(shop) if r["kind"] == "savant.synthesis.proof-discharge/v1"]) == 1


ESCAPES = """
child = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True, stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
open({pid!r}, "w").write(str(child.pid))
write("new.txt", "x")
"""


def escaped_process(shop: Shop) -> None:
    """A background process in a session of its own is ended with its provider, and the record says so."""
    shop.uncontained()
    pid = shop.root / "pid"
    ended = run(shop, *foreign(ESCAPES.format(pid=str(pid))), *GREEN)
    assert ended["disposition"] == "admitted"
    for _ in range(500):
        if is_gone(int(pid.read_text())):
            break
        time.sleep(0.01)
    assert is_gone(int(pid.read_text()))
    details = [r["detail"] or "" for r in records(shop) if r["kind"] == "savant.providerport.receipt/v1"]
    assert [detail for detail in details if "had to be ended" in detail] == ["1 processes had to be ended"]
    run(shop, *foreign("write('new.txt', 'x')"), *GREEN)
    after = [r["detail"] or "" for r in records(shop) if r["kind"] == "savant.providerport.receipt/v1"]
    assert sum("had to be ended" in detail for detail in after) == 1


ONLY_WHEN_TOLD = """
told = [f for f in (request["prior"] or {}).get("findings", []) if f["check"].startswith("grep")]
write("README.txt", "fine\\n" if %s else "red\\n")
"""


def retry_holds_the_findings(shop: Shop) -> None:
    """A provider that only does it right when its request holds the finding passes; one that does not look fails."""
    check = ("--must-pass", "grep -q fine README.txt")
    heeding = run(shop, *foreign(ONLY_WHEN_TOLD % "told"), *check)
    assert heeding["disposition"] == "admitted"
    assert len(said(shop, "show", heeding["run"])["attempts"]) == 2
    deaf = run(shop, *foreign(ONLY_WHEN_TOLD % "not request['prior'] and False"), *check, code=30)
    assert deaf["reason"] == "retry-budget-exhausted"


def every_kind_round_trips(shop: Shop) -> None:
    """Create, modify, delete, rename, copy, mode, link and type changes are applied and undone to the byte."""
    from savant.repository.worktree import observe_tree

    for name in ("changed", "deleted", "renamed", "copied", "mode", "was-file"):
        shop.write(name, f"{name} is here, and long enough to be known again\n")
    (shop.path / "was-link").symlink_to("copied")
    shop.commit("kinds")
    script = (
        "echo x > created; echo x > changed; rm deleted; mkdir moved; mv renamed moved/; cp copied copy; "
        "chmod +x mode; ln -s copied link; rm was-file; ln -s copied was-file; rm was-link; echo x > was-link"
    )
    rules(shop, new_links="allow", new_executables="allow")
    ended = run(shop, *shell(script), *GREEN)
    kinds = {o["path"]: o["kind"] for o in said(shop, "show", ended["run"])["candidate"]["operations"]}
    assert set(kinds.values()) == {
        "create",
        "modify",
        "delete",
        "rename",
        "copy",
        "mode-change",
        "symlink-change",
        "type-change",
    }
    target = shop.root / "target"
    assert said(shop, "apply", ended["run"], str(target))["verification"] == "scope-compliant"
    assert (target / "moved/renamed").is_file()
    assert (target / "was-file").is_symlink()
    said(shop, "undo", str(target))
    assert observe_tree(target) == observe_tree(shop.path)
    refused(shop, run(shop, *shell("true"), *GREEN, code=30)["run"], code=24, name="unverifiable.run-incomplete")


def target_in_use(shop: Shop) -> None:
    """A target is consumed by one application, the checkout is none, and nothing is applied without being told to."""
    ended = run(shop, *shell(WRITES), *GREEN)
    before = shop.state()
    assert said(shop, "apply", ended["run"], code=2)["code"] == "usage.apply-target"
    inside = said(shop, "apply", ended["run"], str(shop.path), code=50)
    assert inside["code"] == "refused.apply-invoking-checkout"
    assert shop.state() == before
    target = str(shop.root / "target")
    said(shop, "apply", ended["run"], target)
    assert said(shop, "apply", ended["run"], target, code=50)["code"] == "conflict.apply-consumed"
    said(shop, "undo", target)
    assert said(shop, "apply", ended["run"], target)["verification"] == "scope-compliant"
    assert Path(target).is_dir()


def breakers_trip_at_their_limit(shop: Shop) -> None:
    """Two calls leave too little of tokens, money or time for a third: it is not made; with one unit more it is."""
    shop.uncontained()
    person = shop.root / "home/config/config.toml"
    person.parent.mkdir(parents=True, exist_ok=True)
    person.write_text('[prices."recipe"]\ninput_per_mtok = "0.05"\noutput_per_mtok = "0.10"\n')
    one_call = "call_tokens_in = 60\ncall_tokens_out = 40\n"
    describe, execute, monotonic = RecipeProvider.describe, RecipeProvider.execute, SystemClock.monotonic_ms
    passed_ms, call_ms = 0, 0

    def reporting(self: RecipeProvider) -> Capabilities:
        return structs.replace(describe(self), reports_usage=True)

    def costly(self: RecipeProvider, call: Call) -> Result:
        nonlocal passed_ms
        passed_ms += call_ms
        call.observer.usage(Usage(60, 40, 7))
        return execute(self, call)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecipeProvider, "describe", reporting)
        patch.setattr(RecipeProvider, "execute", costly)
        patch.setattr(SystemClock, "monotonic_ms", lambda self: monotonic(self) + passed_ms)
        for budget, each_ms, reason in (
            ("tokens = 299", 0, "token-budget-exhausted"),
            ("tokens = 300", 0, None),
            ("cost_microunits = 20", 0, "cost-budget-exhausted"),
            ("cost_microunits = 21", 0, None),
            ("wall_clock_minutes = 1", 30_000, "wall-clock-exhausted"),
            ("wall_clock_minutes = 1", 20_000, None),
        ):
            call_ms = each_ms
            shop.write(".savant/config.toml", f'domain = "shop"\n[budgets]\n{one_call}{budget}  # {each_ms}\n')
            shop.commit(budget)
            ended = run(shop, *shell(WRITES), *GREEN, code=30 if reason else 0)
            assert ended["reason"] == (reason or "candidate-ready-for-admission")
            made = [call["operation"] for call in said(shop, "show", ended["run"])["calls"]]
            assert made == ["interpretation", "planning", "generation"][: 2 if reason else 3]
