//! A kernel's view of memory, and the output of `printf`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use millstream_driver::{ConditionHandle, ContextHandle};
use parking_lot::Mutex;

use super::{
    graph::Conditions,
    objects::image::Images,
    op::StreamOp,
    peers::{PeerAccess, Reach},
    printf_output::PrintfOutput,
    state::SimState,
};
use crate::{
    exec::{Alias, GlobalMemory, Image, KernelError, Region, SharedKernelErrors, TracedRegion},
    ids::OpId,
    memory::{AccessBitmap, AccessTime, Allocation, HeapUser, KernelHeap, MemoryKind, MemoryMap},
};

/// The memory visible to a running kernel of one device.
pub(crate) struct KernelView<'a> {
    /// All allocations.
    pub(crate) map: &'a MemoryMap,
    /// The heap of the kernel's context.
    pub(crate) heap: KernelHeap<'a>,
    /// The memory of other devices that the kernel can access.
    pub(crate) peers: PeerAccess,
    /// The textures and surfaces of all contexts.
    pub(crate) images: &'a Images,
    /// The kernel's operation.
    pub(crate) op: OpId,
    pub(crate) context: ContextHandle,
    /// The base addresses of the allocations accessed so far, if the race checker records them.
    pub(crate) accessed: Option<&'a Mutex<Vec<u64>>>,
    pub(crate) printf_output: &'a PrintfOutput,
    /// The conditions of the graph that the kernel runs in.
    pub(crate) conditions: Option<&'a Conditions>,
    /// True if several threads execute the kernel.
    is_shared: AtomicBool,
    pub(crate) kernel_errors: SharedKernelErrors,
    /// The number of blocks that have ended, for those who watch the kernel.
    pub(crate) blocks_done: &'a AtomicU64,
}

impl SimState {
    /// Returns the memory that a kernel's operation can access, with the heap of that size if the
    /// kernel uses it.
    pub(super) fn kernel_view<'a>(
        &'a self,
        (id, op): (OpId, &'a StreamOp),
        heap_bytes: Option<u64>,
        accessed: Option<&'a Mutex<Vec<u64>>>,
    ) -> KernelView<'a> {
        let user = HeapUser {
            context: op.context,
            device: op.device,
            op: id,
            stream: op.stream,
            reuses: !self.config.kernel_race_check,
        };
        KernelView {
            map: &self.memory,
            heap: KernelHeap::new(&self.memory, user, heap_bytes),
            peers: self.peer_access(id, op.context, op.device),
            images: &self.images,
            op: id,
            context: op.context,
            accessed,
            printf_output: &self.printf_output,
            conditions: op.node.as_ref().map(|place| &*place.conditions),
            is_shared: AtomicBool::new(false),
            kernel_errors: SharedKernelErrors::default(),
            blocks_done: &self.running_kernel.blocks_done,
        }
    }
}

impl KernelView<'_> {
    /// Returns the live allocation at `address` and its bytes, if the kernel can access it.
    fn find(&self, address: u64) -> Option<(&Allocation, Region<'_>)> {
        let allocation = match self.heap.block(address) {
            Some(block) => block,
            None => {
                self.map
                    .locate(address, 1, AccessTime::Run(self.op))
                    .ok()?
                    .0
            }
        };
        if allocation.kind == MemoryKind::Heap && self.heap.has_freed(allocation.base) {
            return None;
        }
        let region = Region {
            base: allocation.base,
            bytes: match self.peers.reach(allocation) {
                Reach::Works => allocation.shared_bytes()?,
                Reach::Zeros => allocation.hole()?,
                Reach::None => return None,
            },
            writable: allocation.is_writable_by(self.peers.device),
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
                let bitmap = AccessBitmap::new(region.bytes.len());
                Box::new(bitmap.marked_by_one_thread(!self.is_shared.load(Relaxed)))
            })
        });
        Some(TracedRegion { region, bitmap })
    }

    fn aliases(&self) -> Vec<Alias> {
        self.map.aliases()
    }

    fn share(&self) {
        self.is_shared.store(true, Relaxed);
    }

    fn blocks_done(&self, count: u64) {
        self.blocks_done.fetch_add(count, Relaxed);
    }

    fn kernel_error(&self, error: KernelError) {
        self.kernel_errors.add(error);
    }

    fn print(&self, output: &[u8]) {
        self.printf_output.add(output);
    }

    fn allocate(&self, bytes: u64, align: u64) -> Option<u64> {
        self.heap.allocate(bytes, align)
    }

    fn free(&self, address: u64) -> bool {
        self.heap.free(address)
    }

    fn image(&self, handle: u64) -> Option<Image> {
        let object = self.images.seen_by(self.op, handle)?;
        (object.context == self.context).then_some(object.image)
    }

    fn set_condition(&self, condition: u64, value: u32) -> bool {
        let condition = ConditionHandle::from_raw(condition);
        self.conditions
            .is_some_and(|conditions| conditions.set(condition, value))
    }
}
