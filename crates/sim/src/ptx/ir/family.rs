//! The table of integer operations, by family: each operation with the expression of its result.

/// The table of integer operations.
///
/// A row names a family and the interpreter's functions for it, each with its number of operands,
/// its loop over lanes (a method of `Registers`) and its types; then the operations of the family.
/// The macro passes the table to another macro, `$then`, which generates the opcodes or the
/// functions from it.
macro_rules! integer_families {
    ($then:ident) => { $then! {
        /// Operations on one register.
        Un [un32(1) map1<u32, u32>, un64(1) map1<u64, u64>] {
            Move = |a| a,
            Neg = |a| a.wrapping_neg(),
            Abs = |a| a.cast_signed().wrapping_abs().cast_unsigned(),
            Not = |a| !a,
            Cnot = |a| (a == 0).into(),
            Brev = |a| a.reverse_bits(),
        }

        /// Operations on one 32-bit register.
        Word1 [word1(1) map1<u32, u32>] {
            Popc = u32::count_ones,
            Clz = u32::leading_zeros,
            FindU = |a| find(a.into()),
            FindS = |a| find((a ^ (a.cast_signed() >> 31).cast_unsigned()).into()),
            FindShiftU = |a| shift_amount(find(a.into()), 31),
            FindShiftS = |a| {
                shift_amount(find((a ^ (a.cast_signed() >> 31).cast_unsigned()).into()), 31)
            },
            Zext8 = |a| a & 0xff,
            Sext8 = |a| i32::from(a as i8).cast_unsigned(),
            Zext16 = |a| a & 0xffff,
            Sext16 = |a| i32::from(a as i16).cast_unsigned(),
            /// The high half.
            High16 = |a| a >> 16,
            S32ToF32 = |a| (a.cast_signed() as f32).to_bits(),
            U32ToF32 = |a| (a as f32).to_bits(),
            /// Rounded towards zero, saturating; NaN becomes 0.
            F32ToS32 = |a| (f32::from_bits(a) as i32).cast_unsigned(),
            F32ToU32 = |a| f32::from_bits(a) as u32,
        }

        /// Operations on two registers. Division by zero returns all ones, and so does its
        /// remainder.
        Bin [bin32(2) map2<u32, u32, u32>, bin64(2) map2<u64, u64, u64>] {
            Add = |a, b| a.wrapping_add(b),
            Sub = |a, b| a.wrapping_sub(b),
            Mul = |a, b| a.wrapping_mul(b),
            MulHighS = |a, b| a.mul_high_s(b),
            MulHighU = |a, b| a.mul_high_u(b),
            DivS = |a, b| match b {
                0 => !0,
                _ => a.cast_signed().wrapping_div(b.cast_signed()).cast_unsigned(),
            },
            DivU = |a, b| a.checked_div(b).unwrap_or(!0),
            RemS = |a, b| match b {
                0 => !0,
                _ => a.cast_signed().wrapping_rem(b.cast_signed()).cast_unsigned(),
            },
            RemU = |a, b| a.checked_rem(b).unwrap_or(!0),
            MinS = |a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned(),
            MinU = |a, b| a.min(b),
            MaxS = |a, b| a.cast_signed().max(b.cast_signed()).cast_unsigned(),
            MaxU = |a, b| a.max(b),
            And = |a, b| a & b,
            Or = |a, b| a | b,
            Xor = |a, b| a ^ b,
            AddSat = |a, b| a.cast_signed().saturating_add(b.cast_signed()).cast_unsigned(),
            SubSat = |a, b| a.cast_signed().saturating_sub(b.cast_signed()).cast_unsigned(),
            CopySign = |a, b| a & !(!0 >> 1) | b & !0 >> 1,
            /// The low half of a word `a`, with `b` above it.
            Pack16 = |a, b| (a & 0xffff) | (b << 16),
        }

        /// Shifts by a 32-bit amount.
        Shift [shift32(2) map2<u32, u32, u32>, shift64(2) map2<u64, u32, u64>] {
            Shl = |a, b| a.checked_shl(b).unwrap_or(0),
            ShrU = |a, b| a.checked_shr(b).unwrap_or(0),
            ShrS = |a, b| a.shift_right_signed(b),
        }

        /// Operations on three registers.
        Tri [tri32(3) map3<u32, u32, u32, u32>, tri64(3) map3<u64, u64, u64, u64>] {
            Mad = |a, b, c| a.wrapping_mul(b).wrapping_add(c),
            MadHighS = |a, b, c| a.mul_high_s(b).wrapping_add(c),
            MadHighU = |a, b, c| a.mul_high_u(b).wrapping_add(c),
            SadS = |a, b, c| c.wrapping_add(a.cast_signed().abs_diff(b.cast_signed())),
            SadU = |a, b, c| c.wrapping_add(a.abs_diff(b)),
        }

        /// Operations on three 32-bit registers.
        Word3 [word3(3) map3<u32, u32, u32, u32>] {
            BfeS = |a, b, c| {
                let a = i64::from(a.cast_signed()).cast_unsigned();
                extract(a, b & 0xff, c & 0xff, 32, true) as u32
            },
            BfeU = |a, b, c| extract(a.into(), b & 0xff, c & 0xff, 32, false) as u32,
            ShiftLeftClamp = |a, b, c| (join(a, b) << c.min(32) >> 32) as u32,
            ShiftLeftWrap = |a, b, c| (join(a, b) << (c & 31) >> 32) as u32,
            ShiftRightClamp = |a, b, c| (join(a, b) >> c.min(32)) as u32,
            ShiftRightWrap = |a, b, c| (join(a, b) >> (c & 31)) as u32,
            Dp4aUU = |a, b, c| dot4(a, b, c, false, false),
            Dp4aUS = |a, b, c| dot4(a, b, c, false, true),
            Dp4aSU = |a, b, c| dot4(a, b, c, true, false),
            Dp4aSS = |a, b, c| dot4(a, b, c, true, true),
            Dp2aLoUU = |a, b, c| dot2(a, b, c, false, false),
            Dp2aLoUS = |a, b, c| dot2(a, b, c, false, true),
            Dp2aLoSU = |a, b, c| dot2(a, b, c, true, false),
            Dp2aLoSS = |a, b, c| dot2(a, b, c, true, true),
            Dp2aHiUU = |a, b, c| dot2(a, b >> 16, c, false, false),
            Dp2aHiUS = |a, b, c| dot2(a, b >> 16, c, false, true),
            Dp2aHiSU = |a, b, c| dot2(a, b >> 16, c, true, false),
            Dp2aHiSS = |a, b, c| dot2(a, b >> 16, c, true, true),
        }

        /// 64-bit results of one 32-bit register.
        Widen [widen(1) map1<u32, u64>] {
            Zext = u64::from,
            Sext = |a| i64::from(a.cast_signed()).cast_unsigned(),
            F32ToF64 = |a| f64::from(f32::from_bits(a)).to_bits(),
            S32ToF64 = |a| f64::from(a.cast_signed()).to_bits(),
            U32ToF64 = |a| f64::from(a).to_bits(),
        }

        /// 32-bit results of one 64-bit register.
        Narrow [narrow(1) map1<u64, u32>] {
            Low = |a| a as u32,
            High = |a| (a >> 32) as u32,
            Popc = u64::count_ones,
            Clz = u64::leading_zeros,
            FindU = find,
            FindS = |a| find(a ^ (a.cast_signed() >> 63).cast_unsigned()),
            FindShiftU = |a| shift_amount(find(a), 63),
            FindShiftS = |a| shift_amount(find(a ^ (a.cast_signed() >> 63).cast_unsigned()), 63),
            F64ToF32 = |a| (f64::from_bits(a) as f32).to_bits(),
        }

        /// 64-bit results of two 32-bit registers.
        Join [join64(2) map2<u32, u32, u64>] {
            MulS = |a, b| (i64::from(a.cast_signed()) * i64::from(b.cast_signed())).cast_unsigned(),
            MulU = |a, b| u64::from(a) * u64::from(b),
            /// `a` in the low half, `b` in the high half.
            Pack = join,
        }

        /// Comparisons.
        Compare [cmp32(2) test2<u32>, cmp64(2) test2<u64>] {
            Eq = |a, b| a == b,
            Ne = |a, b| a != b,
            LtS = |a, b| a.cast_signed() < b.cast_signed(),
            LeS = |a, b| a.cast_signed() <= b.cast_signed(),
            LtU = |a, b| a < b,
            LeU = |a, b| a <= b,
        }
    } };
}
pub(crate) use integer_families;

macro_rules! define_opcodes {
    ($(
        $(#[$doc:meta])*
        $family:ident [$($function:tt)+] {
            $($(#[$operation_doc:meta])* $operation:ident = $result:expr,)+
        }
    )*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $family {
            $($(#[$operation_doc])* $operation,)+
        }

        #[cfg(test)]
        impl $family {
            pub(crate) const ALL: &[Self] = &[$(Self::$operation),+];
        })*
    };
}
integer_families!(define_opcodes);
