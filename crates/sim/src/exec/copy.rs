//! `cp.async`: copies to shared memory that are seen only once they have been waited for.
//!
//! A copy reads where it stands, and writes where it is waited for: a kernel that reads too early finds what was there before, every time.

use super::block::Shared;
use super::fault::FaultKind;
use super::memory::Memory;
use super::place::{Failure, Place};
use super::registers::lanes;
use super::warp::Warp;
use crate::ptx::code::{AccessSpace, AsyncCopy, Window};

/// A copy of one thread whose bytes have been read.
#[derive(Clone, Copy, Debug)]
struct Pending {
    lane: u32,
    /// The thread's group that it belongs to: how many it had committed before.
    group: u32,
    /// Where in shared memory.
    offset: usize,
    bytes: usize,
    value: [u8; 16],
}

/// The copies of a warp's threads that nobody has waited for.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pending: Vec<Pending>,
    /// How many groups each thread has committed.
    committed: [u32; 32],
}

impl Copies {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
        self.committed = [0; 32];
    }
}

/// Runs `cp.async` or what waits for it.
#[cold]
pub(super) fn run(
    copy: &AsyncCopy,
    warp: &mut Warp,
    shared: &mut Shared<'_, '_>,
    mask: u32,
) -> Result<(), Failure> {
    match *copy {
        AsyncCopy::Commit => {
            for lane in lanes(mask) {
                warp.copies.committed[lane] += 1;
            }
            Ok(())
        }
        AsyncCopy::Wait { but } => {
            let committed = warp.copies.committed;
            let target = &mut *shared.memory;
            warp.copies.pending.retain(|copy| {
                let lane = copy.lane as usize;
                // `wait_all` waits for those that have not been committed, too.
                let behind = committed[lane].saturating_sub(copy.group);
                let waits = mask >> lane & 1 == 1 && but.is_none_or(|but| behind > but);
                if waits {
                    target[copy.offset..][..copy.bytes].copy_from_slice(&copy.value[..copy.bytes]);
                }
                !waits
            });
            Ok(())
        }
        AsyncCopy::Start { .. } => start(copy, warp, shared, mask),
    }
}

fn start(copy: &AsyncCopy, warp: &mut Warp, shared: &mut Shared<'_, '_>, mask: u32) -> Result<(), Failure> {
    let AsyncCopy::Start {
        target,
        source,
        source_space,
        bytes,
        source_bytes,
        ignore,
    } = *copy
    else {
        return Ok(());
    };
    let targets = Place::new(&warp.registers, target, mask, bytes, true);
    let sources = Place::new(&warp.registers, source, mask, bytes, false);
    targets.check_alignment()?;
    sources.check_alignment()?;
    let ignored = ignore.map_or(0, |slot| warp.registers.predicate(slot));
    let counts = source_bytes.map(|slot| *warp.registers.word(slot));
    let memory = shared.all(&mut warp.local);
    for lane in lanes(mask) {
        let count = counts.map_or(bytes, |counts| (counts[lane] as usize).min(bytes));
        let count = if ignored >> lane & 1 == 1 { 0 } else { count };
        let offset = target_offset(&memory, &targets, lane)?;
        let mut value = [0; 16];
        let found = match source_space {
            AccessSpace::Is(Window::Global) | AccessSpace::Generic => {
                memory.read_generic(lane, sources.addresses[lane], &mut value[..count])
            }
            AccessSpace::Is(_) => None,
        };
        if count > 0 && found.is_none() {
            return Err(sources.out_of_bounds(lane));
        }
        memory.traffic.read_bytes += count as u64;
        warp.copies.pending.push(Pending {
            lane: lane as u32,
            group: warp.copies.committed[lane],
            offset,
            bytes,
            value,
        });
    }
    Ok(())
}

/// Where in shared memory a lane's copy goes, which must be inside.
fn target_offset(memory: &Memory<'_, '_>, targets: &Place, lane: usize) -> Result<usize, Failure> {
    let offset = usize::try_from(targets.addresses[lane]).unwrap_or(usize::MAX);
    let end = offset.checked_add(targets.bytes);
    if end.is_some_and(|end| end <= memory.shared.len()) {
        Ok(offset)
    } else {
        let kind: FaultKind = memory.outside(Window::Shared, targets, lane);
        Err((lane, kind))
    }
}
