"""``admit``, ``acknowledge`` and ``trust``: what a person decides."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from savant.cli.cmd_apply import recording
from savant.cli.exits import EXITS, exit_code
from savant.cli.options import DAY, format_option, repository_option
from savant.cli.render import Output, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admission.decide import VerifiedAcknowledgement
    from admission.documents import Decision
    from driver.admit import Admission
    from driver.history import RunHistory
    from savant.cli.workbench import Workbench
    from savant.contracts.document import Sealed
    from savant.identity.people import People
    from savant.ledger.sshkey import PublicKey

ENDING_OF = {
    "admitted": "admitted",
    "admitted-with-conditions": "admitted-with-conditions",
    "waiting": "waiting",
    "refused": "admission-refused",
    "uncertifiable": "uncertifiable",
}


@click.command(
    "admit", help="Decide the admission of a run's candidate again from its records, with what people signed."
)
@click.argument("run", metavar="[RUN]", default="latest")
@repository_option
@click.option("--explain", is_flag=True, help="Say which rule decided each path.")
@click.option("--as-of", type=DAY, metavar="YYYY-MM-DD", help="Judge exceptions as on this day (default: the run's).")
@format_option
def admit(run: str, repo: str, explain: bool, as_of: str | None, format_: str) -> int:
    """Decide again and record the decision when it is a new one."""
    from admission.documents import Policy, Request
    from admission.explain import explain as explain_paths
    from savant.cli.workbench import Workbench

    output = Output(as_json=format_ == "json")
    with Workbench(repo) as bench, recording(bench, run) as (history, recorder):
        bare, admission = decide_again(bench, history, as_of)
        if admission.request.digest != history.need(Request).digest:
            recorder.record("admission", admission.request)
        known = {d.digest for d in _decisions(history)}
        for made in (bare, admission):
            if made.decision.digest not in known:
                known.add(made.decision.digest)
                recorder.record("admission", made.decision)
                recorder.record("admission", made.receipt)
        recorder.checkpoint()
        policy = history.by_digest(Policy, admission.decision.document.policy_digest)
    decision = admission.decision.document
    paths = explain_paths(admission.request.document, decision, policy.document)
    ending = ENDING_OF[decision.outcome]
    code = exit_code(ending)
    output.document(
        "admit",
        ending,
        code,
        {
            "run": history.run_id,
            "decision": admission.decision.digest,
            "outcome": decision.outcome,
            "reasons": [{"code": r.code, "rule": r.rule, "path": r.path, "detail": r.detail} for r in decision.reasons],
            "conditions": [
                {
                    "id": c.id,
                    "code": c.code,
                    "reason": c.reason,
                    "paths": list(c.paths),
                    "reviewers": None if c.reviewers is None else list(c.reviewers),
                }
                for c in decision.conditions
            ],
            "observed": [
                {"rule": o.rule, "code": o.code, "enforcement": o.enforcement, "paths": list(o.paths)}
                for o in decision.observed
            ],
            "as_of": admission.request.document.as_of,
            "acknowledged": [
                {"condition": a.condition, "by": a.by, "key": a.keyid, "is_requester": a.is_requester}
                for a in decision.acknowledged
            ],
            "paths": [
                {"path": p.path, "kind": p.kind, "verdict": p.verdict, "rule": p.rule, "why": p.why} for p in paths
            ],
        },
    )
    if not output.as_json:
        output.say(f"{EXITS[ending].words}  (run {history.run_id[:12]})")
        if explain:
            output.say(*("  " + line for line in table((p.verdict, p.kind, p.path, p.rule, p.why) for p in paths)))
        for condition in decision.conditions:
            by = [
                a.by + (" (who also asked)" if a.is_requester else "")
                for a in decision.acknowledged
                if a.condition == condition.id
            ]
            state = f"acknowledged by {', '.join(by)}" if by else "NOT acknowledged"
            output.say(f"  condition {condition.id}: {condition.reason} {state}")
        if decision.outcome in ("refused", "uncertifiable"):
            output.say(*(f"  {r.code} (rule {r.rule}): {r.path or ''} {r.detail}" for r in decision.reasons))
        output.say(*(f"  note: {limit.text}" for limit in decision.limitations))
        if decision.outcome == "waiting":
            output.say(f"  next: savant acknowledge CONDITION {history.run_id[:12]} --key ~/.ssh/id_ed25519")
        if decision.outcome.startswith("admitted"):
            output.say(f"  next: savant apply {history.run_id[:12]} --new")
    return code


def _decisions(history: RunHistory) -> list[Sealed[Decision]]:
    from admission.documents import Decision

    return history.all(Decision)


def decide_again(bench: Workbench, history: RunHistory, as_of: str | None = None) -> tuple[Admission, Admission]:
    """The admission of a run's candidate, composed and decided again: without acknowledgements, and with every one.

    :param as_of: the day on which exceptions are judged; the run's when None.
    :raises Unverifiable: ``unverifiable.run-incomplete`` when the run never had a candidate ready.
    """
    from admission.acknowledge import verify_acknowledgement
    from admission.documents import Policy, Request
    from admission.owners import owned_paths
    from driver.admit import admit as admit_chain
    from driver.admit import recompute
    from driver.chain import acknowledgements_of, chain_of
    from driver.prepare import owners_at, people_at
    from evaluator.documents import Policy as EvaluatorPolicy
    from runner.documents import Candidate
    from runner.snapshot import BaseSnapshot
    from savant.ledger.ed25519 import Ed25519Verifier
    from synthesis.documents import Session

    request = history.need(Request).document
    candidate = history.by_digest(Candidate, request.candidate_digest)
    snapshot = BaseSnapshot.take(bench.repository, candidate.document.base_commit, cache=bench.cache)
    verifier, people = Ed25519Verifier(), people_at(snapshot)
    session = history.by_digest(Session, request.session_digest).document
    judging = history.by_digest(EvaluatorPolicy, session.evaluator_policy_digest).document
    recomputed = recompute(snapshot, candidate.document, bench.store, judging)
    owners = owners_at(snapshot, history.by_digest(Policy, request.policy_digest).document)
    owned = owned_paths(recomputed.scope, owners, people, request.requester)

    def again(acknowledgements: Sequence[VerifiedAcknowledgement]) -> Admission:
        return admit_chain(
            lambda found: chain_of(history, snapshot, found, request),
            recomputed,
            requester=request.requester,
            owners=owned,
            as_of=as_of or request.as_of,
            acknowledgements=acknowledgements,
        )

    bare = again(())
    signed = acknowledgements_of(history, bare.decision)
    if not signed:
        return bare, bare
    return bare, again(
        [verify_acknowledgement(item, requester=request.requester, verifier=verifier, people=people) for item in signed]
    )


@click.command("acknowledge", help="Sign with your own SSH key that you saw a condition of a run's decision.")
@click.argument("condition")
@click.argument("run", metavar="[RUN]", default="latest")
@repository_option
@click.option("--key", required=True, type=click.Path(), help="An unencrypted ed25519 key file of yours.")
@click.option("--by", default="", help="Your name (default: your handle in .savant/people.toml, else the fingerprint).")
@click.option("--note", default="", help="Words that are signed with it.")
@format_option
def acknowledge(condition: str, run: str, repo: str, key: str, by: str, note: str, format_: str) -> int:
    """Sign one condition and record the acknowledgement."""
    from admission.acknowledge import NAMESPACE, statement_bytes, statement_for
    from admission.documents import Acknowledgement, Request
    from driver.prepare import people_at
    from runner.snapshot import BaseSnapshot
    from savant.cli.workbench import Workbench
    from savant.contracts.document import seal
    from savant.identity.keys import load_private_key
    from savant.ledger.sshkey import PublicKey
    from savant.ledger.sshsig import sign_sshsig

    output = Output(as_json=format_ == "json")
    with Workbench(repo) as bench, recording(bench, run) as (history, recorder):
        bare = next(d for d in reversed(_decisions(history)) if d.document.unacknowledged_digest is None)
        signer = load_private_key((bench.places.cwd / Path(key).expanduser()).absolute())
        public = PublicKey(signer.public_raw)
        base_commit = history.need(Request).document.base_commit
        people = people_at(BaseSnapshot.take(bench.repository, base_commit, cache=bench.cache))
        name = acknowledging_name(people, public, by)
        verify_reviewer(people, public, bare.document, condition)
        statement = statement_for(bare, condition, by=name, note=note)
        document = seal(
            Acknowledgement(
                statement=statement,
                public_key=public.line,
                sshsig=sign_sshsig(signer, NAMESPACE, statement_bytes(statement)),
            )
        )
        recorder.record("admission", document)
        recorder.checkpoint()
    output.document(
        "acknowledge",
        "ok",
        0,
        {"run": history.run_id, "condition": condition, "by": statement.by, "acknowledgement": document.digest},
    )
    if not output.as_json:
        output.say(
            f"Acknowledged: {condition}, by {statement.by}.", f"  next: savant admit {history.run_id[:12]} --explain"
        )
    return 0


def acknowledging_name(people: People | None, public: PublicKey, by: str) -> str:
    """The name to sign with: the one given, else the handle that the base lists, else the key's fingerprint.

    :raises UsageError: ``usage.acknowledger`` when the base lists people and does not list this key under that name:
        such an acknowledgement would only make the decision refuse.
    """
    from admission.acknowledge import is_listed
    from savant.contracts.errors import UsageError

    person = None if people is None else people.find(public.keyid)
    name = by or (public.keyid if person is None else person.handle)
    if not is_listed(name, public, people):
        whose = "nobody's" if person is None else f"{person.handle}'s"
        raise UsageError(
            "usage.acknowledger",
            f".savant/people.toml at the base says that {public.keyid} is {whose} key: it cannot sign as {name}.",
            untouched="Nothing was signed.",
            fix="Sign with a key that is listed there, without --by.",
        )
    return name


def verify_reviewer(people: People | None, public: PublicKey, decision: Decision, condition: str) -> None:
    """Return if a condition waits for nobody in particular, or for whoever holds this key.

    :raises UsageError: ``usage.acknowledger`` otherwise: such an acknowledgement would only make the decision refuse.
    """
    from savant.contracts.errors import UsageError

    asked = next((item for item in decision.conditions if item.id == condition), None)
    person = None if people is None else people.find(public.keyid)
    if asked is None or asked.reviewers is None or (person is not None and person.handle in asked.reviewers):
        return
    raise UsageError(
        "usage.acknowledger",
        f"{condition} waits for {' or '.join(asked.reviewers) or 'somebody who is not listed yet'}: {asked.reason}",
        untouched="Nothing was signed.",
        fix="Ask one of them to acknowledge it with their own key.",
    )


@click.command("trust", help="Trust the check commands that this repository names, once, by their policy digest.")
@click.argument("digest", required=False)
@repository_option
@click.option("--base", default="HEAD", help="The revision whose configuration is meant.")
@format_option
def trust(digest: str | None, repo: str, base: str, format_: str) -> int:
    """Show the commands; remember their policy digest when it is named."""
    from driver.prepare import command_checks, read_rules
    from evaluator.locks import step_words
    from runner.snapshot import BaseSnapshot
    from savant.cli.workbench import Workbench
    from savant.contracts.errors import RefusedInput
    from savant.identity.pins import trust_policy

    output = Output(as_json=format_ == "json")
    with Workbench(repo) as bench:
        snapshot = BaseSnapshot.take(bench.repository, bench.repository.resolve_commit(base), cache=bench.cache)
        policy = read_rules(snapshot).trusted_part
        commands = {check.id: " ".join(check.argv) for check in command_checks(policy.document)}
        commands |= {f"normaliser:{row.id}": " ".join(row.argv) for row in policy.document.normalisers}
        commands |= {f"prepare:{row.id}": step_words(row) for row in policy.document.prepares}
        if digest is not None and digest != policy.digest:
            raise RefusedInput(
                "refused.trust",
                f"The policy at {base} is {policy.digest}, not the one you named.",
                untouched="Nothing is trusted that was not before.",
                fix="Look at the commands again: savant trust",
            )
        if digest is not None:
            trust_policy(bench.places.config, policy.digest)
    output.document("trust", "ok", 0, {"policy": policy.digest, "commands": commands, "trusted": digest is not None})
    if not output.as_json:
        output.say(*(f"  {name}: {command}" for name, command in commands.items()))
        if digest is not None:
            output.say("TRUSTED: these commands may run without a sandbox, until the configuration changes.")
        else:
            output.say(f"To let these run without a sandbox: savant trust {policy.digest}")
    return 0
