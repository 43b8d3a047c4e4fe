//! Provenance analysis: the pointer parameter that the address of an access is derived from.
//!
//! The analysis is a forward dataflow over 64-bit registers, from the loads of parameters through
//! moves, arithmetic and selections, to a fixed point. It is insensitive to control flow and
//! conservative: if the writers of a register disagree, or an address comes from memory, the access
//! has no parameter.

use super::ir::{Access, AccessSpace, Address, AddressBase, Atomic, Code, Op, Slot, Window};
use super::module::Kernel;
use millstream_ptx::ParamType;

/// An access to a single floating-point value through a pointer parameter.
///
/// ```
/// let module = millstream_sim::ptx::parse(
///     ".version 8.0
///      .target sm_75
///      .address_size 64
///      .visible .entry k(.param .u64 out) {
///          .reg .b64 %rd<2>;
///          .reg .f32 %f<2>;
///          ld.param.u64 %rd1, [out];
///          mov.f32 %f1, 0f00000000;
///          st.global.f32 [%rd1+4], %f1;
///          ret;
///      }",
/// )
/// .unwrap();
/// let [access] = &module.kernel("k").unwrap().float_accesses()[..] else { panic!() };
/// assert_eq!((access.param, access.ty.name(), access.ptx_line), (0, "f32", 9));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FloatAccess {
    /// The index of the parameter, from 0.
    pub param: usize,
    /// The type of the value.
    pub ty: ParamType,
    /// The line of the PTX text, counted from 1.
    pub ptx_line: u32,
    pub(crate) pc: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provenance {
    /// No writer has been seen.
    Unwritten,
    /// Not derived from a pointer parameter.
    Other,
    /// Derived from this parameter.
    Param(usize),
    /// Derived from several parameters, or only by some writers from one.
    Mixed,
}

impl Provenance {
    /// Returns the provenance of a value computed from two values.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unwritten, _) | (_, Self::Unwritten) => Self::Unwritten,
            (Self::Other, origin) | (origin, Self::Other) => origin,
            (one, other) if one == other => one,
            _ => Self::Mixed,
        }
    }

    /// Returns the provenance of a register to which two values are written.
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unwritten, origin) | (origin, Self::Unwritten) => origin,
            (one, other) if one == other => one,
            _ => Self::Mixed,
        }
    }
}

impl Kernel {
    /// Returns the accesses to single floating-point values (`ld`, `st`, `atom` and `red` of a type
    /// such as `.f32`) through pointer parameters.
    ///
    /// Accesses whose parameter the code alone does not determine are omitted, and so are vectors
    /// and packed pairs.
    #[must_use]
    pub fn float_accesses(&self) -> Vec<FloatAccess> {
        let origins = ProvenanceMap::of(self);
        let mut accesses = Vec::new();
        for (pc, instr) in (0..).zip(&self.code.instrs) {
            let Some((address, space, ty)) = float_access(&self.code, &instr.op) else {
                continue;
            };
            let outside = matches!(
                space,
                AccessSpace::Generic | AccessSpace::Is(Window::Global)
            );
            if let Some(param) = origins.param(address).filter(|_| outside) {
                accesses.push(FloatAccess {
                    param,
                    ty,
                    ptx_line: self.line(pc),
                    pc,
                });
            }
        }
        accesses
    }
}

/// Returns the address, space and type of an operation's access to a single floating-point value.
fn float_access(code: &Code, op: &Op) -> Option<(Address, AccessSpace, ParamType)> {
    let of = |access: &Access| Some((access.address, access.space, access.float?));
    match *op {
        Op::Load(index) => of(&code.loads[index as usize]),
        Op::Store(index) => of(&code.stores[index as usize]),
        Op::Atomic(index) => {
            let Atomic {
                ty, address, space, ..
            } = code.atomics[index as usize];
            let single = ty.is_single_float();
            single.then_some((address, space, ty))
        }
        _ => None,
    }
}

