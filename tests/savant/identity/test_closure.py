"""The closure: which authored records apply to a task, and how a wrong file is refused."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts.digest import digest
from savant.contracts.errors import RefusedInput
from savant.files.patterns import PatternSet
from savant.identity.closure import MAX_RECORD_BYTES, closure_identity, is_record_path, may_apply, read_records
from savant.identity.documents import RecordKind
from savant.identity.task import task_identity

FILE = b".savant/records/shop.toml"
INVARIANT = b'[[record]]\nid = "rounding"\nkind = "invariant"\ntext = "Half-even."\napplies_to = ["shop/**"]\n'
OBLIGATION = b'[[record]]\nid = "proved"\nkind = "proof-obligation"\ntext = "Totals add up."\n'


def test_only_toml_files_directly_in_the_folder_hold_records() -> None:
    """Nothing deeper, nothing else, and not under another spelling."""
    assert is_record_path(FILE)
    for other in (
        b".savant/records/deep/x.toml",
        b".savant/records/x.md",
        b".savant/x.toml",
        b"x/.savant/records/x.toml",
        b".SAVANT/records/x.toml",
    ):
        assert not is_record_path(other)


def test_a_record_says_where_it_stands() -> None:
    """Each member as written, the file's path as text, and the digest of its bytes."""
    (record,) = read_records(b".savant/records/\xff.toml", INVARIANT)
    assert (record.id, record.record_kind, record.text) == ("rounding", "invariant", "Half-even.")
    assert (record.applies_to, record.evidence) == (("shop/**",), None)
    assert (record.source, record.source_digest) == (".savant/records/%FF.toml", digest(INVARIANT))


@pytest.mark.parametrize("kind", get_args(RecordKind))
def test_every_kind_can_be_written(kind: str) -> None:
    """The vocabulary of the file is that of the document."""
    raw = f'[[record]]\nid = "a"\nkind = "{kind}"\ntext = "t"\n'.encode()
    assert read_records(FILE, raw)[0].record_kind == kind


def test_a_record_applies_to_tasks_that_may_touch_its_paths() -> None:
    """A task without scope may touch everything; one elsewhere does not meet it."""
    for scope, applies in (((), True), (("shop/cart.py",), True), (("*.py",), True), (("docs/**",), False)):
        closure = closure_identity(task_identity("Do it.", scope=scope), [(FILE, INVARIANT)]).document
        assert [record.id for record in closure.records] == (["rounding"] if applies else []), scope
        assert (closure.open, closure.limitations) == ((), ())


def test_a_closure_binds_its_task() -> None:
    """Another task has another closure, with the same records."""
    one, other = (closure_identity(task_identity(text), [(FILE, INVARIANT)]) for text in ("One.", "Another."))
    assert one.document.task_digest != other.document.task_digest
    assert one.document.records == other.document.records


def test_an_obligation_without_evidence_stays_open() -> None:
    """With a check that discharges it, it does not; one that does not apply is not open."""
    task = task_identity("Do it.", scope=["docs/**"])
    evidenced = OBLIGATION.replace(b"proved", b"tested") + b'evidence = "pytest"\n'
    elsewhere = OBLIGATION.replace(b"proved", b"shop") + b'applies_to = ["shop/**"]\n'
    closure = closure_identity(task, [(FILE, OBLIGATION + evidenced + elsewhere)]).document
    assert closure.open == ("No check discharges the obligation: Totals add up.",)
    assert {record.id: record.evidence for record in closure.records} == {"proved": None, "tested": "pytest"}


def test_the_order_of_the_files_does_not_matter() -> None:
    """The same records in any order are one identity."""
    files = [(FILE, OBLIGATION), (b".savant/records/a.toml", INVARIANT), (b".savant/records/b.toml", b"record = []\n")]
    more = (b".savant/records/z.toml", OBLIGATION.replace(b"proved", b"a-first").replace(b"add", b"sum"))
    task = task_identity("Do it.")
    first = closure_identity(task, [*files, more])
    assert len(first.document.open) == 2
    assert closure_identity(task, [more, *reversed(files)]) == first


def test_a_repository_without_records_says_so() -> None:
    """An empty closure is honest about it and does not block."""
    (limitation,) = closure_identity(task_identity("Do it."), []).document.limitations
    assert (limitation.source, limitation.blocking) == ("identity.closure", False)


