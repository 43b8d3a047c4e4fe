//! Lowering of `wmma`: loads, stores and products of fragments.
//!
//! PTX leaves open which lane holds which element. The layout is that of `mma` with the same rows
//! and twice `n8` columns, or twice `m16` rows; for `m8n32k16`, that of the transposed product. It
//! is the layout of GPUs from sm_80 on, found in the machine code that NVIDIA's assembler writes.
//! Fragments of `f16` have registers that repeat others where the shape needs fewer than 8.

use smallvec::SmallVec;

use super::lowerer::Lowerer;
use super::matrix::{COLUMNS, ELEMENTS, Since, operand, since, sums};
use super::memory::window;
use super::mnemonic::Mnemonic;
use crate::ptx::ir::{
    AccessSpace, Address, AddressBase, Bin, Element, Fragment, Join, Multiply, Op, Prmt,
    RegisterClass, Round, Shift, Slot, SpecialRegister, Tri, Widen, Window, Word1,
};
use millstream_ptx::ast::Operand;
use millstream_ptx::{PtxError, Type};

use Element::{Bf16, F16, F32, F64, S8, S32, Tf32, U8};
use RegisterClass::{Double, Word};

/// A matrix of a product. `D` has the fragments of `C`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    A,
    B,
    C,
}

const SHAPES: [(&str, [usize; 3]); 5] = [
    ("m16n16k16", [16, 16, 16]),
    ("m32n8k16", [32, 8, 16]),
    ("m8n32k16", [8, 32, 16]),
    ("m16n16k8", [16, 16, 8]),
    ("m8n8k4", [8, 8, 4]),
];

/// Returns the first target that has a fragment.
fn fragment_since(role: Role, [m, _, k]: [usize; 3], element: Element) -> Option<Since> {
    match (role, element, k) {
        (_, F16, 16) | (Role::C, F32, 16) if m == 16 => Some(since!(70, 6, 0)),
        (_, F16, 16) | (Role::C, F32, 16) => Some(since!(70, 6, 1)),
        (Role::A | Role::B, S8 | U8, 16) | (Role::C, S32, 16) => Some(since!(72, 6, 3)),
        (Role::A | Role::B, Bf16, 16) | (Role::A | Role::B, Tf32, 8) => Some(since!(80, 7, 0)),
        (Role::C, F32, 8) | (_, F64, 4) => Some(since!(80, 7, 0)),
        _ => None,
    }
}

/// Returns whether products of a shape are computed transposed.
fn is_transposed(shape: [usize; 3]) -> bool {
    shape[1] == 32
}

fn fragment(role: Role, shape: [usize; 3], element: Element) -> Fragment {
    let [m, n, k] = shape;
    let transposed = is_transposed(shape);
    match role {
        Role::A => operand(element, if transposed { 1 } else { 2 }, [m, k]),
        Role::B => operand(element, if transposed { 2 } else { 1 }, [n, k]),
        Role::C => sums(element, if transposed { [n, m] } else { [m, n] }),
    }
}

/// Returns the number of registers of a fragment.
fn registers(role: Role, of: &Fragment) -> usize {
    if of.element == F16 && role != Role::C {
        8
    } else {
        of.registers()
    }
}

/// The place of a matrix in memory, for the lanes of a warp.
struct MatrixPlace {
    space: AccessSpace,
    /// The address of the lane's first element, without the offset.
    lane: Slot,
    offset: i64,
    /// The bytes between rows, or columns.
    pitch: Slot,
    /// True if elements of the inner dimension are contiguous.
    contiguous: bool,
    /// The addresses that are some pitches further.
    further: SmallVec<[(usize, Slot); 8]>,
}

