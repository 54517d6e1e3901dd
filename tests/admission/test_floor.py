"""A central floor: the repository may only tighten it, key by key, and what it left out is as strict as the floor."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.documents import Policy
from admission.floor import SCALES, value_of
from admission.policy import POLICY_FILE, policy_toml, read_policy, starter_policy
from savant.contracts.containment import LEVEL_WORDS
from savant.contracts.digest import digest
from savant.contracts.errors import RefusedInput
from tests.admission.kit import f, judge, refusals

FLOOR = ".savant/floor.toml"
RULE = '[[{table}]]\nid = "{id}"\npatterns = [{patterns}]\nreason = "The floor."\n'


def rule(table: str = "ask", id_: str = "infra", patterns: str = '"infra/**"', more: str = "") -> str:
    return RULE.format(table=table, id=id_, patterns=patterns) + more


def stand(own: str, floor: str, *, pinned: str | None = None) -> Policy:
    raw = floor.encode()
    line = f'extends = {{ bundle = "{FLOOR}", digest = "{pinned or digest(raw)}" }}\n'
    return read_policy((line + own).encode(), {FLOOR: raw}.get)


def refused(own: str, floor: str) -> str:
    with pytest.raises(RefusedInput) as error:
        stand(own, floor)
    assert error.value.code == "refused.policy"
    return str(error.value)


def test_an_empty_floor_changes_nothing() -> None:
    """But that it is named with its digest."""
    own = policy_toml(starter_policy())
    policy = stand(own, "")
    assert policy.extends is not None
    assert (policy.extends.bundle, policy.extends.bundle_digest, policy.extends.rules) == (FLOOR, digest(b""), ())
    alone = read_policy(own.encode())
    assert all(value_of(policy, name) == value_of(alone, name) for name in alone.__struct_fields__ if name != "extends")


def toml(key: str, value: object) -> str:
    table, _, member = key.rpartition(".")
    if table == "sandbox":
        value = LEVEL_WORDS[value]  # type: ignore[index]
    text = str(value).lower() if isinstance(value, bool) else f'"{value}"'
    return (f"[{table}]\n" if table else "") + f"{member} = {text}\n"


PAIRS = [
    (key, mine, least)
    for key, scale in SCALES.items()
    for mine, least in itertools.product(scale, repeat=2)
    if not (key == "sandbox.agent" and {mine, least} & {"S0", "S1"})  # no policy may demand so little
]


@pytest.mark.parametrize(("key", "mine", "least"), PAIRS)
def test_each_key_may_be_as_strict_as_the_floor_or_stricter(key: str, mine: object, least: object) -> None:
    """A looser value is refused by its name; the others are in force."""
    scale = SCALES[key]
    if scale.index(mine) < scale.index(least):
        words = refused(toml(key, mine), toml(key, least))
        assert POLICY_FILE in words
        assert f" {key} is " in words
    else:
        assert value_of(stand(toml(key, mine), toml(key, least)), key) == mine
    silent = value_of(stand("", toml(key, least)), key)
    assert scale.index(silent) == max(scale.index(least), scale.index(value_of(starter_policy(), key)))
    assert value_of(stand(toml(key, mine), ""), key) == mine


def test_limits_only_shrink() -> None:
    """Each number by itself; what the repository did not write is the smaller of the default and the floor's."""
    assert "limits.files" in refused("[limits]\nfiles = [11, 20]\n", "[limits]\nfiles = [10, 20]\n")
    assert "limits.files" in refused("[limits]\nfiles = [10, 21]\n", "[limits]\nfiles = [10, 20]\n")
    limits = stand("[limits]\nfiles = [5, 20]\n", "[limits]\nfiles = [10, 20]\ndeletions = [0, 999]\n").limits
    assert (limits.files_ask, limits.files_refuse) == (5, 20)
    assert (limits.deletions_ask, limits.deletions_refuse) == (0, 100)
    assert limits.added_lines_ask == 800
    assert stand("[limits]\nfiles = [50, 900]\n", "").limits.files_refuse == 900


