//! Loads and stores of 32-bit values at non-contiguous addresses, one run of adjacent lanes with
//! consecutive addresses at a time.

use super::access_marking::{read_flags, write_flags};
use super::launch::TracedRegion;
use super::memory::{CachedRegion, WarpMemory};
use super::registers::{LANES, Registers};
use super::staging::load_apart;
use super::warp_access::{LaneFault, WarpAccess};
use crate::ptx::ir::Access;

impl<'m> WarpMemory<'_, 'm> {
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
        if few && load_apart(r, access, *cached, warp_access).is_some() {
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
