//! The faults of a launch that goes on after them.

use std::mem;

use parking_lot::Mutex;

use super::fault::KernelFault;

/// The faults of a launch that goes on after them: see [`Launch::keep_going`](super::Launch).
#[derive(Debug, Default)]
pub struct KernelFaults(Mutex<Vec<(KernelFault, u64)>>);

/// Returns a key that sorts faults by their lines, and then by their threads.
fn key(fault: &KernelFault) -> (u32, [u32; 6]) {
    let ([x, y, z], [tx, ty, tz]) = (fault.block, fault.thread);
    (fault.ptx_line, [z, y, x, tz, ty, tx])
}

impl KernelFaults {
    /// Adds a fault, and returns the number of faults so far.
    pub(super) fn add(&self, fault: KernelFault) -> u64 {
        let kind = |of: &KernelFault| (of.ptx_line, mem::discriminant(&of.kind));
        let mut all = self.0.lock();
        match all.iter_mut().find(|(of, _)| kind(of) == kind(&fault)) {
            Some((known, count)) => {
                *count += 1;
                if key(&fault) < key(known) {
                    *known = fault;
                }
            }
            None => all.push((fault, 1)),
        }
        all.iter().map(|(_, count)| count).sum()
    }

    /// Returns the faults by line, and forgets them: each kind of fault at a line once, with its
    /// first thread and the number of faults.
    pub fn take(&self) -> Vec<(KernelFault, u64)> {
        let mut faults = mem::take(&mut *self.0.lock());
        faults.sort_by_key(|(fault, _)| key(fault));
        faults
    }
}
