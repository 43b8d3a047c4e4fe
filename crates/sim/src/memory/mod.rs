//! The address map: all allocations by address, live and freed, and the checks of accesses to them.
//!
//! Device addresses start at 2^48, span 2^52 for each device, ascend, and are never reused;
//! allocations are separated by gaps. Page-locked and managed memory has its real address. A freed
//! allocation keeps its entry, without its bytes, so that a report of a late access can name it.

mod access_bitmap;
mod allocation;
mod backing;
mod bitmap;
mod heap;
pub(crate) mod host;
mod nearest_allocation;
pub(crate) mod pool;
mod rows;
pub mod shared_bytes;
pub(crate) mod virtual_memory;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, atomic::AtomicUsize},
};

use millstream_driver::{ALLOCATION_ALIGNMENT, ContextHandle, StreamHandle};
use millstream_ptx::Site;

use self::{allocation::Storage, host::HostRange, virtual_memory::VirtualMemory};
use crate::{ReportKind, ids::OpId};
pub(crate) use backing::Backing;
pub(crate) use heap::{HEAP_BYTES, HeapChanges, HeapUser, KernelHeap};

pub use self::access_bitmap::{AccessBitmap, AccessFlags};
pub(crate) use self::{
    allocation::{Allocation, AllocationInfo, FromPool, MemoryKind},
    rows::{Direction, Rows, SMALL_UPLOAD_BYTES},
    shared_bytes::SharedBytes,
};

/// The pattern that fills new memory: a NaN as `f32` and as `f64`, recognisable as `0x7ffb_dead`.
pub const POISON: [u8; 4] = 0x7ffb_dead_u32.to_le_bytes();

/// The first device address.
const DEVICE_BASE: u64 = 1 << 48;
/// The size of each device's address range.
const DEVICE_SPAN: u64 = 1 << 52;
/// The least alignment of device memory, in a pool or not.
pub(crate) const ALIGN: u64 = 512;
/// The page size. Page-locked and managed memory starts at a page boundary, as on a GPU, and has no
/// larger alignment.
const PAGE_BYTES: usize = 4096;
const _: () = assert!(ALIGN as usize >= ALLOCATION_ALIGNMENT && PAGE_BYTES >= ALLOCATION_ALIGNMENT);
/// The minimum number of unmapped bytes after every allocation.
const GAP: u64 = 4096;
/// The size of the null page: host addresses below it are null pointers with a small offset, never
/// memory.
const NULL_PAGE_BYTES: u64 = 4096;
/// The maximum number of freed device allocations that are remembered.
const DEAD_MAX: usize = 1 << 16;
/// The maximum number of bytes of freed page-locked and managed memory that are withheld from
/// reuse, so that late accesses are detected.
const QUARANTINE_MAX_BYTES: u64 = 16 << 20;

#[derive(Clone, Copy, Debug)]
pub(crate) enum AccessTime {
    /// At the call: the memory must be allocated, though its allocation may still be pending.
    Call,
    /// At the execution of this operation.
    Run(OpId),
}

/// The reason why an access is invalid.
#[derive(Debug)]
pub(crate) struct AccessError {
    pub(crate) kind: ReportKind,
    /// The accessed bytes, such as `4 bytes at 0x1000`.
    pub(crate) what: String,
    /// The problem as the predicate of the sentence, such as `are used after the end of …`.
    pub(crate) problem: String,
}

impl AccessError {
    fn new(kind: ReportKind, (address, bytes): (u64, u64), problem: String) -> Self {
        Self {
            kind,
            what: format!("{bytes} bytes at {address:#x}"),
            problem,
        }
    }
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.problem)
    }
}

/// The kind of host memory, which determines whether a device can access it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostMemoryKind {
    /// Page-locked memory.
    Pinned,
    /// Managed memory, accessible to devices and the host.
    Managed,
    /// Any other memory.
    Pageable,
}

