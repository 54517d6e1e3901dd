"""One example document of each kind of the runner, with every kind of operation among them."""

from __future__ import annotations

from runner.change import change_set, operations
from runner.documents import Candidate, Receipt, Snapshot
from savant.contracts.digest import digest
from savant.contracts.document import Document, digest_of, kind_of
from savant.repository import Entry, diff, from_entries, gitlink_digest
from synthesis.documents import Limitation

COMMIT = "sha1:" + "1" * 40
CONTENTS = {
    "one": b"one\n",
    "two": b"two\n",
    "three": b"three\n",
    "guide.md": b"guide.md",
    "rules": b"rules\n",
}


def _entry(mode: str, name: str) -> Entry:
    return Entry(mode, bytes.fromhex(digest(CONTENTS[name]).partition(":")[2]))  # type: ignore[arg-type]


BASE = {
    b"copied": _entry("regular", "one"),
    b"deleted": _entry("regular", "two"),
    b"linked": _entry("regular", "two"),
    b"mode": _entry("regular", "two"),
    b"modified": _entry("regular", "two"),
    b"old%name\xff": _entry("regular", "three"),
    b"sub": Entry("gitlink", gitlink_digest(COMMIT)),
}
FINAL = {
    b".savant/admission.toml": _entry("regular", "rules"),
    b"copied": BASE[b"copied"],
    b"copy": _entry("regular", "one"),
    b"link": _entry("symlink", "guide.md"),
    b"linked": _entry("symlink", "guide.md"),
    b"mode": _entry("executable", "two"),
    b"modified": _entry("regular", "one"),
    b"name": _entry("regular", "three"),
}


def examples() -> dict[str, Document]:
    """The documents by kind: they fit each other and the trees above."""
    base, final = from_entries(BASE.items()), from_entries(FINAL.items())
    sizes = {digest(data): len(data) for data in CONTENTS.values()}

    def size(tree: dict[bytes, Entry], path: bytes) -> int:
        return sizes["blake3:" + tree[path].digest.hex()]

    change = change_set(diff(base, final), lambda path: size(BASE, path), lambda path: size(FINAL, path))
    limitation = Limitation(
        source="runner.base-submodule",
        text="Submodules are kept as they are and not entered: 1, for example 'sub'.",
        blocking=False,
    )
    snapshot = Snapshot(
        base_commit=COMMIT,
        base_tree="sha1:" + "2" * 40,
        base_manifest_digest=base.digest,
        limitations=(limitation,),
    )
    candidate = Candidate(
        session_digest=digest(b"session"),
        workspace_digest=digest(b"workspace"),
        plan_digest=digest(b"plan"),
        generation=1,
        attempt_number=1,
        base_commit=COMMIT,
        input_digest=base.digest,
        change_digest=digest_of(change),
        final_digest=final.digest,
        operations=operations(change, base),
    )
    receipt = Receipt(
        request_digest=digest(b"request"),
        snapshot_digest=digest_of(snapshot),
        disposition="verified",
        provider_receipt_digest=digest(b"provider receipt"),
        result_digest=digest(b"result"),
        input_digest=candidate.input_digest,
        change_digest=candidate.change_digest,
        final_digest=candidate.final_digest,
        candidate_digest=digest_of(candidate),
        workspace_backend="copy",
        failure_code="",
        failure_detail="",
        quiescent=True,
        cleanup_succeeded=True,
        limitations=(limitation,),
    )
    return {kind_of(document): document for document in (snapshot, change, candidate, receipt)}
