"""The answer of the gate as a signed verification summary."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from savant.cli.app import run_command
from savant.cli.vsa import EXTENSION, verify_flags
from savant.contracts.envelope import PAYLOAD_TYPE, pae, parse_envelope
from savant.contracts.errors import UsageError, VerificationError
from savant.identity.keys import encode_private, load_private_key
from savant.ledger.ed25519 import Ed25519Verifier
from tests.driver.runkit import Recorded, git, record_run

RESOURCE = "git+https://forge.example/shop"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Recorded, str]]:
    """An applied run and the commit of its target, with the person's folder kept for the whole module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAVANT_HOME", str(tmp_path_factory.mktemp("home")))
        patch.delenv("CI", raising=False)
        root = tmp_path_factory.mktemp("made")
        recorded = record_run(root)
        assert recorded.command("apply", "--repo", recorded.repo, "--new", root / "target") == 0
        git(root / "target", "commit", "--quiet", "--all", "--message", "a is two")
        yield recorded, git(root / "target", "rev-parse", "HEAD")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(encode_private(bytes(range(32))))
    path.chmod(0o600)
    return path


def summarise(recorded: Recorded, key: Path, *words: object) -> tuple[int, dict[str, Any], bytes]:
    """The exit code, the statement, and the file; the signature is the key's."""
    path = key.parent / "vsa.json"
    flags = ("--vsa", path, "--vsa-key", key, "--vsa-resource", RESOURCE, "--repo", recorded.repo)
    code = recorded.command("gate", *words, *flags)
    raw = path.read_bytes()
    body, keyid, signature = parse_envelope(raw.rstrip(b"\n"))
    signer = load_private_key(key)
    assert keyid == signer.keyid
    Ed25519Verifier().verify(signer.public_raw, signature, pae(PAYLOAD_TYPE, body))
    with pytest.raises(VerificationError):
        Ed25519Verifier().verify(signer.public_raw, signature, pae(PAYLOAD_TYPE, body + b" "))
    return code, json.loads(body), raw


def test_a_governed_commit_passes(made: tuple[Recorded, str], key: Path) -> None:
    """The subject is the commit, the level says how it is explained, and the same answer gives the same bytes."""
    recorded, commit = made
    code, statement, raw = summarise(recorded, key, commit)
    assert code == 0
    assert statement["subject"] == [{"name": f"commit {commit}", "digest": {"gitCommit": commit}}]
    assert statement["predicateType"] == "https://slsa.dev/verification_summary/v1"
    predicate = statement["predicate"]
    assert predicate["verificationResult"] == "PASSED"
    assert predicate["verifiedLevels"] == ["SAVANT_GOVERNED"]
    assert predicate["resourceUri"] == RESOURCE
    (told,) = predicate[EXTENSION]["commits"]
    assert told["answer"] == "governed"
    assert told["run"] is not None
    assert told["decision"] is not None
    assert predicate["policy"]["uri"].rpartition("/")[2].startswith("blake3:")
    assert summarise(recorded, key, commit)[2] == raw


def test_what_is_not_governed_fails_in_every_mode(made: tuple[Recorded, str], key: Path) -> None:
    """The mode that only reports exits 0, and the summary still says FAILED; so does a range with one such commit."""
    recorded, commit = made
    git(recorded.repo, "checkout", "--quiet", "-B", "work", "main")
    (recorded.repo / "unrelated.py").write_text("x = 1\n")
    git(recorded.repo, "add", "--all")
    git(recorded.repo, "commit", "--quiet", "--message", "by hand")
    git(recorded.repo, "cherry-pick", commit)
    first, last = git(recorded.repo, "rev-parse", "HEAD~1"), git(recorded.repo, "rev-parse", "HEAD")
    git(recorded.repo, "checkout", "--quiet", "main")
    code, statement, _ = summarise(recorded, key, first)
    assert (code, statement["predicate"]["verificationResult"]) == (0, "FAILED")
    assert statement["predicate"]["verifiedLevels"] == ["FAILED"]
    code, statement, _ = summarise(recorded, key, f"main..{last}", "--mode", "all")
    assert (code, statement["predicate"]["verificationResult"]) == (25, "FAILED")
    answers = [told["answer"] for told in statement["predicate"][EXTENSION]["commits"]]
    assert answers == ["not-governed", "governed"]
    _, statement, _ = summarise(recorded, key, last)
    assert statement["predicate"]["verifiedLevels"] == ["SAVANT_GOVERNED_CHANGE"]
    _, statement, _ = summarise(recorded, key, f"{last}..{last}")
    assert statement["predicate"]["verificationResult"] == "FAILED"


def test_what_was_judged_here_has_a_level_of_its_own(made: tuple[Recorded, str], key: Path) -> None:
    """Checks and rules let it pass, and nothing says how it was made."""
    recorded, _ = made
    git(recorded.repo, "checkout", "--quiet", "-B", "judged", "main")
    (recorded.repo / "a.py").write_text("a = 7\n")
    git(recorded.repo, "commit", "--quiet", "--all", "--message", "by hand")
    head = git(recorded.repo, "rev-parse", "HEAD")
    git(recorded.repo, "checkout", "--quiet", "main")
    code, statement, _ = summarise(recorded, key, head, "--judge", "--check", "/bin/true", "--mode", "all")
    assert (code, statement["predicate"]["verifiedLevels"]) == (0, ["SAVANT_JUDGED"])


def test_a_key_that_others_can_read_signs_nothing(made: tuple[Recorded, str], key: Path) -> None:
    """It is refused before anything is asked, and no file is written."""
    key.chmod(0o644)
    words = ["gate", made[1], "--vsa", str(key.parent / "no"), "--vsa-key", str(key), "--vsa-resource", RESOURCE]
    assert run_command([*words, "--repo", str(made[0].repo)]) != 0
    assert not (key.parent / "no").exists()


@pytest.mark.parametrize(
    "flags", [("a", None, None), ("a", "k", None), (None, "k", "git:x"), ("a", "k", "shop"), ("a", "k", "git:\n")]
)
def test_flags_that_make_no_summary_are_refused(flags: tuple[str | None, str | None, str | None]) -> None:
    """All three or none, and a URI with a scheme."""
    verify_flags("a", "k", RESOURCE)
    verify_flags(None, None, None)
    with pytest.raises(UsageError, match=r"--vsa|URI") as caught:
        verify_flags(*flags)
    assert caught.value.code == "usage.vsa"


def test_a_key_of_openssh_signs(made: tuple[Recorded, str], tmp_path: Path) -> None:
    """The file that ssh-keygen makes is taken as it is."""
    path = tmp_path / "ssh"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    assert summarise(made[0], path, made[1])[0] == 0


def test_a_tree_is_named_as_one(made: tuple[Recorded, str], key: Path) -> None:
    """Its digest is a tree's, so nobody takes the summary for one of a commit."""
    tree = git(made[0].repo, "rev-parse", made[1] + "^{tree}")
    code, statement, _ = summarise(made[0], key, tree, "--tree", "--base", "main", "--mode", "all")
    assert code == 0
    assert statement["subject"] == [{"name": f"tree {tree}", "digest": {"gitTree": tree}}]
