"""Which 32 bytes may be an Ed25519 public key or ``R``: canonical, not small-order, in the prime subgroup.

Libraries disagree about odd points (``ed25519-speccheck``): with this admission rule they all agree for honest keys.
RFC 8032 section 5.1 gives the curve and the encodings. Nothing here is secret, so nothing is constant-time.
"""

from __future__ import annotations

import functools
from typing import Final

from savant.contracts.errors import RefusedInput

POINT_BYTES: Final = 32
FIELD: Final = 2**255 - 19
ORDER: Final = 2**252 + 27742317777372353535851937790883648493
"""The order ``L`` of the prime subgroup; the ``S`` half of a signature is below it."""

_D: Final = (-121665 * pow(121666, -1, FIELD)) % FIELD
_SQRT_MINUS_ONE: Final = pow(2, (FIELD - 1) // 4, FIELD)
_SIGN_BIT: Final = 1 << 255
_SMALL_ORDER_Y: Final = frozenset(
    (
        0,
        1,
        FIELD - 1,
        int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"),
        int.from_bytes(bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"),
    )
)

_Point = tuple[int, int, int, int]


def is_plain_point(encoded: bytes) -> bool:
    """Whether the bytes spell ``y < p`` and no point of small order. Whether they lie on the curve is not looked at."""
    if len(encoded) != POINT_BYTES:
        return False
    y = int.from_bytes(encoded, "little") & (_SIGN_BIT - 1)
    return y < FIELD and y not in _SMALL_ORDER_Y


def is_canonical_scalar(encoded: bytes) -> bool:
    """Whether the 32 bytes spell a scalar below ``L``: a signature's ``S`` has one spelling."""
    return int.from_bytes(encoded, "little") < ORDER


@functools.lru_cache(maxsize=1024)
def check_public_key(encoded: bytes) -> None:
    """Admit a public key: canonical, on the curve, not small-order, in the prime subgroup.

    :raises RefusedInput: ``refused.weak-key``.
    """
    point = _decompress(encoded) if is_plain_point(encoded) else None
    if point is None or not _is_identity(_multiply(ORDER, point)):
        raise RefusedInput("refused.weak-key", "The bytes are not a sound Ed25519 public key.")


def _decompress(encoded: bytes) -> _Point | None:
    number = int.from_bytes(encoded, "little")
    y = number & (_SIGN_BIT - 1)
    u, v = (y * y - 1) % FIELD, (_D * y * y + 1) % FIELD
    x = u * pow(v, 3, FIELD) * pow(u * pow(v, 7, FIELD), (FIELD - 5) // 8, FIELD) % FIELD
    if (v * x * x - u) % FIELD != 0:
        x = x * _SQRT_MINUS_ONE % FIELD
    if (v * x * x - u) % FIELD != 0:
        return None
    if (x & 1) != (number >> 255):
        x = FIELD - x
    return x, y, 1, x * y % FIELD


def _add(first: _Point, second: _Point) -> _Point:
    x1, y1, z1, t1 = first
    x2, y2, z2, t2 = second
    a, b = (y1 - x1) * (y2 - x2) % FIELD, (y1 + x1) * (y2 + x2) % FIELD
    c, d = 2 * t1 * t2 * _D % FIELD, 2 * z1 * z2 % FIELD
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % FIELD, g * h % FIELD, f * g % FIELD, e * h % FIELD


def _double(point: _Point) -> _Point:
    x, y, z, _ = point
    a, b = x * x % FIELD, y * y % FIELD
    h, g = a + b, a - b
    e = h - (x + y) ** 2
    f = 2 * z * z + g
    return e * f % FIELD, g * h % FIELD, f * g % FIELD, e * h % FIELD


def _multiply(scalar: int, point: _Point) -> _Point:
    result: _Point = (0, 1, 1, 0)
    for bit in f"{scalar:b}":
        result = _double(result)
        if bit == "1":
            result = _add(result, point)
    return result


def _is_identity(point: _Point) -> bool:
    x, y, z, _ = point
    return x == 0 and y == z
