//! Reductions on the host, in order of ranks.

use std::ops::{Add as _, Mul as _};

use bytemuck::{Pod, bytes_of, pod_read_unaligned};

use crate::nccl::{DataType, Reduce};

fn combine_as<T: Element>(parts: &[&[u8]], op: Reduce) -> Vec<u8> {
    let Some((first, others)) = parts.split_first() else {
        return Vec::new();
    };
    let mut result = first.to_vec();
    let bytes = size_of::<T>();
    for part in others {
        let pairs = result.chunks_exact_mut(bytes).zip(part.chunks_exact(bytes));
        for (left, right) in pairs {
            let combined = pod_read_unaligned::<T>(left).apply(pod_read_unaligned(right), op);
            left.copy_from_slice(bytes_of(&combined));
        }
    }
    if op == Reduce::Avg {
        for element in result.chunks_exact_mut(bytes) {
            let divided = pod_read_unaligned::<T>(element).divided_by(parts.len());
            element.copy_from_slice(bytes_of(&divided));
        }
    }
    result
}

trait Element: Pod {
    /// Combines two elements; the average is a sum until the last step.
    fn apply(self, other: Self, op: Reduce) -> Self;
    fn divided_by(self, ranks: usize) -> Self;
}

/// Implements the arithmetic of an element type.
macro_rules! element {
    // Divides in 128 bits, where every number of ranks is representable.
    (integer $type:ty) => {
        element!($type: wrapping_add, wrapping_mul, |value, ranks| {
            (i128::from(value) / ranks as i128) as $type
        });
    };
    (float $type:ty) => {
        element!($type: add, mul, |value, ranks| value / ranks as $type);
    };
    // A 16-bit type computes in single precision: for one addition, multiplication or division of
    // two such numbers, rounding twice gives the correctly rounded result.
    (half $type:ty) => {
        impl Element for $type {
            fn apply(self, other: Self, op: Reduce) -> Self {
                Self::from_f32(self.to_f32().apply(other.to_f32(), op))
            }

            fn divided_by(self, ranks: usize) -> Self {
                Self::from_f32(self.to_f32() / ranks as f32)
            }
        }
    };
    ($type:ty: $add:ident, $mul:ident, $divide:expr) => {
        impl Element for $type {
            fn apply(self, other: Self, op: Reduce) -> Self {
                match op {
                    Reduce::Sum | Reduce::Avg => self.$add(other),
                    Reduce::Prod => self.$mul(other),
                    Reduce::Max => self.max(other),
                    Reduce::Min => self.min(other),
                }
            }

            fn divided_by(self, ranks: usize) -> Self {
                let divide: fn(Self, usize) -> Self = $divide;
                divide(self, ranks)
            }
        }
    };
}

macro_rules! implement {
    ($(
        $type:ty: $name:ident = $number:literal, $text:literal, $kind:ident, $doc:literal;
    )*) => {
        /// Combines the parts of all ranks: ((rank 0 + rank 1) + rank 2) + …, rounded to the
        /// element type after every step. All parts have the length of the first.
        pub(super) fn combine(parts: &[&[u8]], data_type: DataType, op: Reduce) -> Vec<u8> {
            match data_type {
                $(DataType::$name => combine_as::<$type>(parts, op),)*
            }
        }

        $(element!($kind $type);)*
    };
}

crate::elements!(implement);

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    fn combined<T: Pod>(parts: &[&[T]], data_type: DataType, op: Reduce) -> Vec<T> {
        let parts: Vec<&[u8]> = parts
            .iter()
            .map(|part| bytemuck::cast_slice(part))
            .collect();
        let result = combine(&parts, data_type, op);
        let elements = result.chunks_exact(size_of::<T>());
        elements.map(pod_read_unaligned).collect()
    }

    #[test]
    fn every_operation_combines_elements_of_three_ranks() {
        let parts: [&[i32]; 3] = [&[7, -2], &[5, i32::MAX], &[-1, 1]];
        for (op, expected) in [
            // -2 + MAX + 1 does not wrap, -2 * MAX does.
            (Reduce::Sum, [11, i32::MAX - 1]),
            (Reduce::Prod, [-35, 2]),
            (Reduce::Max, [7, i32::MAX]),
            (Reduce::Min, [-1, -2]),
            (Reduce::Avg, [3, (i32::MAX - 1) / 3]),
        ] {
            assert_eq!(combined(&parts, DataType::I32, op), expected, "{op:?}");
        }
    }

    #[test]
    fn sums_are_taken_in_order_of_ranks() {
        let parts: [&[f32]; 3] = [&[1.0e8], &[-1.0e8], &[1.0]];
        assert_eq!(combined(&parts, DataType::F32, Reduce::Sum), [1.0]);
        let parts: [&[f32]; 3] = [&[1.0], &[1.0e8], &[-1.0e8]];
        assert_eq!(combined(&parts, DataType::F32, Reduce::Sum), [0.0]);
        let parts: [&[f64]; 2] = [&[1.0], &[2.0]];
        assert_eq!(combined(&parts, DataType::F64, Reduce::Avg), [1.5]);
    }

    #[test]
    fn integers_wrap_and_divide() {
        let parts: [&[u32]; 2] = [&[u32::MAX], &[45]];
        assert_eq!(combined(&parts, DataType::U32, Reduce::Sum), [44]);
        assert_eq!(combined(&parts, DataType::U32, Reduce::Max), [u32::MAX]);
        let parts: [&[u64]; 2] = [&[u64::MAX - 1], &[0]];
        assert_eq!(combined(&parts, DataType::U64, Reduce::Avg), [u64::MAX / 2]);
        let parts: [&[i32]; 2] = [&[i32::MIN], &[i32::MIN]];
        assert_eq!(combined(&parts, DataType::I32, Reduce::Min), [i32::MIN]);
    }

    #[test]
    fn sums_of_16_bit_types_are_rounded_after_every_step() {
        let one = f16::ONE;
        let tiny = f16::from_f32(2.0_f32.powi(-11));
        let parts: [&[f16]; 3] = [&[one], &[tiny], &[tiny]];
        assert_eq!(combined(&parts, DataType::F16, Reduce::Sum), [one]);
        let (one, tiny) = (bf16::ONE, bf16::from_f32(2.0_f32.powi(-8)));
        let parts: [&[bf16]; 3] = [&[tiny], &[tiny], &[one]];
        let expected = bf16::from_f32(1.0 + 2.0_f32.powi(-7));
        assert_eq!(combined(&parts, DataType::Bf16, Reduce::Sum), [expected]);
    }
}
