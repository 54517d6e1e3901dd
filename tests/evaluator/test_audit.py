"""What an audit comes to: words count where the lines they cite stand there, and nothing grants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from driver.built_ins import PLAIN
from evaluator.audit import RANK, audit_checks, audited_changes, is_shown, judge_audit
from evaluator.documents import EvaluatorConfig, JudgedFinding
from providerport.documents import AuditFinding, AuditReport, AuditVerdict, Citation
from providerport.port import FileMode
from runner.documents import CandidateOperation, FileState
from savant.contracts.digest import digest
from savant.contracts.errors import RefusedInput
from savant.files.paths import to_text

CANDIDATE = digest(b"candidate")
CONFIG = replace(PLAIN, id="audit", evaluator="model-audit", failure_class="audit-finding")
SEVERITIES = tuple(RANK)


class Tree:
    """Files in memory; a :class:`providerport.port.BaseReader`."""

    def __init__(self, files: Mapping[bytes, bytes | None]) -> None:
        self._files = files

    def mode(self, path: bytes) -> FileMode | None:
        if path not in self._files:
            return None
        return "symlink" if self._files[path] is None else "regular"

    def read(self, path: bytes) -> bytes:
        data = self._files.get(path)
        if data is None:
            raise RefusedInput("refused.no-such-path", "There is none.")
        return data

    def paths(self) -> Iterator[bytes]:
        return iter(sorted(self._files))


BASE = Tree({b"a.py": b"old = 1\n"})
TREE = Tree({b"a.py": b"a = 1\nif a:\n    b  =  2\n", b"link": None, b"bin": b"\xff\xfe\n"})


def cite(**changes: Any) -> Citation:
    members: dict[str, Any] = {"path": "a.py", "side": "candidate", "line": 1, "end_line": 1, "text": "a = 1"}
    return Citation(**{**members, **changes})


def finding(severity: Any = "blocking", *citations: Citation, id_: str = "f") -> AuditFinding:
    return AuditFinding(id=id_, severity=severity, text="It is wrong.", citations=citations or (cite(),))


def verdict(word: Any, severity: Any = None, id_: str = "f") -> AuditVerdict:
    return AuditVerdict(finding=id_, verdict=word, severity=severity, text="")


def report(*findings: AuditFinding, verdicts: tuple[AuditVerdict, ...] = ()) -> AuditReport:
    return AuditReport(candidate_digest=CANDIDATE, findings=findings, verdicts=verdicts)


def judged(reviewer: AuditReport, adversary: AuditReport | None = None) -> Any:
    second = None if adversary is None else (digest(b"second"), adversary)
    return judge_audit(CANDIDATE, (digest(b"first"), reviewer), second, BASE, TREE)


@pytest.mark.parametrize(
    ("citation", "expected"),
    [
        (cite(), True),
        (cite(text="a=1"), False),
        (cite(text="  a  =  1 \n"), True),
        (cite(line=2, end_line=3, text="if a:\n  b = 2"), True),
        (cite(line=2, end_line=3, text="if a:"), False),
        (cite(line=2, end_line=2, text="a = 1"), False),
        (cite(line=99, end_line=99), False),
        (cite(line=2, end_line=1), False),
        (cite(text=""), False),
        (cite(end_line=500, text="\n".join(["x"] * 500)), False),
        (cite(path="b.py"), False),
        (cite(path="link"), False),
        (cite(path="bin"), False),
        (cite(path="../a.py"), False),
        (cite(path="%zz"), False),
        (cite(side="base"), False),
        (cite(side="base", text="old = 1"), True),
    ],
)
def test_lines_are_looked_up_where_they_are_said_to_stand(citation: Citation, expected: bool) -> None:
    """White space apart, every cited line stands at its number in a regular text file of that side."""
    assert is_shown(citation, BASE if citation.side == "base" else TREE) is expected


WRONG = cite(text="a = 2")


@pytest.mark.parametrize(
    ("reviewer", "adversary", "outcome", "counts"),
    [
        (report(), None, "passed", []),
        (report(), report(), "passed", []),
        (report(finding()), None, "failed", ["failed"]),
        (report(finding("blocking", WRONG)), None, "needs-review", ["needs-review"]),
        (report(finding("blocking", WRONG, cite())), None, "failed", ["failed"]),
        (report(finding("major")), None, "needs-review", ["needs-review"]),
        (report(finding("major", WRONG)), None, "passed", ["no"]),
        (report(finding("minor"), finding("info", id_="g")), None, "passed", ["no", "no"]),
        (report(finding()), report(verdicts=(verdict("confirmed"),)), "failed", ["failed"]),
        (report(finding()), report(verdicts=(verdict("refuted"),)), "passed", ["no"]),
        (report(finding()), report(verdicts=(verdict("adjusted", "major"),)), "needs-review", ["needs-review"]),
        (report(finding()), report(verdicts=(verdict("adjusted", "minor"),)), "passed", ["no"]),
        (report(finding("minor")), report(verdicts=(verdict("adjusted", "blocking"),)), "passed", ["no"]),
        (report(finding()), report(), "needs-review", ["needs-review"]),
        (report(finding("major")), report(), "needs-review", ["needs-review"]),
        (report(), report(finding()), "needs-review", ["needs-review"]),
        (report(), report(finding("major", WRONG)), "passed", ["no"]),
        (
            report(finding(), finding(id_="g")),
            report(verdicts=(verdict("confirmed"),)),
            "failed",
            ["failed", "needs-review"],
        ),
    ],
)
def test_the_outcome_is_the_worst_of_what_counts(
    reviewer: AuditReport, adversary: AuditReport | None, outcome: str, counts: list[str]
) -> None:
    """As the table of the module says."""
    audit = judged(reviewer, adversary)
    assert (audit.outcome, [item.counts for item in audit.findings]) == (outcome, counts)
    checks, classes, _ = audit_checks(CONFIG, audit, [r for r in (reviewer, adversary) if r is not None])
    expected = {"passed": (), "failed": ("audit-finding",), "needs-review": ("audit-needs-review",)}
    assert classes == expected[outcome]
    assert [check.status for check in checks] == ["passed" if outcome == "passed" else "failed"]


@given(
    reviewer=st.lists(st.sampled_from(SEVERITIES), max_size=4),
    words=st.lists(st.sampled_from([None, "confirmed", "refuted", "adjusted"]), min_size=4, max_size=4),
    lowered=st.sampled_from(SEVERITIES),
)
def test_an_adversary_raises_nothing(reviewer: list[Any], words: list[Any], lowered: Any) -> None:
    """What it says of a finding never makes it more severe than it was, and no verdict makes a failure of a pass."""
    first = report(*(finding(severity, id_=f"f{n}") for n, severity in enumerate(reviewer)))
    verdicts = tuple(
        verdict(word, lowered if word == "adjusted" else None, f"f{n}")
        for n, word in enumerate(words[: len(reviewer)])
        if word is not None
    )
    alone, examined = judged(first), judged(first, report(verdicts=verdicts))
    for item in examined.findings:
        assert RANK[item.severity] <= RANK[item.claimed]
    assert examined.outcome != "failed" or alone.outcome == "failed"


def test_what_stops_a_candidate_is_told_where_it_is_and_the_rest_is_a_limitation() -> None:
    """Findings of the outcome are the check's; what does not decide is said beside it."""
    reviewer = report(
        finding(), finding("minor", id_="small"), finding("blocking", WRONG, id_="vague"), finding("info", id_="fyi")
    )
    adversary = report(
        finding("major", id_="mine"), verdicts=(verdict("confirmed"), verdict("adjusted", "info", "small"))
    )
    audit = judged(reviewer, adversary)
    checks, _, told = audit_checks(CONFIG, audit, (reviewer, adversary))
    (only,) = checks[0].findings
    assert (only.path, only.line, only.excerpt) == ("a.py", 1, "a = 1")
    assert only.message == "reviewer's finding f (blocking, confirmed): It is wrong."
    assert [limitation.text.partition(": ")[0] for limitation in told] == [
        "reviewer's finding small (minor, adjusted to info)",
        "reviewer's finding vague (blocking, not shown by what it cites, needs review)",
        "adversary's finding mine (major, the adversary's own, needs review)",
    ]
    assert not any(limitation.blocking for limitation in told)


