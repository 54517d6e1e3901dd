"""RFC 6962 Merkle trees over SHA-256: roots in flat memory, inclusion and consistency proofs (RFC 9162 section 2.1).

Leaf ``SHA-256(0x00 || data)``, node ``SHA-256(0x01 || left || right)``, the empty tree ``SHA-256("")``. All hashes are
32 raw bytes. Verification follows RFC 9162, so a proof of another length than the sizes demand is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from savant.contracts.errors import UsageError, VerificationError

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Frontier:
    """The right edge of a growing tree: one hash per set bit of its size, largest subtree first."""

    __slots__ = ("_hashes", "size")

    def __init__(self) -> None:
        self.size = 0
        self._hashes: list[bytes] = []

    def append(self, leaf: bytes) -> None:
        """Add one leaf hash on the right."""
        carry, size = leaf, self.size
        while size & 1:
            carry = node_hash(self._hashes.pop(), carry)
            size >>= 1
        self._hashes.append(carry)
        self.size += 1

    def root(self) -> bytes:
        """The root of the tree so far."""
        if not self._hashes:
            return EMPTY_ROOT
        root = self._hashes[-1]
        for left in reversed(self._hashes[:-1]):
            root = node_hash(left, root)
        return root


def tree_root(leaves: Iterable[bytes]) -> bytes:
    """The root over leaf hashes."""
    frontier = Frontier()
    for leaf in leaves:
        frontier.append(leaf)
    return frontier.root()


def inclusion_proof(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The path from leaf ``index`` to the root over these leaf hashes, lowest first.

    :raises UsageError: ``usage.proof-range`` when there is no such leaf.
    """
    if not 0 <= index < len(leaves):
        raise UsageError("usage.proof-range", f"There is no leaf {index} in a tree of {len(leaves)}.")
    path: list[bytes] = []
    low, high = 0, len(leaves)
    while high - low > 1:
        middle = low + _split(high - low)
        if index < middle:
            path.append(tree_root(leaves[middle:high]))
            high = middle
        else:
            path.append(tree_root(leaves[low:middle]))
            low = middle
    return tuple(reversed(path))


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> None:
    """Return if the leaf is at that index of the tree with that size and root.

    :raises VerificationError: ``unverified.inclusion``.
    """
    if not 0 <= index < size or not _are_hashes(proof):
        raise VerificationError("unverified.inclusion", f"Index {index} cannot be proven in a tree of {size}.")
    node, last, current = index, size - 1, leaf
    for step in proof:
        if last == 0:
            raise VerificationError("unverified.inclusion", "The inclusion proof is too long.")
        if node & 1 or node == last:
            current = node_hash(step, current)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            current = node_hash(current, step)
        node, last = node >> 1, last >> 1
    if last != 0 or current != root:
        raise VerificationError("unverified.inclusion", "The inclusion proof does not lead to the root.")


def consistency_proof(leaves: Sequence[bytes], old_size: int) -> tuple[bytes, ...]:
    """The proof that the tree over these leaf hashes extends its own first ``old_size`` leaves.

    :raises UsageError: ``usage.proof-range`` unless ``0 < old_size <= len(leaves)``.
    """
    if not 0 < old_size <= len(leaves):
        raise UsageError("usage.proof-range", f"A tree of {len(leaves)} cannot extend one of {old_size}.")
    path: list[bytes] = []
    low, high, whole = 0, len(leaves), True
    while old_size != high:
        middle = low + _split(high - low)
        if old_size <= middle:
            path.append(tree_root(leaves[middle:high]))
            high = middle
        else:
            path.append(tree_root(leaves[low:middle]))
            low, whole = middle, False
    if not whole:
        path.append(tree_root(leaves[low:high]))
    return tuple(reversed(path))


def verify_consistency(old_size: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> None:
    """Return if the tree of ``size`` extends the tree of ``old_size``.

    :raises VerificationError: ``unverified.consistency``.
    """
    if not 0 < old_size <= size or not _are_hashes(proof):
        raise VerificationError("unverified.consistency", f"{size} leaves cannot be proven to extend {old_size}.")
    if old_size == size:
        if proof or old_root != root:
            raise VerificationError("unverified.consistency", "Two trees of one size have different roots.")
        return
    steps = (old_root, *proof) if old_size & (old_size - 1) == 0 else tuple(proof)
    if not steps:
        raise VerificationError("unverified.consistency", "The consistency proof is empty.")
    node, last = old_size - 1, size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    old = new = steps[0]
    for step in steps[1:]:
        if last == 0:
            raise VerificationError("unverified.consistency", "The consistency proof is too long.")
        if node & 1 or node == last:
            old, new = node_hash(step, old), node_hash(step, new)
            while not node & 1 and node:
                node, last = node >> 1, last >> 1
        else:
            new = node_hash(new, step)
        node, last = node >> 1, last >> 1
    if last != 0 or old != old_root or new != root:
        raise VerificationError("unverified.consistency", "The consistency proof does not lead to both roots.")


def _split(size: int) -> int:
    """The largest power of two below ``size`` (at least 2)."""
    return 1 << (size - 1).bit_length() - 1


def _are_hashes(proof: Sequence[bytes]) -> bool:
    return all(len(step) == HASH_BYTES for step in proof)