impl<'a> Lowerer<'a> {
    pub(super) fn wmma(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        Self::sync_aligned(m)?;
        if m.take("mma") {
            return self.wmma_multiply(m);
        }
        let is_load = m.take("load");
        let roles = [("a", Role::A), ("b", Role::B), ("c", Role::C)];
        let role = if is_load {
            m.one_of(&roles)?
        } else if m.take("store") && m.take("d") {
            Role::C
        } else {
            return Err(m.unsupported());
        };
        let shape = m.one_of(&SHAPES)?;
        let columns = m.one_of(&COLUMNS)?;
        let element = m.one_of(&ELEMENTS)?;
        let space = window(m).map_or(AccessSpace::Generic, AccessSpace::Is);
        m.finish()?;
        let (&[ref first, ref second, ref stride @ ..], true) = (m.operands, m.operands.len() < 4)
        else {
            return Err(m.operand_count("2 or 3"));
        };
        let since = fragment_since(role, shape, element).ok_or_else(|| m.unsupported())?;
        self.check_since(m, since)?;
        let mut of = fragment(role, shape, element);
        let (registers_of, address) = if is_load {
            (first, second)
        } else {
            (second, first)
        };
        let count = registers(role, &of);
        self.fill(m, (registers_of, is_load), &mut of, count)?;
        let [rows, n, k] = shape;
        let leading = match (role, columns) {
            (Role::A, false) | (Role::B, true) => k,
            (Role::A | Role::C, true) => rows,
            (Role::B | Role::C, false) => n,
        };
        let stride = match stride.first() {
            Some(stride) => self.source(m, stride, Type::U32)?,
            None => self.constant(Word, leading as u64)?,
        };
        // The outer dimension is that of rows for `A`, of columns for `B`, and either for sums.
        let outer_is_row = match role {
            Role::A => true,
            Role::B => false,
            Role::C => !is_transposed(shape),
        };
        let place = self.place(m, (address, space), stride, &of, outer_is_row != columns)?;
        if is_load {
            self.together("wmma.load.sync")?;
            self.load_fragment(&of, place)
        } else {
            self.together("wmma.store.sync")?;
            self.store_fragment(&of, place)
        }
    }

    /// Computes the addresses of the lanes' first elements.
    fn place(
        &mut self,
        m: &Mnemonic<'a>,
        (operand, space): (&'a Operand<'a>, AccessSpace),
        stride: Slot,
        of: &Fragment,
        contiguous: bool,
    ) -> Result<MatrixPlace, PtxError> {
        let (Address { base, offset }, space) = self.address(m, operand, space)?;
        if matches!(space, AccessSpace::Is(Window::Param | Window::Local)) {
            return Err(m.mismatch(operand, "expected an address in shared or global memory"));
        }
        let base = match base {
            AddressBase::None => self.constant(Double, 0)?,
            AddressBase::Double(slot) | AddressBase::Offset(slot) => slot,
            AddressBase::Word(a) => {
                let d = self.temporary(Double)?;
                self.emit(Op::widen(Widen::Zext, d, a));
                d
            }
        };
        let (bytes, run) = (of.element.bytes() as u64, of.run() as u64);
        let [group, member] = self.temporaries(Word)?;
        let [pitch, lane, far] = self.temporaries(Double)?;
        let id = self.special(Word, SpecialRegister::LaneId)?;
        let [two, three, one, run_of] = self.constants(Word, [2, 3, 1, run])?;
        let [size, run_size] = self.constants(Word, [bytes, run * bytes])?;
        self.emit(Op::shift32(Shift::ShrU, group, id, two));
        self.emit(Op::bin32(Bin::And, member, id, three));
        self.emit(Op::join(Join::MulU, pitch, stride, size));
        let ((near, by), (far_index, times)) = if contiguous {
            ((member, run_size), (group, one))
        } else {
            ((group, size), (member, run_of))
        };
        self.emit(Op::mad_wide(false, lane, near, by, base));
        self.emit(Op::join(Join::MulU, far, far_index, times));
        self.emit(Op::tri64(Tri::Mad, lane, far, pitch, lane));
        Ok(MatrixPlace {
            space,
            lane,
            offset,
            pitch,
            contiguous,
            further: SmallVec::new(),
        })
    }

    /// Returns the address of element `x` of each lane.
    fn element_address(
        &mut self,
        of: &Fragment,
        place: &mut MatrixPlace,
        x: usize,
    ) -> Result<(AccessSpace, Address), PtxError> {
        let [outer, inner] = of.distance(x);
        let (pitches, near) = if place.contiguous {
            (outer, inner)
        } else {
            (inner, outer)
        };
        let known = place.further.iter().find(|(count, _)| *count == pitches);
        let slot = match known {
            _ if pitches == 0 => place.lane,
            Some((_, slot)) => *slot,
            None => {
                let d = self.temporary(Double)?;
                let count = self.constant(Double, pitches as u64)?;
                self.emit(Op::tri64(Tri::Mad, d, count, place.pitch, place.lane));
                place.further.push((pitches, d));
                d
            }
        };
        let base = match place.space {
            AccessSpace::Is(Window::Shared) => AddressBase::Offset(slot),
            _ => AddressBase::Double(slot),
        };
        let offset = place.offset + (near * of.element.bytes()) as i64;
        Ok((place.space, Address { base, offset }))
    }

