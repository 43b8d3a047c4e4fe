//! Shadows in memory: loads, stores and atomics, and the variables that they reach.

use smallvec::SmallVec;

use super::shadow::{Load, MIXED, Register, Shadow, ShadowMemory};
use super::{ADDRESS, Place, STORED, Step};
use crate::exec::kernel_error::KernelErrorKind;
use crate::exec::registers::{LANES, lanes};
use crate::exec::warp_access::WarpAccess;
use crate::ptx::ir::{
    Access, AccessSpace, Address, AddressBase, Atomic, AtomicOp, RegisterClass, Window,
};

use RegisterClass::{Double, Word};

impl Step<'_, '_> {
    /// Reports undefined addresses, and accesses that leave the variable of their address. Returns
    /// the place of each lane.
    pub(super) fn places(
        &mut self,
        of: (AccessSpace, Address),
        bytes: usize,
    ) -> SmallVec<[Place; LANES]> {
        let (space, address) = of;
        let access = WarpAccess::new(&self.warp.registers, address, self.mask, bytes, false);
        let base = match address.base {
            AddressBase::None => None,
            AddressBase::Word(slot) => Some((Word, slot)),
            AddressBase::Double(slot) | AddressBase::Offset(slot) => Some((Double, slot)),
        };
        base.iter().for_each(|base| self.uses(*base, ADDRESS));
        let mut places = SmallVec::new();
        for lane in lanes(self.mask) {
            let (mut window, offset) = space.place(access.addresses[lane]);
            let variable = base.map_or(0, |base| self.own.get(base, lane).variable);
            if window == Window::Shared && variable != 0 && variable != MIXED {
                self.stays(lane, u64::from(variable - 1), (offset, bytes as u64));
            }
            let is_own = matches!(window, Window::Shared | Window::Local);
            let is_aligned = offset.is_multiple_of(bytes as u64);
            if is_own && !(is_aligned && self.memory((lane, window, offset), bytes).is_some()) {
                // A kernel that goes on after the fault does so with zeros.
                window = Window::Param;
            }
            places.push((lane, window, offset));
        }
        places
    }

    /// Reports an access by an address in the variable that starts at `start`, if it reaches other
    /// shared memory. Outside of all shared memory, the kernel fails.
    fn stays(&self, lane: usize, start: u64, (offset, bytes): (u64, u64)) {
        let (own, name) = self.of.launch.shared_variable(self.code, start);
        let end = offset.saturating_add(bytes);
        let stays = own.start <= offset && end <= own.end;
        if !stays && end <= self.shared.bits.len() as u64 {
            let reached = self.memory_text(Window::Shared, offset, bytes);
            let text = format!("an address in {name} leads to {reached}");
            self.error(KernelErrorKind::VariableOverrun { text }, lane, None);
        }
    }

    /// Returns the shadow memory of a place, and the index there. `None` for other memory, and for
    /// a place outside of it.
    fn memory(&mut self, place: Place, bytes: usize) -> Option<(&mut ShadowMemory, usize)> {
        let (lane, window, offset) = place;
        let local_bytes = self.code.local_bytes as usize;
        let (memory, size, start) = match window {
            Window::Shared => {
                let size = self.shared.bits.len();
                (&mut *self.shared, size, 0)
            }
            Window::Local => (&mut self.own.local, local_bytes, lane * local_bytes),
            _ => return None,
        };
        let at = usize::try_from(offset).ok()?;
        (at.checked_add(bytes)? <= size).then_some((memory, start + at))
    }

    pub(super) fn read(&mut self, place: Place, bytes: usize) -> Shadow {
        let load = Load {
            pc: self.pc,
            thread: self.thread(place.0),
            window: place.1,
            offset: place.2,
            bytes: bytes as u64,
        };
        let memory = self.memory(place, bytes);
        memory.map_or_else(Shadow::default, |(memory, at)| memory.read(at, load))
    }

    pub(super) fn write(&mut self, place: Place, bytes: usize, shadow: Shadow) {
        if let Some((memory, at)) = self.memory(place, bytes) {
            memory.write(at, bytes, shadow);
        }
    }

    /// Propagates shadows through a load or store.
    pub(super) fn access(&mut self, access: &Access, is_store: bool) {
        let class = if access.double { Double } else { Word };
        let width = usize::from(access.width);
        let unused = 64 - 8 * u32::from(access.width);
        for (lane, window, offset) in self.places((access.space, access.address), access.bytes()) {
            for (part, slot) in access.values[..usize::from(access.count)]
                .iter()
                .enumerate()
            {
                let place = (lane, window, offset.wrapping_add((part * width) as u64));
                let register = (class, *slot);
                if is_store && window == Window::Global {
                    self.uses_bits(register, STORED, (1 << lane, u64::MAX >> unused));
                } else if is_store {
                    self.write(place, width, self.own.get(register, lane));
                } else {
                    let mut loaded = self.read(place, width);
                    if access.sign_extend > 0 {
                        let signed = (loaded.bits << unused).cast_signed() >> unused;
                        let kept = u64::MAX >> (64 - u32::from(access.sign_extend));
                        loaded.bits = signed.cast_unsigned() & kept;
                    }
                    self.own.set(register, lane, loaded);
                }
            }
        }
    }

    /// Propagates shadows through an atomic, lane by lane. The new value is undefined as a whole if
    /// any bit is that it depends on.
    pub(super) fn atomic(&mut self, atomic: &Atomic) {
        let (bytes, class) = (atomic.bytes(), RegisterClass::of(atomic.ty));
        let mut operands = SmallVec::<[Register; 4]>::from_slice(&[(class, atomic.b)]);
        operands.extend(atomic.high.map(|high| (Double, high.b)));
        if atomic.f == AtomicOp::CompareSwap {
            operands.push((class, atomic.c));
            operands.extend(atomic.high.map(|high| (Double, high.c)));
        }
        let high = atomic.high.and_then(|high| high.result);
        for place in self.places((atomic.space, atomic.address), bytes) {
            let lane = place.0;
            let old = self.read(place, bytes);
            let is_kept = atomic.f != AtomicOp::Exchange && old.bits != 0;
            let mut new = if is_kept { old } else { Shadow::default() };
            for operand in &operands {
                if place.1 == Window::Global {
                    self.uses_bits(*operand, STORED, (1 << lane, u64::MAX));
                }
                let given = self.own.get(*operand, lane);
                new = if new.bits == 0 { given } else { new };
            }
            let bits = if new.bits == 0 { 0 } else { u64::MAX };
            self.write(place, bytes, new.number(bits));
            let low = atomic.result.map(|slot| (class, slot));
            for result in low.into_iter().chain(high.map(|slot| (Double, slot))) {
                self.own.set(result, lane, old);
            }
        }
    }
}
