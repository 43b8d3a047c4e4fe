//! Loads and stores of 32-bit values at non-contiguous addresses, one run of adjacent lanes with
//! consecutive addresses at a time.

use super::access_marking::{read_flags, write_flags};
use super::launch::TracedRegion;
use super::memory::{CachedRegion, WarpMemory};
use super::registers::{FULL, LANES, Registers, lanes};
use super::warp_access::{LaneFault, WarpAccess};
use crate::ptx::ir::{Access, AddressBase};

/// The lanes of half a warp, and the bytes of 32 bits of each.
const HALF: usize = LANES / 2;
const HALF_BYTES: usize = 4 * HALF;

impl<'m> WarpMemory<'_, 'm> {
    /// Returns the places of the most frequent access: 32 bits of each lane of a full warp, at
    /// consecutive addresses for each half of the warp, in the region that was accessed last. A
    /// block of 16 columns has such halves.
    #[inline(always)]
    fn half_runs(
        &self,
        r: &Registers,
        access: &Access,
        cached: &CachedRegion<'m>,
        mask: u32,
    ) -> Option<(TracedRegion<'m>, [usize; 2])> {
        let AddressBase::Double(slot) = access.address.base else {
            return None;
        };
        if mask != FULL || (access.width, access.count) != (4, 1) || access.double {
            return None;
        }
        let base = r.double(slot);
        let mut stray = 0;
        for lane in 0..LANES {
            let first = base[lane / HALF * HALF];
            stray |= base[lane] ^ first.wrapping_add(4 * (lane % HALF) as u64);
        }
        let found = (*cached)?;
        let (bytes, start) = (found.region.bytes, found.region.base);
        let distance = access.address.offset.cast_unsigned().wrapping_sub(start);
        let offsets = [0, HALF].map(|lane| base[lane].wrapping_add(distance) as usize);
        // A value at an aligned address, in a region that may begin anywhere.
        let aligned = offsets
            .iter()
            .all(|offset| start.wrapping_add(*offset as u64) & 3 == 0);
        let fits = offsets.iter().all(|offset| bytes.has_half_warp(*offset));
        (stray == 0 && aligned && fits).then_some((found, offsets))
    }

    /// Loads the values of [`Self::half_runs`]. Returns `None`, and does nothing, for any other
    /// access.
    #[inline(always)]
    pub(super) fn load_half_runs(
        &mut self,
        r: &mut Registers,
        access: &Access,
        cached: &CachedRegion<'m>,
        mask: u32,
    ) -> Option<()> {
        let (found, offsets) = self.half_runs(r, access, cached, mask)?;
        self.traffic.read_bytes += 2 * HALF_BYTES as u64;
        let values = r.word_mut(access.values[0]).as_chunks_mut::<HALF>().0;
        for (offset, values) in offsets.into_iter().zip(values) {
            if let Some(bitmap) = found.bitmap {
                bitmap.note(read_flags(access), offset, HALF_BYTES);
            }
            found.region.bytes.load_half_warp(offset, values);
        }
        Some(())
    }

    /// Stores the values of [`Self::half_runs`], otherwise like [`Self::load_half_runs`].
    #[inline(always)]
    pub(super) fn store_half_runs(
        &mut self,
        r: &Registers,
        access: &Access,
        cached: &CachedRegion<'m>,
        mask: u32,
    ) -> Option<()> {
        let (found, offsets) = self.half_runs(r, access, cached, mask)?;
        if !found.region.writable {
            return None;
        }
        self.traffic.written_bytes += 2 * HALF_BYTES as u64;
        let values = r.word(access.values[0]).as_chunks::<HALF>().0;
        for (offset, values) in offsets.into_iter().zip(values) {
            // A write is marked before its bytes are stored.
            if let Some(bitmap) = found.bitmap {
                bitmap.note(write_flags(access), offset, HALF_BYTES);
            }
            found.region.bytes.store_half_warp(offset, values);
        }
        Some(())
    }

    /// Loads 32-bit values, each from a place of its own in the region that was accessed last.
    /// Returns `None`, and does nothing, unless they all lie there.
    fn load_apart(
        &self,
        r: &mut Registers,
        access: &Access,
        cached: &CachedRegion<'m>,
        warp_access: &WarpAccess,
    ) -> Option<()> {
        let TracedRegion { region, bitmap } = (*cached)?;
        let end = (region.bytes.len() as u64).checked_sub(4)?;
        // Registered memory may begin anywhere; then a value is not within a word of the bitmap.
        if !region.base.is_multiple_of(4) {
            return None;
        }
        let mut outside = 0;
        for lane in 0..LANES {
            let offset = warp_access.addresses[lane].wrapping_sub(region.base);
            outside |= if offset > end { 1u32 << lane } else { 0 };
        }
        if outside & warp_access.mask != 0 {
            return None;
        }
        let mut values = [0; LANES];
        for lane in lanes(warp_access.mask) {
            let offset = (warp_access.addresses[lane] - region.base) as usize;
            if let Some(bitmap) = bitmap {
                bitmap.note_value(read_flags(access), offset, 4);
            }
            values[lane] = region.bytes.load_u32(offset)?;
        }
        r.set_word(access.values[0], warp_access.mask, &values);
        Some(())
    }

    /// Loads 32-bit values run by run. The rows of a narrow block, for example, lie apart, but each
    /// row is one run.
    pub(super) fn load_runs(
        &mut self,
        r: &mut Registers,
        access: &Access,
        cached: &mut CachedRegion<'m>,
        warp_access: &WarpAccess,
    ) -> Result<(), LaneFault> {
        let continuing = warp_access.continuing();
        let few = continuing.count_ones() < 4;
        if few && self.load_apart(r, access, cached, warp_access).is_some() {
            return Ok(());
        }
        let mut values = [0; LANES];
        for run in warp_access.runs(continuing) {
            let (address, total) = (warp_access.addresses[run.start], run.len() * 4);
            let found = self
                .region(cached, address, total)
                .and_then(|(found, offset)| {
                    if let Some(bitmap) = found.bitmap {
                        bitmap.note(read_flags(access), offset, total);
                    }
                    found
                        .region
                        .bytes
                        .load_run_u32(offset, &mut values[run.clone()])
                });
            if found.is_none() {
                // The run is not contained in a single allocation.
                for lane in run {
                    let found = self.region(cached, warp_access.addresses[lane], warp_access.bytes);
                    let (TracedRegion { region, bitmap }, offset) =
                        found.ok_or_else(|| warp_access.out_of_bounds(lane))?;
                    if let Some(bitmap) = bitmap {
                        bitmap.note(read_flags(access), offset, warp_access.bytes);
                    }
                    let value = region.bytes.load_u32(offset);
                    values[lane] = value.ok_or_else(|| warp_access.out_of_bounds(lane))?;
                }
            }
        }
        r.set_word(access.values[0], warp_access.mask, &values);
        Ok(())
    }

    /// Stores 32-bit values run by run. Lanes that write the same address belong to separate runs,
    /// which are stored in lane order.
    pub(super) fn store_runs(
        &mut self,
        r: &Registers,
        access: &Access,
        cached: &mut CachedRegion<'m>,
        warp_access: &WarpAccess,
    ) -> Result<(), LaneFault> {
        let values = r.word(access.values[0]);
        for run in warp_access.runs(warp_access.continuing()) {
            let (address, total) = (warp_access.addresses[run.start], run.len() * 4);
            let found = self.region(cached, address, total);
            let stored =
                found
                    .filter(|(found, _)| found.region.writable)
                    .and_then(|(found, offset)| {
                        if let Some(bitmap) = found.bitmap {
                            bitmap.note(write_flags(access), offset, total);
                        }
                        found
                            .region
                            .bytes
                            .store_run_u32(offset, &values[run.clone()])
                    });
            if stored.is_none() {
                // Lanes before the failing lane are stored.
                for lane in run {
                    let (region, offset) =
                        self.writable(cached, warp_access, lane, write_flags(access))?;
                    let stored = region.bytes.store_u32(offset, values[lane]);
                    stored.ok_or_else(|| warp_access.out_of_bounds(lane))?;
                }
            }
        }
        Ok(())
    }
}
