"""Failure classes, their floors, and what a policy may say."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.compare import DECLARED
from evaluator.documents import AuditConfig, EvaluatorConfig, Excuse, Policy, PrepareConfig
from evaluator.policy import FLOORS, SEVERITY, UNMAPPED, floor_of, recommendation_of, verify_policy
from savant.contracts.errors import RefusedInput
from savant.contracts.scalars import as_set
from synthesis.documents import Recommendation
from tests.evaluator.kit import built_in, config_of, policy_of

GOOD = config_of("tests")
AUDIT = AuditConfig(reviewer_digest="blake3:" + "0" * 64, adversary_digest=None, max_diff_bytes=1)


def refusal(policy: Policy) -> str:
    with pytest.raises(RefusedInput) as caught:
        verify_policy(policy)
    assert caught.value.code == "refused.evaluator-policy"
    return caught.value.message


def test_every_recommendation_has_a_place() -> None:
    """The order knows each recommendation once, accept at the bottom, abort at the top."""
    assert sorted(SEVERITY.values()) == list(range(len(get_args(Recommendation))))
    assert sorted(SEVERITY, key=SEVERITY.__getitem__)[0::4] == ["accept", "abort"]


def test_no_floor_accepts() -> None:
    """No class is acceptable, and an unknown one asks for a person."""
    assert "accept" not in FLOORS.values()
    assert floor_of("never-heard-of") == UNMAPPED == "architect-review"


@pytest.mark.parametrize("name", [*FLOORS, "unknown"])
@pytest.mark.parametrize("word", get_args(Recommendation))
def test_a_rule_raises_and_never_lowers(name: str, word: Recommendation) -> None:
    """A rule at or above its floor is taken; one below is refused, and would not be followed either."""
    policy = policy_of(GOOD, rules={name: word})
    if SEVERITY[word] >= SEVERITY[floor_of(name)]:
        verify_policy(policy)
        assert recommendation_of(policy, name) == word
    else:
        assert "may not be lowered" in refusal(policy)
        assert recommendation_of(policy, name) == floor_of(name)


@given(rules=st.dictionaries(st.sampled_from([*FLOORS, "x"]), st.sampled_from(get_args(Recommendation))))
def test_no_policy_lowers(rules: dict[str, Recommendation]) -> None:
    """Whatever the rules, each class keeps its floor; a class without a rule has exactly that."""
    policy = policy_of(GOOD, rules=rules)
    for name in (*FLOORS, "x"):
        made = recommendation_of(policy, name)
        assert SEVERITY[made] >= SEVERITY[floor_of(name)]
        assert name in rules or made == floor_of(name)


def test_repeats_are_refused() -> None:
    """Two evaluators of one name and two rules for one class are refused; two of each that differ are not."""
    assert "share a name" in refusal(policy_of(GOOD, config_of("tests", timeout_ms=1)))
    twice = (
        policy_of(GOOD, rules={"a": "abort"}).recommendations
        + policy_of(rules={"a": "architect-review"}).recommendations
    )
    assert "same failure class" in refusal(policy_of(GOOD, recommendations=twice))
    verify_policy(policy_of(GOOD, config_of("lint"), rules={"a": "abort", "b": "architect-review"}))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (config_of("a:b"), "colon"),
        (config_of(argv=()), "no command"),
        (config_of(report_path=None), "junit needs a report"),
        (config_of(result_format="exit-status"), "a report needs a result format"),
        (config_of(directory="../other"), "'..'"),
        (config_of(rule="must-fix"), "belong together"),
        (config_of(must_fix=("pytest:a",)), "belong together"),
        (
            config_of(result_format="exit-status", report_path=None, rule="must-fix", must_fix=("pytest:a",)),
            "no check but its own",
        ),
        (config_of(report_path="../out.xml"), "'..'"),
        (config_of(report_path="/out.xml"), "absolute"),
        (config_of(timeout_ms=0), "no time"),
        (built_in(kind="forbidden-paths", patterns=("a//b",)), "a//b"),
        (built_in(rule="no-regression"), "judged alone"),
        (config_of("held-out", evaluator="held-out", rule="all-pass"), "belong together"),
        (config_of(suite_digest="blake3:" + "0" * 64), "belong together"),
        (built_in("audit", "model-audit", timeout_ms=1), "who makes it"),
        (config_of(audit=AUDIT), "who makes it"),
        (built_in("audit", "model-audit", audit=AUDIT), "no time"),
        (built_in(argv=("true",)), "judged alone"),
        (built_in(result_format="junit", report_path="x"), "judged alone"),
    ],
)
def test_an_evaluator_that_could_never_run_is_refused(config: EvaluatorConfig, words: str) -> None:
    """What could never be judged is refused before a provider is called, and named."""
    message = refusal(policy_of(config))
    assert words in message
    assert config.id in message


@pytest.mark.parametrize(
    "config",
    [
        GOOD,
        config_of(result_format="exit-status", report_path=None),
        config_of(result_format="exit-status", report_path=None, rule="must-fix", must_fix=("pytest",)),
        config_of(rule="must-fix", must_fix=("pytest:a",), directory="part", repeats=2),
        config_of(result_format="sarif", report_path=None, rule="no-new"),
        config_of(result_format="tap", report_path="out.tap"),
        built_in(),
        built_in(kind="forbidden-paths", patterns=("secrets/**",)),
    ],
)
def test_a_plain_evaluator_is_taken(config: EvaluatorConfig) -> None:
    """The positive control: each kind of evaluator as it is meant."""
    verify_policy(policy_of(config))


def excuse(id_: str = "slow-disk", evaluator: str = "tests", expires: str | None = None) -> Excuse:
    return Excuse(id=id_, evaluator=evaluator, checks=("*",), reason="The disk is slow.", expires=expires)


@pytest.mark.parametrize(
    ("excuses", "as_of", "words"),
    [
        ((excuse(), excuse(expires="2030-01-01")), "2029-01-01", "two excuses share a name"),
        ((excuse(DECLARED),), None, "kept for changes"),
        ((excuse(evaluator="lint"),), None, "lint is none"),
        ((excuse(evaluator="scope"),), None, "only checks of a command"),
        ((excuse(expires="2030-01-01"),), None, "a day belongs"),
        ((excuse(),), "2029-01-01", "a day belongs"),
        ((), "2029-01-01", "a day belongs"),
    ],
)
def test_an_excuse_that_could_not_be_judged_is_refused(
    excuses: tuple[Excuse, ...], as_of: str | None, words: str
) -> None:
    """It names a command of the policy, no other has its name, and a day is given exactly where one can end."""
    assert words in refusal(policy_of(GOOD, built_in(), excuses=as_set(excuses), as_of=as_of))


def test_an_excuse_of_a_command_is_taken() -> None:
    """The positive control: with an end and a day, and without either."""
    verify_policy(policy_of(GOOD, excuses=(excuse(),)))
    verify_policy(policy_of(GOOD, excuses=(excuse(expires="2030-01-01"),), as_of="2031-01-01"))


def step(id_: str = "deps", **changes: object) -> PrepareConfig:
    members: dict[str, object] = {
        "id": id_,
        "argv": ("npm", "ci"),
        "directory": None,
        "locks": ("package-lock.json",),
        "outputs": ("node_modules",),
        "network": "none",
        "timeout_ms": 1,
    }
    return PrepareConfig(**{**members, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ((step(), step(outputs=("other",))), "two steps share this name"),
        ((step(argv=()),), "needs a command"),
        ((step(locks=()),), "needs a command, locks"),
        ((step(outputs=()),), "outputs"),
        ((step(timeout_ms=0),), "time"),
        ((step(locks=("a//b",)),), "a//b"),
        ((step(outputs=("../out",)),), "'..'"),
        ((step(directory="/abs"),), "absolute"),
        ((step(outputs=("out", "out/in")),), "lie in each other"),
        ((step(), step("more", outputs=("node_modules/in",))), "lie in each other"),
    ],
)
def test_a_step_that_could_never_prepare_is_refused(steps: tuple[PrepareConfig, ...], words: str) -> None:
    """Steps share no name, are complete, stay inside the tree and make folders that do not lie in each other."""
    message = refusal(policy_of(GOOD, prepares=steps))
    assert words in message
    assert steps[-1].id in message


def test_steps_may_share_an_output() -> None:
    """The positive control: one makes an environment, the next fills it, a third makes another beside it."""
    web = step("web", outputs=("web/node_modules",), directory="web", network="open")
    verify_policy(policy_of(GOOD, prepares=(step(), step("fill"), web, step("like", outputs=("node_modules2",)))))


def test_an_audit_that_can_be_made_is_accepted() -> None:
    """Who makes it and how long it may take."""
    verify_policy(policy_of(built_in("audit", "model-audit", audit=AUDIT, timeout_ms=1)))
