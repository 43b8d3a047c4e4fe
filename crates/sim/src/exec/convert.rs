//! Conversions (`cvt`) that no fast path covers: every pair of types and every rounding mode.

use super::exact::{self, BRAIN, DOUBLE, Finite, Format, HALF, SINGLE, Unpacked, pack, unpack};
use super::float_bits::{canonical, flush};
use super::registers::Registers;
use crate::ptx::ir::{Convert, Round, Slot};
use millstream_ptx::Type;

/// Converts the values of the lanes in `mask`.
pub(super) fn run(r: &mut Registers, mask: u32, how: Convert, d: Slot, a: [Slot; 1]) {
    match (how.from.bytes() == 8, how.register_bytes == 8) {
        (true, true) => r.map1(mask, d, a, |a: u64| convert(how, a)),
        (true, false) => r.map1(mask, d, a, |a: u64| convert(how, a) as u32),
        (false, true) => r.map1(mask, d, a, |a: u32| convert(how, a.into())),
        (false, false) => r.map1(mask, d, a, |a: u32| convert(how, a.into()) as u32),
    }
}

/// Returns the bits of the result, extended to the register by the result type's sign.
fn convert(how: Convert, bits: u64) -> u64 {
    let bits = bits & (u64::MAX >> (64 - 8 * how.from.bytes()));
    let bits = if how.flush && how.from == Type::F32 {
        u64::from(flush(bits as u32))
    } else {
        bits
    };
    let number = match format(how.from) {
        Some(format) => unpack(bits, format),
        None => exact::integer(integer(how.from, bits)),
    };
    match format(how.to) {
        None => to_integer(how, number),
        Some(_) if number == Unpacked::Nan => nan(how, bits),
        Some(to) => to_float(how, to, number),
    }
}

/// Returns the format of a float type, or `None` for other types.
fn format(ty: Type) -> Option<Format> {
    match ty {
        Type::F16 => Some(HALF),
        Type::Bf16 => Some(BRAIN),
        Type::F32 => Some(SINGLE),
        Type::F64 => Some(DOUBLE),
        _ => None,
    }
}

fn integer(ty: Type, bits: u64) -> i128 {
    let unused = 64 - 8 * ty.bytes() as u32;
    let high = bits << unused;
    if ty.is_signed() {
        i128::from(high.cast_signed() >> unused)
    } else {
        i128::from(high >> unused)
    }
}