@pytest.mark.parametrize(
    ("citations", "place"),
    [((), (None, None, "")), ((cite(side="base", text="old = 1"),), ("a.py", None, "old = 1"))],
)
def test_a_finding_without_a_line_of_the_candidate_names_none(citations: tuple[Citation, ...], place: Any) -> None:
    """No citation gives no path; a line of the base is no line of the candidate."""
    reviewer = report(AuditFinding(id="f", severity="blocking", text="It is wrong.", citations=citations))
    checks, _, _ = audit_checks(CONFIG, judged(reviewer), (reviewer,))
    (only,) = checks[0].findings
    assert (only.path, only.line, only.excerpt) == place


def state(data: bytes) -> FileState:
    return FileState(mode="regular", content_digest=digest(data), size_bytes=len(data))


def operation(path: bytes, base: Tree, tree: Tree) -> CandidateOperation:
    before = state(base.read(path)) if base.mode(path) else None
    return CandidateOperation(
        path=to_text(path),
        kind="modify" if before else "create",
        before=before,
        after=state(tree.read(path)),
        source=None,
        policy_change=False,
    )


def test_changes_are_shown_as_diffs_while_they_fit() -> None:
    """Text as a unified diff; binary content, bytes that are no text, and what does not fit by name alone."""
    base = Tree({b"a.py": b"old = 1\n"})
    files = {b"a.py": b"new = 1\n", b"big.txt": b"x\n" * 40_000, b"bin": b"\x00\x01", b"latin": b"\xe9\n"}
    tree = Tree(files)
    operations = [operation(path, base, tree) for path in sorted(files)]
    shown = audited_changes(operations, base, tree, object_format="sha1", max_bytes=10_000)
    assert [change.path for change in shown] == ["a.py", "big.txt", "bin", "latin"]
    assert [change.diff is None for change in shown] == [False, True, True, True]
    assert "-old = 1\n+new = 1\n" in (shown[0].diff or "")
    none = audited_changes(operations, base, tree, object_format="sha1", max_bytes=10)
    assert [change.diff for change in none] == [None] * 4


def test_the_configuration_that_is_judged_by_is_not_changed() -> None:
    """An audit that passed keeps its own class; the judged finding is a value."""
    assert isinstance(CONFIG, EvaluatorConfig)
    assert isinstance(judged(report(finding())).findings[0], JudgedFinding)
