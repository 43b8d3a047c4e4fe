//! Atomics of a warp, executed one lane after the other: each lane sees its predecessor's result.

use super::float_bits::canonical;
use super::half;
use super::launch::Region;
use super::memory::{CachedRegion, WarpMemory};
use super::observer::AtomicOperands;
use super::registers::{LANES, Registers, lanes};
use super::warp_access::{LaneFault, WarpAccess, in_window};
use crate::memory::AccessFlags;
use crate::ptx::ir::{AccessSpace, Atomic, AtomicOp, HighHalves, Window};
use millstream_ptx::Type;

/// Returns whether threads can use the atomic to wait for each other: it has a result register.
pub(super) fn may_wait(atomic: &Atomic) -> bool {
    atomic.result.is_some()
}

/// Reads the operands of an atomic before it executes.
pub(super) fn operands(r: &Registers, atomic: &Atomic, mask: u32) -> AtomicOperands {
    AtomicOperands {
        warp_access: WarpAccess::new(r, atomic.address, mask, atomic.bytes(), true),
        compared: if atomic.ty.bytes() == 8 {
            *r.double(atomic.b)
        } else {
            r.word(atomic.b).map(u64::from)
        },
        compared_high: atomic.high.map_or([0; LANES], |high| *r.double(high.b)),
    }
}

