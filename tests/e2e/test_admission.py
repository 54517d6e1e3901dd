"""Admission through the commands: staged rules, exceptions that end, a floor, owners; each run replays."""

from __future__ import annotations

import codecs
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from admission.policy import policy_toml, starter_policy
from savant.cli import cmd_admit
from savant.contracts.digest import digest
from savant.ledger.sshkey import PublicKey
from tests.e2e.conftest import Ended, Shop
from tests.e2e.test_people import make_key
from tests.matrix.shell import foreign

EXECUTABLE = "/bin/sh -c 'cp README.txt tool && chmod 755 tool'"
EXCEPTION = '[[exception]]\nid = "tools"\nrule = "new-executables"\npatterns = ["tool"]\nreason = "Ours."\n'


def policy(shop: Shop, text: str, *, before: str = "") -> None:
    """Commit the starter policy with more tables after it, or keys before it."""
    own = policy_toml(starter_policy())
    for line in before.splitlines():
        key = line.partition(" =")[0]
        own = "\n".join(row for row in own.splitlines() if not row.startswith(f"{key} ="))
    shop.write(".savant/policy.toml", f"{before}\n{own}\n{text}")
    shop.commit("policy")


def change(shop: Shop, *more: str, recipe: str = EXECUTABLE) -> Ended:
    """A run that makes a file executable, or does what else is said, under one check that passes."""
    return shop.run("Change it", "--recipe", recipe, "--must-pass", "/bin/true", *more)


def admitted(shop: Shop, run: str, *more: str) -> dict[str, Any]:
    """What ``admit`` says, and that the run replays."""
    ended = shop.savant("admit", run, "--format", "json", *more)
    assert shop.savant("replay", run).code == 0, "the run does not replay"
    return ended.json


def test_a_rule_is_staged_from_audit_to_enforce(shop: Shop) -> None:
    """Recorded, then said, then asked about; the decision shows each."""
    for stage, code in (("audit", 0), ("warn", 0), ("enforce", 10)):
        policy(shop, f'[enforcement]\nnew-executables = "{stage}"\n')
        ended = change(shop)
        assert ended.code == code, ended.out
        said = admitted(shop, ended.json["run"])
        observed = [
            {"rule": "new-executables", "code": "admission.ask.new-executable", "enforcement": stage, "paths": ["tool"]}
        ]
        assert said["observed"] == ([] if stage == "enforce" else observed)
        text = shop.savant("admit", ended.json["run"], "--explain").out
        assert ("only warns: It adds an executable file. (tool)" in text) == (stage == "warn")
        assert ("audited" in text) == (stage == "audit")


def test_an_exception_holds_until_its_day(shop: Shop) -> None:
    """On that day, not on the next; admit can look from another day, and what was signed then is stale."""
    policy(shop, EXCEPTION + "expires = 2026-03-31\n")
    held = change(shop, "--as-of", "2026-03-31")
    assert held.json["disposition"] == "admitted"
    assert admitted(shop, held.json["run"])["as_of"] == "2026-03-31"
    run = change(shop, "--as-of", "2026-04-01").json["run"]
    assert admitted(shop, run)["outcome"] == "waiting"
    key, _ = make_key(shop, 1)
    assert shop.savant("acknowledge", "new-executables", run, "--key", str(key)).code == 0
    assert admitted(shop, run)["outcome"] == "admitted-with-conditions"
    assert admitted(shop, run, "--as-of", "2026-03-01")["outcome"] == "admitted"
    later = admitted(shop, run, "--as-of", "2026-05-01")
    assert [reason["code"] for reason in later["reasons"]] == ["admission.acknowledgement.stale"]
    assert shop.savant("acknowledge", "new-executables", run, "--key", str(key)).code == 0
    assert admitted(shop, run)["outcome"] == "admitted-with-conditions"


