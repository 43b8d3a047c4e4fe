//! The memory that a kernel sees.

use std::io::Write;

use parking_lot::Mutex;

use crate::{
    exec::{GlobalMemory, Region, TracedRegion},
    ids::OpId,
    memory::{AccessBitmap, AccessTime, Allocation, MemoryKind, MemoryMap},
};

/// What a kernel of one device sees while it runs.
pub(crate) struct KernelView<'a> {
    pub(crate) map: &'a MemoryMap,
    pub(crate) device: u32,
    pub(crate) op: OpId,
    /// The allocations that it has touched by now, by base, if someone wants to know.
    pub(crate) accessed: Option<&'a Mutex<Vec<u64>>>,
    /// What kernels have printed.
    pub(crate) printf_output: &'a PrintfOutput,
}

impl KernelView<'_> {
    fn find(&self, address: u64) -> Option<(&Allocation, Region<'_>)> {
        let (allocation, _) = self.map.locate(address, 1, AccessTime::Run(self.op)).ok()?;
        // A kernel reaches its own device, page-locked and managed memory. Peers' memory is reached
        // by copies alone.
        if !allocation.kind.is_everyones() && allocation.device != self.device {
            return None;
        }
        let region = Region {
            base: allocation.base,
            bytes: allocation.shared_bytes()?,
            writable: allocation.kind != MemoryKind::Constant,
        };
        Some((allocation, region))
    }
}

impl GlobalMemory for KernelView<'_> {
    fn region(&self, address: u64) -> Option<Region<'_>> {
        Some(self.find(address)?.1)
    }

    fn traced_region(&self, address: u64) -> Option<TracedRegion<'_>> {
        let (allocation, region) = self.find(address)?;
        let bitmap = self.accessed.map(|accessed| {
            &**allocation.bitmap.get_or_init(|| {
                accessed.lock().push(allocation.base);
                Box::new(AccessBitmap::new(region.bytes.len()))
            })
        });
        Some(TracedRegion { region, bitmap })
    }

    fn print(&self, text: &str) {
        self.printf_output.add(text);
    }
}

/// The most bytes that are kept; what comes behind is written out only.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// What kernels have printed, in the order of launches, blocks and threads.
#[derive(Debug, Default)]
pub(crate) struct PrintfOutput {
    text: Mutex<String>,
}

impl PrintfOutput {
    /// Adds what a thread prints, and writes it to the standard output.
    pub(crate) fn add(&self, text: &str) {
        let mut kept = self.text.lock();
        if kept.len() + text.len() <= KEPT_BYTES_MAX {
            *kept += text;
        }
        // A program without a standard output, or with a closed one, loses only this.
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
    }

    /// All that was printed, up to a limit.
    pub(crate) fn text(&self) -> String {
        self.text.lock().clone()
    }
}