struct ProvenanceMap(Vec<Provenance>);

impl ProvenanceMap {
    fn of(kernel: &Kernel) -> Self {
        let code = &kernel.code;
        let mut origins = Self(vec![Provenance::Unwritten; code.doubles as usize]);
        for (slot, _) in &code.initial_doubles {
            origins.write(*slot, Provenance::Other);
        }
        // Provenances only rise in a lattice of height 3, so the loop terminates.
        loop {
            let mut changed = false;
            for instr in &code.instrs {
                origins.each_result(kernel, &instr.op, &mut |origins, slot, origin| {
                    changed |= origins.write(slot, origin);
                });
            }
            if !changed {
                return origins;
            }
        }
    }

    fn write(&mut self, slot: Slot, origin: Provenance) -> bool {
        let known = &mut self.0[slot as usize];
        let new = known.or(origin);
        std::mem::replace(known, new) != new
    }

    fn get(&self, slot: Slot) -> Provenance {
        self.0[slot as usize]
    }

    /// Returns the parameter that an address is derived from.
    fn param(&self, address: Address) -> Option<usize> {
        match address.base {
            AddressBase::Double(slot) => match self.get(slot) {
                Provenance::Param(param) => Some(param),
                _ => None,
            },
            _ => None,
        }
    }

    /// Calls `write` with each 64-bit register that the operation writes, and the provenance of its
    /// value.
    fn each_result(
        &mut self,
        kernel: &Kernel,
        op: &Op,
        write: &mut dyn FnMut(&mut Self, Slot, Provenance),
    ) {
        let code = &kernel.code;
        let result = match *op {
            Op::Un64 { d, a, .. } | Op::Shift64 { d, a, .. } | Op::Bfe64 { d, a, .. } => {
                (d, self.get(a))
            }
            Op::Bin64 { d, a, b, .. }
            | Op::Bfi64 { d, a, b, .. }
            | Op::Carry64 { d, a, b, .. }
            | Op::Select64 { d, a, b, .. } => (d, self.get(a).with(self.get(b))),
            Op::Tri64 { d, a, b, c, .. } => (d, self.get(a).with(self.get(b)).with(self.get(c))),
            Op::MadWide { d, c, .. } => (d, self.get(c)),
            Op::Load(index) => {
                let load = &code.loads[index as usize];
                for (at, slot) in (0..).zip(&load.values[..usize::from(load.count)]) {
                    if load.double {
                        write(self, *slot, loaded(kernel, load, at));
                    }
                }
                return;
            }
            Op::Atomic(index) => match code.atomics[index as usize] {
                Atomic {
                    result: Some(d),
                    ty,
                    ..
                } if ty.bytes() == 8 => (d, Provenance::Other),
                _ => return,
            },
            Op::Widen { d, .. }
            | Op::Join { d, .. }
            | Op::F64Un { d, .. }
            | Op::F64Bin { d, .. }
            | Op::F64Fma { d, .. }
            | Op::Clock64 { d } => (d, Provenance::Other),
            Op::Convert { how, d, .. } if how.to.bytes() == 8 => (d, Provenance::Other),
            _ => return,
        };
        write(self, result.0, result.1);
    }
}

/// Returns the provenance of a loaded value: a pointer parameter or other memory.
fn loaded(kernel: &Kernel, load: &Access, at: usize) -> Provenance {
    let of_params =
        load.space == AccessSpace::Is(Window::Param) && load.address.base == AddressBase::None;
    if !of_params || load.width != 8 {
        return Provenance::Other;
    }
    let offset = usize::try_from(load.address.offset).unwrap_or(usize::MAX);
    let offset = offset.saturating_add(8 * at);
    let params = &kernel.signature().params;
    let found = params
        .iter()
        .position(|param| (param.offset, param.size) == (offset, 8));
    found.map_or(Provenance::Other, Provenance::Param)
}
