//! Reductions on the host, in order of ranks.

use std::ops::{Add as _, Mul as _};

use crate::nccl::{DataType, ReduceOp};

/// Combines the parts of all ranks: ((rank 0 + rank 1) + rank 2) + …, rounded to the element type
/// after every step. All parts have the length of the first.
pub(super) fn combine(parts: &[&[u8]], data_type: DataType, op: ReduceOp) -> Vec<u8> {
    match data_type {
        DataType::I8 => combine_as::<i8>(parts, op),
        DataType::U8 => combine_as::<u8>(parts, op),
        DataType::I32 => combine_as::<i32>(parts, op),
        DataType::U32 => combine_as::<u32>(parts, op),
        DataType::I64 => combine_as::<i64>(parts, op),
        DataType::U64 => combine_as::<u64>(parts, op),
        DataType::F16 => combine_as::<Half>(parts, op),
        DataType::F32 => combine_as::<f32>(parts, op),
        DataType::F64 => combine_as::<f64>(parts, op),
        DataType::Bf16 => combine_as::<Bfloat>(parts, op),
    }
}

fn combine_as<T: Element>(parts: &[&[u8]], op: ReduceOp) -> Vec<u8> {
    let Some((first, others)) = parts.split_first() else {
        return Vec::new();
    };
    let mut result = first.to_vec();
    for part in others {
        let pairs = result
            .chunks_exact_mut(T::BYTES)
            .zip(part.chunks_exact(T::BYTES));
        for (left, right) in pairs {
            T::load(left).apply(T::load(right), op).store(left);
        }
    }
    if op == ReduceOp::Avg {
        for element in result.chunks_exact_mut(T::BYTES) {
            T::load(element).divided_by(parts.len()).store(element);
        }
    }
    result
}

trait Element: Copy {
    const BYTES: usize;
    /// Reads an element from exactly `BYTES` bytes.
    fn load(bytes: &[u8]) -> Self;
    /// Writes the element to exactly `BYTES` bytes.
    fn store(self, bytes: &mut [u8]);
    /// Combines two elements; the average is a sum until the last step.
    fn apply(self, other: Self, op: ReduceOp) -> Self;
    fn divided_by(self, ranks: usize) -> Self;
}

macro_rules! plain {
    ($($type:ident: $add:ident, $mul:ident, $ranks:ident => $divided:expr;)*) => {$(
        impl Element for $type {
            const BYTES: usize = size_of::<Self>();

            fn load(bytes: &[u8]) -> Self {
                Self::from_ne_bytes(bytes.try_into().expect("the length is BYTES"))
            }

            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }

            fn apply(self, other: Self, op: ReduceOp) -> Self {
                match op {
                    ReduceOp::Sum | ReduceOp::Avg => self.$add(other),
                    ReduceOp::Prod => self.$mul(other),
                    ReduceOp::Max => self.max(other),
                    ReduceOp::Min => self.min(other),
                }
            }

            fn divided_by(self, $ranks: usize) -> Self {
                let divide: fn(Self, usize) -> Self = $divided;
                divide(self, $ranks)
            }
        }
    )*};
}

/// Divides in 128 bits, where every number of ranks is representable.
macro_rules! whole {
    ($type:ident) => {
        |value: $type, ranks| (i128::from(value) / ranks as i128) as $type
    };
}

plain! {
    i8: wrapping_add, wrapping_mul, ranks => whole!(i8);
    u8: wrapping_add, wrapping_mul, ranks => whole!(u8);
    i32: wrapping_add, wrapping_mul, ranks => whole!(i32);
    u32: wrapping_add, wrapping_mul, ranks => whole!(u32);
    i64: wrapping_add, wrapping_mul, ranks => whole!(i64);
    u64: wrapping_add, wrapping_mul, ranks => whole!(u64);
    f32: add, mul, ranks => |value, ranks| value / ranks as f32;
    f64: add, mul, ranks => |value, ranks| value / ranks as f64;
}

/// A 16-bit type that computes in single precision: for one addition, multiplication or division
/// of two such numbers, rounding twice gives the correctly rounded result.
macro_rules! narrow {
    ($($name:ident: $widen:ident, $narrow:ident;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name(u16);

        impl Element for $name {
            const BYTES: usize = 2;

            fn load(bytes: &[u8]) -> Self {
                Self(u16::from_ne_bytes(bytes.try_into().expect("the length is BYTES")))
            }

            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.0.to_ne_bytes());
            }

            fn apply(self, other: Self, op: ReduceOp) -> Self {
                Self($narrow($widen(self.0).apply($widen(other.0), op)))
            }

            fn divided_by(self, ranks: usize) -> Self {
                Self($narrow($widen(self.0) / ranks as f32))
            }
        }
    )*};
}

narrow! {
    Half: f32_from_f16, f16_from_f32;
    Bfloat: f32_from_bf16, bf16_from_f32;
}

fn f32_from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// Rounds to nearest, ties to even.
fn bf16_from_f32(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    let half_below_even = 0x7fff + (bits >> 16 & 1);
    (bits.wrapping_add(half_below_even) >> 16) as u16
}

fn f32_from_f16(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (bits >> 10 & 0x1f, f32::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2.0_f32.powi(-24),
        0x1f if fraction == 0.0 => f32::INFINITY,
        0x1f => f32::NAN,
        _ => (1024.0 + fraction) * 2.0_f32.powi(i32::from(exponent) - 25),
    }
}

