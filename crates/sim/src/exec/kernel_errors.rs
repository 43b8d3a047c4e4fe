//! The errors of a launch, from all its blocks and orders.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use parking_lot::Mutex;

use super::kernel_error::KernelError;
use super::order::KernelOrder;

/// The errors of a launch, by their kinds and lines, each with an order of execution that shows
/// it. Of several blocks, the first one counts.
#[derive(Debug, Default)]
pub(crate) struct KernelErrors(BTreeMap<(u8, u32, u32), (KernelError, KernelOrder)>);

/// Errors that several threads of the host add.
#[derive(Debug, Default)]
pub(crate) struct SharedKernelErrors(Mutex<KernelErrors>);

/// Returns a key that sorts blocks by their indices.
fn index([x, y, z]: [u32; 3]) -> [u32; 3] {
    [z, y, x]
}

impl KernelErrors {
    fn add(&mut self, error: KernelError, order: KernelOrder) {
        let later = error.later.ptx_line;
        let earlier = error.earlier.as_ref().map_or(0, |other| other.ptx_line);
        let lines = (later.min(earlier), later.max(earlier));
        match self.0.entry((error.kind.number(), lines.0, lines.1)) {
            Entry::Vacant(free) => _ = free.insert((error, order)),
            Entry::Occupied(mut known) => {
                let (known, shown_by) = known.get_mut();
                if order == *shown_by && index(error.later.block) < index(known.later.block) {
                    *known = error;
                }
            }
        }
    }

    /// Adds the errors of a run that are not known yet. The run in the order of indices comes
    /// first.
    pub(crate) fn add_all(&mut self, other: Self) {
        for (error, order) in other.0.into_values() {
            self.add(error, order);
        }
    }

    /// Drops the errors of blocks behind the one that failed: whether they ran is a matter of time.
    pub(crate) fn until(&mut self, failed: [u32; 3]) {
        self.0
            .retain(|_, (error, _)| index(error.later.block) <= index(failed));
    }

    /// Returns the errors by kind, and then by line.
    pub(crate) fn into_errors(self) -> impl Iterator<Item = (KernelError, KernelOrder)> {
        self.0.into_values()
    }
}

impl SharedKernelErrors {
    pub(crate) fn add(&self, error: KernelError) {
        self.0.lock().add(error, KernelOrder::Index);
    }

    /// Returns the errors as those of a run in the given order.
    pub(crate) fn of_order(self, order: KernelOrder) -> KernelErrors {
        let mut errors = self.0.into_inner();
        errors
            .0
            .values_mut()
            .for_each(|(_, shown_by)| *shown_by = order);
        errors
    }
}
