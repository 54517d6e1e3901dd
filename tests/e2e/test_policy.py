"""``savant policy``: what is in force, and a proposed policy over what was judged; nothing is ever written."""

from __future__ import annotations

from admission.policy import policy_toml, starter_policy
from savant.contracts.digest import digest
from tests.e2e.conftest import Ended, Shop

FIX = "/bin/sh -c 'echo \"# more\" >> shop/totals.py'"
LINK = "/bin/ln -s README.txt link"


def run(shop: Shop, recipe: str, *more: str) -> str:
    return str(shop.run("Change it", "--recipe", recipe, "--must-pass", "/bin/true", *more).json["run"])


def tried(shop: Shop, text: str, *more: str) -> Ended:
    place = shop.root / "proposed.toml"
    place.write_text(text)
    before = shop.state()
    ended = shop.savant("policy", "test", str(place), "--format", "json", *more)
    assert shop.state() == before
    return ended


def test_a_proposed_policy_lists_the_verdicts_that_flip(shop: Shop) -> None:
    """By run, with both outcomes and what decides; the same policy flips nothing, and a looser one flips back."""
    fixed, linked = run(shop, FIX), run(shop, LINK)
    same = tried(shop, policy_toml(starter_policy()))
    assert (same.code, same.json["flips"], same.json["judged"]) == (0, [], 2)
    stricter = tried(shop, 'new_links = "refuse"\n[[ask]]\nid = "own"\npatterns = ["shop/**"]\nreason = "Mine."\n')
    assert (stricter.code, stricter.json["ending"]) == (13, "verdicts-flip")
    flips = {flip["run"]: flip for flip in stricter.json["flips"]}
    assert flips[fixed]["before"]["outcome"] == "admitted"
    assert flips[fixed]["after"] == {
        "outcome": "waiting",
        "conditions": ["own"],
        "reasons": [{"code": "admission.waiting", "rule": "own", "path": None}],
    }
    assert flips[linked]["before"]["outcome"] == "waiting"
    assert flips[linked]["after"]["reasons"] == [
        {"code": "admission.link.refused", "rule": "new-links", "path": "link"}
    ]
    looser = tried(shop, 'new_links = "allow"\n')
    assert [(f["run"], f["after"]["outcome"]) for f in looser.json["flips"]] == [(linked, "admitted")]
    text = shop.savant("policy", "test", str(shop.root / "proposed.toml"))
    assert (text.code, f"run {linked[:12]}: waiting -> admitted" in text.out) == (13, True)


def test_a_candidate_that_was_never_judged_is_counted(shop: Shop) -> None:
    """Its evaluation did not accept it, so there is no verdict to flip."""
    shop.run("Change it", "--recipe", FIX, "--must-pass", "/bin/false", "--retries", "0", "--replans", "0")
    run(shop, FIX)
    ended = tried(shop, "")
    assert (ended.code, ended.json["judged"], ended.json["unjudged"]) == (0, 1, 1)


def test_owners_are_looked_up_though_the_policy_in_force_did_not_ask(shop: Shop) -> None:
    """At the base of each candidate; a CODEOWNERS that cannot be read there is no verdict."""
    shop.write("CODEOWNERS", "shop/ @ada\n")
    shop.commit("owners")
    owned = run(shop, FIX, "--requester", "Bob")
    ended = tried(shop, 'codeowners = "ask"\n')
    assert ended.code == 13
    assert [(f["run"], f["after"]["conditions"]) for f in ended.json["flips"]] == [(owned, ["required-reviewers:@ada"])]
    shop.write("CODEOWNERS", "shop/ ada\n")
    shop.commit("wrong")
    unknown = run(shop, FIX, "--requester", "Bob")
    git_again = tried(shop, 'codeowners = "ask"\nno_required_check = "allow"\n')
    assert [row["run"] for row in git_again.json["unknown"]] == [unknown]
    assert "CODEOWNERS at the base: line 1" in git_again.json["unknown"][0]["why"]


def test_what_cannot_be_told_is_no_success(shop: Shop) -> None:
    """Without flips, a candidate that could not be judged ends the command as undecided."""
    shop.write("CODEOWNERS", "shop/ ada\n")
    shop.commit("wrong")
    run(shop, FIX)
    assert tried(shop, 'codeowners = "ask"\n').code == 12
    assert tried(shop, "").code == 0


def test_an_exception_is_tried_as_of_a_day(shop: Shop) -> None:
    """The proposed policy's day, not the run's."""
    run(shop, LINK)
    exception = '[[exception]]\nid = "e"\nrule = "new-links"\npatterns = ["link"]\nreason = "r"\nexpires = 2026-03-31\n'
    assert tried(shop, exception, "--as-of", "2026-03-31").code == 13
    assert tried(shop, exception, "--as-of", "2026-04-01").code == 0


def test_a_wrong_proposal_is_refused_by_its_own_name(shop: Shop) -> None:
    """And so is one that is looser than the floor beside it."""
    run(shop, FIX)
    ended = tried(shop, "alow = 1\n")
    assert (ended.code, ended.json["code"]) == (22, "refused.policy")
    assert "proposed.toml: alow" in ended.out
    floor = 'new_links = "refuse"\n'
    line = f'extends = {{ bundle = ".savant/floor.toml", digest = "{digest(floor.encode())}" }}\n'
    assert "extends.bundle" in tried(shop, line).out
    shop.write(".savant/floor.toml", floor)
    assert "looser than the floor's" in tried(shop, line + 'new_links = "ask"\n').out
    assert tried(shop, line).code == 0


def test_without_a_ledger_there_is_nothing_to_judge(shop: Shop) -> None:
    """Said so, not called a success."""
    assert tried(shop, "").json["code"] == "unverifiable.no-ledger"


def test_show_says_what_is_in_force_and_whence(shop: Shop) -> None:
    """The starter, then a committed policy on a floor with an exception that ended; never an uncommitted edit."""
    first = shop.savant("policy", "show", "--format", "json")
    assert (first.code, first.json["origin"], first.json["extends"]) == (0, "starter", None)
    floor = 'new_links = "refuse"\n'
    shop.write(".savant/floor.toml", floor)
    shop.write(
        ".savant/policy.toml",
        f'extends = {{ bundle = ".savant/floor.toml", digest = "{digest(floor.encode())}" }}\nsecrets = "ask"\n'
        '[[exception]]\nid = "e"\nrule = "limit-files"\npatterns = ["x"]\nreason = "Once."\nexpires = 2026-01-31\n',
    )
    shop.commit("policy")
    shop.write(".savant/policy.toml", 'secrets = "allow"\n')
    shown = shop.savant("policy", "show", "--format", "json", "--as-of", "2026-02-01").json
    values = {(row["key"], row["origin"]): row["value"] for row in shown["settings"]}
    assert values["new_links", "floor"] == "refuse"
    assert values["secrets", "policy"] == "ask"
    assert shown["exceptions"][0]["in_force"] is False
    text = shop.savant("policy", "show", "--as-of", "2026-02-01").out
    assert "exception e of limit-files: ENDED until 2026-01-31. Once." in text
    assert "on .savant/floor.toml" in text
