"""Where each value of a policy comes from: the file, its floor, what the file left out, or the starter."""

from __future__ import annotations

from admission.documents import Policy
from admission.floor import LIMITS, SCALES, Written
from admission.policy import POLICY_FILE, read_policy, read_written, starter_policy
from admission.settings import rule_settings, settings
from admission.staging import STAGEABLE
from savant.contracts.digest import digest

FLOOR = b"""
new_links = "refuse"
allow = ["src/**"]
[limits]
files = [1, 2]
[enforcement]
custody = "enforce"
[[ask]]
id = "infra"
patterns = ["infra/**"]
reason = "r"
"""
OWN = """
secrets = "ask"
[limits]
deletions = [1, 2]
[enforcement]
new-executables = "warn"
[[refuse]]
id = "mine"
patterns = ["x"]
reason = "r"
[[companion]]
id = "pair"
when = ["a"]
need = ["b"]
reason = "r"
"""


def read(own: str, floor: bytes = FLOOR) -> tuple[Policy, Written]:
    raw = f'extends = {{ bundle = ".savant/f.toml", digest = "{digest(floor)}" }}\n{own}'.encode()
    return read_policy(raw, lambda _: floor), read_written(raw, POLICY_FILE)[0]


def test_every_value_says_where_it_comes_from() -> None:
    """The stricter of both, and who wrote it."""
    policy, own = read(OWN)
    rows = {(row.key, row.origin): row.value for row in settings(policy, own)}
    assert rows["new_links", "floor"] == "refuse"
    assert rows["secrets", "policy"] == "ask"
    assert rows["new_executables", "default"] == "ask"
    assert rows["limits.files", "floor"] == "1, 2"
    assert rows["limits.deletions", "policy"] == "1, 2"
    assert rows["limits.added_lines", "default"] == "800, 4000"
    assert rows["allow", "floor"] == "src/**"
    assert rows["allow", "default"] == "**"
    assert rows["sandbox.agent", "default"] == "reduced"
    assert rows["gate.evaluate", "default"] == "true"


def test_every_rule_says_where_it_comes_from() -> None:
    """The floor's, the file's own, and the built-in ones with how far they are enforced."""
    policy, own = read(OWN)
    rows = {row.id: (row.effect, row.enforcement, row.origin) for row in rule_settings(policy, own)}
    assert rows["infra"] == ("ask", "enforce", "floor")
    assert rows["mine"] == ("refuse", "enforce", "policy")
    assert rows["pair"] == ("companion", "enforce", "policy")
    assert rows["new-executables"] == ("built-in", "warn", "policy")
    assert rows["custody"] == ("built-in", "enforce", "default")
    assert set(rows) >= STAGEABLE


def test_the_starter_is_the_origin_of_all_of_it() -> None:
    """Every key and rule once."""
    policy = starter_policy()
    rows = list(settings(policy, None))
    assert {row.origin for row in (*rows, *rule_settings(policy, None))} == {"starter"}
    assert [row.key for row in rows] == ["allow", *SCALES, *(f"limits.{name}" for name in LIMITS)]