/// Rounds to nearest, ties to even.
fn f16_from_f32(value: f32) -> u16 {
    let sign = (value.to_bits() >> 16) as u16 & 0x8000;
    if value.is_nan() {
        return sign | 0x7e00;
    }
    let size = value.abs();
    // Halfway between the largest finite number and the next power of two.
    if size >= 65_520.0 {
        return sign | 0x7c00;
    }
    // The exponent of the last bit of the result; subnormal numbers share one.
    let exponent = ((size.to_bits() >> 23) as i32 - 127).max(-14);
    let units = (size * 2.0_f32.powi(10 - exponent)).round_ties_even() as u16;
    // A carry to 2048 units moves into the exponent, where it belongs.
    let base = ((exponent + 14) as u16) << 10;
    sign | (base + units)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<T: bytemuck::NoUninit>(values: &[T]) -> Vec<u8> {
        bytemuck::cast_slice(values).to_vec()
    }

    fn combined<T: bytemuck::Pod>(parts: &[&[T]], data_type: DataType, op: ReduceOp) -> Vec<T> {
        let parts: Vec<Vec<u8>> = parts.iter().map(|part| bytes(part)).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let result = combine(&parts, data_type, op);
        let elements = result.chunks_exact(size_of::<T>());
        elements.map(bytemuck::pod_read_unaligned).collect()
    }

    #[test]
    fn every_operation_combines_elements_of_three_ranks() {
        let parts: [&[i32]; 3] = [&[7, -2], &[5, i32::MAX], &[-1, 1]];
        for (op, expected) in [
            // -2 + MAX + 1 does not wrap, -2 * MAX does.
            (ReduceOp::Sum, [11, i32::MAX - 1]),
            (ReduceOp::Prod, [-35, 2]),
            (ReduceOp::Max, [7, i32::MAX]),
            (ReduceOp::Min, [-1, -2]),
            (ReduceOp::Avg, [3, (i32::MAX - 1) / 3]),
        ] {
            assert_eq!(combined(&parts, DataType::I32, op), expected, "{op:?}");
        }
    }

    #[test]
    fn sums_are_taken_in_order_of_ranks() {
        let parts: [&[f32]; 3] = [&[1.0e8], &[-1.0e8], &[1.0]];
        assert_eq!(combined(&parts, DataType::F32, ReduceOp::Sum), [1.0]);
        let parts: [&[f32]; 3] = [&[1.0], &[1.0e8], &[-1.0e8]];
        assert_eq!(combined(&parts, DataType::F32, ReduceOp::Sum), [0.0]);
        let parts: [&[f64]; 2] = [&[1.0], &[2.0]];
        assert_eq!(combined(&parts, DataType::F64, ReduceOp::Avg), [1.5]);
    }

    #[test]
    fn bytes_of_unsigned_types_wrap_and_divide() {
        let parts: [&[u8]; 2] = [&[200], &[100]];
        assert_eq!(combined(&parts, DataType::U8, ReduceOp::Sum), [44]);
        assert_eq!(combined(&parts, DataType::U8, ReduceOp::Max), [200]);
        let parts: [&[u64]; 2] = [&[u64::MAX - 1], &[0]];
        assert_eq!(
            combined(&parts, DataType::U64, ReduceOp::Avg),
            [u64::MAX / 2]
        );
        let parts: [&[i8]; 2] = [&[-128], &[-128]];
        assert_eq!(combined(&parts, DataType::I8, ReduceOp::Min), [-128]);
    }

    #[test]
    fn conversions_of_16_bit_types_are_those_of_the_crate_half() {
        for bits in 0..=u16::MAX {
            let (ours, theirs) = (f32_from_f16(bits), half::f16::from_bits(bits).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan());
            let (ours, theirs) = (f32_from_bf16(bits), half::bf16::from_bits(bits).to_f32());
            assert!(ours.to_bits() == theirs.to_bits() || ours.is_nan() && theirs.is_nan());
        }
        // Every exponent, with fractions around the ties.
        for upper in 0..=u16::MAX {
            for lower in [0, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let value = f32::from_bits(u32::from(upper) << 16 | lower);
                if !value.is_nan() {
                    assert_eq!(f16_from_f32(value), half::f16::from_f32(value).to_bits());
                    assert_eq!(bf16_from_f32(value), half::bf16::from_f32(value).to_bits());
                }
            }
        }
        assert!(half::f16::from_bits(f16_from_f32(f32::NAN)).is_nan());
        assert!(half::bf16::from_bits(bf16_from_f32(f32::NAN)).is_nan());
    }

    #[test]
    fn sums_of_16_bit_types_are_rounded_after_every_step() {
        let one = half::f16::ONE;
        let tiny = half::f16::from_f32(2.0_f32.powi(-11));
        let parts: [&[half::f16]; 3] = [&[one], &[tiny], &[tiny]];
        assert_eq!(combined(&parts, DataType::F16, ReduceOp::Sum), [one]);
        let (one, tiny) = (half::bf16::ONE, half::bf16::from_f32(2.0_f32.powi(-8)));
        let parts: [&[half::bf16]; 3] = [&[tiny], &[tiny], &[one]];
        let expected = half::bf16::from_f32(1.0 + 2.0_f32.powi(-7));
        assert_eq!(combined(&parts, DataType::Bf16, ReduceOp::Sum), [expected]);
    }
}