/// The map of all allocations by first address.
#[derive(Debug)]
pub(crate) struct MemoryMap {
    /// The allocations, live and freed, by first address.
    allocations: BTreeMap<u64, Allocation>,
    /// The next free address of each device.
    next_address: Vec<u64>,
    /// The next free address of the heap of each device's kernels.
    next_heap_address: Vec<u64>,
    /// The freed device allocations, oldest first.
    dead: VecDeque<u64>,
    /// The freed page-locked and managed allocations withheld from reuse, oldest first.
    quarantine: VecDeque<u64>,
    /// The total size of the quarantined allocations.
    quarantine_bytes: u64,
    /// The size up to which new device memory is filled with [`POISON`], and that for host memory.
    poison_max_bytes: [usize; 2],
    /// The number of bytes that hold [`POISON`].
    poisoned: Arc<AtomicUsize>,
    /// The number of allocations created.
    made: u64,
    pub(crate) virtual_memory: VirtualMemory,
}

impl MemoryMap {
    pub(crate) fn new(devices: u32, poison_max_bytes: [usize; 2]) -> Self {
        let starts = |offset| {
            let devices = 0..u64::from(devices);
            devices.map(move |device| DEVICE_BASE + device * DEVICE_SPAN + offset)
        };
        Self {
            allocations: BTreeMap::new(),
            next_address: starts(0).collect(),
            next_heap_address: starts(DEVICE_SPAN / 2).collect(),
            dead: VecDeque::new(),
            quarantine: VecDeque::new(),
            quarantine_bytes: 0,
            poison_max_bytes,
            poisoned: Arc::default(),
            made: 0,
            virtual_memory: VirtualMemory::default(),
        }
    }

    /// Maps `bytes` (not 0) of device memory. The lifetime of a pool's memory begins when the
    /// allocating operation runs. Returns `None` if the host is out of memory.
    pub(crate) fn add_device(
        &mut self,
        kind: MemoryKind,
        context: ContextHandle,
        device: u32,
        bytes: usize,
        from_pool: Option<FromPool>,
    ) -> Option<u64> {
        let backing = self.fresh(bytes, 16, self.poison_max_bytes[0])?;
        let next = &mut self.next_address[device as usize];
        let base = next.next_multiple_of(kind.alignment(bytes as u64));
        *next = base + bytes as u64 + GAP;
        let allocated_by = from_pool.map(|from| from.allocated_by);
        let info = self.next_info(kind, device, bytes, allocated_by);
        let storage = Storage::Owned(backing);
        self.insert(Allocation {
            pool: from_pool.map(|from| from.pool),
            alive: allocated_by.is_none(),
            ..Allocation::new((kind, info), context, device, base, bytes, storage)
        });
        Some(base)
    }

    /// Allocates and maps page-locked or managed memory. Returns `None` if the host is out of
    /// memory.
    pub(crate) fn add_host(
        &mut self,
        kind: MemoryKind,
        context: ContextHandle,
        device: u32,
        bytes: usize,
    ) -> Option<std::ptr::NonNull<u8>> {
        let backing = self.fresh(bytes, PAGE_BYTES, self.poison_max_bytes[1])?;
        let start = backing.start();
        let info = self.next_info(kind, device, bytes, None);
        self.insert(Allocation::new(
            (kind, info),
            context,
            device,
            start.as_ptr().expose_provenance() as u64,
            bytes,
            Storage::Owned(backing),
        ));
        Some(start)
    }

    /// Maps memory of the caller. No mapped range may overlap it.
    pub(crate) fn add_registered(&mut self, context: ContextHandle, device: u32, range: HostRange) {
        let info = self.next_info(MemoryKind::Registered, device, range.bytes(), None);
        self.insert(Allocation::new(
            (MemoryKind::Registered, info),
            context,
            device,
            range.address(),
            range.bytes(),
            Storage::Registered(range),
        ));
    }

    /// Creates the description of the next allocation.
    fn next_info(
        &mut self,
        kind: MemoryKind,
        device: u32,
        bytes: usize,
        allocated_by: Option<(OpId, StreamHandle)>,
    ) -> Arc<AllocationInfo> {
        self.made += 1;
        self.info(self.made, kind, device, bytes, allocated_by)
    }

    /// Creates the description of the allocation of that number.
    fn info(
        &self,
        number: u64,
        kind: MemoryKind,
        device: u32,
        bytes: usize,
        allocated_by: Option<(OpId, StreamHandle)>,
    ) -> Arc<AllocationInfo> {
        Arc::new(AllocationInfo {
            number,
            bytes: bytes as u64,
            origin: kind.origin(),
            device: (self.next_address.len() > 1 && !kind.is_everyones()).then_some(device),
            allocated_by,
            site: Site::current(),
            initialised: kind.is_everyones() || kind.is_variable(),
            is_host_memory: kind.is_host(),
            is_everyones: kind.is_everyones(),
            variable: kind.is_variable(),
        })
    }