def test_a_day_is_a_day_of_the_calendar(shop: Shop) -> None:
    """Anything else is a usage error, before anything is called."""
    for day in ("2026-02-30", "tomorrow", "20260301"):
        ended = shop.run("Change it", "--recipe", "/bin/true", "--as-of", day)
        assert ended.code == 2
        assert day in ended.out + ended.err


def test_what_cannot_expire_names_no_day(shop: Shop) -> None:
    """So that the same work has the same request whenever it is decided."""
    policy(shop, EXCEPTION)
    digests = set()
    for day in ("2026-01-01", "2027-01-01"):
        run = change(shop, "--as-of", day).json["run"]
        said = admitted(shop, run)
        assert said["as_of"] is None
        digests.add(said["decision"])
    assert len(digests) == 1


def test_a_floor_is_only_tightened(shop: Shop) -> None:
    """Its rules decide; a looser key, or another file than the pinned one, stops the run by name."""
    floor = 'new_executables = "refuse"\n'
    shop.write(".savant/floor.toml", floor)
    line = f'extends = {{ bundle = ".savant/floor.toml", digest = "{digest(floor.encode())}" }}\n'
    shop.write(".savant/policy.toml", line)
    shop.commit("floor")
    ended = change(shop)
    assert ended.json["disposition"] == "admission-refused"
    said = admitted(shop, ended.json["run"])
    assert [reason["code"] for reason in said["reasons"]] == ["admission.executable.refused"]
    shop.write(".savant/policy.toml", line + 'new_executables = "ask"\n')
    shop.commit("looser")
    loose = change(shop)
    assert (loose.json["code"], "new_executables is 'ask', looser than the floor's 'refuse'" in loose.out) == (
        "refused.policy",
        True,
    )
    shop.write(".savant/policy.toml", line)
    shop.write(".savant/floor.toml", floor + "# another one\n")
    shop.commit("swapped")
    assert "extends.digest" in change(shop).out


def owned(shop: Shop, **people: PublicKey) -> None:
    """Owners, people and a policy that asks for them."""
    shop.write(".github/CODEOWNERS", "/shop/ @org/shopkeepers\n*.txt @ada\n")
    rows = (
        f'[[person]]\nhandle = "{name}"\nteams = ["{"shopkeepers" if name == "grace" else "others"}"]\n'
        f'keys = ["{key.line}"]\n'
        for name, key in people.items()
    )
    shop.write(".savant/people.toml", "\n".join(rows))
    policy(shop, "", before='codeowners = "ask"')