def test_an_id_names_one_record() -> None:
    """Twice in one file or in two is refused, naming the second file and the id."""
    task = task_identity("Do it.")
    other = b".savant/records/other.toml"
    assert closure_identity(task, [(FILE, INVARIANT), (other, OBLIGATION)]).document.records
    for files in ([(other, INVARIANT + INVARIANT)], [(FILE, INVARIANT), (other, INVARIANT)]):
        with pytest.raises(RefusedInput) as error:
            closure_identity(task, files)
        assert error.value.code == "refused.record"
        assert "other.toml" in str(error.value)
        assert "'rounding' is used twice" in str(error.value)
        assert "other.toml" in error.value.fix


HEAD = '[[record]]\nid = "a"\nkind = "owner"\ntext = "t"\n'
WRONG = {
    "unknown key": (HEAD + 'note = "x"\n', "record.0.note"),
    "unknown table": (HEAD + "[other]\n", "other"),
    "no record": ("", "record"),
    "no id": (HEAD.replace('id = "a"\n', ""), "record.0.id"),
    "an odd id": (HEAD.replace('"a"', '"a b"'), "record.0.id"),
    "an unknown kind": (HEAD.replace("owner", "wish"), "record.0.kind"),
    "no words": (HEAD.replace('"t"', '""'), "record.0.text"),
    "the second record": (HEAD + HEAD.replace('"t"', "1"), "record.1.text"),
    "not a list": (HEAD + 'applies_to = "shop/**"\n', "record.0.applies_to"),
    "an empty pattern": (HEAD + 'applies_to = [""]\n', "record.0.applies_to.0"),
    "not a pattern": (HEAD + 'applies_to = ["a", "!b"]\n', "record.0.applies_to"),
    "evidence of nothing": (HEAD + 'evidence = "pytest"\n', "record.0"),
    "no TOML": ("record = \n", "the file"),
    "a huge number": ("record = " + "1" * 5000, "the file"),
    "deep nesting": ("record = " + "[" * 100_000, "the file"),
    "too many bytes": ("#" * (MAX_RECORD_BYTES + 1), "the file"),
    "not UTF-8": ("\udcff", "the file"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_record_is_refused_by_file_key_and_fix(name: str) -> None:
    """The message names the file and the key and says what to do."""
    text, key = WRONG[name]
    with pytest.raises(RefusedInput) as error:
        read_records(FILE, text.encode("utf-8", "surrogateescape"))
    assert error.value.code == "refused.record"
    assert f".savant/records/shop.toml at the base: {key} " in str(error.value)
    assert error.value.fix == "Correct .savant/records/shop.toml and commit it."
    assert error.value.untouched


@pytest.mark.parametrize(
    ("one", "other", "meets"),
    [
        ("shop/**", "docs/**", False),
        ("shop/api/", "shop/api/x.md", True),
        ("shop/", "shop/x.py", True),
        ("shop/", "docs/x.py", False),
        ("/shop/", "shop/x.py", True),
        ("/Makefile", "shop/**", False),
        ("Makefile", "shop/**", True),
        ("*/x.py", "docs/**", True),
        ("caf%C3%A9/**", "caf\u00e9/x", True),
        ("shop/a/**", "shop/b/**", False),
        ("shop", "docs/**", True),
        ("s[ah]op/**", "shop/x", True),
    ],
)
def test_two_patterns_meet_unless_they_certainly_do_not(one: str, other: str, meets: bool) -> None:
    """In doubt a record applies, and it does not matter which pattern comes first."""
    assert may_apply([one], [other]) is meets
    assert may_apply([other], [one]) is meets


PARTS = st.sampled_from(("a", "b", "*", "**", "x.py", "%41", "A"))
PATTERNS = st.builds(
    lambda lead, parts, tail: lead + "/".join(parts) + tail,
    st.sampled_from(("", "/")),
    st.lists(PARTS, min_size=1, max_size=3),
    st.sampled_from(("", "/")),
)
PATHS = st.lists(st.sampled_from(("a", "b", "x.py", "A")), min_size=1, max_size=4).map(lambda p: "/".join(p).encode())


@given(PATTERNS, PATTERNS, st.lists(PATHS, min_size=1, max_size=20))
def test_a_path_that_both_match_makes_them_meet(one: str, other: str, paths: list[bytes]) -> None:
    """No record that is about a path of the task is ever left out."""
    both = [PatternSet.parse([text]) for text in (one, other)]
    if any(all(pattern.matches(path) for pattern in both) for path in paths):
        assert may_apply([one], [other])