impl<'m> WarpMemory<'_, 'm> {
    #[inline(always)]
    pub(super) fn atomic(
        &mut self,
        r: &mut Registers,
        atomic: &Atomic,
        cached: &mut CachedRegion<'m>,
        mask: u32,
    ) -> Result<(), LaneFault> {
        let is_shared = matches!(atomic.space, AccessSpace::Is(Window::Shared));
        if !is_shared || atomic.f != AtomicOp::Add || atomic.ty.is_float() || atomic.bytes() != 4 {
            return self.any_atomic(r, atomic, cached, mask);
        }
        // The most frequent atomic, in the loop of the interpreter.
        let warp_access = WarpAccess::new(r, atomic.address, mask, 4, true);
        warp_access.check_alignment()?;
        let (b, mut old) = (*r.word(atomic.b), [0; LANES]);
        let add = |lane: usize, old: u32| old.wrapping_add(b[lane]);
        self.update_words(Window::Shared, cached, &warp_access, &mut old, add)?;
        if let Some(d) = atomic.result {
            r.set_word(d, mask, &old);
        }
        Ok(())
    }

    fn any_atomic(
        &mut self,
        r: &mut Registers,
        atomic: &Atomic,
        cached: &mut CachedRegion<'m>,
        mask: u32,
    ) -> Result<(), LaneFault> {
        let warp_access = WarpAccess::new(r, atomic.address, mask, atomic.bytes(), true);
        warp_access.check_alignment()?;
        match atomic.space {
            AccessSpace::Is(window) => self.atomic_in(window, r, atomic, cached, &warp_access),
            AccessSpace::Generic => {
                for window in [Window::Global, Window::Shared, Window::Local, Window::Param] {
                    if let Some(warp_access) = in_window(&warp_access, window) {
                        self.atomic_in(window, r, atomic, cached, &warp_access)?;
                    }
                }
                Ok(())
            }
        }
    }

    fn atomic_in(
        &mut self,
        window: Window,
        r: &mut Registers,
        atomic: &Atomic,
        cached: &mut CachedRegion<'m>,
        warp_access: &WarpAccess,
    ) -> Result<(), LaneFault> {
        if window == Window::Global {
            self.traffic.atomics += u64::from(warp_access.mask.count_ones());
        }
        if let Some(high) = atomic.high {
            return self.atomic_wide(window, r, atomic, high, cached, warp_access);
        }
        if warp_access.bytes == 8 {
            let (b, c) = (*r.double(atomic.b), *r.double(atomic.c));
            let mut old = [0; LANES];
            let mut marked = None;
            for lane in lanes(warp_access.mask) {
                let change = |old| apply_double(atomic, old, b[lane], c[lane]);
                if window == Window::Global {
                    let (region, offset) =
                        self.writable(cached, warp_access, lane, AccessFlags::UPDATE, &mut marked)?;
                    let found = region.bytes.update_u64(offset, change);
                    old[lane] = found.ok_or_else(|| warp_access.out_of_bounds(lane))?;
                } else {
                    let cell = self.own_bytes::<8>(window, warp_access, lane)?;
                    old[lane] = u64::from_le_bytes(*cell);
                    *cell = change(old[lane]).to_le_bytes();
                }
            }
            if let Some(d) = atomic.result {
                r.set_double(d, warp_access.mask, &old);
            }
            return Ok(());
        }
        let (b, c) = (*r.word(atomic.b), *r.word(atomic.c));
        let mut old = [0; LANES];
        if warp_access.bytes == 2 {
            let mut marked = None;
            for lane in lanes(warp_access.mask) {
                let change = |old| apply_word(atomic, u32::from(old), b[lane], c[lane]) as u16;
                let found = if window == Window::Global {
                    let (region, offset) =
                        self.writable(cached, warp_access, lane, AccessFlags::UPDATE, &mut marked)?;
                    let found = region.bytes.update_u16(offset, change);
                    found.ok_or_else(|| warp_access.out_of_bounds(lane))?
                } else {
                    let cell = self.own_bytes::<2>(window, warp_access, lane)?;
                    let found = u16::from_le_bytes(*cell);
                    *cell = change(found).to_le_bytes();
                    found
                };
                old[lane] = u32::from(found);
            }
            if let Some(d) = atomic.result {
                r.set_word(d, warp_access.mask, &old);
            }
            return Ok(());
        }
        if atomic.f == AtomicOp::Add && !atomic.ty.is_float() {
            // The most frequent operation is dispatched once, not for each lane.
            let add = |lane: usize, old: u32| old.wrapping_add(b[lane]);
            self.update_words(window, cached, warp_access, &mut old, add)?;
        } else {
            let change = |lane, old| apply_word(atomic, old, b[lane], c[lane]);
            self.update_words(window, cached, warp_access, &mut old, change)?;
        }
        if let Some(d) = atomic.result {
            r.set_word(d, warp_access.mask, &old);
        }
        Ok(())
    }

    /// Applies `change` to a 32-bit word for each lane in turn, and stores the previous words in
    /// `old`.
    #[inline(always)]
    fn update_words(
        &mut self,
        window: Window,
        cached: &mut CachedRegion<'m>,
        warp_access: &WarpAccess,
        old: &mut [u32; LANES],
        change: impl Fn(usize, u32) -> u32,
    ) -> Result<(), LaneFault> {
        if window == Window::Global {
            let mut marked = None;
            for lane in lanes(warp_access.mask) {
                let (region, offset) =
                    self.writable(cached, warp_access, lane, AccessFlags::UPDATE, &mut marked)?;
                let previous = region.bytes.update_u32(offset, |old| change(lane, old));
                old[lane] = previous.ok_or_else(|| warp_access.out_of_bounds(lane))?;
            }
        } else if window == Window::Shared {
            // The accesses are aligned.
            let cells = self.shared.as_chunks_mut::<4>().0;
            for lane in lanes(warp_access.mask) {
                let Some(cell) = cells.get_mut((warp_access.addresses[lane] / 4) as usize) else {
                    return Err((lane, self.outside(window, warp_access, lane)));
                };
                old[lane] = u32::from_le_bytes(*cell);
                *cell = change(lane, old[lane]).to_le_bytes();
            }
        } else {
            for lane in lanes(warp_access.mask) {
                let cell = self.own_bytes::<4>(window, warp_access, lane)?;
                old[lane] = u32::from_le_bytes(*cell);
                *cell = change(lane, old[lane]).to_le_bytes();
            }
        }
        Ok(())
    }

    /// Executes 128-bit exchanges and compare-and-swaps as two 64-bit halves.
    ///
    /// The blocks of a kernel with such an atomic run in order, so no other thread accesses the
    /// memory between the two halves.
    #[cold]
    fn atomic_wide(
        &mut self,
        window: Window,
        r: &mut Registers,
        atomic: &Atomic,
        high: HighHalves,
        cached: &mut CachedRegion<'m>,
        warp_access: &WarpAccess,
    ) -> Result<(), LaneFault> {
        let pair = |low, high| (*r.double(low), *r.double(high));
        let ((b, b_high), (c, c_high)) = (pair(atomic.b, high.b), pair(atomic.c, high.c));
        let (mut old, mut old_high) = ([0; LANES], [0; LANES]);
        let mut marked = None;
        for lane in lanes(warp_access.mask) {
            let change = |old: [u64; 2]| match atomic.f {
                AtomicOp::Exchange => [b[lane], b_high[lane]],
                _ if old == [b[lane], b_high[lane]] => [c[lane], c_high[lane]],
                _ => old,
            };
            let found = if window == Window::Global {
                let (region, offset) =
                    self.writable(cached, warp_access, lane, AccessFlags::UPDATE, &mut marked)?;
                update_wide(&region, offset, change)
                    .ok_or_else(|| warp_access.out_of_bounds(lane))?
            } else {
                let cell = self.own_bytes::<16>(window, warp_access, lane)?;
                let found = u128::from_le_bytes(*cell);
                let found = [found as u64, (found >> 64) as u64];
                let [low, high] = change(found);
                *cell = (u128::from(low) | u128::from(high) << 64).to_le_bytes();
                found
            };
            (old[lane], old_high[lane]) = (found[0], found[1]);
        }
        if let (Some(low), Some(high)) = (atomic.result, high.result) {
            r.set_double(low, warp_access.mask, &old);
            r.set_double(high, warp_access.mask, &old_high);
        }
        Ok(())
    }

    /// Returns the bytes of shared or local memory at the lane's address, or its out-of-bounds
    /// fault.
    #[inline(always)]
    pub(super) fn own_bytes<const N: usize>(
        &mut self,
        window: Window,
        warp_access: &WarpAccess,
        lane: usize,
    ) -> Result<&mut [u8; N], LaneFault> {
        let size = match window {
            Window::Shared => self.shared.len(),
            Window::Local => self.local_bytes,
            Window::Global | Window::Param => 0,
        };
        if warp_access.addresses[lane] > size.saturating_sub(N) as u64 || size < N {
            return Err((lane, self.outside(window, warp_access, lane)));
        }
        let memory: &mut [u8] = match window {
            Window::Local => &mut self.local[lane * self.local_bytes..],
            _ => self.shared,
        };
        memory[warp_access.addresses[lane] as usize..]
            .first_chunk_mut()
            .ok_or_else(|| warp_access.out_of_bounds(lane))
    }
}