def test_the_owners_of_a_path_must_have_seen_it(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of them, by their own key; not another person, and never the requester."""
    (ada, ada_key), (grace, grace_key) = make_key(shop, 1), make_key(shop, 2)
    owned(shop, ada=ada_key, grace=grace_key)
    name = "required-reviewers:@org/shopkeepers"
    recipe = "/bin/sh -c 'echo \"# more\" >> shop/totals.py'"
    run = change(shop, "--requester", "ada", recipe=recipe).json["run"]
    (condition,) = admitted(shop, run)["conditions"]
    assert (condition["id"], condition["reviewers"], condition["code"]) == (name, ["grace"], "admission.ask.owners")
    wrong = shop.savant("acknowledge", name, run, "--key", str(ada), "--format", "json")
    assert (wrong.code, wrong.json["code"]) == (2, "usage.acknowledger")
    assert "grace" in wrong.out
    with monkeypatch.context() as patched:  # somebody else's tool, that does not look before it signs
        patched.setattr(cmd_admit, "verify_reviewer", lambda *_: None)
        assert shop.savant("acknowledge", name, run, "--key", str(ada)).code == 0
    said = admitted(shop, run)
    assert [reason["code"] for reason in said["reasons"]] == ["admission.acknowledgement.self"]
    other = change(shop, "--requester", "Bob", recipe=recipe).json["run"]
    with monkeypatch.context() as patched:
        patched.setattr(cmd_admit, "verify_reviewer", lambda *_: None)
        assert shop.savant("acknowledge", name, other, "--key", str(ada)).code == 0
    said = admitted(shop, other)
    assert [reason["code"] for reason in said["reasons"]] == ["admission.acknowledgement.not-a-reviewer"]
    assert shop.savant("acknowledge", name, run, "--key", str(grace)).code == 0
    assert admitted(shop, run)["outcome"] == "admitted-with-conditions"


def test_an_owner_for_whom_nobody_stands_is_waited_for(shop: Shop) -> None:
    """The words say what is missing; another path, that nobody owns, is admitted."""
    (_, key), (grace, _) = make_key(shop, 1), make_key(shop, 2)
    owned(shop, ada=key)
    run = change(shop, "--requester", "Bob", recipe="/bin/sh -c 'echo x >> shop/totals.py'").json["run"]
    text = shop.savant("admit", run).out
    assert "Nobody in .savant/people.toml" in text
    ended = shop.savant("acknowledge", "required-reviewers:@org/shopkeepers", run, "--key", str(grace), "--by", "grace")
    assert ended.code == 2
    assert change(shop, "--requester", "Bob", recipe="/bin/cp README.txt new.md").json["disposition"] == "admitted"


def test_wrong_owners_stop_a_run_only_where_they_are_asked(shop: Shop) -> None:
    """By file and line."""
    owned(shop, ada=make_key(shop, 1)[1])
    shop.write(".github/CODEOWNERS", "* @ada\n*.py ada\n")
    shop.commit("wrong")
    ended = change(shop, "--requester", "Bob")
    assert (ended.json["code"], ".github/CODEOWNERS at the base: line 2" in ended.out) == ("refused.codeowners", True)
    policy(shop, "")
    assert json.loads(change(shop).out)["disposition"] == "waiting"


def test_the_words_of_the_starter_are_not_more_than_its_file(shop: Shop) -> None:
    """A committed starter decides as the built-in one."""
    before = change(shop)
    policy(shop, "")
    after = change(shop)
    assert (
        (before.code, before.json["conditions"]) == (after.code, after.json["conditions"]) == (10, ["new-executables"])
    )
    assert Path(shop.path, ".savant/policy.toml").exists()


def beside(*paths: str) -> tuple[str, ...]:
    """A provider that promises README.txt, and writes these paths: as many attempts and plans as it is asked for."""
    edits = [{"op": "write", "path": path, "text": "x"} for path in paths]
    program = f'plan("README.txt") if request["operation"] == "planning" else answer(generation={{"edits": {edits!r}}})'
    return foreign(program, "planning", "generation")


def test_a_promise_is_widened_once_if_a_person_agrees(shop: Shop) -> None:
    """By exactly what was written beside it; without the policy's leave the work is planned again instead."""
    once = ("--must-pass", "/bin/true", "--retries", "0", "--replans", "0")
    assert shop.run("Change it", *beside("README.txt", "other.txt"), *once).json["disposition"] == "terminal-failure"
    policy(shop, "", before='amendment = "ask"')
    ended = shop.run("Change it", *beside("README.txt", "other.txt"), *once)
    assert (ended.code, ended.json["conditions"]) == (10, ["amendment"]), ended.out
    (condition,) = admitted(shop, ended.json["run"])["conditions"]
    assert condition["paths"] == ["other.txt"]
    key, _ = make_key(shop, 1)
    assert shop.savant("acknowledge", "amendment", ended.json["run"], "--key", str(key)).code == 0
    assert admitted(shop, ended.json["run"])["outcome"] == "admitted-with-conditions"
    assert shop.run("Change it", *beside("README.txt"), *once).json["disposition"] == "admitted"


def test_a_promise_is_not_widened_over_the_rules_or_the_task(shop: Shop) -> None:
    """What the policy refuses, and what the person did not ask for, is planned again."""
    once = ("--must-pass", "/bin/true", "--retries", "0", "--replans", "0")
    rule = '[[refuse]]\nid = "own"\npatterns = ["secret/**"]\nreason = "Mine."\n'
    policy(shop, rule, before='amendment = "ask"')
    for paths, more in ((("secret/a.txt",), ()), (("other.txt",), ("--scope", "README.txt"))):
        ended = shop.run("Change it", *beside("README.txt", *paths), *once, *more)
        assert (ended.json["disposition"], ended.json["reason"]) == ("terminal-failure", "replan-budget-exhausted")
        assert shop.savant("replay", ended.json["run"]).code == 0


def test_a_declared_change_of_what_judges_is_asked_about(shop: Shop) -> None:
    """By the rule that asks about tests, else by custody; a new test is free."""
    shop.write("tests/test_shop.py", "def test_shop(): pass\n")
    shop.commit("tests")
    edit = "/bin/sh -c 'echo \"# looser\" >> tests/test_shop.py'"
    assert change(shop, recipe=edit).json["conditions"] == ["existing-tests"]
    shop.write(".savant/policy.toml", "")
    shop.commit("no rule asks")
    ended = change(shop, recipe=edit)
    assert ended.json["conditions"] == ["custody"]
    (condition,) = admitted(shop, ended.json["run"])["conditions"]
    assert condition["paths"] == ["tests/test_shop.py"]
    assert change(shop, recipe="/bin/cp README.txt tests/test_new.py").json["disposition"] == "admitted"


KEY = 'TOKEN = "ghp_' + 'k3Jx9Qw7Zr2Lm5Vt8Bn4Ca6Df1Gh0Sp2Yu7"'
"""A line that looks like a credential; it is none. The recipe holds it turned, so that only the file says it."""

_TURNED = shlex.quote(codecs.encode(KEY, "rot13"))
_TURNS_BACK = f"echo {_TURNED} | tr A-Za-z N-ZA-Mn-za-m >> shop/totals.py"
ADDS_KEY = f"/bin/sh -c {shlex.quote(_TURNS_BACK)}"


def test_a_secret_is_never_admitted(shop: Shop) -> None:
    """The evaluator has it mended; where that is optional, admission refuses it, and no output holds its value."""
    once = ("--retries", "0", "--replans", "0")
    first = change(shop, *once, recipe=ADDS_KEY)
    assert first.json["disposition"] == "terminal-failure"
    shop.write(".savant/config.toml", 'domain = "example.org/shop"\n[judge.secrets]\nrequired = false\n')
    shop.commit("optional")
    ended = change(shop, recipe=ADDS_KEY)
    assert ended.json["disposition"] == "admission-refused"
    said = shop.savant("admit", ended.json["run"], "--format", "json")
    assert [(reason["code"], reason["path"]) for reason in said.json["reasons"]] == [
        ("admission.secret.refused", "shop/totals.py")
    ]
    for output in (first, ended, said, shop.savant("show", ended.json["run"])):
        assert KEY[9:] not in output.out + output.err
    assert shop.savant("replay", ended.json["run"]).code == 0


def test_a_known_secret_is_none(shop: Shop) -> None:
    """In paths that the project's configuration names, or that the policy makes an exception of."""
    shop.write(".savant/config.toml", 'domain = "example.org/shop"\n[judge.secrets]\nallow = ["shop/totals.py"]\n')
    shop.commit("known")
    ended = change(shop, recipe=ADDS_KEY)
    assert ended.json.get("disposition") == "admitted", ended.out
    assert shop.savant("replay", ended.json["run"]).code == 0
    shop.write(".savant/config.toml", 'domain = "example.org/shop"\n[judge.secrets]\nrequired = false\n')
    policy(shop, '[[exception]]\nid = "keys"\nrule = "secrets"\npatterns = ["shop/**"]\nreason = "Test keys."\n')
    assert change(shop, recipe=ADDS_KEY).json["disposition"] == "admitted"
