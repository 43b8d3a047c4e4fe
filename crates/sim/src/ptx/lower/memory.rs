//! Loads, stores and atomics.

use super::mnemonic::Mnemonic;
use super::names::Symbol;
use super::operand::Class;
use super::{Lowerer, PtxError, PtxErrorKind, uses};
use crate::ptx::ast::Operand;
use crate::ptx::code::{
    Access, AccessSpace, Address, AddressBase, Atomic, AtomicOp, Code, Narrow, Op, Order, Slot, Special,
    Widen, Window,
};
use crate::ptx::types::Type;

/// Hints about caching, and scopes wider than a block, which change nothing where all memory is coherent.
const HINTS: [&str; 25] = [
    "weak",
    "gpu",
    "sys",
    "nc",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "unified",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::evict_normal",
    "L2::evict_first",
    "L2::evict_last",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "noftz",
    "entry",
];

/// Orders that threads use to wait for each other.
const ORDERS: [&str; 6] = ["volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"];

/// Takes a memory space from the name. Constant memory is read by its global address.
pub(super) fn window(m: &mut Mnemonic<'_>) -> Option<Window> {
    m.take_one(&[
        ("global", Window::Global),
        ("const", Window::Global),
        ("shared", Window::Shared),
        ("shared::cta", Window::Shared),
        ("local", Window::Local),
        ("param", Window::Param),
        ("param::entry", Window::Param),
        ("param::func", Window::Param),
    ])
}

impl<'a> Lowerer<'a> {
    /// Takes from the name what loads and stores have in common: space, order and hints. There is an order if it synchronises.
    fn space_and_order(m: &mut Mnemonic<'a>) -> (AccessSpace, Option<Order>) {
        let space = window(m).map_or(AccessSpace::Generic, AccessSpace::Is);
        let name = ORDERS.iter().find(|order| m.take(order));
        let block_only = m.take("cta");
        m.ignore(&HINTS);
        let order = name.map(|name| Order {
            acquire: name.starts_with("acq"),
            release: matches!(*name, "release" | "acq_rel"),
            block_only,
        });
        (space, order)
    }

    /// The address that an operand in brackets gives, and the space, which a named variable knows better than the instruction.
    fn address(
        &mut self,
        m: &Mnemonic<'a>,
        operand: &'a Operand<'a>,
        space: AccessSpace,
    ) -> Result<(Address, AccessSpace), PtxError> {
        let Operand::Address { base, offset } = operand else {
            return Err(m.mismatch(operand, "an address must stand here"));
        };
        let offset = *offset;
        let Some(name) = base else {
            return Ok((
                Address {
                    base: AddressBase::None,
                    offset,
                },
                space,
            ));
        };
        let address = |base, offset| Address { base, offset };
        match self.resolve(name)? {
            Symbol::Register(register) => {
                if space == AccessSpace::Is(Window::Param) && self.calls.len() > 1 {
                    let problem = "parameters of called functions read through registers".to_owned();
                    return Err(self.error(PtxErrorKind::Unsupported(problem)));
                }
                match register.ty.bytes() {
                    8 => Ok((address(AddressBase::Double(register.slot), offset), space)),
                    4 => Ok((address(AddressBase::Word(register.slot), offset), space)),
                    _ => Err(m.mismatch(operand, "the register is too narrow for an address")),
                }
            }
            Symbol::Memory {
                window,
                offset: start,
            } => {
                let fits = match space {
                    AccessSpace::Is(Window::Param) => matches!(window, Window::Param | Window::Local),
                    AccessSpace::Is(space) => space == window,
                    AccessSpace::Generic => false,
                };
                if !fits {
                    return Err(m.mismatch(operand, "the variable lies in another memory space"));
                }
                let offset = offset.wrapping_add(i64::from(start));
                Ok((address(AddressBase::None, offset), AccessSpace::Is(window)))
            }
            Symbol::DynamicShared if space == AccessSpace::Is(Window::Shared) => {
                let slot = self.special(Class::Double, Special::DynamicShared(offset))?;
                Ok((address(AddressBase::Double(slot), 0), space))
            }
            Symbol::Variable(index)
                if matches!(space, AccessSpace::Is(Window::Global) | AccessSpace::Generic) =>
            {
                let slot = self.special(Class::Double, Special::Variable(index, offset))?;
                Ok((address(AddressBase::Double(slot), 0), space))
            }
            _ => Err(m.mismatch(operand, "it is no address in this memory space")),
        }
    }

