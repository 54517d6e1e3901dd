"""Which points and scalars may take part."""

from __future__ import annotations

import pytest

from savant.contracts.errors import RefusedInput
from savant.contracts.twins import CountingEntropy
from savant.ledger.ed25519 import Ed25519Signer
from savant.ledger.edwards import FIELD, ORDER, check_public_key, is_canonical_scalar, is_plain_point

SMALL_ORDER = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
]
NOT_CANONICAL = [
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]
MIXED_ORDER = "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"


def honest(number: int) -> bytes:
    return Ed25519Signer.generate(CountingEntropy(b"%d" % number)).public_raw


def test_honest_keys_are_admitted() -> None:
    """Keys made from random seeds are sound, whatever their sign bit."""
    keys = [honest(number) for number in range(12)]
    assert {key[31] >> 7 for key in keys} == {0, 1}
    for key in keys:
        assert is_plain_point(key)
        check_public_key(key)


@pytest.mark.parametrize("text", SMALL_ORDER + NOT_CANONICAL)
def test_small_order_and_other_spellings_are_refused(text: str) -> None:
    """Neither may be a key or an R."""
    assert not is_plain_point(bytes.fromhex(text))
    with pytest.raises(RefusedInput) as caught:
        check_public_key(bytes.fromhex(text))
    assert caught.value.code == "refused.weak-key"


def test_a_wrong_length_is_no_point() -> None:
    """31 or 33 bytes."""
    assert not is_plain_point(honest(1)[:31])
    assert not is_plain_point(honest(1) + b"\0")


def test_bytes_off_the_curve_are_refused() -> None:
    """A y without an x: half of all bytes."""
    outside = 0
    for y in range(2, 40):
        encoded = y.to_bytes(32, "little")
        try:
            check_public_key(encoded)
        except RefusedInput:
            outside += 1
    assert outside > 10


def test_a_key_outside_the_prime_subgroup_is_refused() -> None:
    """An honest point plus one of order eight decompresses, and is refused all the same."""
    from savant.ledger import edwards

    mixed = edwards._add(point(honest(1)), point(bytes.fromhex(MIXED_ORDER)))
    x, y, z, _ = mixed
    inverse = pow(z, -1, FIELD)
    encoded = (y * inverse % FIELD | (x * inverse % FIELD & 1) << 255).to_bytes(32, "little")
    assert is_plain_point(encoded)
    assert edwards._decompress(encoded) is not None
    with pytest.raises(RefusedInput):
        check_public_key(encoded)


def point(encoded: bytes) -> tuple[int, int, int, int]:
    from savant.ledger import edwards

    found = edwards._decompress(encoded)
    assert found is not None
    return found


def test_a_scalar_has_one_spelling() -> None:
    """Below L and nothing else."""
    assert is_canonical_scalar((ORDER - 1).to_bytes(32, "little"))
    assert not is_canonical_scalar(ORDER.to_bytes(32, "little"))
