//! Loads and stores of 32-bit values at non-contiguous addresses, one run of adjacent lanes with
//! consecutive addresses at a time.

use super::access_marking::{read_flags, write_flags};
use super::launch::TracedRegion;
use super::memory::{CachedRegion, WarpMemory};
use super::registers::{LANES, Registers};
use super::staging::load_apart;
use super::warp_access::WarpAccess;
use crate::ptx::ir::Access;

impl<'m> WarpMemory<'_, 'm> {
    /// Loads 32-bit values run by run. The rows of a narrow block, for example, lie apart, but each
    /// row is one run. Returns `None` if a run is not contained in a single allocation.
    pub(super) fn load_runs(
        &mut self,
        r: &mut Registers,
        access: &Access,
        cached: &mut CachedRegion<'m>,
        warp_access: &WarpAccess,
    ) -> Option<()> {
        let continuing = warp_access.continuing();
        let few = continuing.count_ones() < 4;
        if few && load_apart(r, access, *cached, warp_access).is_some() {
            return Some(());
        }
        let mut values = [0; LANES];
        for run in warp_access.runs(continuing) {
            let (address, total) = (warp_access.addresses[run.start], run.len() * 4);
            let (TracedRegion { region, bitmap }, offset) = self.region(cached, address, total)?;
            if let Some(bitmap) = bitmap {
                bitmap.note(read_flags(access), offset, total);
            }
            region.bytes.load_run_u32(offset, &mut values[run])?;
        }
        r.set_word(access.values[0], warp_access.mask, &values);
        Some(())
    }

    /// Stores 32-bit values run by run. Lanes that write the same address belong to separate runs,
    /// which are stored in lane order. Returns `None` if a run is not contained in a single
    /// writable allocation; the runs before it are stored.
    pub(super) fn store_runs(
        &mut self,
        r: &Registers,
        access: &Access,
        cached: &mut CachedRegion<'m>,
        warp_access: &WarpAccess,
    ) -> Option<()> {
        let values = r.word(access.values[0]);
        for run in warp_access.runs(warp_access.continuing()) {
            let (address, total) = (warp_access.addresses[run.start], run.len() * 4);
            let (TracedRegion { region, bitmap }, offset) = self.region(cached, address, total)?;
            if !region.writable {
                return None;
            }
            if let Some(bitmap) = bitmap {
                bitmap.note(write_flags(access), offset, total);
            }
            region.bytes.store_run_u32(offset, &values[run])?;
        }
        Some(())
    }
}
