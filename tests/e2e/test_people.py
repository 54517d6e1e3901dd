"""Who may acknowledge, where the base lists people: through the commands, and decided again by a replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from savant.cli import cmd_admit
from savant.identity.keys import encode_private
from savant.identity.people import People
from savant.ledger.ed25519 import Ed25519Signer
from savant.ledger.sshkey import PublicKey
from tests.e2e.conftest import Shop


def make_key(shop: Shop, number: int) -> tuple[Path, PublicKey]:
    """A key file of somebody's own, and its public half."""
    seed = bytes([number]) * 32
    path = shop.root / f"key-{number}"
    path.write_bytes(encode_private(seed))
    path.chmod(0o600)
    return path, PublicKey(Ed25519Signer(seed).public_raw)


def waiting(shop: Shop) -> str:
    """A run that waits for somebody to acknowledge a new link; its id."""
    ended = shop.run("Link it", "--recipe", "/bin/ln -s README.txt link", "--must-pass", "/bin/true")
    assert (ended.code, set(ended.json["conditions"])) == (10, {"new-links"}), (ended.out, ended.err)
    return str(ended.json["run"])


def list_people(shop: Shop, **people: PublicKey) -> None:
    """Commit a people file."""
    rows = (f'[[person]]\nhandle = "{name}"\nkeys = ["{key.line} a comment"]\n' for name, key in people.items())
    shop.write(".savant/people.toml", "\n".join(rows))
    shop.commit("people")


def test_only_listed_people_acknowledge(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger, or somebody under another's name, signs nothing; a listed key signs under its handle and admits."""
    (key, public), (strange, _), (other, theirs) = (make_key(shop, number) for number in (1, 2, 3))
    list_people(shop, ada=public, grace=theirs)
    run = waiting(shop)
    for arguments in (("--key", str(strange)), ("--key", str(other), "--by", "ada")):
        ended = shop.savant("acknowledge", "new-links", run, *arguments, "--format", "json")
        assert (ended.code, ended.json["code"]) == (2, "usage.acknowledger")
    assert shop.savant("admit", run).code == 10
    with monkeypatch.context() as patched:  # somebody else's tool, that does not look at the list before it signs
        patched.setattr(cmd_admit, "acknowledging_name", lambda people, public, by: "ada")
        assert shop.savant("acknowledge", "new-links", run, "--key", str(strange)).code == 0
    refused = shop.savant("admit", run, "--format", "json")
    assert refused.json["outcome"] == "refused"
    assert [reason["code"] for reason in refused.json["reasons"]] == ["admission.acknowledgement.stranger"]
    assert shop.savant("replay", run).code == 0
    signed = shop.savant("acknowledge", "new-links", run, "--key", str(key), "--format", "json")
    assert (signed.code, signed.json["by"]) == (0, "ada")
    admitted = shop.savant("admit", run, "--format", "json")
    assert (admitted.code, admitted.json["outcome"]) == (0, "admitted-with-conditions")
    assert [row["by"] for row in admitted.json["acknowledged"]] == ["ada"]
    assert shop.savant("replay", run).code == 0


def test_without_a_list_anybody_may_acknowledge(shop: Shop) -> None:
    """And signs under the key's fingerprint, or the name given. A list that is not committed is not in force."""
    key, public = make_key(shop, 1)
    run = waiting(shop)
    shop.write(".savant/people.toml", "person = []\n")
    signed = shop.savant("acknowledge", "new-links", run, "--key", str(key), "--format", "json")
    assert (signed.code, signed.json["by"]) == (0, public.keyid)
    assert shop.savant("admit", run).code == 0


def test_a_wrong_list_stops_a_run_before_anybody_is_called(shop: Shop) -> None:
    """It is named by file and key; put right, the run goes on."""
    shop.write(".savant/people.toml", "[[person]]\nhandle = 'ada'\n")
    shop.commit("wrong")
    ended = shop.run("Link it", "--recipe", "/bin/ln -s README.txt link", "--must-pass", "/bin/true")
    assert ended.json["code"] == "refused.people"
    assert ".savant/people.toml at the base: person.0.keys" in ended.out
    list_people(shop, ada=make_key(shop, 1)[1])
    waiting(shop)


def test_a_key_finds_its_person_or_nobody() -> None:
    """Without a list the fingerprint is the name; with one, the handle."""
    public = PublicKey(Ed25519Signer(bytes(32)).public_raw)
    assert cmd_admit.acknowledging_name(None, public, "") == public.keyid
    assert cmd_admit.acknowledging_name(None, public, "any") == "any"
    with pytest.raises(Exception, match="nobody's key"):
        cmd_admit.acknowledging_name(People(()), public, "")