    fn load_fragment(&mut self, of: &Fragment, mut place: MatrixPlace) -> Result<(), PtxError> {
        let (bytes, packed) = (of.element.bytes(), of.element.packed());
        let (own, repeated) = of.slots.split_at(of.registers());
        if place.contiguous {
            for (index, slots) in own.chunks(of.run() / packed).enumerate() {
                let at = self.element_address(of, &mut place, index * of.run())?;
                self.load_slots(at, bytes * packed, slots)?;
            }
        } else {
            let parts: [Slot; 4] = self.temporaries(Word)?;
            let selectors = self.constants(Word, [0x40, 0x5410])?;
            for (index, d) in own.iter().enumerate() {
                for (part, slot) in parts.iter().enumerate().take(packed) {
                    let at = self.element_address(of, &mut place, index * packed + part)?;
                    let to = if packed == 1 { *d } else { *slot };
                    self.load_slots(at, bytes, &[to])?;
                }
                match packed {
                    1 => {}
                    2 => self.emit(Op::bin32(Bin::Pack16, *d, parts[0], parts[1])),
                    _ => {
                        let prmt = |d, a, b, c| Op::prmt(Prmt::Index, d, a, b, c);
                        self.emit(prmt(parts[0], parts[0], parts[1], selectors[0]));
                        self.emit(prmt(parts[2], parts[2], parts[3], selectors[0]));
                        self.emit(prmt(*d, parts[0], parts[2], selectors[1]));
                    }
                }
            }
        }
        for (d, a) in repeated.iter().zip(own.iter().cycle()) {
            self.emit_move(Word, *d, *a);
        }
        Ok(())
    }

    fn store_fragment(&mut self, of: &Fragment, mut place: MatrixPlace) -> Result<(), PtxError> {
        let (bytes, packed) = (of.element.bytes(), of.element.packed());
        if place.contiguous {
            for (index, slots) in of.slots.chunks(of.run() / packed).enumerate() {
                let at = self.element_address(of, &mut place, index * of.run())?;
                self.store_slots(at, bytes * packed, slots);
            }
            return Ok(());
        }
        for (index, a) in of.slots.iter().enumerate() {
            let mut value = *a;
            for part in 0..packed {
                if part == 1 {
                    value = self.temporary(Word)?;
                    self.emit(Op::word1(Word1::High16, value, *a));
                }
                let at = self.element_address(of, &mut place, index * packed + part)?;
                self.store_slots(at, bytes, &[value]);
            }
        }
        Ok(())
    }

    fn wmma_multiply(&mut self, m: &mut Mnemonic<'a>) -> Result<(), PtxError> {
        let shape = m.one_of(&SHAPES)?;
        let columns = m.take_all(&COLUMNS);
        let saturate = m.take("satfinite");
        let round = m.round();
        // Products of `f16` name the types of the sums only.
        let [d, a, c] = match m.take_all(&ELEMENTS)[..] {
            [d, c] => [d, F16, c],
            [d, a, b, c] if a == b && a != F16 => [d, a, c],
            _ => return Err(m.unsupported()),
        };
        let operands: &[_; 4] = m.operands()?;
        let sums_fit = match a {
            F16 => true,
            S8 | U8 => (d, c) == (S32, S32),
            F64 => (d, c) == (F64, F64),
            _ => (d, c) == (F32, F32),
        };
        let fits = columns.len() == 2 && (!saturate || d == S32) && (round.is_none() || d == F64);
        let roles = [(Role::C, d), (Role::A, a), (Role::B, a), (Role::C, c)];
        let since = roles.map(|(role, element)| fragment_since(role, shape, element));
        let ([Some(_), Some(since), Some(_), Some(_)], true) = (since, fits && sums_fit) else {
            return Err(m.unsupported());
        };
        self.check_since(m, since)?;
        let mut fragments = roles.map(|(role, element)| fragment(role, shape, element));
        for (index, (of, operand)) in fragments.iter_mut().zip(operands).enumerate() {
            let count = registers(roles[index].0, of);
            self.fill(m, (operand, index == 0), of, count)?;
            of.slots.truncate(of.registers());
        }
        let [d, a, b, c] = fragments;
        let (a, b) = if is_transposed(shape) { (b, a) } else { (a, b) };
        let round = round.unwrap_or(Round::Nearest);
        self.emit_multiply(
            "wmma.mma.sync",
            Multiply {
                a,
                b,
                c,
                d,
                saturate,
                round,
            },
        )
    }
}
