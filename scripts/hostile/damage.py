"""Ways to damage bytes and text."""

import re
import struct

ESCAPES = [b"\x1b[31mred", b"\x1b]0;title\x07", b"\x07bell", "\u009b2J".encode(), b"\rover", b"\x08\x08", b"\x7f", b"\x1bc"]
NAMES = [b"new\nline", b"esc\x1b[2J", b"bell\x07", b"caf\xe9", b"\xff\xfe", b"tab\tname", b" lead", b"trail ", b"'quote\"",
         b"$HOME`x`", b"-dash", "\u202eright-to-left".encode(), "C1\u009b31m".encode(), b"a" * 250, b"%s%n", b"\\back"]
NUMBERS = [0, 1, 2, 3, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1]


def spoil(rng, data: bytes) -> bytes:
    """A few random changes: bits, bytes, cuts, insertions, repeated or exchanged parts, large numbers."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        rng.choice([flip, flip, replace, cut, insert, repeat, zero, number, text_number, swap])(rng, data)
    return bytes(data)


def at(rng, data):
    # Damage to headers and footers matters most: choose them more often.
    return min(len(data), rng.choice([rng.randrange(len(data) + 1), rng.randrange(min(len(data), 128) + 1),
                                      len(data) - rng.randrange(min(len(data), 64) + 1)]))


def flip(rng, data):
    if data:
        data[min(at(rng, data), len(data) - 1)] ^= 1 << rng.randrange(8)


def replace(rng, data):
    i = at(rng, data)
    data[i:i + rng.choice([1, 2, 4, 8])] = rng.randbytes(rng.choice([1, 2, 4, 8]))


def cut(rng, data):
    i = at(rng, data)
    if rng.random() < 0.5:
        del data[i:]
    else:
        del data[i:i + rng.choice([1, 2, 7, 64, 1024])]


def insert(rng, data):
    i = at(rng, data)
    data[i:i] = rng.choice([rng.randbytes(4), b"\0" * 16, b"\n", b",", b"\"", b"nan", b"1e999", b"-", rng.choice(ESCAPES)])


def repeat(rng, data):
    i, n = at(rng, data), rng.choice([1, 8, 100])
    data[i:i] = data[i:i + n] * rng.choice([1, 3, 50])


def zero(rng, data):
    i, n = at(rng, data), rng.choice([1, 4, 32])
    data[i:i + n] = bytes(min(n, len(data) - i))


def number(rng, data):
    kind = rng.choice(["<I", ">I", "<Q", ">Q", "<H", "<d"])
    value = rng.choice(NUMBERS)
    if kind == "<d":
        packed = struct.pack("<d", rng.choice([float("nan"), float("inf"), -1e308, 3e38, 5e-324]))
    else:
        packed = struct.pack(kind, value & ((1 << 8 * struct.calcsize(kind)) - 1))
    i = at(rng, data)
    data[i:i + len(packed)] = packed


def text_number(rng, data):
    """Replaces a number in the text with another one."""
    found = list(re.finditer(rb"\d+(\.\d+)?", bytes(data[:4096])))
    if found:
        match = rng.choice(found)
        words = [b"0", b"-1", b"nan", b"inf", b"1e39", b"1e400", b"", b"0x7", b"3.", *(str(n).encode() for n in NUMBERS)]
        data[match.start():match.end()] = rng.choice(words)


def swap(rng, data):
    i, j, n = at(rng, data), at(rng, data), rng.choice([1, 4, 16])
    one, other = data[i:i + n], data[j:j + n]
    if len(one) == len(other) and abs(i - j) >= n:
        data[i:i + n], data[j:j + n] = other, one
