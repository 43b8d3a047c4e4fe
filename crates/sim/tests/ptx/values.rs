//! The types of kernel arguments and results, and the conversion of numbers to their bits.

use std::fmt;

/// A number of a run line: an exact integer, a real number, or the bits of a float.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i128),
    Real(f64),
    /// The bits of a float, written as such.
    Bits(u64),
}

impl Number {
    /// Returns the number as a real. Bits are read as an `f64`; the element types below use them
    /// unchanged.
    pub(crate) fn real(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Real(value) => value,
            Self::Bits(bits) => f64::from_bits(bits),
        }
    }

    pub(crate) fn int(self) -> i128 {
        match self {
            Self::Int(value) => value,
            Self::Real(value) => value as i128,
            Self::Bits(bits) => bits.into(),
        }
    }

    pub(crate) fn is_true(self) -> bool {
        self.real() != 0.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementType {
    Unsigned(usize),
    Signed(usize),
    F16,
    Bf16,
    E4m3,
    E5m2,
    F32,
    F64,
}

const NAMES: [(&str, ElementType); 14] = [
    ("u8", ElementType::Unsigned(1)),
    ("u16", ElementType::Unsigned(2)),
    ("u32", ElementType::Unsigned(4)),
    ("u64", ElementType::Unsigned(8)),
    ("s8", ElementType::Signed(1)),
    ("s16", ElementType::Signed(2)),
    ("s32", ElementType::Signed(4)),
    ("s64", ElementType::Signed(8)),
    ("f16", ElementType::F16),
    ("bf16", ElementType::Bf16),
    ("e4m3", ElementType::E4m3),
    ("e5m2", ElementType::E5m2),
    ("f32", ElementType::F32),
    ("f64", ElementType::F64),
];

impl ElementType {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let found = NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, ty)| *ty)
    }

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Unsigned(bytes) | Self::Signed(bytes) => bytes,
            Self::E4m3 | Self::E5m2 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Returns the bits of a number: integers are truncated, reals rounded to the nearest value.
    pub(crate) fn encode(self, number: Number) -> u64 {
        let bits = match (self, number) {
            (_, Number::Bits(bits)) => bits,
            (Self::Unsigned(_) | Self::Signed(_), number) => number.int() as u64,
            (Self::F64, number) => number.real().to_bits(),
            (Self::F32, number) => u64::from((number.real() as f32).to_bits()),
            (Self::F16, number) => short(number.real(), 5, 10),
            (Self::Bf16, number) => short(number.real(), 8, 7),
            (Self::E4m3, number) => tiny(number.real(), 4, 3),
            (Self::E5m2, number) => tiny(number.real(), 5, 2),
        };
        bits & (u64::MAX >> (64 - 8 * self.bytes()))
    }

    pub(crate) fn decode(self, bits: u64) -> Number {
        match self {
            Self::Unsigned(_) => Number::Int(bits.into()),
            Self::Signed(bytes) => {
                let unused = 64 - 8 * bytes as u32;
                Number::Int(i128::from((bits << unused).cast_signed() >> unused))
            }
            Self::F64 => Number::Real(f64::from_bits(bits)),
            Self::F32 => Number::Real(f32::from_bits(bits as u32).into()),
            Self::F16 => Number::Real(long(bits, 5, 10)),
            Self::Bf16 => Number::Real(f32::from_bits((bits as u32) << 16).into()),
            Self::E4m3 => Number::Real(long((bits & 0x80) << 8 | bits & 0x7f, 4, 3)),
            Self::E5m2 => Number::Real(long((bits & 0x80) << 8 | bits & 0x7f, 5, 2)),
        }
    }

    /// Appends the number's bits in little-endian order.
    pub(crate) fn put(self, number: Number, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.encode(number).to_le_bytes()[..self.bytes()]);
    }

    pub(crate) fn get(self, bytes: &[u8]) -> u64 {
        let mut whole = [0; 8];
        whole[..self.bytes()].copy_from_slice(&bytes[..self.bytes()]);
        u64::from_le_bytes(whole)
    }

    /// Returns the distance in ulps between two floats of the type.
    pub(crate) fn steps_between(self, a: u64, b: u64) -> u64 {
        let sign = 1u64 << (8 * self.bytes() - 1);
        let place = |bits: u64| {
            let magnitude = (bits & (sign - 1)).cast_signed();
            if bits & sign != 0 {
                -magnitude
            } else {
                magnitude
            }
        };
        place(a).abs_diff(place(b))
    }
}