    /// Takes `.v2` or `.v4`.
    fn vector(m: &mut Mnemonic<'a>) -> usize {
        m.take_one(&[("v2", 2), ("v4", 4)]).unwrap_or(1)
    }

    /// The values of a vector operand, or the one value of another.
    fn values(
        m: &Mnemonic<'a>,
        operand: &'a Operand<'a>,
        count: usize,
    ) -> Result<&'a [Operand<'a>], PtxError> {
        let values = match operand {
            Operand::Vector(values) => values.as_slice(),
            _ => std::slice::from_ref(operand),
        };
        if values.len() == count {
            Ok(values)
        } else {
            Err(m.mismatch(operand, format!("{count} values are wanted")))
        }
    }

    fn value_type(m: &mut Mnemonic<'a>, count: usize) -> Result<Type, PtxError> {
        let ty = m.ty()?;
        if ty == Type::Pred || ty.bytes() * count > 16 {
            Err(m.unsupported())
        } else {
            Ok(ty)
        }
    }

    /// `ld`, `ldu`.
    pub(super) fn load(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let (space, order) = Self::space_and_order(m);
        let count = Self::vector(m);
        let ty = Self::value_type(m, count)?;
        let [d, source] = m.operands()?;
        let (address, space) = self.address(m, source, space)?;
        let mut values = [0; 4];
        let mut double = None;
        let mut sign_extend = 0;
        for (slot, operand) in values.iter_mut().zip(Self::values(m, d, count)?) {
            let register = self.target_wide(m, operand, ty)?;
            let is_double = Class::of(register.ty) == Class::Double;
            if *double.get_or_insert(is_double) != is_double {
                return Err(m.mismatch(d, "its registers differ in size"));
            }
            if ty.is_signed() {
                sign_extend = u8::try_from(8 * register.ty.bytes()).unwrap_or(64);
            }
            *slot = register.slot;
        }
        self.code.loads.push(Access {
            space,
            address,
            width: u8::try_from(ty.bytes()).unwrap_or(8),
            count: u8::try_from(count).unwrap_or(4),
            sign_extend,
            double: double.unwrap_or(false),
            synchronises: order.is_some(),
            order: order.unwrap_or_default(),
            values,
        });
        self.emit(Op::Load(
            u32::try_from(self.code.loads.len() - 1).unwrap_or(u32::MAX),
        ));
        Ok(())
    }

    /// `st`.
    pub(super) fn store(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let (space, order) = Self::space_and_order(m);
        let count = Self::vector(m);
        let ty = Self::value_type(m, count)?;
        let [target, source] = m.operands()?;
        let (address, space) = self.address(m, target, space)?;
        if space == AccessSpace::Is(Window::Param) {
            return Err(m.mismatch(target, "a kernel's parameters are read-only"));
        }
        let mut values = [0; 4];
        let double = ty.bytes() == 8;
        for (slot, operand) in values.iter_mut().zip(Self::values(m, source, count)?) {
            let register = self.source_wide(m, operand, ty)?;
            *slot = self.in_file(register.slot, Class::of(register.ty), double)?;
        }
        self.code.stores.push(Access {
            space,
            address,
            width: u8::try_from(ty.bytes()).unwrap_or(8),
            count: u8::try_from(count).unwrap_or(4),
            sign_extend: 0,
            double,
            synchronises: order.is_some(),
            order: order.unwrap_or_default(),
            values,
        });
        self.emit(Op::Store(
            u32::try_from(self.code.stores.len() - 1).unwrap_or(u32::MAX),
        ));
        Ok(())
    }

    /// The value of a slot of class `class` in the 64-bit file or the 32-bit one.
    fn in_file(&mut self, a: Slot, class: Class, double: bool) -> Result<Slot, PtxError> {
        match (class, double) {
            (Class::Double, false) => {
                let d = self.temporary(Class::Word)?;
                self.emit(Op::Narrow { f: Narrow::Low, d, a });
                Ok(d)
            }
            (Class::Word, true) => {
                let d = self.temporary(Class::Double)?;
                self.emit(Op::Widen { f: Widen::Zext, d, a });
                Ok(d)
            }
            _ => Ok(a),
        }
    }

    /// `atom`, `red`.
    pub(super) fn atomic(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let ty = m.ty()?;
        let block_only = m.take("cta");
        let (space, order) = Self::space_and_order(m);
        let order = Order {
            block_only,
            ..order.unwrap_or_default()
        };
        let operations = [
            ("add", AtomicOp::Add),
            ("min", AtomicOp::Min),
            ("max", AtomicOp::Max),
            ("and", AtomicOp::And),
            ("or", AtomicOp::Or),
            ("xor", AtomicOp::Xor),
            ("inc", AtomicOp::Inc),
            ("dec", AtomicOp::Dec),
            ("exch", AtomicOp::Exchange),
            ("cas", AtomicOp::CompareSwap),
        ];
        let f = m.take_one(&operations).ok_or_else(|| m.unsupported())?;
        let integer = matches!(ty, Type::U32 | Type::S32 | Type::U64 | Type::S64);
        let untyped = matches!(ty, Type::B32 | Type::B64);
        let fits = match f {
            AtomicOp::Add => integer || matches!(ty, Type::F32 | Type::F64),
            AtomicOp::Min | AtomicOp::Max => integer,
            AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => untyped,
            AtomicOp::Inc | AtomicOp::Dec => ty == Type::U32,
            AtomicOp::Exchange | AtomicOp::CompareSwap => untyped || integer,
        };
        let in_memory = matches!(
            space,
            AccessSpace::Generic | AccessSpace::Is(Window::Global | Window::Shared)
        );
        m.finish()?;
        if !fits || !in_memory {
            return Err(m.unsupported());
        }
        let (d, rest) = match (m.base, m.operands) {
            ("atom", [d, rest @ ..]) => (Some(d), rest),
            (_, rest) => (None, rest),
        };
        let swap = f == AtomicOp::CompareSwap;
        let (target, b, c) = match rest {
            [target, b] if !swap => (target, b, b),
            [target, b, c] if swap => (target, b, c),
            _ => return Err(m.operand_count(if swap { "4" } else { "3" })),
        };
        let (address, space) = self.address(m, target, space)?;
        let (b, c) = (self.source(m, b, ty)?, self.source(m, c, ty)?);
        let result = match d {
            Some(Operand::Name("_")) | None => None,
            Some(d) => Some(self.target(m, d, ty)?),
        };
        self.code.atomics.push(Atomic {
            f,
            ty,
            order,
            space,
            address,
            result,
            b,
            c,
        });
        self.emit(Op::Atomic(
            u32::try_from(self.code.atomics.len() - 1).unwrap_or(u32::MAX),
        ));
        Ok(())
    }

    /// `prefetch`, `prefetchu`: nothing to do.
    pub(super) fn prefetch(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let space = window(m).map_or(AccessSpace::Generic, AccessSpace::Is);
        m.ignore(&["L1", "L2", "L2::evict_last", "L2::evict_normal"]);
        let [address] = m.operands()?;
        self.address(m, address, space)?;
        self.emit(Op::Nop);
        Ok(())
    }

    /// `membar`, `fence`: what runs here is in order, so that only the check for races looks at it.
    pub(super) fn fence(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let block_only = m.take("cta");
        m.ignore(&["sc", "acq_rel", "acquire", "release", "gl", "gpu", "sys"]);
        let [] = m.operands()?;
        self.emit(Op::Fence { block_only });
        Ok(())
    }
}

/// Whether the order of blocks can show in the result: see [`Code::ordered`].
pub(super) fn is_ordered(code: &Code) -> bool {
    let outside_block = |space| matches!(space, AccessSpace::Generic | AccessSpace::Is(Window::Global));
    let atomics = code.atomics.iter().any(|atomic| {
        let commutes = !matches!(
            atomic.f,
            AtomicOp::Exchange | AtomicOp::CompareSwap | AtomicOp::Inc | AtomicOp::Dec
        ) && !matches!(atomic.ty, Type::F32 | Type::F64);
        let result_read = atomic
            .result
            .is_some_and(|slot| uses::is_read(code, Class::of(atomic.ty), slot));
        outside_block(atomic.space) && (!commutes || result_read)
    });
    let waits = code
        .loads
        .iter()
        .any(|load| load.synchronises && outside_block(load.space));
    atomics || waits
}