/// Returns the least and the greatest value of an integer type.
fn range(ty: Type) -> (i128, i128) {
    let bits = 8 * ty.bytes() as u32;
    if ty.is_signed() {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

fn to_integer(how: Convert, number: Unpacked) -> u64 {
    let (low, high) = range(how.to);
    // A NaN converts to 0, or, if either type has 64 bits, to the highest bit alone.
    let wide = how.from.bytes() == 8 || how.to.bytes() == 8;
    let value = match number {
        Unpacked::Nan if wide => 1 << (8 * how.to.bytes() - 1),
        Unpacked::Nan => 0,
        Unpacked::Infinite { negative } => {
            if negative {
                low
            } else {
                high
            }
        }
        Unpacked::Finite(finite) => {
            let magnitude = i128::try_from(finite.to_integer(how.round)).unwrap_or(i128::MAX);
            let value = if finite.negative {
                -magnitude
            } else {
                magnitude
            };
            // Integers are truncated unless `.sat` is given; floats always saturate.
            if how.saturate || how.from.is_float() {
                value.clamp(low, high)
            } else {
                value
            }
        }
    };
    // Sign- or zero-extends the result by its own type, then truncates it to the register.
    let extended = integer(how.to, value as u64) as u64;
    extended & (u64::MAX >> (64 - 8 * u32::from(how.register_bytes)))
}

fn to_float(how: Convert, to: Format, number: Unpacked) -> u64 {
    let number = match number {
        Unpacked::Finite(finite) if how.integral => {
            let significand = finite.to_integer(how.round);
            // A significand too large for this has no fraction.
            if significand == u128::MAX {
                number
            } else {
                Unpacked::Finite(Finite {
                    significand,
                    exponent: 0,
                    ..finite
                })
            }
        }
        number => number,
    };
    let bits = pack(number, to, how.round);
    let bits = if how.saturate {
        saturated(bits, to)
    } else {
        bits
    };
    let tiny = how.flush && to == SINGLE && exact::is_tiny(number, to);
    if tiny { bits & to.sign() } else { bits }
}

/// Clamps the bits of a float to 0…1. Positive floats are ordered like their bits.
fn saturated(bits: u64, format: Format) -> u64 {
    let one = pack(exact::integer(1), format, Round::Nearest);
    if bits & format.sign() != 0 {
        0
    } else {
        bits.min(one)
    }
}

/// Returns the NaN that a NaN converts to. A payload that is preserved keeps its upper bits.
fn nan(how: Convert, bits: u64) -> u64 {
    if how.saturate {
        return 0;
    }
    match (how.from, how.to) {
        (Type::F64, Type::F64) => bits | 1 << 51,
        (Type::F64, Type::F32) => u64::from((f64::from_bits(bits) as f32).to_bits()),
        (Type::F64, Type::F16) => bits >> 48 & 0x8000 | 0x7e00 | bits >> 42 & 0x3ff,
        (Type::F16, Type::F64) => (bits & 0x8000) << 48 | 0x7ff8 << 48 | (bits & 0x3ff) << 42,
        (Type::F32, Type::F64) => f64::from(f32::from_bits(canonical(f32::NAN))).to_bits(),
        (Type::Bf16, Type::F32) => bits << 16,
        (_, to) => format(to).map_or(0, Format::nan),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::float::f32_un;
    use crate::exec::integer::word1;
    use crate::exec::registers::{FULL, LANES};
    use crate::ptx::ir::{Code, FloatMode, FloatUn, Word1};

    /// Singles around zeros, halves, integers, the bounds of integers and NaNs.
    fn edges() -> Vec<u32> {
        let near = [
            0.0,
            0.5,
            1.0,
            1.5,
            2.0,
            2.5,
            8_388_607.5,
            2_147_483_648.0,
            4_294_967_296.0,
        ];
        let bits = near.into_iter().flat_map(|value: f32| {
            (-2..=2).map(move |step| value.to_bits().saturating_add_signed(step))
        });
        let others = [
            0x007f_ffff,
            0x0080_0000,
            0x7f7f_ffff,
            0x7f80_0000,
            0x7f80_0001,
            0x7fc0_0000,
        ];
        let all = bits.chain(others);
        all.flat_map(|bits| [bits, bits | 0x8000_0000]).collect()
    }

    /// Returns the results of operations on register 0 that end in register 1.
    fn results(values: &[u32], run: impl Fn(&mut Registers)) -> Vec<u32> {
        let mut r = Registers::default();
        r.reset(&Code {
            words: 2,
            ..Code::default()
        });
        let mut results = Vec::new();
        for values in values.chunks(LANES) {
            r.set_word(
                0,
                FULL,
                &std::array::from_fn(|lane| values[lane % values.len()]),
            );
            run(&mut r);
            results.extend_from_slice(&r.word(1)[..values.len()]);
        }
        results
    }

    #[test]
    fn dedicated_operations_convert_as_the_general_conversion_does() {
        let edges = edges();
        for round in [Round::Nearest, Round::Zero, Round::Down, Round::Up] {
            for flush in [false, true] {
                let how = |to, integral, saturate| Convert {
                    flush,
                    integral,
                    saturate,
                    ..Convert::plain(to, Type::F32, round)
                };
                let general = |how| results(&edges, |r| run(r, FULL, how, 1, [0]));
                let integral = FloatUn::Integral(FloatMode { round, flush });
                let single = results(&edges, |r| f32_un(r, FULL, integral, 1, 0));
                assert_eq!(
                    single,
                    general(how(Type::F32, true, false)),
                    "{round:?} {flush}"
                );
                let saturated = results(&edges, |r| {
                    f32_un(r, FULL, FloatUn::Saturate, 1, 0);
                    if flush {
                        f32_un(r, FULL, FloatUn::Flush, 1, 1);
                    }
                });
                assert_eq!(
                    saturated,
                    general(how(Type::F32, false, true)),
                    "{round:?} {flush}"
                );
                for (to, f) in [(Type::S32, Word1::F32ToS32), (Type::U32, Word1::F32ToU32)] {
                    let integer = results(&edges, |r| {
                        f32_un(r, FULL, integral, 1, 0);
                        word1(r, FULL, f, 1, [1]);
                    });
                    assert_eq!(
                        integer,
                        general(how(to, true, false)),
                        "{to:?} {round:?} {flush}"
                    );
                }
            }
        }
    }
}
