"""Writes golden/*.txt: the double-precision functions at chosen points, computed by mpmath with 1,300 bits.

usage: golden.py [NAME...]      needs mpmath 1.3

With GOLDEN_TIMES=20 GOLDEN_FOLDER=/elsewhere, there are twenty times as many random points, in files of that folder;
the tests read them from the folder that MILLSTREAM_GOLDEN names.

Each line has the bits of the operands, the bits of the value rounded to the nearest double, and the distance of the
exact value above that, in thousandths of the last place. Points are random bit patterns, random numbers from the range
where the function varies, and the neighbours of boundaries between the cases of implementations. Every run generates
the same points.
"""

import math
import os
import random
import struct
import sys

from mpmath import mp, mpf

mp.prec = 1300
FOLDER = os.environ.get("GOLDEN_FOLDER", os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden"))
TIMES = int(os.environ.get("GOLDEN_TIMES", "1"))
MAX = sys.float_info.max
MIN = sys.float_info.min
TINY = 5e-324


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def double(pattern):
    return struct.unpack("<d", struct.pack("<Q", pattern))[0]


def rounded(value):
    """Returns the nearest double, and the distance of the value above it in thousandths of the last place."""
    value = mpf(value)
    if value == 0:
        return 0.0, 0
    sign, man, exp, bc = value._mpf_
    unit = max(exp + bc - 53, -1074)
    units = mp.nint(mp.ldexp(mpf(int(man)), exp - unit))
    rest = mp.ldexp(mpf(int(man)), exp - unit) - units
    if unit + int(units).bit_length() > 1024:
        return (float("-inf") if sign else float("inf")), 0
    number = float(int(units)) * 2.0 ** max(unit, -1000) * 2.0 ** min(unit + 1000, 0)
    thousandths = int(mp.nint(rest * 1000))
    return (-number, -thousandths) if sign else (number, thousandths)


def near(*places):
    """Returns the boundaries and their neighbours, with both signs."""
    found = []
    for place in places:
        for step in (-2, -1, 0, 1, 2):
            pattern = bits(abs(place)) + step
            if 0 <= pattern < 0x7FF0000000000000:
                found += [double(pattern), -double(pattern)]
    return found


def patterns(r, count):
    """Returns random finite bit patterns."""
    found = [double(r.getrandbits(64)) for _ in range(TIMES * count)]
    return [x for x in found if x - x == 0]


def within(r, low, high, count):
    return [r.uniform(low, high) for _ in range(TIMES * count)]


def scaled(r, low, high, count):
    """Returns random numbers of magnitudes from 2^low to 2^high, of both signs."""
    return [r.choice((-1, 1)) * r.uniform(1, 2) * 2.0 ** r.randint(low, high) for _ in range(TIMES * count)]


EVERYWHERE = (TINY, 3 * TINY, MIN, 2.0**-54, 2.0**-28, 2.0**-27, 2.0**-10, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 10.0, MAX)


def points(name, r):
    """Returns the points for a function of one operand."""
    base = patterns(r, 120) + near(*EVERYWHERE) + scaled(r, -40, 6, 120)
    exponential = within(r, -745.2, 709.8, 150) + within(r, -1, 1, 80) + near(709.7827128933840, 708.3964185322641, 745.1332191019411)
    wide = {
        "exp": exponential,
        "exp_m1": exponential + within(r, -40, 5, 60),
        "exp2": within(r, -1075.5, 1024, 150) + within(r, -1, 1, 80) + near(1022, 1023, 1024, 1074, 1075),
        "sinh": exponential,
        "cosh": exponential,
        "tanh": within(r, -22, 22, 150) + within(r, -1, 1, 80) + near(0.55, 17.3, 22),
        "sigmoid": within(r, -745, 45, 150) + within(r, -4, 4, 80) + near(36.7, 708.4, 745.1),
        "erf": within(r, -6.5, 6.5, 200) + near(0.84375, 1.25, 2.857, 5.9215871957945),
        "erfc": within(r, -7, 28, 250) + near(0.84375, 1.25, 2.857, 26.5432, 27.2262),
    }
    circle = [k * float(mp.pi) / 2 for k in (1, 2, 3, 4, 5, 7, 10, 22, 355, 710, 1000003)]
    for name_of_circle in ("sin", "cos", "tan"):
        # The double nearest to a multiple of pi/2, and large ones whose argument reduction cancels most digits.
        hard = (6381956970095103 * 2.0**797, 105615.0, 105414.0, 2.0**31, 2.0**52, 2.0**53 - 1, 1e22, 5.319372648326541e255)
        wide[name_of_circle] = within(r, -7, 7, 150) + scaled(r, 5, 60, 80) + near(*circle) + near(*hard)
    for name_of_arc in ("asin", "acos", "atanh"):
        wide[name_of_arc] = within(r, -1, 1, 200) + [1 - 2.0**-k * r.random() for k in range(1, 53)] + near(0.5625, 0.9999)
    wide["acosh"] = within(r, 1, 4, 150) + [1 + 2.0**-k * (1 + r.random()) for k in range(1, 52)] + scaled(r, 1, 1023, 60)
    wide["asinh"] = within(r, -4, 4, 150) + scaled(r, 1, 1023, 60)
    wide["atan"] = within(r, -4, 4, 200) + near(0.4375, 0.6875, 1.1875, 2.4375)
    wide["cbrt"] = scaled(r, -1022, 1022, 150) + [float(k**3) for k in range(2, 20)]
    for name_of_log in ("ln", "log2", "log10"):
        powers = [2.0**k for k in range(-20, 21)] + [10.0**k for k in range(1, 23)]
        wide[name_of_log] = within(r, 0.5, 2, 200) + [1 + 2.0**-k * (r.random() - 0.5) for k in range(1, 52)] + powers
    wide["ln_1p"] = within(r, -0.9999, 3, 200) + [-1 + 2.0**-k for k in range(1, 54)]
    wide["round"] = [k + 0.5 for k in range(-20, 20)] + near(0.5, 2.5, 2.0**51 + 0.5, 2.0**52, 2.0**53) + within(r, -1e6, 1e6, 60)
    every = base + wide[name]
    if name in ("acosh",):
        every = [x for x in every if x >= 1]
    if name in ("asin", "acos"):
        every = [x for x in every if abs(x) <= 1]
    if name in ("atanh",):
        every = [x for x in every if abs(x) < 1]
    if name in ("ln", "log2", "log10"):
        every = [x for x in every if x > 0]
    if name in ("ln_1p",):
        every = [x for x in every if x > -1]
    if name in ("exp", "exp2", "exp_m1", "sinh", "cosh", "tanh", "sigmoid", "erf", "erfc"):
        every = [x for x in every if abs(x) < 1e5]
    return [(x,) for x in every]


def pairs(name, r):
    """Returns the points for a function of two operands."""
    found = list(zip(patterns(r, 150), patterns(r, 150)))
    found += list(zip(scaled(r, -8, 8, 200), scaled(r, -8, 8, 200)))
    if name == "powf":
        found = [(abs(x), y) for x, y in found]
        # Results over the whole range; bases close to 1 with large exponents; negative bases.
        for _ in range(TIMES * 250):
            x = r.choice((r.uniform(0.5, 2), abs(scaled(r, -1020, 1020, 1)[0]), 1 + r.uniform(-1, 1) * 2.0 ** -r.randint(1, 50)))
            if x != 1:
                found.append((x, float(mpf(r.uniform(-1080, 1026)) / mp.log(x, 2))))
        found += [(x, float(k)) for x in (-3.0, -0.7, -2.0, 10.0, 7.0) for k in range(-24, 25)]
    elif name == "hypot":
        found += [(x * r.uniform(0.5, 2), x) for x in scaled(r, -1074, 1022, 200)]
        found += [(3.0 * 2.0**k, 4.0 * 2.0**k) for k in range(-1000, 1000, 100)]
    elif name == "atan2":
        found += [(x * r.uniform(0.1, 10), x) for x in scaled(r, -1020, 1019, 200)]
    elif name == "rem":
        found += [(x, y) for x, y in zip(scaled(r, -1000, 1000, 200), scaled(r, -1000, 1000, 200))]
        found += [(r.randint(1, 1000) * y, y) for y in scaled(r, -1060, 900, 100)]
    return [(x, y) for x, y in found if y != 0 and x != 0]


def half_away(x):
    return mp.sign(x) * mp.floor(abs(x) + mpf(1) / 2)


def power(x, y):
    if x == 1 or abs(mp.log(abs(x), 2) * y) > 5000:
        return None
    return mp.power(abs(x), y) * (-1 if x < 0 and int(y) % 2 else 1)


def remainder(x, y):
    (_, n, a, _), (_, m, b, _) = abs(x)._mpf_, abs(y)._mpf_
    unit = min(a, b)
    rest = (int(n) << (a - unit)) % (int(m) << (b - unit))
    return mp.sign(x) * mp.ldexp(mpf(rest), unit)


ONE = {
    "exp": mp.exp, "exp2": lambda x: mp.power(2, x), "exp_m1": mp.expm1, "ln": mp.log, "ln_1p": mp.log1p,
    "log2": lambda x: mp.log(x, 2), "log10": lambda x: mp.log(x, 10), "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)),
    "sin": mp.sin, "cos": mp.cos, "tan": mp.tan, "asin": mp.asin, "acos": mp.acos, "atan": mp.atan,
    "sinh": mp.sinh, "cosh": mp.cosh, "tanh": mp.tanh, "asinh": mp.asinh, "acosh": mp.acosh, "atanh": mp.atanh,
    "erf": mp.erf, "erfc": mp.erfc, "sigmoid": lambda x: 1 / (1 + mp.exp(-x)), "round": half_away,
}
TWO = {"powf": power, "atan2": mp.atan2, "hypot": mp.hypot, "rem": remainder}


def write(name):
    r = random.Random(name)
    function, operands = (ONE[name], points(name, r)) if name in ONE else (TWO[name], pairs(name, r))
    lines = []
    for given in sorted(set(operands)):
        if any(x == 0 for x in given):
            continue
        value = function(*map(mpf, given))
        if value is None:
            continue
        number, above = rounded(value)
        if value == 0:
            # A zero at a nonzero operand has the sign of the first operand.
            number = math.copysign(0.0, given[0])
        lines.append(" ".join(f"{bits(x):016x}" for x in given) + f" {bits(number):016x} {above}\n")
    with open(os.path.join(FOLDER, name + ".txt"), "w") as file:
        file.writelines(lines)


os.makedirs(FOLDER, exist_ok=True)
for name in sys.argv[1:] or [*ONE, *TWO]:
    write(name)
