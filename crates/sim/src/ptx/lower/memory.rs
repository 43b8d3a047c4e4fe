//! Loads and stores.

use super::mnemonic::Mnemonic;
use super::names::Symbol;
use super::operand::Class;
use super::{Lowerer, PtxError, PtxErrorKind};
use crate::ptx::ast::Operand;
use crate::ptx::code::{
    Access, AccessSpace, Address, AddressBase, Narrow, Op, Order, Slot, Special, Widen, Window,
};
use crate::ptx::types::Type;

/// Hints about caching, and scopes wider than a block, which change nothing where all memory is coherent.
const HINTS: [&str; 26] = [
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
    "L2::cache_hint",
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
    pub(super) fn space_and_order(m: &mut Mnemonic<'a>) -> (AccessSpace, Option<Order>) {
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
    pub(super) fn address(
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
                if space == AccessSpace::Is(Window::Param) && (self.calls.len() > 1 || self.frame.is_some()) {
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
            symbol @ (Symbol::Frame(_) | Symbol::Formal(_))
                if matches!(space, AccessSpace::Is(Window::Local | Window::Param)) =>
            {
                let place = self.place_in_local_memory(symbol);
                let (base, start) = place.ok_or_else(|| m.mismatch(operand, "it is no address"))?;
                let offset = offset.wrapping_add(i64::from(start));
                Ok((address(base, offset), AccessSpace::Is(Window::Local)))
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

    /// The operands of a load or store, but for the policy that may stand at their end.
    fn without_policy(m: &Mnemonic<'a>, policy: bool) -> Result<&'a [Operand<'a>; 2], PtxError> {
        m.finish()?;
        match m.operands {
            [rest @ .., _] if policy => rest,
            all => all,
        }
        .try_into()
        .map_err(|_| m.operand_count(if policy { "3" } else { "2" }))
    }

    /// Takes `.v2` or `.v4`.
    fn vector(m: &mut Mnemonic<'a>) -> usize {
        m.take_one(&[("v2", 2), ("v4", 4)]).unwrap_or(1)
    }

    /// The values of a vector operand, or the one value of another.
    pub(super) fn values(
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
        let policy = m.has("L2::cache_hint");
        let (space, order) = Self::space_and_order(m);
        let count = Self::vector(m);
        let ty = Self::value_type(m, count)?;
        let [d, source] = Self::without_policy(m, policy)?;
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
        let policy = m.has("L2::cache_hint");
        let (space, order) = Self::space_and_order(m);
        let count = Self::vector(m);
        let ty = Self::value_type(m, count)?;
        let [target, source] = Self::without_policy(m, policy)?;
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

    /// `prefetch`, `prefetchu`, `applypriority`, `discard`: hints.
    pub(super) fn prefetch(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let space = window(m).map_or(AccessSpace::Generic, AccessSpace::Is);
        m.ignore(&["L1", "L2", "L2::evict_last", "L2::evict_normal", "tensormap"]);
        m.finish()?;
        let [address, ..] = m.operands else {
            return Err(m.operand_count("1"));
        };
        self.address(m, address, space)?;
        self.emit(Op::Nop);
        Ok(())
    }

    /// `createpolicy`: what it makes is a hint for caches.
    pub(super) fn create_policy(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let [d, ..] = m.operands else {
            return Err(m.operand_count("2 or more"));
        };
        let a = self.constant(Class::Double, 0)?;
        let d = self.target(m, d, Type::B64)?;
        self.emit_move(Class::Double, d, a);
        Ok(())
    }

    /// `membar`, `fence`: what runs here is in order, so that only the check for races looks at it.
    pub(super) fn fence(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let block_only = m.take("cta");
        m.ignore(&[
            "sc", "acq_rel", "acquire", "release", "gl", "gpu", "sys", "proxy", "alias",
        ]);
        let [] = m.operands()?;
        self.emit(Op::Fence { block_only });
        Ok(())
    }
}