def test_both_lists_of_allowed_paths_hold() -> None:
    """A path is allowed where both allow it, whatever the repository writes."""
    policy = stand('allow = ["src/**", "docs/**"]\n', 'allow = ["src/**"]\n')
    base = {b"src/a": f(b"a\n"), b"docs/a": f(b"a\n"), b"c": f(b"c\n")}
    assert judge(base, {**base, b"src/a": f(b"b\n")}, policy=policy).outcome == "admitted"
    for path in (b"docs/a", b"c"):
        decision = judge(base, {**base, path: f(b"b\n")}, policy=policy)
        assert refusals(decision) == [("admission.scope.outside-policy", path.decode())]
    assert policy.extends is not None
    assert policy.extends.allow == ("src/**",)


def test_the_rules_of_the_floor_are_in_force() -> None:
    """Beside the repository's own, and they are told apart."""
    policy = stand(rule(id_="mine", patterns='"a"'), rule() + rule("refuse", "never", '"b"'))
    assert policy.extends is not None
    assert policy.extends.rules == ("infra", "never")
    assert [found.id for found in policy.ask] == ["infra", "mine"]
    assert [found.id for found in policy.refuse] == ["never"]


@pytest.mark.parametrize(
    ("own", "floor", "loose"),
    [
        (rule(), rule(), False),
        (rule(patterns='"infra/**", "ops/**"'), rule(), False),
        (rule(patterns='"ops/**"'), rule(), True),
        (rule("refuse"), rule(), False),
        (rule(), rule("refuse"), True),
        (rule(more='operations = ["delete"]\n'), rule(), True),
        (rule(), rule(more='operations = ["delete"]\n'), False),
        (rule(more='operations = ["delete"]\n'), rule(more='operations = ["delete", "create"]\n'), True),
        (rule(more='enforcement = "warn"\n'), rule(), True),
        (rule(more='enforcement = "warn"\n'), rule(more='enforcement = "audit"\n'), False),
        ('[[companion]]\nid = "infra"\nwhen = ["a"]\nneed = ["b"]\nreason = "r"\n', rule(), True),
        (rule(), '[[companion]]\nid = "infra"\nwhen = ["a"]\nneed = ["b"]\nreason = "r"\n', True),
    ],
)
def test_a_rule_of_the_same_id_takes_its_place_if_it_is_as_strict(own: str, floor: str, loose: bool) -> None:
    """Otherwise it is refused by its id."""
    if loose:
        assert "'infra'" in refused(own, floor)
    else:
        policy = stand(own, floor)
        assert policy.extends is not None
        assert policy.extends.rules == ()
        assert [found.id for found in (*policy.ask, *policy.refuse)] == ["infra"]


def companion(when: str, need: str, more: str = "") -> str:
    return f'[[companion]]\nid = "pair"\nwhen = [{when}]\nneed = [{need}]\nreason = "r"\n{more}'


@pytest.mark.parametrize(
    ("own", "loose"),
    [
        (companion('"a"', '"b"'), False),
        (companion('"a", "c"', '"b"'), False),
        (companion('"c"', '"b"'), True),
        (companion('"a"', '"b", "c"'), True),
        (companion('"a"', '"b"', 'enforcement = "audit"\n'), True),
        ("", False),
    ],
)
def test_a_companion_of_the_same_id_asks_at_least_as_often(own: str, loose: bool) -> None:
    """More that must bring something along, and no more that satisfies it."""
    if loose:
        assert "companion: 'pair'" in refused(own, companion('"a"', '"b"'))
    else:
        assert [found.id for found in stand(own, companion('"a"', '"b"')).companions] == ["pair"]


def test_what_the_floor_demands_is_enforced() -> None:
    """A built-in rule that the floor gives something to demand may not be staged below it; any other may."""
    warn = '[enforcement]\nnew-links = "warn"\n'
    assert "enforcement.new-links is 'warn', looser than the floor's 'enforce'" in refused(warn, 'new_links = "ask"\n')
    assert "enforcement.limit-files" in refused('[enforcement]\nlimit-files = "audit"\n', "[limits]\nfiles = [1, 2]\n")
    assert "enforcement.custody" in refused('[enforcement]\ncustody = "warn"\n', '[enforcement]\ncustody = "enforce"\n')
    for floor in ('new_links = "allow"\n', "", f'new_links = "ask"\n{warn}'):
        assert [row.rule for row in stand(warn, floor).staged] == ["new-links"]