    /// Allocates backing memory, and fills it with [`POISON`] up to a size.
    fn fresh(&self, bytes: usize, align: usize, poison_max_bytes: usize) -> Option<Backing> {
        let mut backing = Backing::zeroed(bytes, align)?;
        if bytes <= poison_max_bytes {
            backing.poison(&POISON, &self.poisoned);
        }
        Some(backing)
    }

    fn insert(&mut self, allocation: Allocation) {
        self.allocations.insert(allocation.base, allocation);
    }

    /// Returns the allocation that starts at `base`, live or freed.
    pub(crate) fn at(&self, base: u64) -> Option<&Allocation> {
        self.allocations.get(&base)
    }

    pub(crate) fn enqueue_free(&mut self, base: u64, op: OpId, stream: StreamHandle) {
        if let Some(allocation) = self.allocations.get_mut(&base) {
            allocation.free = Some((op, stream));
        }
    }

    /// Begins an allocation's lifetime.
    pub(crate) fn begin(&mut self, base: u64) {
        if let Some(allocation) = self.allocations.get_mut(&base) {
            allocation.alive = true;
        }
    }

    /// Ends an allocation's lifetime and releases its bytes. Page-locked and managed memory stays
    /// in quarantine for a while first.
    pub(crate) fn end(&mut self, base: u64) {
        let Some(allocation) = self.allocations.get_mut(&base) else {
            return;
        };
        allocation.freed = true;
        match allocation.kind {
            MemoryKind::Registered => {
                self.allocations.remove(&base);
            }
            MemoryKind::Pinned | MemoryKind::Managed | MemoryKind::ManagedVariable => {
                self.quarantine_bytes += allocation.bytes;
                self.quarantine.push_back(base);
                while self.quarantine_bytes > QUARANTINE_MAX_BYTES
                    && let Some(oldest) = self.quarantine.pop_front()
                    && let Some(gone) = self.allocations.remove(&oldest)
                {
                    self.quarantine_bytes -= gone.bytes;
                }
            }
            MemoryKind::Device
            | MemoryKind::Pool
            | MemoryKind::Heap
            | MemoryKind::Variable
            | MemoryKind::Constant
            | MemoryKind::Mapped => {
                allocation.storage = Storage::Gone;
                self.dead.push_back(base);
                if self.dead.len() > DEAD_MAX
                    && let Some(oldest) = self.dead.pop_front()
                {
                    self.allocations.remove(&oldest);
                }
            }
        }
    }

    /// Returns the base addresses of the live allocations created in `context`.
    pub(crate) fn live_in(&self, context: ContextHandle) -> Vec<u64> {
        let inside = self.live().filter(|a| a.context == context);
        inside.map(|a| a.base).collect()
    }