/// Replaces 16 bytes by `change` of them, and returns the old value, lower half first.
fn update_wide(
    region: &Region<'_>,
    offset: usize,
    change: impl Fn([u64; 2]) -> [u64; 2],
) -> Option<[u64; 2]> {
    let halves = [
        region.bytes.load_u64(offset)?,
        region.bytes.load_u64(offset + 8)?,
    ];
    let [low, high] = change(halves);
    region.bytes.store_u64(offset, low)?;
    region.bytes.store_u64(offset + 8, high)?;
    Some(halves)
}

/// Applies an operation of unsigned or, if `$signed` says so, signed integers.
macro_rules! apply_integers {
    ($atomic:expr, $signed:expr, $old:expr, $b:expr, $c:expr) => {
        match $atomic.f {
            AtomicOp::Add => $old.wrapping_add($b),
            AtomicOp::Min if $signed => $old.cast_signed().min($b.cast_signed()).cast_unsigned(),
            AtomicOp::Min => $old.min($b),
            AtomicOp::Max if $signed => $old.cast_signed().max($b.cast_signed()).cast_unsigned(),
            AtomicOp::Max => $old.max($b),
            AtomicOp::And => $old & $b,
            AtomicOp::Or => $old | $b,
            AtomicOp::Xor => $old ^ $b,
            AtomicOp::Exchange => $b,
            AtomicOp::CompareSwap if $old == $b => $c,
            AtomicOp::CompareSwap => $old,
            AtomicOp::Inc if $old >= $b => 0,
            AtomicOp::Inc => $old + 1,
            AtomicOp::Dec if $old == 0 || $old > $b => $b,
            AtomicOp::Dec => $old - 1,
        }
    };
}

#[inline(always)]
fn apply_word(atomic: &Atomic, old: u32, b: u32, c: u32) -> u32 {
    match atomic.f {
        AtomicOp::Add if atomic.ty == Type::F32 => {
            canonical(f32::from_bits(old) + f32::from_bits(b))
        }
        AtomicOp::Add if atomic.ty.is_float() => half::add(old, b, atomic.ty),
        _ => apply_integers!(atomic, atomic.ty == Type::S32, old, b, c),
    }
}

#[inline(always)]
fn apply_double(atomic: &Atomic, old: u64, b: u64, c: u64) -> u64 {
    match atomic.f {
        AtomicOp::Add if atomic.ty == Type::F64 => {
            (f64::from_bits(old) + f64::from_bits(b)).to_bits()
        }
        // Lowering rejects `inc` and `dec` of 64 bits.
        _ => apply_integers!(atomic, atomic.ty == Type::S64, old, b, c),
    }
}
