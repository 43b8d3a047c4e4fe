//! Lowering of loads and stores.

use smallvec::SmallVec;

use super::{
    lowerer::{Lowerer, add},
    mnemonic::Mnemonic,
    symbols::Symbol,
};
use crate::ptx::ir::{
    Access, AccessSpace, Address, AddressBase, MemoryOrder, Narrow, Op, RegisterClass, Slot,
    SpecialRegister, Widen, Window,
};
use millstream_ptx::{PtxError, PtxErrorKind, Type, ast::Operand};

/// Cache hints, and scopes wider than a block. They have no effect because all memory is coherent.
const HINTS: [&str; 27] = [
    "weak",
    "gpu",
    "sys",
    "mmio",
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

/// The memory orders of strong accesses, with which threads can wait for each other.
const ORDERS: [&str; 5] = ["volatile", "relaxed", "acquire", "release", "acq_rel"];

/// Takes a state space from the mnemonic. Constant memory is read by its global address.
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

/// Takes a scope no wider than a block, and returns whether there was one. A cluster has one block.
pub(super) fn takes_block_scope(m: &mut Mnemonic<'_>) -> bool {
    m.take("cta") || m.take("cluster")
}

/// The value registers of a load or store.
#[derive(Default)]
struct VectorValues {
    slots: SmallVec<[Slot; 8]>,
    /// True if the registers are 64-bit.
    double: bool,
    sign_extend: u8,
    /// The type, if the access is to a single floating-point value.
    float: Option<Type>,
}

impl VectorValues {
    /// Returns values of `width` bytes.
    fn of(width: usize, slots: &[Slot]) -> Self {
        Self {
            slots: SmallVec::from_slice(slots),
            double: width == 8,
            ..Self::default()
        }
    }
}

impl<'a> Lowerer<'a> {
    /// Takes the modifiers common to loads and stores: state space, memory order and hints.
    ///
    /// The order is `None` for weak accesses.
    pub(super) fn space_and_order(m: &mut Mnemonic<'a>) -> (AccessSpace, Option<MemoryOrder>) {
        let space = window(m).map_or(AccessSpace::Generic, AccessSpace::Is);
        let name = ORDERS.iter().find(|order| m.take(order));
        let block_only = takes_block_scope(m);
        m.ignore(&HINTS);
        let order = name.map(|name| MemoryOrder {
            acquire: name.starts_with("acq"),
            release: matches!(*name, "release" | "acq_rel"),
            block_only,
            volatile: *name == "volatile",
            ..MemoryOrder::default()
        });
        (space, order)
    }

    /// Returns the address of an operand in brackets, and its state space. The space of a named
    /// variable is more specific than that of the instruction.
    pub(super) fn address(
        &mut self,
        m: &Mnemonic<'a>,
        operand: &'a Operand<'a>,
        space: AccessSpace,
    ) -> Result<(Address, AccessSpace), PtxError> {
        let Operand::Address { base, offset } = operand else {
            return Err(m.mismatch(operand, "expected an address"));
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
                if space == AccessSpace::Is(Window::Param)
                    && (self.calls.len() > 1 || self.frame.is_some())
                {
                    let problem =
                        "reading a called function's parameters through registers".to_owned();
                    return Err(self.error(PtxErrorKind::Unsupported(problem)));
                }
                match register.ty.bytes() {
                    8 => {
                        let base = match space {
                            AccessSpace::Is(Window::Shared | Window::Local) => {
                                AddressBase::Offset(register.slot)
                            }
                            _ => AddressBase::Double(register.slot),
                        };
                        Ok((address(base, offset), space))
                    }
                    4 => Ok((address(AddressBase::Word(register.slot), offset), space)),
                    _ => Err(m.mismatch(operand, "the register is too narrow for an address")),
                }
            }
            Symbol::Memory {
                window,
                offset: start,
            } => {
                let fits = match space {
                    AccessSpace::Is(Window::Param) => {
                        matches!(window, Window::Param | Window::Local)
                    }
                    AccessSpace::Is(space) => space == window,
                    // A name stands for its generic address, except for kernel parameters.
                    AccessSpace::Generic => window != Window::Param,
                };
                if !fits {
                    return Err(m.mismatch(operand, "the variable lies in another memory space"));
                }
                let (base, offset) = self.place_in_variable(window, start, offset)?;
                Ok((address(base, offset), AccessSpace::Is(window)))
            }
            symbol @ (Symbol::Frame(_) | Symbol::Formal(_))
                if matches!(
                    space,
                    AccessSpace::Generic | AccessSpace::Is(Window::Local | Window::Param)
                ) =>
            {
                let place = self.place_in_local_memory(symbol);
                let (base, start) =
                    place.ok_or_else(|| m.mismatch(operand, "expected an address"))?;
                let offset = offset.wrapping_add(i64::from(start));
                Ok((address(base, offset), AccessSpace::Is(Window::Local)))
            }
            Symbol::DynamicShared
                if matches!(
                    space,
                    AccessSpace::Is(Window::Shared) | AccessSpace::Generic
                ) =>
            {
                let slot = self.special(
                    RegisterClass::Double,
                    SpecialRegister::DynamicShared(offset),
                )?;
                Ok((
                    address(AddressBase::Double(slot), 0),
                    AccessSpace::Is(Window::Shared),
                ))
            }
            Symbol::Variable(index)
                if matches!(
                    space,
                    AccessSpace::Is(Window::Global) | AccessSpace::Generic
                ) =>
            {
                let slot = self.special(
                    RegisterClass::Double,
                    SpecialRegister::Variable(index, offset),
                )?;
                Ok((address(AddressBase::Double(slot), 0), space))
            }
            _ => Err(m.mismatch(
                operand,
                "expected an address in the instruction's state space",
            )),
        }
    }

    /// Returns the two operands of a load or store, without the cache policy that may follow them.
    fn without_policy(m: &Mnemonic<'a>, policy: bool) -> Result<&'a [Operand<'a>; 2], PtxError> {
        m.finish()?;
        match m.operands {
            [rest @ .., _] if policy => rest,
            all => all,
        }
        .try_into()
        .map_err(|_| m.operand_count(if policy { "3" } else { "2" }))
    }

    /// Takes `.v2`, `.v4` or `.v8`, and returns the number of values.
    pub(super) fn vector(m: &mut Mnemonic<'a>) -> usize {
        m.take_one(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1)
    }

    /// Returns the elements of a vector operand, or a slice of the operand itself if it is no
    /// vector.
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
            Err(m.mismatch(operand, format!("expected {count} values")))
        }
    }

    /// Takes the type of `count` values: up to four of up to 16 bytes in total, or 32 bytes of
    /// 4-byte or 8-byte values.
    pub(super) fn value_type(m: &mut Mnemonic<'a>, count: usize) -> Result<Type, PtxError> {
        let ty = m.ty()?;
        let bytes = ty.bytes() * count;
        let is_wide = bytes == 32 && ty.bytes() >= 4;
        if ty == Type::Pred || !is_wide && (bytes > 16 || count > 4) {
            Err(m.unsupported())
        } else {
            Ok(ty)
        }
    }

    /// Lowers `ld` and `ldu`.
    pub(super) fn load(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let policy = m.has("L2::cache_hint");
        let (space, order) = Self::space_and_order(m);
        let wide = m.take("b128");
        let count = Self::vector(m);
        if wide && count > 1 {
            return Err(m.unsupported());
        }
        if wide {
            let [d, source] = Self::without_policy(m, policy)?;
            let (address, space) = self.address(m, source, space)?;
            let slots = SmallVec::from_slice(&self.wide(m, d)?);
            let values = VectorValues {
                slots,
                double: true,
                ..VectorValues::default()
            };
            return self.emit_loads((space, address), 8, order, &values);
        }
        let ty = Self::value_type(m, count)?;
        let [d, source] = Self::without_policy(m, policy)?;
        let (address, space) = self.address(m, source, space)?;
        self.load_values(m, (d, ty, count), (space, address), order)
    }

    /// Loads `count` values into the registers of an operand.
    pub(super) fn load_values(
        &mut self,
        m: &Mnemonic<'a>,
        (d, ty, count): (&'a Operand<'a>, Type, usize),
        place: (AccessSpace, Address),
        order: Option<MemoryOrder>,
    ) -> Result<(), PtxError> {
        let mut values = VectorValues {
            float: Some(ty).filter(|ty| count == 1 && ty.is_single_float()),
            ..VectorValues::default()
        };
        for operand in Self::values(m, d, count)? {
            let register = self.target_wide(m, operand, ty)?;
            let double = RegisterClass::of(register.ty) == RegisterClass::Double;
            if !values.slots.is_empty() && values.double != double {
                return Err(m.mismatch(d, "the registers of a vector must have one size"));
            }
            values.double = double;
            if ty.is_signed() {
                values.sign_extend = u8::try_from(8 * register.ty.bytes()).unwrap_or(64);
            }
            values.slots.push(register.slot);
        }
        self.emit_loads(place, ty.bytes(), order, &values)
    }

    /// Lowers `st`.
    pub(super) fn store(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let policy = m.has("L2::cache_hint");
        let (space, order) = Self::space_and_order(m);
        let wide = m.take("b128");
        let count = Self::vector(m);
        if wide && count > 1 {
            return Err(m.unsupported());
        }
        let ty = if wide {
            Type::B64
        } else {
            Self::value_type(m, count)?
        };
        let [target, source] = Self::without_policy(m, policy)?;
        let (address, space) = self.address(m, target, space)?;
        if space == AccessSpace::Is(Window::Param) {
            return Err(m.mismatch(target, "a kernel's parameters are read-only"));
        }
        if wide {
            let values = VectorValues {
                slots: SmallVec::from_slice(&self.wide(m, source)?),
                double: true,
                ..VectorValues::default()
            };
            self.emit_stores((space, address), 8, order, &values);
            return Ok(());
        }
        self.store_values(m, (source, ty, count), (space, address), order)
    }

    /// Stores `count` values from the registers of an operand.
    pub(super) fn store_values(
        &mut self,
        m: &Mnemonic<'a>,
        (source, ty, count): (&'a Operand<'a>, Type, usize),
        place: (AccessSpace, Address),
        order: Option<MemoryOrder>,
    ) -> Result<(), PtxError> {
        let mut values = VectorValues {
            double: ty.bytes() == 8,
            float: Some(ty).filter(|ty| count == 1 && ty.is_single_float()),
            ..VectorValues::default()
        };
        for operand in Self::values(m, source, count)? {
            let register = self.source_wide(m, operand, ty)?;
            let class = RegisterClass::of(register.ty);
            let slot = self.in_file(register.slot, class, values.double)?;
            values.slots.push(slot);
        }
        self.emit_stores(place, ty.bytes(), order, &values);
        Ok(())
    }

    /// Emits a load of `width` bytes into each of the slots.
    pub(super) fn load_slots(
        &mut self,
        place: (AccessSpace, Address),
        width: usize,
        slots: &[Slot],
    ) -> Result<(), PtxError> {
        self.emit_loads(place, width, None, &VectorValues::of(width, slots))
    }

    /// Emits a store of `width` bytes from each of the slots.
    pub(super) fn store_slots(
        &mut self,
        place: (AccessSpace, Address),
        width: usize,
        slots: &[Slot],
    ) {
        self.emit_stores(place, width, None, &VectorValues::of(width, slots));
    }

    fn emit_stores(
        &mut self,
        (space, address): (AccessSpace, Address),
        width: usize,
        order: Option<MemoryOrder>,
        values: &VectorValues,
    ) {
        for (part, address) in parts(address, width, values) {
            let index = add(
                &mut self.code.stores,
                access((space, address), width, order, part, values),
            );
            self.emit(Op::Store(index));
        }
    }

    /// Emits loads of `width` bytes into each of the registers.
    fn emit_loads(
        &mut self,
        (space, address): (AccessSpace, Address),
        width: usize,
        order: Option<MemoryOrder>,
        values: &VectorValues,
    ) -> Result<(), PtxError> {
        let mut address = address;
        let several = width * values.slots.len() > 16;
        if let AddressBase::Double(a) = address.base
            && several
            && values.double
            && values.slots.contains(&a)
        {
            // The second load needs the address, which the first load may have overwritten.
            let d = self.temporary(RegisterClass::Double)?;
            self.emit_move(RegisterClass::Double, d, a);
            address.base = AddressBase::Double(d);
        }
        for (part, address) in parts(address, width, values) {
            let index = add(
                &mut self.code.loads,
                access((space, address), width, order, part, values),
            );
            self.emit(Op::Load(index));
        }
        Ok(())
    }

    /// Returns the value of a slot as a slot of the 64-bit file, if `double`, or of the 32-bit
    /// file.
    fn in_file(&mut self, a: Slot, class: RegisterClass, double: bool) -> Result<Slot, PtxError> {
        match (class, double) {
            (RegisterClass::Double, false) => {
                let d = self.temporary(RegisterClass::Word)?;
                self.emit(Op::narrow(Narrow::Low, d, a));
                Ok(d)
            }
            (RegisterClass::Word, true) => {
                let d = self.temporary(RegisterClass::Double)?;
                self.emit(Op::widen(Widen::Zext, d, a));
                Ok(d)
            }
            _ => Ok(a),
        }
    }
}

/// Splits an access of `width` bytes per register into parts of up to 16 bytes, with the registers
/// and the address of each.
fn parts(
    address: Address,
    width: usize,
    values: &VectorValues,
) -> impl Iterator<Item = (&[Slot], Address)> {
    let part = (16 / width).min(values.slots.len());
    values
        .slots
        .chunks(part)
        .zip(0..)
        .map(move |(slots, index)| {
            let offset = address.offset.wrapping_add(16 * index);
            (slots, Address { offset, ..address })
        })
}

fn access(
    (space, address): (AccessSpace, Address),
    width: usize,
    order: Option<MemoryOrder>,
    slots: &[Slot],
    values: &VectorValues,
) -> Access {
    let mut registers = [0; 4];
    registers[..slots.len()].copy_from_slice(slots);
    Access {
        space,
        address,
        width: u8::try_from(width).unwrap_or(8),
        count: u8::try_from(slots.len()).unwrap_or(4),
        sign_extend: values.sign_extend,
        double: values.double,
        float: values.float,
        synchronises: order.is_some(),
        order: order.unwrap_or_default(),
        values: registers,
    }
}
