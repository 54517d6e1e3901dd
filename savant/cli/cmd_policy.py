"""``policy show`` and ``policy test``: what is in force, and what a proposed policy would change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from savant.cli.exits import EXITS
from savant.cli.options import DAY, format_option, repository_option, today
from savant.cli.render import Output, short, table

if TYPE_CHECKING:
    from admission.documents import Decision, Policy
    from admission.floor import Written
    from driver.propose import Judged, Proposal
    from savant.repository.git import Repository

F = TypeVar("F", bound=Callable[..., Any])


def as_of_option(function: F) -> F:
    """``--as-of YYYY-MM-DD``: the day on which exceptions are judged; today by default."""
    words = "Judge exceptions as on this day (default: today, in UTC)."
    return click.option("--as-of", type=DAY, metavar="YYYY-MM-DD", help=words)(function)


@click.group("policy", help="Show the admission policy in force, or try a proposed one on what was judged.")
def policy() -> None:
    """The group."""


@policy.command("show", help="Show the policy in force at a base, and where each value comes from.")
@click.option("--base", default="HEAD", help="The revision whose policy is meant.")
@as_of_option
@repository_option
@format_option
def show(base: str, as_of: str | None, repo: str, format_: str) -> int:
    """Print keys, rules and exceptions."""
    from admission.facts import is_in_force
    from admission.policy import POLICY_FILE, read_written, starter_policy
    from admission.settings import rule_settings, settings
    from driver.prepare import file_at, policy_at
    from runner.snapshot import BaseSnapshot
    from savant.contracts.document import seal
    from savant.repository.git import Repository

    output = Output(as_json=format_ == "json")
    day = as_of or today()
    with Repository.discover(Path(repo).absolute()) as repository:
        snapshot = BaseSnapshot.take(repository, repository.resolve_commit(base), cache=None)
        raw = file_at(snapshot, POLICY_FILE)
        own: Written | None = None if raw is None else read_written(raw, POLICY_FILE)[0]
        found: Policy = starter_policy() if raw is None else policy_at(snapshot)
    digest = seal(found).digest
    keys, rules = list(settings(found, own)), list(rule_settings(found, own))
    extends = None
    if found.extends is not None:
        extends = {"bundle": found.extends.bundle, "digest": found.extends.bundle_digest}
    members: dict[str, Any] = {
        "policy": digest,
        "origin": found.origin,
        "extends": extends,
        "as_of": day,
        "settings": [{"key": s.key, "value": s.value, "origin": s.origin} for s in keys],
        "rules": [{"id": r.id, "effect": r.effect, "enforcement": r.enforcement, "origin": r.origin} for r in rules],
        "exceptions": [
            {
                "id": e.id,
                "rule": e.rule,
                "patterns": list(e.patterns),
                "reason": e.reason,
                "expires": e.expires,
                "in_force": is_in_force(e, day),
            }
            for e in found.exceptions
        ],
    }
    output.document("policy show", "ok", 0, members)
    if not output.as_json:
        where = "the built-in starter" if found.origin == "starter" else POLICY_FILE
        output.say(f"Policy {short(digest)}: {where}" + ("" if extends is None else f", on {extends['bundle']}"))
        output.say(*("  " + line for line in table((s.key, s.value, f"({s.origin})") for s in keys)))
        output.say("Rules:")
        output.say(*("  " + line for line in table((r.id, r.effect, r.enforcement, f"({r.origin})") for r in rules)))
        for exemption in found.exceptions:
            state = "in force" if is_in_force(exemption, day) else "ENDED"
            until = "" if exemption.expires is None else f" until {exemption.expires}"
            output.say(f"  exception {exemption.id} of {exemption.rule}: {state}{until}. {exemption.reason}")
    return 0


@policy.command("test", help="Judge what the ledger holds by a proposed policy; list the verdicts that flip.")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@as_of_option
@repository_option
@format_option
def test(file: str, as_of: str | None, repo: str, format_: str) -> int:
    """Print the flips: exit 0 when there are none, 13 when a person must look at them, 12 when it cannot be told."""
    from driver.history import read_runs
    from driver.propose import propose
    from runner.snapshot import BaseSnapshot
    from savant.cli.places import find_places
    from savant.cli.reading import read_repository_ledger
    from savant.contracts.document import seal
    from savant.contracts.errors import VerificationError
    from savant.repository.git import Repository

    output = Output(as_json=format_ == "json")
    with Repository.discover(Path(repo).absolute()) as repository:
        proposed = seal(_proposed(Path(file), repository))
        with read_repository_ledger(find_places(), repository.common_dir) as reading:
            output.progress("verifying the ledger")
            failure = reading.verify().first_failure
            if failure is not None:
                raise VerificationError(
                    "unverified.ledger",
                    f"The ledger does not verify: {failure.name} at record {failure.seq}: {failure.detail}",
                    untouched="Nothing was judged.",
                    fix="savant ledger verify shows every check.",
                )
            proposal = propose(
                read_runs(reading.lines(), reading.registry, reading.bodies),
                proposed,
                lambda commit: BaseSnapshot.take(repository, commit, cache=None),
                as_of=as_of or today(),
            )
    ending = "verdicts-flip" if proposal.flips else ("undecided" if proposal.unknown else "ok")
    code = EXITS[ending].code
    output.document("policy test", ending, code, _members(proposal, proposed.digest))
    if not output.as_json:
        _say(output, proposal, proposed.digest)
    return code


def _proposed(file: Path, repository: Repository) -> Policy:
    """The policy of a file that is not committed; its floor is read from the checkout."""
    from admission.policy import MAX_POLICY_BYTES, read_policy

    top = repository.top_level

    def floor(bundle: str) -> bytes | None:
        place = None if top is None else top / bundle
        if place is None or place.is_symlink() or not place.is_file():
            return None
        return _read(place, MAX_POLICY_BYTES)

    return read_policy(_read(file, MAX_POLICY_BYTES), floor, file=file.name)


def _read(place: Path, limit: int) -> bytes:
    """At most one byte more than is allowed: the reader refuses it."""
    with place.open("rb") as stream:
        return stream.read(limit + 1)


def _members(proposal: Proposal, digest: str) -> dict[str, Any]:
    return {
        "policy": digest,
        "judged": len(proposal.judged),
        "unjudged": proposal.unjudged,
        "flips": [_flip(item) for item in proposal.flips],
        "unknown": [{"run": i.run_id, "candidate": i.candidate_digest, "why": i.why} for i in proposal.unknown],
    }


def _flip(item: Judged) -> dict[str, Any]:
    return {
        "run": item.run_id,
        "candidate": item.candidate_digest,
        "before": _decided(item.before),
        "after": None if item.after is None else _decided(item.after),
    }


def _decided(decision: Decision) -> dict[str, Any]:
    return {
        "outcome": decision.outcome,
        "reasons": [{"code": r.code, "rule": r.rule, "path": r.path} for r in decision.reasons],
        "conditions": [c.id for c in decision.conditions],
    }


def _say(output: Output, proposal: Proposal, digest: str) -> None:
    count = len(proposal.judged)
    output.say(f"Policy {short(digest)} over {count} judged candidates: {len(proposal.flips)} verdicts would flip.")
    for item in proposal.flips:
        if item.after is not None:
            output.say(f"  run {item.run_id[:12]}: {item.before.outcome} -> {item.after.outcome}")
            output.say(*(f"    {r.rule}: {r.path or ''} {r.detail}" for r in item.after.reasons))
    output.say(*(f"  run {item.run_id[:12]}: CANNOT TELL: {item.why}" for item in proposal.unknown))
    if proposal.unjudged:
        output.say(f"  {proposal.unjudged} sealed candidates were never judged: their evaluation did not accept them.")
