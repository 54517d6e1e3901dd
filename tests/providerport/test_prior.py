"""Prior findings: most severe first, within the bytes, and what did not fit is counted."""

from __future__ import annotations

from typing import get_args

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from providerport.prior import bound_findings
from savant.contracts.canonical import encode_struct
from synthesis.documents import CheckStatus, Finding, ReviewFinding, Severity

PLENTY = 1_000_000


def finding(check: str = "unit", status: CheckStatus = "failed", message: str = "", excerpt: str = "") -> Finding:
    return Finding(check=check, status=status, path=None, line=None, message=message, excerpt=excerpt)


def review(id_: str = "f1", severity: Severity = "minor") -> ReviewFinding:
    return ReviewFinding(id=id_, severity=severity, step=None, text="text", citation="")


findings = st.builds(
    finding,
    check=st.sampled_from(["a", "b", "c"]),
    status=st.sampled_from(get_args(CheckStatus)),
    message=st.text(alphabet="xyz", max_size=30),
    excerpt=st.text(alphabet="xyz", max_size=60),
)
reviews = st.builds(review, id_=st.sampled_from(["f1", "f2", "f3"]), severity=st.sampled_from(get_args(Severity)))


def test_required_checks_come_first_and_then_the_worse_status() -> None:
    """The given order breaks ties; findings of passed checks and repeats are left out and not counted."""
    given_ = [
        finding("lint", "failed", "1"),
        finding("unit", "skipped", "2"),
        finding("unit", "unavailable", "3"),
        finding("unit", "failed", "4"),
        finding("unit", "failed", "5"),
        finding("unit", "failed", "4"),
        finding("unit", "passed", "6"),
    ]
    prior = bound_findings(given_, [], PLENTY, required={"unit"})
    assert [f.message for f in prior.findings] == ["4", "5", "3", "2", "1"]
    assert prior.dropped == 0


def test_review_findings_come_by_severity() -> None:
    """Blocking, major, minor, info; stable inside each."""
    given_ = [
        review("f1", "info"),
        review("f5"),
        review("f2", "major"),
        review("f3", "blocking"),
        review("f4", "major"),
    ]
    prior = bound_findings([], given_, PLENTY)
    assert [f.id for f in prior.review_findings] == ["f3", "f2", "f4", "f5", "f1"]


def test_the_limit_is_the_canonical_bytes_of_what_is_kept() -> None:
    """Exactly enough keeps everything, one byte less drops the last."""
    given_ = [finding(message="one"), finding(message="two")]
    enough = sum(len(encode_struct(f)) for f in given_)
    assert bound_findings(given_, [], enough).findings == tuple(given_)
    less = bound_findings(given_, [], enough - 1)
    assert (less.findings, less.dropped) == ((given_[0],), 1)
    kept_review = bound_findings(given_, [review()], len(encode_struct(review())))
    assert (kept_review.review_findings, kept_review.findings, kept_review.dropped) == ((review(),), (), 2)
    nothing = bound_findings(given_, [review()], 0)
    assert (nothing.review_findings, nothing.findings, nothing.dropped) == ((), (), 3)


def test_a_long_finding_gives_up_its_excerpt_before_its_place() -> None:
    """Where the excerpt does not fit, check, place and message still do; a smaller one after a dropped one may fit."""
    long = finding(message="m", excerpt="x" * 500)
    bare = structs.replace(long, excerpt="")
    prior = bound_findings([long], [], len(encode_struct(bare)))
    assert (prior.findings, prior.dropped) == ((bare,), 0)
    huge = finding(message="m" * 500)
    prior = bound_findings([huge, finding(message="s")], [], 200)
    assert (prior.findings, prior.dropped) == ((finding(message="s"),), 1)


@given(st.lists(findings, max_size=8), st.lists(reviews, max_size=4), st.integers(0, 900))
def test_bounding_is_deterministic_exact_and_counts(
    some: list[Finding], some_reviews: list[ReviewFinding], max_bytes: int
) -> None:
    """Never more bytes than allowed, never a finding that was not given, and kept plus dropped is all there was."""
    prior = bound_findings(some, some_reviews, max_bytes, required={"a"})
    assert prior == bound_findings(some, some_reviews, max_bytes, required={"a"})
    kept = (*prior.review_findings, *prior.findings)
    assert sum(len(encode_struct(item)) for item in kept) <= max_bytes
    failed = {f for f in some if f.status != "passed"}
    assert {structs.replace(f, excerpt="") for f in prior.findings} <= {structs.replace(f, excerpt="") for f in failed}
    assert len(kept) + prior.dropped == len(failed) + len(set(some_reviews))
