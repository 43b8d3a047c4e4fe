//! The operations, and the table of operations on registers.

use super::{
    Bin, Carry, Compare, CompareFloat, Convert, FloatBin, FloatMode, FloatUn, HalfFormat, HalfOp,
    Join, MemoryOrder, Narrow, PredOp, Prmt, RegisterClass, Shift, Slot, Test, Tri, Un, Widen,
    Window, Word1, Word3,
};
use millstream_ptx::Type;

/// The table of operations on registers.
///
/// Each row has a name, the name of the function that creates the operation, parameters in
/// brackets, the slots of the result and the operands with their register files, and the
/// interpreter's function with its arguments. The macro passes the table to another macro, `$then`,
/// which generates the variants of [`Op`], the registers that an operation reads and writes, or the
/// interpreter's dispatch from it.
macro_rules! register_operations {
    ($then:ident) => { $then! {
        Un32 un32 [f: Un] d: Word = a: Word => integer::un32(f, d, [a]);
        Un64 un64 [f: Un] d: Double = a: Double => integer::un64(f, d, [a]);
        Word1 word1 [f: Word1] d: Word = a: Word => integer::word1(f, d, [a]);
        Bin32 bin32 [f: Bin] d: Word = a: Word, b: Word => integer::bin32(f, d, [a, b]);
        Bin64 bin64 [f: Bin] d: Double = a: Double, b: Double => integer::bin64(f, d, [a, b]);
        Tri32 tri32 [f: Tri] d: Word = a: Word, b: Word, c: Word => integer::tri32(f, d, [a, b, c]);
        Tri64 tri64 [f: Tri] d: Double = a: Double, b: Double, c: Double
            => integer::tri64(f, d, [a, b, c]);
        Word3 word3 [f: Word3] d: Word = a: Word, b: Word, c: Word
            => integer::word3(f, d, [a, b, c]);
        /// A shift of `a` by the 32-bit `b`.
        Shift32 shift32 [f: Shift] d: Word = a: Word, b: Word => integer::shift32(f, d, [a, b]);
        Shift64 shift64 [f: Shift] d: Double = a: Double, b: Word => integer::shift64(f, d, [a, b]);
        /// A 64-bit result of a 32-bit operand.
        Widen widen [f: Widen] d: Double = a: Word => integer::widen(f, d, [a]);
        /// A 32-bit result of a 64-bit operand.
        Narrow narrow [f: Narrow] d: Word = a: Double => integer::narrow(f, d, [a]);
        /// A 64-bit result of two 32-bit operands.
        Join join [f: Join] d: Double = a: Word, b: Word => integer::join64(f, d, [a, b]);
        /// `d = a * b + c`, where `a` and `b` are 32-bit.
        MadWide mad_wide [signed: bool] d: Double = a: Word, b: Word, c: Double
            => integer::mad_wide(signed, d, [a, b, c]);
        /// Bit-field extract; `b` and `c` are 32-bit.
        Bfe64 bfe64 [signed: bool] d: Double = a: Double, b: Word, c: Word
            => bits::bfe64(signed, d, [a, b, c]);
        /// Bit-field insert of `a` into `b`; position and length are 32-bit.
        Bfi32 bfi32 [] d: Word = a: Word, b: Word, position: Word, length: Word
            => bits::bfi32(d, [a, b, position, length]);
        Bfi64 bfi64 [] d: Double = a: Double, b: Double, position: Word, length: Word
            => bits::bfi64(d, [a, b, position, length]);
        /// The three-input logical function with the truth table `table`.
        Lop3 lop3 [table: u8] d: Word = a: Word, b: Word, c: Word
            => bits::lop3(table, d, [a, b, c]);
        Prmt prmt [mode: Prmt] d: Word = a: Word, b: Word, c: Word
            => bits::prmt(mode, d, [a, b, c]);
        /// Addition or subtraction with carry-in and carry-out predicates.
        Carry32 carry32 [f: Carry] d: Word = a: Word, b: Word => integer::carry32(f, d, [a, b]);
        Carry64 carry64 [f: Carry] d: Double = a: Double, b: Double
            => integer::carry64(f, d, [a, b]);
        F32Un f32_un [f: FloatUn] d: Word = a: Word => float::f32_un(f, d, a);
        F64Un f64_un [f: FloatUn] d: Double = a: Double => float::f64_un(f, d, a);
        F32Bin f32_bin [f: FloatBin, mode: FloatMode] d: Word = a: Word, b: Word
            => float::f32_bin(f, mode, d, [a, b]);
        F64Bin f64_bin [f: FloatBin, mode: FloatMode] d: Double = a: Double, b: Double
            => float::f64_bin(f, mode, d, [a, b]);
        F32Fma f32_fma [mode: FloatMode] d: Word = a: Word, b: Word, c: Word
            => float::f32_fma(mode, d, [a, b, c]);
        F64Fma f64_fma [mode: FloatMode] d: Double = a: Double, b: Double, c: Double
            => float::f64_fma(mode, d, [a, b, c]);
        /// Arithmetic on 16-bit floats, one or two per register.
        Half half [f: HalfOp, format: HalfFormat] d: Word = a: Word, b: Word, c: Word
            => half::run(f, format, d, [a, b, c]);
        /// A conversion that no other operation covers.
        Convert convert [how: Convert] d: (RegisterClass::of_bytes(how.register_bytes))
            = a: (RegisterClass::of(how.from))
            => convert::run(how, d, [a]);
        Cmp32 cmp32 [f: Compare] d: Predicate = a: Word, b: Word => integer::cmp32(f, d, [a, b]);
        Cmp64 cmp64 [f: Compare] d: Predicate = a: Double, b: Double
            => integer::cmp64(f, d, [a, b]);
        CmpF32 cmp_f32 [f: CompareFloat] d: Predicate = a: Word, b: Word
            => float::cmp_f32(f, d, [a, b]);
        CmpF64 cmp_f64 [f: CompareFloat] d: Predicate = a: Double, b: Double
            => float::cmp_f64(f, d, [a, b]);
        /// A class test of a float (`testp`).
        Test32 test32 [f: Test] d: Predicate = a: Word => float::test32(f, d, a);
        Test64 test64 [f: Test] d: Predicate = a: Double => float::test64(f, d, a);
        Pred pred [f: PredOp] d: Predicate = a: Predicate, b: Predicate
            => integer::pred(f, d, a, b);
        Select32 select32 [] d: Word = a: Word, b: Word, p: Predicate
            => integer::select32(d, [a, b, p]);
        Select64 select64 [] d: Double = a: Double, b: Double, p: Predicate
            => integer::select64(d, [a, b, p]);
        /// Writes whether the generic address `a` lies in a window (`isspacep`).
        IsSpace is_space [window: Window] d: Predicate = a: Double => is_space(window, d, a);
    } };
}
pub(crate) use register_operations;

