"""The random numbers of pervade in plain Python, written from their description and not from the Rust code:
Philox 4x32-10 (Salmon et al., 2011), keys of streams, the Feistel shuffle, Box and Muller's normal numbers.

Needs nothing but Python.
"""

from math import cos, log, pi, sin, sqrt

WORD = 0xFFFFFFFF
PRETRAIN_ORDER, DROPOUT, LATENT = 2, 3, 6  # streams


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & WORD, (a >> 32) ^ c[3] ^ k[1], a & WORD]
        k = [(k[0] + 0x9E3779B9) & WORD, (k[1] + 0xBB67AE85) & WORD]
    return c


class Key:
    """The key of one stream of one restart."""

    def __init__(self, seed, stream, restart):
        counter = [seed & WORD, seed >> 32, stream, restart]
        self.words = philox(counter, [int.from_bytes(b"perv", "big"), int.from_bytes(b"ade!", "big")])[:2]

    def draw(self, a, b, c):
        return philox([a & WORD, a >> 32, b, c], self.words)

    def permute(self, i, n, number):
        """The position of item i of 0..n in shuffle `number`: a Feistel network over the next even power
        of two, walked until it lands below n."""
        half = ((max(n, 2) - 1).bit_length() + 1) // 2
        mask = (1 << half) - 1
        while True:
            left, right = i >> half, i & mask
            for step in range(8):
                left, right = right, left ^ (self.draw(number, right, step)[0] & mask)
            i = left << half | right
            if i < n:
                return i

    def normals(self, step, row, count):
        """Standard normal numbers for one latent: two per pair of words."""
        out = []
        for quad in range((count + 3) // 4):
            w = self.draw(step, row, quad)
            for a, b in (w[:2], w[2:]):
                radius, angle = sqrt(-2 * log(((a >> 8) + 1) / 2**24)), 2 * pi * b / 2**32
                out += [radius * cos(angle), radius * sin(angle)]
        return out[:count]

    def kept(self, step, row, count, rate):
        """1 where dropout keeps a number, else 0."""
        words = [w for quad in range((count + 3) // 4) for w in self.draw(step, row, quad)]
        return [float(w >= int(rate * 2**32)) for w in words[:count]]


# The vectors that the generator's authors publish with it.
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([WORD] * 4, [WORD] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
