"""The people file: who is listed, and how a wrong one is refused."""

from __future__ import annotations

import pytest

from savant.contracts.errors import RefusedInput
from savant.identity.people import MAX_PEOPLE_BYTES, People, Person, read_people
from savant.ledger.ed25519 import Ed25519Signer
from savant.ledger.sshkey import PublicKey

ADA, GRACE, LAPTOP, HARDWARE = (PublicKey(Ed25519Signer(bytes([n]) * 32).public_raw) for n in range(4))
TOKEN = PublicKey(HARDWARE.raw, b"ssh:")


def person(handle: str, *lines: str, more: str = "") -> str:
    keys = ", ".join(f'"{line}"' for line in lines)
    return f'[[person]]\nhandle = "{handle}"\nkeys = [{keys}]\n{more}'


BOTH = person("ada", ADA.line) + person(
    "grace", f"{GRACE.line} grace@laptop at home", TOKEN.line, more='teams = ["maintainers", "shop"]\n'
)


def test_people_are_read_in_the_order_of_the_file() -> None:
    """Handle, teams and keys, comments dropped; a security key is one too."""
    assert read_people(BOTH.encode()) == People(
        (Person("ada", (), (ADA,)), Person("grace", ("maintainers", "shop"), (GRACE, TOKEN)))
    )
    assert read_people(b"person = []\n") == People(())


def test_a_person_is_found_by_any_of_their_keys() -> None:
    """And nobody by a stranger's, or by the same point as another kind of key."""
    people = read_people(BOTH.encode())
    ada, grace = people.persons
    assert (people.find(ADA.keyid), people.find(GRACE.keyid), people.find(TOKEN.keyid)) == (ada, grace, grace)
    assert people.find(LAPTOP.keyid) is None
    assert people.find(HARDWARE.keyid) is None
    assert people.find("ada") is None


def test_a_person_is_named_by_handle_and_keys() -> None:
    """Every fingerprint of theirs is a name of theirs; a team is none."""
    _, grace = read_people(BOTH.encode()).persons
    assert grace.names == {"grace", GRACE.keyid, TOKEN.keyid}


def test_owners_are_looked_up_whatever_their_case() -> None:
    """A handle, a team of any organisation, an address that somebody lists; nothing stands for anything else."""
    text = person("Ada", ADA.line, more='emails = ["Ada@Work.org"]\nteams = ["shop"]\n') + person(
        "grace", GRACE.line, more='teams = ["Shop", "grace"]\n'
    )
    people = read_people(text.encode())
    ada, grace = people.persons
    assert people.standing_for("@ada") == (ada,)
    assert people.standing_for("@org/SHOP") == (ada, grace)
    assert people.standing_for("@group/sub/shop") == (ada, grace)
    assert people.standing_for("ada@work.org") == (ada,)
    for stranger in ("@shop", "@org/ada", "grace@work.org", "@", "ada", "@eve"):
        assert people.standing_for(stranger) == ()
    assert people.standing_for("@grace") == (grace,)


WRONG: dict[str, tuple[str, str]] = {
    "no person": ("", "person"),
    "an unknown table": ("person = []\n[[people]]\n", "people"),
    "an unknown key": (person("ada", ADA.line, more='email = "x"\n'), "person.0.email"),
    "no handle": (f'[[person]]\nkeys = ["{ADA.line}"]\n', "person.0.handle"),
    "an odd handle": (person("SHA256:abc", ADA.line), "person.0.handle"),
    "no keys": (person("ada"), "person.0.keys"),
    "an odd team": (person("ada", ADA.line, more='teams = [""]\n'), "person.0.teams.0"),
    "an address that is none": (person("ada", ADA.line, more='emails = ["ada"]\n'), "person.0.emails.0"),
    "no key": (person("ada", ADA.line) + person("grace", GRACE.line, "ssh-ed25519 AAAA"), "person.1.keys.1"),
    "another type": (person("ada", "ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB"), "person.0.keys.0"),
    "options": (person("ada", f"restrict {ADA.line}"), "person.0.keys.0"),
    "a handle twice": (person("ada", ADA.line) + person("Ada", GRACE.line), "person.1.handle"),
    "a key of two": (person("ada", ADA.line) + person("grace", ADA.line), "person.1.keys"),
    "a key twice": (person("ada", ADA.line, f"{ADA.line} again"), "person.0.keys"),
    "no TOML": ("person = \n", "the file"),
    "deep nesting": ("person = " + "[" * 100_000, "the file"),
    "a huge number": ("person = " + "1" * 5_000, "the file"),
    "too many bytes": (BOTH + "#" * MAX_PEOPLE_BYTES, "the file"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_file_is_refused_by_file_key_and_fix(name: str) -> None:
    """The message names the file and the key, and says what to do; the same file put right is read."""
    text, key = WRONG[name]
    with pytest.raises(RefusedInput) as error:
        read_people(text.encode())
    assert error.value.code == "refused.people"
    assert f".savant/people.toml at the base: {key} " in str(error.value)
    assert ".savant/people.toml" in error.value.fix
    assert error.value.untouched
    assert read_people(BOTH.encode()).find(ADA.keyid) is not None


def test_a_file_that_is_not_utf8_is_refused() -> None:
    """The same words in UTF-8 are read."""
    text = f"# ü\n{BOTH}"
    assert len(read_people(text.encode()).persons) == 2
    with pytest.raises(RefusedInput) as error:
        read_people(text.encode("latin-1"))
    assert error.value.code == "refused.people"


def test_the_largest_file_is_read() -> None:
    """The limit itself is allowed."""
    text = BOTH + "#" * (MAX_PEOPLE_BYTES - len(BOTH))
    assert len(read_people(text.encode()).persons) == 2
