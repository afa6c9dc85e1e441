"""A shuffle without a table: the place of one item, without the places of the others."""

from __future__ import annotations

import hashlib

ROUNDS = 10


def shuffled(number: int, size: int, seed: int) -> int:
    """Where a seeded random permutation of `0 .. size - 1` takes a number.

    A Feistel network is a permutation of the numbers of 2k bits, whatever its round function. Numbers that it takes out
    of range are taken on until they are back in range, which permutes the range.
    """
    half = (max(size - 1, 1).bit_length() + 1) // 2
    mask = (1 << half) - 1
    while True:
        left, right = number >> half, number & mask
        for turn in range(ROUNDS):
            digest = hashlib.blake2b(f"{seed}/{turn}/{right}".encode(), digest_size=8).digest()
            left, right = right, left ^ (int.from_bytes(digest, "little") & mask)
        number = left << half | right
        if number < size:
            return number
