//! The heap of kernels (`malloc` and `free` in device code) while one kernel runs.
//!
//! Each block is an allocation of its own, so that bounds, lifetimes and races are checked as for
//! any other memory. The address map cannot change while a kernel runs: new blocks are kept here,
//! and enter the map when the kernel has ended.

use std::{
    collections::{BTreeMap, BTreeSet},
    iter,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use millstream_driver::{ContextHandle, StreamHandle};
use parking_lot::Mutex;

use super::{Allocation, AllocationInfo, GAP, MemoryKind, MemoryMap, allocation::Storage};
use crate::ids::OpId;

/// The default size of a context's heap, in bytes (`CU_LIMIT_MALLOC_HEAP_SIZE`).
pub(crate) const HEAP_BYTES: u64 = 8 << 20;
/// The alignment of blocks, in bytes.
const BLOCK_ALIGN: u64 = 16;
/// The greatest alignment that a kernel can ask for, in bytes.
const ALIGN_MAX: u64 = 1 << 20;
/// The number of bytes that a kernel's blocks take before the memory of freed blocks is used again:
/// a kernel may allocate and free in a loop.
const FRESH_BYTES: u64 = 64 << 20;
/// The approximate number of bytes that the description of a block takes.
const DESCRIPTION_BYTES: u64 = 512;
/// The kernel that a heap serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeapUser {
    pub(crate) context: ContextHandle,
    pub(crate) device: u32,
    pub(crate) op: OpId,
    pub(crate) stream: StreamHandle,
    /// Whether freed blocks may be used again. They would hide a use after the free, and look like
    /// races of the threads that use them in turn.
    pub(crate) reuses: bool,
}

/// The heap of a context during one kernel.
pub(crate) struct KernelHeap<'m> {
    map: &'m MemoryMap,
    user: HeapUser,
    state: Mutex<HeapState>,
    blocks: Blocks,
    /// Set once the kernel has freed a block.
    frees: AtomicBool,
}

#[derive(Debug)]
struct HeapState {
    next_address: u64,
    bytes_left: u64,
    /// The blocks that the kernel has freed, by first address.
    freed: BTreeSet<u64>,
    /// The total size of the blocks that the kernel has allocated.
    made_bytes: u64,
    /// The freed ones by their size.
    reusable: BTreeMap<u64, Vec<u64>>,
}

/// The changes that a kernel has made to the heap.
pub(crate) struct HeapChanges {
    device: u32,
    next_address: u64,
    blocks: Vec<Allocation>,
    freed: BTreeSet<u64>,
}

impl<'m> KernelHeap<'m> {
    /// Creates the heap of a kernel's context, whose size is `limit` bytes; `None` for a kernel
    /// that does not allocate.
    pub(crate) fn new(map: &'m MemoryMap, user: HeapUser, limit: Option<u64>) -> Self {
        let bytes_left = limit.map_or(0, |limit| {
            let blocks = map
                .live()
                .filter(|block| block.kind == MemoryKind::Heap && block.context == user.context);
            let used: u64 = blocks.map(|block| budgeted(block.bytes)).sum();
            limit.saturating_sub(used)
        });
        Self {
            map,
            user,
            state: Mutex::new(HeapState {
                next_address: map.next_heap_address[user.device as usize],
                bytes_left,
                freed: BTreeSet::new(),
                made_bytes: 0,
                reusable: BTreeMap::new(),
            }),
            blocks: Blocks::default(),
            frees: AtomicBool::new(false),
        }
    }

    /// Allocates a block. Returns `None` if the heap has too little memory left.
    pub(crate) fn allocate(&self, bytes: u64, align: u64) -> Option<u64> {
        let align = align.max(BLOCK_ALIGN);
        let mut state = self.state.lock();
        if !align.is_power_of_two() || align > ALIGN_MAX || bytes > state.bytes_left {
            return None;
        }
        let bytes = bytes.max(1);
        let bytes_left = state.bytes_left.checked_sub(budgeted(bytes))?;
        if state.made_bytes > FRESH_BYTES
            && align == BLOCK_ALIGN
            && let Some(again) = state.reusable.get_mut(&bytes).and_then(Vec::pop)
        {
            state.freed.remove(&again);
            state.bytes_left = bytes_left;
            return Some(again);
        }
        let length = usize::try_from(bytes).ok()?;
        let backing = self
            .map
            .fresh(length, BLOCK_ALIGN as usize, self.map.poison_max_bytes[0])?;
        let base = state.next_address.next_multiple_of(align);
        let HeapUser {
            context,
            device,
            op,
            stream,
            ..
        } = self.user;
        let number = self.map.made + self.blocks.len() as u64 + 1;
        let info = self
            .map
            .info(number, MemoryKind::Heap, device, length, Some((op, stream)));
        self.blocks.push(Allocation::new(
            (MemoryKind::Heap, info),
            context,
            device,
            base,
            length,
            Storage::Owned(backing),
        ));
        state.next_address = (base + bytes + GAP).next_multiple_of(BLOCK_ALIGN);
        state.bytes_left = bytes_left;
        state.made_bytes += bytes + DESCRIPTION_BYTES;
        Some(base)
    }

