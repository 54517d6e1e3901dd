"""Models look at a candidate that every check lets pass: they can stop it, and nothing they say lets one pass."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

import pytest

from tests.e2e.actingkit import HONEST, provider
from tests.e2e.conftest import Shop

AUDITOR = """\
import json, sys
asked = json.load(sys.stdin)
answer = json.loads(sys.argv[1])
if "say" in answer:
    sys.exit(sys.stdout.write(answer["say"]) and 0)
print(json.dumps({"wire": "savant.wire/v1", "request_digest": asked["request_digest"], "audit": answer}))
"""
"""A model that says what it was told to say."""

CITED = {"path": "shop/totals.py", "line": 2, "text": "return 2 * amount"}


PASSED = ("admitted", "candidate-ready-for-admission")


def found(severity: str = "blocking", id_: str = "doubled", **cited: Any) -> dict[str, Any]:
    """A report with one finding about the line that was changed."""
    finding = {"id": id_, "severity": severity, "text": "It doubles.", "citations": [{**CITED, **cited}]}
    return {"findings": [finding]}


def examined(verdict: str, **more: Any) -> dict[str, Any]:
    return {"verdicts": [{"finding": "doubled", "verdict": verdict, **more}]}


def flags(audit: dict[str, Any], adversary: dict[str, Any] | None = None) -> tuple[str, ...]:
    """The flags of an audit whose models answer so."""
    named = ["--audit-provider", _command(audit)]
    return (*named, *(() if adversary is None else ("--adversary-provider", _command(adversary))))


def _command(answer: dict[str, Any]) -> str:
    return f"{sys.executable} -I -c {shlex.quote(AUDITOR)} {shlex.quote(json.dumps(answer))}"


def run(shop: Shop, *more: str, code: str = HONEST, check: str = "/bin/true") -> Any:
    generator = provider({"write": {"shop/totals.py": code}}, declares=False)
    return shop.run("double it", *generator, "--must-pass", check, "--retries", "0", *more)


def ended(shop: Shop, *more: str, **how: Any) -> tuple[str, str | None]:
    """How a run ended and why; its record is decided again and comes out the same."""
    told = run(shop, *more, **how)
    assert told.out, told.err
    document = told.json
    again = shop.savant("replay", document["run"], "--format", "json")
    assert again.code == 0, again.out
    return document["disposition"], document["reason"]


@pytest.mark.parametrize(
    ("audit", "adversary", "expected"),
    [
        pytest.param({}, None, PASSED, id="nothing found"),
        pytest.param(found(), None, ("terminal-failure", "retry-budget-exhausted"), id="shown"),
        pytest.param(found("minor"), None, PASSED, id="minor"),
        pytest.param(found("major"), None, ("terminal-failure", "architect-review-required"), id="major"),
        pytest.param(
            found(text="return 0"), None, ("terminal-failure", "architect-review-required"), id="not what stands there"
        ),
        pytest.param(found(), examined("confirmed"), ("terminal-failure", "retry-budget-exhausted"), id="confirmed"),
        pytest.param(found(), examined("refuted"), PASSED, id="refuted"),
        pytest.param(found(), examined("adjusted", severity="minor"), PASSED, id="adjusted"),
        pytest.param(found(), {}, ("terminal-failure", "architect-review-required"), id="nobody confirmed"),
        pytest.param({}, found(), ("terminal-failure", "architect-review-required"), id="an omission"),
    ],
)
def test_what_is_said_and_can_be_seen_decides(
    shop: Shop, audit: dict[str, Any], adversary: dict[str, Any] | None, expected: tuple[str, str]
) -> None:
    """Each outcome from the words and the lines they cite; every record is decided again."""
    assert ended(shop, *flags(audit, adversary)) == expected


@pytest.mark.parametrize(
    "audit",
    [
        pytest.param({"say": "I approve."}, id="prose"),
        pytest.param({"findings": [], "recommendation": "accept"}, id="a verdict of its own"),
        pytest.param({"findings": [*found()["findings"], *found()["findings"]]}, id="one id twice"),
        pytest.param(examined("refuted"), id="a verdict about nothing"),
    ],
)
def test_an_audit_that_cannot_be_read_is_unavailable_and_never_passes(shop: Shop, audit: dict[str, Any]) -> None:
    """A required one stops the run as a check that did not run does; an optional one is told and decides nothing."""
    stopped = run(shop, *flags(audit)).json
    assert stopped["disposition"] == "terminal-failure"
    assert stopped["reason"] == "evaluator-unavailable"
    assert ended(shop, *flags(audit), "--audit-optional") == PASSED


def test_an_optional_audit_stops_nothing_and_is_shown(shop: Shop) -> None:
    """The finding is in what a person reads."""
    told = run(shop, *flags(found()), "--audit-optional")
    assert told.json["disposition"] == "admitted"
    shown = shop.savant("show", told.json["run"])
    assert "reviewer's finding doubled (blocking)" in shown.out


def test_nobody_is_asked_about_what_a_check_stops(shop: Shop) -> None:
    """An auditor that would let it pass is not called: no call of an audit is recorded."""
    told = run(shop, *flags({}), check="/bin/false").json
    assert told["disposition"] == "terminal-failure"
    kinds = [line["kind"] for line in shop.savant("ledger", "log", "--format", "json").json["records"]]
    assert "savant.evaluator.audit/v1" not in kinds
    assert kinds.count("savant.providerport.receipt/v1") == 3


def test_the_finding_reaches_the_next_attempt(shop: Shop) -> None:
    """What counts against a candidate is told to whoever makes the next one."""
    generator = provider({"write": {"shop/totals.py": HONEST}}, declares=False)
    told = shop.run("double it", *generator, "--must-pass", "/bin/true", "--retries", "1", *flags(found())).json
    assert told["disposition"] == "terminal-failure"
    records = shop.savant("ledger", "log", "--format", "json").json["records"]
    requests = [line for line in records if line["kind"] == "savant.providerport.request/v1"]
    bodies = [shop.savant("ledger", "show", str(line["seq"]), "--format", "json").out for line in requests]
    assert any("It doubles." in body and '"generation"' in body for body in bodies)


def test_a_budget_that_forbids_the_audit_makes_it_unavailable(shop: Shop) -> None:
    """The session is not ended by a call that was never made; with one call more, the audit is made."""
    assert run(shop, *flags({}), "--calls", "3").json["reason"] == "evaluator-unavailable"
    assert run(shop, *flags({}), "--calls", "4").json["disposition"] == "admitted"


@pytest.mark.parametrize(
    "words",
    [
        ("--adversary-provider", "/bin/true"),
        ("--audit-optional",),
        ("--audit-provider", "/bin/true", "--audit-agent", "claude"),
        ("--audit-provider", "/bin/true", "--record-cassette", "tape"),
    ],
)
def test_flags_that_do_not_fit_are_refused(shop: Shop, words: tuple[str, ...]) -> None:
    """Nothing is called and nothing is written; the same run without them is made."""
    refused = run(shop, *words)
    assert refused.code == 2
    assert "usage.audit" in refused.err + refused.out
    assert run(shop).json["disposition"] == "admitted"
