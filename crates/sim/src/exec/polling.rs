//! Polling: how a launch is found to wait for a write from outside.
//!
//! Blocks that only poll repeat a state: the same registers, program counters, shared memory and
//! loaded values. Between two equal states an execution is a cycle, which ends only if another
//! operation or the host changes one of the bytes that it accessed. Once the counters of the
//! resident blocks look alike from round to round, further rounds run on memory that records the
//! accessed bytes, and their states are compared. The rounds themselves are the same as without,
//! so that nothing can be seen of a comparison that fails.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::launch::{GlobalMemory, Region, TracedRegion};
use crate::memory::AccessBitmap;

/// The maximum number of accessed bytes of a cycle.
const BYTES_MAX: usize = 1 << 16;

/// The bytes that a cycle accessed, by address, with their values.
pub(crate) type PolledBytes = Vec<(u64, Box<[u8]>)>;

/// Global memory that records the bytes that are accessed.
pub(super) struct PolledMemory<'a> {
    memory: &'a dyn GlobalMemory,
    accessed: OnceLock<Box<Accessed<'a>>>,
    /// Set by an effect outside of memory, which a poll does not have.
    has_acted: AtomicBool,
}

/// The accesses to one allocation, and the next one of the list.
struct Accessed<'a> {
    traced: TracedRegion<'a>,
    bitmap: AccessBitmap,
    next: OnceLock<Box<Accessed<'a>>>,
}

impl<'a> PolledMemory<'a> {
    pub(super) fn new(memory: &'a dyn GlobalMemory) -> Self {
        Self {
            memory,
            accessed: OnceLock::new(),
            has_acted: AtomicBool::new(false),
        }
    }

    fn each(&self) -> impl Iterator<Item = &Accessed<'a>> {
        std::iter::successors(self.accessed.get(), |entry| entry.next.get()).map(|entry| &**entry)
    }

    /// Returns the bytes accessed so far; `None` if there were effects outside of memory, or too
    /// many bytes.
    pub(super) fn polled(&self) -> Option<PolledBytes> {
        let mut left = BYTES_MAX;
        let mut polled = Vec::new();
        for entry in self.each() {
            let region = &entry.traced.region;
            for (range, _) in entry.bitmap.runs() {
                let length = (range.end - range.start) as usize;
                left = left.checked_sub(length)?;
                let mut bytes = vec![0; length].into_boxed_slice();
                region.bytes.copy_to(range.start as usize, &mut bytes)?;
                polled.push((region.base + range.start, bytes));
            }
        }
        polled.sort_unstable_by_key(|(address, _)| *address);
        (!self.has_acted.load(Relaxed)).then_some(polled)
    }

    fn act(&self) -> &'a dyn GlobalMemory {
        self.has_acted.store(true, Relaxed);
        self.memory
    }
}

impl Drop for PolledMemory<'_> {
    /// Passes the accesses on to the bitmaps of the launch.
    fn drop(&mut self) {
        for entry in self.each() {
            if let Some(bitmap) = entry.traced.bitmap {
                bitmap.absorb(&entry.bitmap);
            }
        }
    }
}

impl GlobalMemory for PolledMemory<'_> {
    fn inner(&self) -> Option<&dyn GlobalMemory> {
        Some(self.memory)
    }

    fn region(&self, address: u64) -> Option<Region<'_>> {
        self.memory.region(address)
    }

    fn traced_region(&self, address: u64) -> Option<TracedRegion<'_>> {
        let mut link = &self.accessed;
        loop {
            let entry = match link.get() {
                Some(entry) => entry,
                None => {
                    let traced = self.memory.traced_region(address)?;
                    let bitmap = AccessBitmap::new(traced.region.bytes.len());
                    link.get_or_init(|| {
                        Box::new(Accessed {
                            traced,
                            bitmap,
                            next: OnceLock::new(),
                        })
                    })
                }
            };
            let region = entry.traced.region;
            if address.wrapping_sub(region.base) < region.bytes.len() as u64 {
                return Some(TracedRegion {
                    region,
                    bitmap: Some(&entry.bitmap),
                });
            }
            link = &entry.next;
        }
    }

    fn print(&self, output: &[u8]) {
        self.act().print(output);
    }

    fn allocate(&self, bytes: u64, align: u64) -> Option<u64> {
        self.act().allocate(bytes, align)
    }

    fn free(&self, address: u64) -> bool {
        self.act().free(address)
    }

    fn set_condition(&self, condition: u64, value: u32) -> bool {
        self.act().set_condition(condition, value)
    }
}

/// Finds a repeated state in a sequence of states, by the method of Brent.
#[derive(Debug, Default)]
pub(super) struct CycleFinder {
    kept: Option<u64>,
    /// The number of states since the kept one, and the number after which another is kept.
    since: u64,
    limit: u64,
}

impl CycleFinder {
    /// Adds a state, and returns whether the sequence repeats.
    pub(super) fn repeats(&mut self, state: &impl Hash) -> bool {
        let mut hasher = DefaultHasher::new();
        state.hash(&mut hasher);
        let state = hasher.finish();
        if self.kept == Some(state) {
            return true;
        }
        self.since += 1;
        if self.since > self.limit {
            (self.kept, self.since) = (Some(state), 0);
            self.limit = self.limit * 2 + 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_found_behind_any_prefix() {
        for (prefix, length) in [(0, 1), (1, 1), (5, 3), (70, 12)] {
            let mut finder = CycleFinder::default();
            let state = |step: u64| step.min(prefix + step.saturating_sub(prefix) % length);
            let found = (0..).position(|step| finder.repeats(&state(step))).unwrap() as u64;
            assert!(
                found >= prefix + length && found <= 4 * (prefix + length) + 2,
                "{found}"
            );
            let mut finder = CycleFinder::default();
            assert!(!(0..prefix).any(|step| finder.repeats(&step)));
        }
    }
}