    /// Frees the block that starts at `base`. Returns whether it was alive.
    pub(crate) fn free(&self, base: u64) -> bool {
        let Some(block) = self.block(base).or_else(|| self.map.at(base)) else {
            return false;
        };
        let is_alive = block.base == base
            && block.kind == MemoryKind::Heap
            && block.context == self.user.context
            && !block.freed;
        let mut state = self.state.lock();
        if !is_alive || !state.freed.insert(base) {
            return false;
        }
        self.frees.store(true, Ordering::Release);
        state.bytes_left += budgeted(block.bytes);
        if self.user.reuses && self.block(base).is_some() {
            state.reusable.entry(block.bytes).or_default().push(base);
        }
        true
    }

    /// Returns the block of this kernel that contains the address, alive or freed.
    pub(crate) fn block(&self, address: u64) -> Option<&Allocation> {
        self.blocks.around(address)
    }

    /// Returns whether the kernel has freed a block.
    pub(crate) fn has_freed(&self, base: u64) -> bool {
        self.frees.load(Ordering::Acquire) && self.state.lock().freed.contains(&base)
    }

    /// Ends the use by the kernel, and returns the changes for [`MemoryMap::change_heap`].
    pub(crate) fn finish(self) -> HeapChanges {
        let state = self.state.into_inner();
        HeapChanges {
            device: self.user.device,
            next_address: state.next_address,
            blocks: self.blocks.into_iter().collect(),
            freed: state.freed,
        }
    }
}

impl MemoryMap {
    /// Enters the changes that a kernel has made. Returns the descriptions of the blocks that it
    /// allocated, and of the blocks that it freed.
    pub(crate) fn change_heap(&mut self, changes: HeapChanges) -> [Vec<Arc<AllocationInfo>>; 2] {
        self.next_heap_address[changes.device as usize] = changes.next_address;
        self.made += changes.blocks.len() as u64;
        let allocated = changes.blocks.into_iter().map(|block| {
            let info = Arc::clone(&block.info);
            self.insert(block);
            info
        });
        let allocated = allocated.collect();
        let freed = changes.freed.into_iter().filter_map(|base| {
            let info = Arc::clone(&self.at(base)?.info);
            self.end(base);
            Some(info)
        });
        [allocated, freed.collect()]
    }
}

/// Returns the number of bytes that a block takes from the heap.
fn budgeted(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK_ALIGN)
}

/// Room for allocations, made on first use.
type Chunk = OnceLock<Box<[OnceLock<Allocation>]>>;

/// Allocations in ascending order. They stay in place while others are added: chunk *n* has room
/// for 2ⁿ of them. Most kernels allocate none, and so pay for no chunks.
#[derive(Default)]
struct Blocks {
    len: AtomicUsize,
    chunks: OnceLock<Box<[Chunk; 32]>>,
}

impl Blocks {
    fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    fn place(&self, index: usize) -> &OnceLock<Allocation> {
        let chunk = (index + 1).ilog2();
        let room = 1 << chunk;
        let blocks = self.chunks.get_or_init(Box::default)[chunk as usize]
            .get_or_init(|| iter::repeat_with(OnceLock::new).take(room).collect());
        &blocks[index + 1 - room]
    }

    /// Appends an allocation. One thread at a time may call this.
    fn push(&self, block: Allocation) {
        let index = self.len();
        if self.place(index).set(block).is_ok() {
            self.len.store(index + 1, Ordering::Release);
        }
    }

    /// Returns the allocation that contains the address.
    fn around(&self, address: u64) -> Option<&Allocation> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.place(middle).get()?.base <= address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let found = self.place(low.checked_sub(1)?).get()?;
        (address < found.end()).then_some(found)
    }

    fn into_iter(self) -> impl Iterator<Item = Allocation> {
        let chunks = self
            .chunks
            .into_inner()
            .into_iter()
            .flat_map(|chunks| *chunks);
        let blocks = chunks.filter_map(OnceLock::into_inner);
        blocks.flatten().filter_map(OnceLock::into_inner)
    }
}
