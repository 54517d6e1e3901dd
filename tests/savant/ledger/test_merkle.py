"""RFC 6962 trees against known answers, the recursive definition, and every small size."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from savant.contracts.errors import UsageError, VerificationError
from savant.ledger.merkle import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    tree_root,
    verify_consistency,
    verify_inclusion,
)

# The inputs and roots of the Certificate Transparency reference tests (RFC 6962).
CT_LEAVES = [bytes.fromhex(h) for h in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657")] + [
    bytes.fromhex("606162636465666768696a6b6c6d6e6f")
]
CT_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAVES = [leaf_hash(b"%d" % n) for n in range(33)]


def reference_root(leaves: list[bytes]) -> bytes:
    """RFC 6962 section 2.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    split = max(2**k for k in range(10) if 2**k < len(leaves))
    left, right = reference_root(leaves[:split]), reference_root(leaves[split:])
    return hashlib.sha256(b"\x01" + left + right).digest()


@pytest.mark.parametrize("size", range(1, 9))
def test_roots_are_those_of_certificate_transparency(size: int) -> None:
    """The published roots of the published leaves."""
    assert tree_root(leaf_hash(leaf) for leaf in CT_LEAVES[:size]).hex() == CT_ROOTS[size - 1]


def test_the_empty_tree_has_the_hash_of_nothing() -> None:
    """SHA-256 of no bytes."""
    assert Frontier().root() == EMPTY_ROOT == hashlib.sha256(b"").digest()


def test_a_growing_tree_has_at_every_size_the_root_of_the_definition() -> None:
    """The frontier holds one hash per set bit and agrees with the recursion."""
    frontier = Frontier()
    for size in range(1, len(LEAVES) + 1):
        frontier.append(LEAVES[size - 1])
        assert frontier.size == size
        assert frontier.root() == reference_root(LEAVES[:size])


def test_every_inclusion_proof_of_every_small_tree_verifies_and_no_other() -> None:
    """All sizes and indexes; a proof cut, lengthened, altered or moved to another index is refused."""
    for size in range(1, 18):
        leaves = LEAVES[:size]
        root = tree_root(leaves)
        for index in range(size):
            proof = inclusion_proof(leaves, index)
            verify_inclusion(leaves[index], index, size, proof, root)
            bad = [(*proof, LEAVES[0]), (*proof, *([LEAVES[0]] * 6))]
            bad += [proof[:-1], (b"x" * 32, *proof[1:]), (proof[0][:31], *proof[1:])] if proof else []
            for other in bad:
                with pytest.raises(VerificationError) as caught:
                    verify_inclusion(leaves[index], index, size, other, root)
                assert caught.value.code == "unverified.inclusion"
            for wrong in {(index + 1) % size, size, -1} - {index}:
                with pytest.raises(VerificationError):
                    verify_inclusion(leaves[index], wrong, size, proof, root)


def test_every_consistency_proof_of_every_small_tree_verifies_and_no_other() -> None:
    """All pairs of sizes; a proof cut, lengthened or altered, and a false old or new root are refused."""
    for size in range(1, 18):
        leaves = LEAVES[:size]
        root = tree_root(leaves)
        for old in range(1, size + 1):
            old_root = tree_root(leaves[:old])
            proof = consistency_proof(leaves, old)
            verify_consistency(old, old_root, size, root, proof)
            bad = [(*proof, LEAVES[0]), (*proof, *([LEAVES[0]] * 6))]
            bad += [proof[:-1], (b"x" * 32, *proof[1:]), (proof[0][:31], *proof[1:]), ()] if proof else []
            for other in bad:
                with pytest.raises(VerificationError) as caught:
                    verify_consistency(old, old_root, size, root, other)
                assert caught.value.code == "unverified.consistency"
            for roots in ((LEAVES[-1], root), (old_root, LEAVES[-1])):
                with pytest.raises(VerificationError):
                    verify_consistency(old, roots[0], size, roots[1], proof)


def test_a_tree_cannot_extend_a_larger_or_an_empty_one() -> None:
    """Sizes out of order are refused on both sides; the same sizes in order are fine."""
    root = tree_root(LEAVES)
    verify_consistency(33, root, 33, root, ())
    for old in (0, 34):
        with pytest.raises(VerificationError):
            verify_consistency(old, root, 33, root, ())
        with pytest.raises(UsageError):
            consistency_proof(LEAVES, old)
    for index in (-1, 33):
        with pytest.raises(UsageError):
            inclusion_proof(LEAVES, index)


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=120), st.data())
def test_proofs_of_any_tree_verify(values: list[bytes], data: st.DataObject) -> None:
    """Inclusion of a random leaf and consistency with a random prefix, in trees of any shape."""
    leaves = [leaf_hash(value) for value in values]
    root = tree_root(leaves)
    assert root == reference_root(leaves)
    index = data.draw(st.integers(0, len(leaves) - 1))
    verify_inclusion(leaves[index], index, len(leaves), inclusion_proof(leaves, index), root)
    old = data.draw(st.integers(1, len(leaves)))
    verify_consistency(old, tree_root(leaves[:old]), len(leaves), root, consistency_proof(leaves, old))


def test_a_leaf_never_looks_like_a_node() -> None:
    """The two have different prefixes, so an inner node cannot be shown as a leaf."""
    left, right = LEAVES[:2]
    assert leaf_hash(left + right) != node_hash(left, right)
    assert all(a != b for a, b in pairwise(LEAVES))
