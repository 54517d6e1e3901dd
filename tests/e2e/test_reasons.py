"""Every outcome, reason and condition of admission is reached through the commands, and each such run replays.

The census at the end compares what was reached with the tables of the code: a new code without a way to it fails there.
Where a code is a second line of defence (something before admission refuses the same), that first line is taken away in
this process; each such case says which.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
from msgspec import structs

from admission.codes import CONDITIONS, REASONS
from admission.documents import Exemption, Outcome
from admission.policy import policy_toml, starter_policy
from savant.cli import cmd_admit
from tests.e2e.conftest import Shop, git
from tests.e2e.test_people import make_key
from tests.matrix.shell import foreign

Patch = pytest.MonkeyPatch
Case = Callable[[Shop, Patch], str]
"""Makes a run whose decision holds the code; its id."""

GREEN = ("--must-pass", "/bin/true")
CASES: dict[str, Case] = {}
REPLAYS_NOT: set[str] = set()
"""Codes whose runs cannot replay, because what they rest on is gone."""


def reaches(code: str, *, replays: bool = True) -> Callable[[Case], Case]:
    """Register the way to a code."""

    def register(case: Case) -> Case:
        CASES[code] = case
        if not replays:
            REPLAYS_NOT.add(code)
        return case

    return register


def rules(shop: Shop, **changes: Any) -> None:
    """Commit the starter with these members changed."""
    shop.write(".savant/policy.toml", policy_toml(structs.replace(starter_policy(), **changes)))
    shop.commit("rules")


def run(shop: Shop, script: str, *more: str, checks: tuple[str, ...] = GREEN) -> str:
    """A run of a recipe of one shell command; its id."""
    ended = shop.run("Change it", "--recipe", f"/bin/sh -c {shlex.quote(script)}", *checks, *more)
    assert "run" in ended.json, ended.out
    return str(ended.json["run"])


def imported(shop: Shop, *paths: str, text: str = "x\n") -> str:
    """A run that imports a commit which wrote these paths: nothing was promised. Its id."""
    for path in paths:
        shop.write(path, text)
    return imports(shop, shop.commit("a change"))


def imports(shop: Shop, commit: str) -> str:
    """A run that imports the last commit; its id."""
    git(shop.path, "reset", "-q", "--hard", f"{commit}^")
    ended = shop.run("Take it", "--from-commit", f"{commit}^..{commit}", *GREEN)
    assert "run" in ended.json, ended.out
    return str(ended.json["run"])


def acknowledged(shop: Shop, script: str, condition: str, *more: str) -> str:
    """A run with one condition that somebody acknowledged; its id."""
    key, _ = make_key(shop, 1)
    found = run(shop, script, *more)
    ended = shop.savant("acknowledge", condition, found, "--key", str(key))
    assert ended.code == 0, ended.err
    return found


BESIDE = foreign(
    'plan("README.txt") if request["operation"] == "planning" else answer(generation={"edits": ['
    '{"op": "write", "path": "README.txt", "text": "x"}, {"op": "write", "path": "beside.txt", "text": "x"}]})',
    "planning",
    "generation",
)
"""A provider that promises one file and writes another one beside it."""

LINK = "ln -s README.txt link"
WRITE = "echo x >> README.txt"
TOOL = "cp README.txt tool && chmod 755 tool"


@reaches("admission.within")
def within(shop: Shop, patch: Patch) -> str:
    return run(shop, WRITE)


@reaches("admission.lineage", replays=False)
def lineage(shop: Shop, patch: Patch) -> str:
    found = run(shop, "echo unusual >> README.txt")
    (blob,) = [
        place
        for place in (shop.path / ".git/savant/objects").rglob("*")
        if place.is_file() and place.read_bytes() == b"A shop.\nunusual\n"
    ]
    blob.chmod(0o600)
    blob.write_bytes(b"A shop.\nanother\n")
    return found


@reaches("admission.unreadable")
def unreadable(shop: Shop, patch: Patch) -> str:
    """Taken away: the day, which a run always has."""
    once = Exemption(id="e", rule="new-links", patterns=("x",), reason="r", expires="2026-01-01")
    rules(shop, exceptions=(once,))
    patch.setattr("savant.cli.cmd_run.today", lambda: None)
    return run(shop, WRITE)


@reaches("admission.scope.empty")
def empty(shop: Shop, patch: Patch) -> str:
    """Taken away: that the runner seals no candidate that is the base."""
    patch.setattr("runner.attempt._refusals", lambda *_: None)
    return run(shop, "true")


@reaches("admission.operation.unsupported")
def unsupported(shop: Shop, patch: Patch) -> str:
    head = git(shop.path, "rev-parse", "HEAD")
    git(shop.path, "update-index", "--add", "--cacheinfo", f"160000,{head},vendor")
    git(shop.path, "commit", "-q", "-m", "a submodule")
    git(shop.path, "update-index", "--cacheinfo", f"160000,{git(shop.path, 'rev-parse', 'HEAD')},vendor")
    git(shop.path, "commit", "-q", "-m", "moved")
    return imports(shop, git(shop.path, "rev-parse", "HEAD"))


@reaches("admission.scope.outside-promise")
def outside_promise(shop: Shop, patch: Patch) -> str:
    """Taken away: the evaluator of the scope, which would have the work planned again."""
    patch.setattr("evaluator.checks.scope.unpromised", lambda operations, promise: ())
    return run(shop, WRITE + "; echo x > other.txt", "--scope", "README.txt")


@reaches("admission.scope.outside-policy")
def outside_policy(shop: Shop, patch: Patch) -> str:
    rules(shop, allow=("shop/**",))
    return imported(shop, "other.txt")


@reaches("admission.scope.disguised-rules")
def disguised(shop: Shop, patch: Patch) -> str:
    return imported(shop, ".SAVANT/policy.toml")


@reaches("admission.scope.refused")
def refused(shop: Shop, patch: Patch) -> str:
    return imported(shop, ".savant/policy.toml")


@reaches("admission.limit.exceeded")
def limit(shop: Shop, patch: Patch) -> str:
    rules(shop, limits=structs.replace(starter_policy().limits, files_ask=1, files_refuse=1))
    return run(shop, WRITE + "; echo x > other.txt")


@reaches("admission.check.none")
def check_none(shop: Shop, patch: Patch) -> str:
    rules(shop, no_required_check="refuse")
    return run(shop, WRITE, checks=())


@reaches("admission.link.refused")
def link(shop: Shop, patch: Patch) -> str:
    rules(shop, new_links="refuse")
    return run(shop, LINK)


@reaches("admission.executable.refused")
def executable(shop: Shop, patch: Patch) -> str:
    rules(shop, new_executables="refuse")
    return run(shop, TOOL)


@reaches("admission.acknowledged")
def all_acknowledged(shop: Shop, patch: Patch) -> str:
    return acknowledged(shop, LINK, "new-links")


@reaches("admission.waiting")
def waiting(shop: Shop, patch: Patch) -> str:
    return run(shop, LINK)


@reaches("admission.acknowledgement.self")
def self_acknowledged(shop: Shop, patch: Patch) -> str:
    rules(shop, self_acknowledgement="refuse")
    _, public = make_key(shop, 1)
    return acknowledged(shop, LINK, "new-links", "--requester", public.keyid)


@reaches("admission.acknowledgement.stranger")
def stranger(shop: Shop, patch: Patch) -> str:
    """Taken away: the look at the list before somebody signs."""
    _, public = make_key(shop, 2)
    shop.write(".savant/people.toml", f'[[person]]\nhandle = "ada"\nkeys = ["{public.line}"]\n')
    shop.commit("people")
    patch.setattr(cmd_admit, "acknowledging_name", lambda people, public, by: "ada")
    return acknowledged(shop, LINK, "new-links")


@reaches("admission.acknowledgement.unknown")
def unknown(shop: Shop, patch: Patch) -> str:
    """Taken away: the look at the decision before somebody signs."""
    from admission.documents import AcknowledgementStatement

    def statement(decision: Any, condition: str, *, by: str, note: str = "") -> AcknowledgementStatement:
        return AcknowledgementStatement(
            decision_digest=decision.digest,
            condition=condition,
            candidate_digest=decision.document.candidate_digest,
            by=by,
            note=note,
        )

    patch.setattr("admission.acknowledge.statement_for", statement)
    return acknowledged(shop, LINK, "another")


@reaches("admission.acknowledgement.stale")
def stale(shop: Shop, patch: Patch) -> str:
    once = Exemption(id="e", rule="new-executables", patterns=("x",), reason="r", expires="2026-01-31")
    rules(shop, exceptions=(once,))
    found = acknowledged(shop, TOOL, "new-executables", "--as-of", "2026-01-01")
    assert shop.savant("admit", found, "--as-of", "2026-02-01").code == 20
    return found


@reaches("admission.acknowledgement.repeated")
def repeated(shop: Shop, patch: Patch) -> str:
    """Taken away: that the newest acknowledgement of a condition replaces the others; it counts twice instead."""
    from driver import chain

    newest = chain.acknowledgements_of
    patch.setattr(chain, "acknowledgements_of", lambda *given, **more: newest(*given, **more) * 2)
    patch.setattr("driver.replay_decisions.acknowledgements_of", chain.acknowledgements_of)
    return acknowledged(shop, LINK, "new-links")


def owned(shop: Shop, owner: str, *people: int) -> None:
    """Owners of everything, people, and a policy that asks."""
    shop.write("CODEOWNERS", f"* {owner}\n")
    rows = (f'[[person]]\nhandle = "p{n}"\nkeys = ["{make_key(shop, n)[1].line}"]\n' for n in people)
    shop.write(".savant/people.toml", "\n".join(rows))
    rules(shop, codeowners="ask")


@reaches("admission.ask.owners")
def owners(shop: Shop, patch: Patch) -> str:
    owned(shop, "@p2", 1, 2)
    return run(shop, WRITE, "--requester", "Bob")


@reaches("admission.acknowledgement.not-a-reviewer")
def not_a_reviewer(shop: Shop, patch: Patch) -> str:
    """Taken away: the look at the reviewers before somebody signs."""
    owned(shop, "@p2", 1, 2)
    patch.setattr(cmd_admit, "verify_reviewer", lambda *_: None)
    return acknowledged(shop, WRITE, "required-reviewers:@p2", "--requester", "Bob")


@reaches("admission.ask.path")
def ask_path(shop: Shop, patch: Patch) -> str:
    return run(shop, "echo x > Makefile")


@reaches("admission.ask.amendment")
def ask_amendment(shop: Shop, patch: Patch) -> str:
    rules(shop, amendment="ask")
    return str(shop.run("Change it", *BESIDE, *GREEN).json["run"])


@reaches("admission.ask.custody")
def ask_custody(shop: Shop, patch: Patch) -> str:
    shop.write("tests/test_shop.py", "def test_shop(): pass\n")
    rules(shop, ask=())
    return run(shop, "echo '# looser' >> tests/test_shop.py")


SECRET = "echo 'TOKEN = \"ghp_" + "k3Jx9Qw7Zr2Lm5Vt8Bn4Ca6Df1Gh0Sp2Yu7" + "\"' >> shop/totals.py"
"""A line that looks like a credential; it is none."""


def without_the_evaluator(patch: Patch) -> None:
    """Take away the check that would have the agent mend it."""
    from evaluator.compare import Case

    patch.setattr("evaluator.measuring.check_secrets", lambda *_: Case("passed"))


@reaches("admission.secret.refused")
def secret(shop: Shop, patch: Patch) -> str:
    """Taken away: the evaluator of secrets."""
    without_the_evaluator(patch)
    return run(shop, SECRET)


@reaches("admission.ask.secret")
def ask_secret(shop: Shop, patch: Patch) -> str:
    """Taken away: the evaluator of secrets."""
    without_the_evaluator(patch)
    rules(shop, secrets="ask")
    return run(shop, SECRET)


@reaches("admission.ask.companion")
def ask_companion(shop: Shop, patch: Patch) -> str:
    return run(shop, "echo '[project]' > pyproject.toml")


@reaches("admission.ask.limit")
def ask_limit(shop: Shop, patch: Patch) -> str:
    rules(shop, limits=structs.replace(starter_policy().limits, added_lines_ask=0))
    return run(shop, WRITE)


@reaches("admission.ask.no-required-check")
def ask_no_check(shop: Shop, patch: Patch) -> str:
    return run(shop, WRITE, checks=())


@reaches("admission.ask.new-link")
def ask_link(shop: Shop, patch: Patch) -> str:
    return run(shop, LINK)


@reaches("admission.ask.new-executable")
def ask_executable(shop: Shop, patch: Patch) -> str:
    return run(shop, TOOL)


def codes(said: dict[str, Any]) -> Iterator[str]:
    """The codes of what ``admit`` said: reasons and conditions."""
    yield from (row["code"] for row in (*said["reasons"], *said["conditions"]))


@pytest.mark.parametrize("code", sorted(CASES))
def test_a_code_is_reached_through_the_commands(code: str, shop: Shop, monkeypatch: Patch) -> None:
    """The decision names it, its exit code is the outcome's, and the run replays to the same."""
    found = CASES[code](shop, monkeypatch)
    ended = shop.savant("admit", found, "--format", "json")
    assert code in set(codes(ended.json)), ended.out
    expected = {"admitted": 0, "admitted-with-conditions": 0, "waiting": 10, "refused": 20, "uncertifiable": 21}
    assert ended.code == expected[ended.json["outcome"]]
    replayed = shop.savant("replay", found)
    assert (replayed.code == 0) == (code not in REPLAYS_NOT), replayed.out


OUTCOMES = {
    "admitted": "admission.within",
    "admitted-with-conditions": "admission.acknowledged",
    "waiting": "admission.waiting",
    "refused": "admission.link.refused",
    "uncertifiable": "admission.lineage",
}


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_every_outcome_is_reached(outcome: str, shop: Shop, monkeypatch: Patch) -> None:
    """By the case of a code that belongs to it."""
    found = CASES[OUTCOMES[outcome]](shop, monkeypatch)
    assert shop.savant("admit", found, "--format", "json").json["outcome"] == outcome


def test_every_code_of_the_tables_has_a_way_to_it() -> None:
    """And no way leads to a code that is none."""
    assert set(CASES) == {*REASONS, *CONDITIONS}
    assert set(OUTCOMES) == set(get_args(Outcome))