def test_the_floor_makes_and_suffers_no_exceptions() -> None:
    """Neither in its own file, nor of what it demands in the repository's; the repository's own rules have them."""
    exception = '[[exception]]\nid = "once"\nrule = "{}"\npatterns = ["x"]\nreason = "r"\n'
    assert FLOOR in refused("", rule() + exception.format("infra"))
    assert "'new-links', which the floor demands" in refused(exception.format("new-links"), 'new_links = "ask"\n')
    assert "'infra', which the floor demands" in refused(rule() + exception.format("infra"), rule())
    assert len(stand(exception.format("new-links"), rule()).exceptions) == 1
    assert len(stand(rule(id_="mine") + exception.format("mine"), rule()).exceptions) == 1


def test_the_floor_is_the_file_that_was_pinned() -> None:
    """Another digest, a missing file and a floor on a floor are refused."""
    assert stand("", "# a floor\n").extends is not None
    with pytest.raises(RefusedInput) as error:
        stand("", "# a floor\n", pinned="blake3:" + "0" * 64)
    assert "extends.digest" in str(error.value)
    line = f'extends = {{ bundle = "{FLOOR}", digest = "{digest(b"")}" }}\n'
    for reader in (None, {".savant/other.toml": b""}.get):
        with pytest.raises(RefusedInput) as error:
            read_policy(line.encode(), reader)
        assert "extends.bundle" in str(error.value)
    assert f"{FLOOR}: extends" in refused("", line)
    assert f"{FLOOR}: alow" in refused("", "alow = 1\n")


@pytest.mark.parametrize("bundle", ["floor.toml", "/etc/passwd", ".savant/../floor.toml", ".savant/a b"])
def test_the_floor_lies_under_the_folder_of_the_rules(bundle: str) -> None:
    """No other file of a repository becomes a rule."""
    line = f'extends = {{ bundle = "{bundle}", digest = "{digest(b"")}" }}\n'
    with pytest.raises(RefusedInput) as error:
        read_policy(line.encode(), lambda _: b"")
    assert "extends.bundle" in str(error.value)


def test_a_policy_on_a_floor_survives_its_toml() -> None:
    """Written as it tightens the floor, and read with the floor again."""
    floor = rule() + "[limits]\nfiles = [1, 2]\n" + companion('"a"', '"b"')
    raw = ('new_links = "ask"\nallow = ["src/**"]\n' + floor).encode()
    line = f'extends = {{ bundle = "{FLOOR}", digest = "{digest(raw)}" }}\n'
    policy = read_policy((line + 'new_links = "refuse"\n' + rule(id_="mine")).encode(), {FLOOR: raw}.get)
    assert read_policy(policy_toml(policy).encode(), {FLOOR: raw}.get) == policy


CHOICES = st.fixed_dictionaries(
    {}, optional={key: st.sampled_from(scale) for key, scale in SCALES.items() if "." not in key}
)


@given(own=CHOICES, floor=CHOICES)
def test_nothing_in_force_is_looser_than_the_floor(own: dict[str, object], floor: dict[str, object]) -> None:
    """Whatever both write: either it is refused, or every key is at least as strict as both."""
    texts = ["".join(toml(key, value) for key, value in choices.items()) for choices in (own, floor)]
    looser = [key for key in own if key in floor and SCALES[key].index(own[key]) < SCALES[key].index(floor[key])]
    if looser:
        assert any(f" {key} is " in refused(*texts) for key in looser)
        return
    policy = stand(*texts)
    for written in (own, floor):
        assert all(
            SCALES[key].index(value_of(policy, key)) >= SCALES[key].index(value) for key, value in written.items()
        )