/// Rounds to the nearest value of a 16-bit format, ties to even, and returns its bits.
fn short(value: f64, exponent_bits: i32, fraction_bits: i32) -> u64 {
    let sign = u64::from(value.is_sign_negative()) << 15;
    if value.is_nan() {
        return 0x7fff;
    }
    let bias = (1 << (exponent_bits - 1)) - 1;
    let magnitude = value.abs();
    let greatest = 2f64.powi(bias) * (2.0 - 2f64.powi(-fraction_bits - 1));
    let infinity = ((1u64 << exponent_bits) - 1) << fraction_bits;
    if magnitude >= greatest {
        return sign | infinity;
    }
    // The exponent of the value, or that of the smallest normal number for subnormal values.
    let exponent = if magnitude == 0.0 {
        1 - bias
    } else {
        (magnitude.log2().floor() as i32).max(1 - bias)
    };
    let steps = (magnitude / 2f64.powi(exponent - fraction_bits)).round_ties_even() as u64;
    // The hidden bit, or a carry from rounding, adds 1 to the exponent field.
    sign | (steps + (((exponent + bias - 1) as u64) << fraction_bits))
}

/// Rounds to the nearest value of an 8-bit format, of which the largest exponent is not used.
fn tiny(value: f64, exponent_bits: i32, fraction_bits: i32) -> u64 {
    let bits = short(value, exponent_bits, fraction_bits);
    bits >> 8 & 0x80 | bits & 0x7f
}

/// Returns the value of a 16-bit format's bits.
fn long(bits: u64, exponent_bits: i32, fraction_bits: i32) -> f64 {
    let bias = (1 << (exponent_bits - 1)) - 1;
    let exponent = (bits >> fraction_bits & ((1 << exponent_bits) - 1)) as i32;
    let fraction = (bits & ((1 << fraction_bits) - 1)) as f64 * 2f64.powi(-fraction_bits);
    let magnitude = if exponent == (1 << exponent_bits) - 1 {
        if fraction == 0.0 {
            f64::INFINITY
        } else {
            f64::NAN
        }
    } else if exponent == 0 {
        fraction * 2f64.powi(1 - bias)
    } else {
        (1.0 + fraction) * 2f64.powi(exponent - bias)
    };
    if bits >> 15 & 1 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = NAMES.iter().find(|(_, ty)| ty == self);
        f.write_str(found.map_or("?", |(name, _)| name))
    }
}

/// Checks the arithmetic of the run lines.
pub(crate) fn check() -> Result<(), String> {
    let cases = [
        (ElementType::F16, 1.0, 0x3c00),
        (ElementType::F16, -65504.0, 0xfbff),
        (ElementType::F16, 65520.0, 0x7c00),
        (ElementType::F16, 5.960_464_477_539_063e-8, 1),
        (ElementType::F16, 0.1, 0x2e66),
        (ElementType::F16, 2049.0, 0x6800),
        (ElementType::Bf16, 1.0, 0x3f80),
        (ElementType::Bf16, -3.140_625, 0xc049),
        (ElementType::Bf16, 1.003_906_25, 0x3f80),
        (ElementType::F32, 0.1, 0x3dcc_cccd),
        (ElementType::Signed(2), -2.0, 0xfffe),
    ];
    for (ty, value, bits) in cases {
        let found = ty.encode(Number::Real(value));
        if found != bits {
            return Err(format!("{value} as {ty} is {found:#x}, not {bits:#x}"));
        }
    }
    for bits in (0..0x7c00).chain(0x8000..0xfc00) {
        if ElementType::F16.encode(ElementType::F16.decode(bits)) != bits {
            return Err(format!("{bits:#x} does not come back"));
        }
    }
    Ok(())
}
