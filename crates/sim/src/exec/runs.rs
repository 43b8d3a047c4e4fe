//! Loads and stores of 32-bit values whose lanes do not all lie behind each other: piece by piece,
//! each as far as it goes.

use super::launch::Watched;
use super::memory::{Cached, Memory};
use super::place::{Failure, Place};
use super::registers::{LANES, Registers};
use super::watch::{read_touch, write_touch};
use crate::ptx::ir::Access;

impl<'m> Memory<'_, 'm> {
    /// Loads 32-bit values run by run: the rows of a narrow block lie apart, but each is one piece.
    pub(super) fn load_runs(
        &mut self,
        r: &mut Registers,
        access: &Access,
        cached: &mut Cached<'m>,
        place: &Place,
    ) -> Result<(), Failure> {
        let mut values = [0; LANES];
        for run in place.runs() {
            let (address, total) = (place.addresses[run.start], run.len() * 4);
            let found = self
                .region(cached, address, total)
                .and_then(|(found, offset)| {
                    if let Some(marks) = found.marks {
                        marks.note(read_touch(access), offset, total);
                    }
                    found
                        .region
                        .cells
                        .load_run_u32(offset, &mut values[run.clone()])
                });
            if found.is_none() {
                // Not all of it is in one allocation.
                for lane in run {
                    let found = self.region(cached, place.addresses[lane], place.bytes);
                    let (Watched { region, marks }, offset) =
                        found.ok_or_else(|| place.out_of_bounds(lane))?;
                    if let Some(marks) = marks {
                        marks.note(read_touch(access), offset, place.bytes);
                    }
                    let value = region.cells.load_u32(offset);
                    values[lane] = value.ok_or_else(|| place.out_of_bounds(lane))?;
                }
            }
        }
        r.set_word(access.values[0], place.mask, &values);
        Ok(())
    }

    /// Stores 32-bit values run by run. Lanes that write the same place are runs of their own, in
    /// their order.
    pub(super) fn store_runs(
        &mut self,
        r: &Registers,
        access: &Access,
        cached: &mut Cached<'m>,
        place: &Place,
    ) -> Result<(), Failure> {
        let values = r.word(access.values[0]);
        for run in place.runs() {
            let (address, total) = (place.addresses[run.start], run.len() * 4);
            let found = self.region(cached, address, total);
            let stored =
                found
                    .filter(|(found, _)| found.region.writable)
                    .and_then(|(found, offset)| {
                        if let Some(marks) = found.marks {
                            marks.note(write_touch(access), offset, total);
                        }
                        found
                            .region
                            .cells
                            .store_run_u32(offset, &values[run.clone()])
                    });
            if stored.is_none() {
                // What comes before the lane that fails is written.
                for lane in run {
                    let (region, offset) =
                        self.writable(cached, place, lane, write_touch(access))?;
                    let stored = region.cells.store_u32(offset, values[lane]);
                    stored.ok_or_else(|| place.out_of_bounds(lane))?;
                }
            }
        }
        Ok(())
    }
}