    /// Returns all allocations that are not freed.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Allocation> {
        self.allocations
            .values()
            .filter(|allocation| !allocation.freed)
    }

    pub(crate) fn live_bytes(&self, of: impl Fn(MemoryKind) -> bool) -> u64 {
        self.live().filter(|a| of(a.kind)).map(|a| a.bytes).sum()
    }

    /// Returns the allocation that contains `address`, live or freed.
    pub(crate) fn around(&self, address: u64) -> Option<&Allocation> {
        self.below(address).filter(|found| address < found.end())
    }

    /// Returns the last allocation that starts at or before `address`, live or freed.
    pub(crate) fn below(&self, address: u64) -> Option<&Allocation> {
        let (_, allocation) = self.allocations.range(..=address).next_back()?;
        Some(allocation)
    }

    /// Returns the live allocation that contains the whole range, and the range's offset in it.
    pub(crate) fn locate(
        &self,
        address: u64,
        bytes: u64,
        time: AccessTime,
    ) -> Result<(&Allocation, usize), AccessError> {
        let out_of_bounds = || {
            let (place, nearest) = self.whereabouts(address, bytes);
            let nearest = nearest.map_or_else(String::new, Allocation::describe);
            let problem = format!("{place} {nearest}");
            let problem = problem.trim_end().to_owned();
            AccessError::new(ReportKind::OutOfBounds, (address, bytes), problem)
        };
        let Some(allocation) = self.around(address) else {
            return Err(out_of_bounds());
        };
        let wrong = |kind, what: String| {
            let problem = format!("{what}{}", allocation.describe());
            Err(AccessError::new(kind, (address, bytes), problem))
        };
        match (allocation.freed, allocation.free, time) {
            (true, ..) => {
                return wrong(
                    ReportKind::UseAfterFree,
                    "are used after the end of ".into(),
                );
            }
            (false, Some(_), AccessTime::Call) => {
                return wrong(
                    ReportKind::UseAfterFree,
                    "are used by work enqueued after the free of ".into(),
                );
            }
            (false, Some((free, _)), AccessTime::Run(op)) if op > free => {
                return wrong(
                    ReportKind::UseAfterFree,
                    format!("are used by {op}, enqueued after the free of "),
                );
            }
            _ => {}
        }
        if matches!(time, AccessTime::Run(_)) && !allocation.alive {
            return wrong(
                ReportKind::UseBeforeAllocation,
                "are used before the beginning of ".into(),
            );
        }
        let mut found = allocation;
        loop {
            if found.access().is_some_and(|access| access.read == 0) {
                let what = "are mapped, but no device has access (cuMemSetAccess): ";
                return wrong(ReportKind::OutOfBounds, what.into());
            }
            if bytes <= found.end() - address {
                break;
            }
            // A range may consist of several mappings.
            match self.mapping(found.end()) {
                Some(next) if found.kind == MemoryKind::Mapped => found = next,
                _ => return Err(out_of_bounds()),
            }
        }
        Ok((allocation, (address - allocation.base) as usize))
    }

    /// Returns the memory of the allocation that contains a range, and the range's offset, for a
    /// running operation.
    pub(crate) fn shared_bytes(
        &self,
        address: u64,
        bytes: u64,
        op: OpId,
    ) -> Result<(SharedBytes<'_>, usize), AccessError> {
        let (allocation, offset) = self.locate(address, bytes, AccessTime::Run(op))?;
        let shared_bytes = allocation
            .shared_bytes()
            .expect("a live allocation has backing memory");
        Ok((shared_bytes, offset))
    }

    /// Writes the initial value of a module's variable, which no operation uses yet.
    pub(crate) fn initialise(&self, base: u64, bytes: &[u8]) {
        if let Some(shared_bytes) = self
            .allocations
            .get(&base)
            .and_then(Allocation::shared_bytes)
        {
            shared_bytes.copy_from(0, bytes);
        }
    }

    /// Returns whether the address is in the device address space, mapped or not.
    pub(crate) fn is_device_address(address: u64) -> bool {
        address >= DEVICE_BASE
    }

    /// Returns the kind of a host range. A range that is only partly page-locked is an error (rule
    /// 15: such a range is an invalid value).
    pub(crate) fn classify_host(
        &self,
        address: u64,
        bytes: u64,
    ) -> Result<HostMemoryKind, AccessError> {
        let last = address.saturating_add(bytes.max(1) - 1);
        if address < NULL_PAGE_BYTES || last >= DEVICE_BASE {
            let problem = "are not host memory".to_owned();
            return Err(AccessError::new(
                ReportKind::BadArgument,
                (address, bytes),
                problem,
            ));
        }
        let Some((_, found)) = self.allocations.range(..=last).next_back() else {
            return Ok(HostMemoryKind::Pageable);
        };
        if found.end() <= address {
            return Ok(HostMemoryKind::Pageable);
        }
        let wrong = |kind, what| {
            Err(AccessError {
                kind,
                what: format!("{bytes} bytes of host memory at {address:#x}"),
                problem: format!("{what} {}", found.describe()),
            })
        };
        if found.freed {
            wrong(ReportKind::UseAfterFree, "are used after the end of")
        } else if found.kind.is_managed() {
            if found.base > address || last >= found.end() {
                wrong(ReportKind::OutOfBounds, "reach beyond")
            } else {
                Ok(HostMemoryKind::Managed)
            }
        } else if found.base > address || last >= found.end() {
            wrong(
                ReportKind::PartlyRegistered,
                "are only partly page-locked: they leave",
            )
        } else {
            Ok(HostMemoryKind::Pinned)
        }
    }
}