macro_rules! define_operations {
    ($(
        $(#[$doc:meta])*
        $name:ident $create:ident [$($param:ident: $ty:ty),*]
            $d:ident: $result:tt = $($slot:ident: $class:tt),+
            => $($does:ident)::+ ($($arg:expr),*);
    )*) => {
        /// An operation. `d` is the result's slot; `a`, `b` and `c` are the operands' slots.
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub(crate) enum Op {
            $($(#[$doc])* $name { $($param: $ty,)* $d: Slot, $($slot: Slot),+ },)*
            /// The number of warp instructions that the worker has executed, for `%clock`.
            Clock32 { d: Slot },
            Clock64 { d: Slot },
            /// A load: an index into [`Code::loads`](super::Code::loads).
            Load(u32),
            /// A store: an index into [`Code::stores`](super::Code::stores).
            Store(u32),
            /// An atomic: an index into [`Code::atomics`](super::Code::atomics).
            Atomic(u32),
            Branch { target: u32 },
            /// An indexed branch: an index into [`Code::tables`](super::Code::tables), and the slot
            /// of the target's index.
            BranchIndexed { table: u32, index: Slot },
            /// A run-time call: an index into [`Code::calls`](super::Code::calls).
            Call(u32),
            /// A return from the thread's last run-time call.
            Return,
            /// A system call: an index into [`Code::system_calls`](super::Code::system_calls).
            SystemCall(u32),
            /// An asynchronous copy: an index into [`Code::copies`](super::Code::copies).
            Copy(u32),
            /// An operation on an mbarrier object: an index into
            /// [`Code::mbarriers`](super::Code::mbarriers).
            Mbarrier(u32),
            /// An operation on a texture or a surface: an index into
            /// [`Code::images`](super::Code::images).
            Image(u32),
            /// An operation of all lanes on matrices: an index into
            /// [`Code::matrices`](super::Code::matrices).
            Matrix(u32),
            /// A rare operation on 32-bit registers: `f` is an index into
            /// [`Code::extras`](super::Code::extras).
            Extra { f: u32, d: Slot, a: Slot, b: Slot, c: Slot },
            /// Executes a fused block: an index into
            /// [`FusedCode::blocks`](super::FusedCode::blocks).
            Fused(u32),
            /// The end of the hoisted operations: continues at the kernel's entry.
            Enter,
            Exit,
            Trap,
            /// A barrier of the block: an index into [`Code::barriers`](super::Code::barriers).
            Barrier(u32),
            /// A warp-wide exchange: an index into [`Code::exchanges`](super::Code::exchanges).
            Exchange(u32),
            ActiveMask { d: Slot },
            /// `membar` and `fence`. The interpreter executes accesses in order, so only the race
            /// detector uses it.
            Fence { order: MemoryOrder },
            /// `nanosleep`: a hint that the thread waits for something.
            Pause,
            /// No operation.
            Nop,
        }

        impl Op {
            $(#[inline]
            pub(crate) fn $create($($param: $ty,)* $d: Slot, $($slot: Slot),+) -> Self {
                Self::$name { $($param,)* $d, $($slot),+ }
            })*

            /// Calls `read` with each slot that an operation on registers reads as an operand.
            ///
            /// Slots in its parameters, such as a carry flag, are left to the caller.
            #[allow(
                unused_variables,
                reason = "the register files of few operations depend on their parameters"
            )]
            pub(crate) fn register_operands(&self, read: &mut dyn FnMut(RegisterClass, Slot)) {
                use RegisterClass::{Double, Predicate, Word};
                match *self {
                    $(Self::$name { $($param,)* $($slot,)+ .. } => {
                        $(read($class, $slot);)+
                    })*
                    other => unreachable!("{other:?} is not an operation on registers"),
                }
            }

            /// Returns the slot of the result of an operation on registers; `None` for any other.
            ///
            /// Slots in its parameters, such as a carry flag, are left to the caller.
            #[allow(
                unused_variables,
                reason = "the register files of few operations depend on their parameters"
            )]
            pub(crate) fn register_result(&self) -> Option<(RegisterClass, Slot)> {
                use RegisterClass::{Double, Predicate, Word};
                match *self {
                    $(Self::$name { $($param,)* $d, .. } => Some(($result, $d)),)*
                    _ => None,
                }
            }
        }
    };
}
register_operations!(define_operations);

/// Defines functions that create an operation of the 32-bit or the 64-bit file, by the size of the
/// operands' type.
macro_rules! define_by_size {
    ($($name:ident($($param:ident: $ty:ty),+) = $word:ident, $double:ident;)*) => {
        impl Op {
            $(pub(crate) fn $name(of: Type, $($param: $ty),+) -> Self {
                if of.bytes() == 8 {
                    Self::$double($($param),+)
                } else {
                    Self::$word($($param),+)
                }
            })*
        }
    };
}
define_by_size! {
    un(f: Un, d: Slot, a: Slot) = un32, un64;
    bin(f: Bin, d: Slot, a: Slot, b: Slot) = bin32, bin64;
    tri(f: Tri, d: Slot, a: Slot, b: Slot, c: Slot) = tri32, tri64;
    shift(f: Shift, d: Slot, a: Slot, b: Slot) = shift32, shift64;
    carry(f: Carry, d: Slot, a: Slot, b: Slot) = carry32, carry64;
    cmp(f: Compare, d: Slot, a: Slot, b: Slot) = cmp32, cmp64;
    select(d: Slot, a: Slot, b: Slot, p: Slot) = select32, select64;
    bfi(d: Slot, a: Slot, b: Slot, position: Slot, length: Slot) = bfi32, bfi64;
    float_un(f: FloatUn, d: Slot, a: Slot) = f32_un, f64_un;
    float_bin(f: FloatBin, mode: FloatMode, d: Slot, a: Slot, b: Slot) = f32_bin, f64_bin;
    fma(mode: FloatMode, d: Slot, a: Slot, b: Slot, c: Slot) = f32_fma, f64_fma;
    cmp_float(f: CompareFloat, d: Slot, a: Slot, b: Slot) = cmp_f32, cmp_f64;
    test(f: Test, d: Slot, a: Slot) = test32, test64;
}
