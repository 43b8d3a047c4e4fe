//! The address map: every allocation, live or dead, by address, and who may touch it when.
//!
//! Device addresses start at 2^48, 2^52 of them for each device, rise, and are never reused;
//! between two allocations lies a gap. Page-locked and managed memory is at its real address. A
//! dead allocation keeps its entry, without its bytes, so that a late access can be told what it
//! hit.

mod access_bitmap;
mod allocation;
mod backing;
pub(crate) mod host;
mod nearest_allocation;
pub(crate) mod pool;
mod rows;
pub mod shared_bytes;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::{Arc, OnceLock},
};

use millstream_driver::{ALLOCATION_ALIGNMENT, ContextHandle, StreamHandle};
use millstream_ptx::Site;

use self::{allocation::Storage, backing::Backing, host::HostRange};
use crate::{ReportKind, ids::OpId};

pub use self::access_bitmap::{AccessBitmap, AccessFlags};
pub(crate) use self::{
    allocation::{Allocation, AllocationInfo, MemoryKind},
    rows::{Direction, Rows},
    shared_bytes::SharedBytes,
};

/// What fresh memory holds, repeated: a NaN as `f32` and as `f64`, and `0x7ffb_dead` to the eye.
///
/// ```
/// assert!(f32::from_le_bytes(millstream_sim::POISON).is_nan());
/// ```
pub const POISON: [u8; 4] = 0x7ffb_dead_u32.to_le_bytes();

/// Device addresses start here.
const DEVICE_BASE: u64 = 1 << 48;
/// Addresses of each device.
const DEVICE_SPAN: u64 = 1 << 52;
/// Every allocation of device memory starts at a multiple of this, as pool memory does.
pub(crate) const ALIGN: u64 = 512;
/// Page-locked and managed memory starts with a page, as on a GPU, and is not aligned to more than
/// that.
const PAGE_BYTES: usize = 4096;
const _: () = assert!(ALIGN as usize >= ALLOCATION_ALIGNMENT && PAGE_BYTES >= ALLOCATION_ALIGNMENT);
/// Unmapped bytes behind every allocation, at least.
const GAP: u64 = 4096;
/// Host addresses below this one are never memory: a null pointer, or one with a small offset.
const NULL_PAGE_BYTES: u64 = 4096;
/// How many dead allocations are remembered.
const DEAD_MAX: usize = 1 << 16;
/// How much freed page-locked and managed memory is kept from reuse, in bytes, so that its late use
/// is found.
const QUARANTINE_MAX_BYTES: u64 = 16 << 20;

/// When an access is judged.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AccessTime {
    /// At the call: the memory is promised, though its life may begin only later.
    Call,
    /// When this operation runs.
    Run(OpId),
}

/// Why an access is wrong.
#[derive(Debug)]
pub(crate) struct AccessError {
    pub(crate) kind: ReportKind,
    /// The bytes accessed: `4 bytes at 0x1000`.
    pub(crate) what: String,
    /// The problem, as the rest of the sentence: `are used after the end of …`.
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

/// Whether the device can reach host memory by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostMemoryKind {
    /// Page-locked.
    Pinned,
    /// Managed: the device's as much as the host's.
    Managed,
    /// Any other.
    Pageable,
}

/// Every allocation of the simulated GPU by its first address.
#[derive(Debug)]
pub(crate) struct MemoryMap {
    allocations: BTreeMap<u64, Allocation>,
    next_address: Vec<u64>,
    dead: VecDeque<u64>,
    quarantine: VecDeque<u64>,
    quarantine_bytes: u64,
    poison_max_bytes: usize,
    /// How many allocations there were.
    made: u64,
}

impl MemoryMap {
    pub(crate) fn new(devices: u32, poison_max_bytes: usize) -> Self {
        Self {
            allocations: BTreeMap::new(),
            next_address: (0..u64::from(devices))
                .map(|device| DEVICE_BASE + device * DEVICE_SPAN)
                .collect(),
            dead: VecDeque::new(),
            quarantine: VecDeque::new(),
            quarantine_bytes: 0,
            poison_max_bytes,
            made: 0,
        }
    }

    /// Maps `bytes` (not 0) of device memory. With `allocated_by`, it lives once that operation has
    /// run. `None` if the host has no such memory.
    pub(crate) fn add_device(
        &mut self,
        kind: MemoryKind,
        context: ContextHandle,
        device: u32,
        bytes: usize,
        allocated_by: Option<(OpId, StreamHandle)>,
    ) -> Option<u64> {
        let backing = self.fresh(bytes, 16)?;
        let next = &mut self.next_address[device as usize];
        let base = *next;
        *next = (base + bytes as u64 + GAP).next_multiple_of(ALIGN);
        let info = self.info(kind, device, bytes, allocated_by);
        self.insert(Allocation {
            base,
            bytes: bytes as u64,
            kind,
            context,
            device,
            alive: allocated_by.is_none(),
            free: None,
            freed: false,
            storage: Storage::Owned(backing),
            info,
            bitmap: OnceLock::new(),
        });
        Some(base)
    }

    /// Maps fresh page-locked or managed memory. `None` if the host has no such memory.
    pub(crate) fn add_host(
        &mut self,
        kind: MemoryKind,
        context: ContextHandle,
        device: u32,
        bytes: usize,
    ) -> Option<std::ptr::NonNull<u8>> {
        let backing = self.fresh(bytes, PAGE_BYTES)?;
        let start = backing.start();
        let info = self.info(kind, device, bytes, None);
        self.insert(Self::host_allocation(
            (kind, info),
            context,
            device,
            start.as_ptr().expose_provenance() as u64,
            bytes,
            Storage::Owned(backing),
        ));
        Some(start)
    }

    /// Maps memory of the caller, which no mapped range overlaps.
    pub(crate) fn add_registered(&mut self, context: ContextHandle, device: u32, range: HostRange) {
        let info = self.info(MemoryKind::Registered, device, range.bytes(), None);
        self.insert(Self::host_allocation(
            (MemoryKind::Registered, info),
            context,
            device,
            range.address(),
            range.bytes(),
            Storage::Registered(range),
        ));
    }

    fn info(
        &mut self,
        kind: MemoryKind,
        device: u32,
        bytes: usize,
        allocated_by: Option<(OpId, StreamHandle)>,
    ) -> Arc<AllocationInfo> {
        self.made += 1;
        let variable = matches!(kind, MemoryKind::Variable | MemoryKind::Constant);
        Arc::new(AllocationInfo {
            number: self.made,
            bytes: bytes as u64,
            origin: kind.origin(),
            device: (self.next_address.len() > 1 && !kind.is_everyones()).then_some(device),
            allocated_by,
            site: Site::current(),
            initialised: kind.is_everyones() || variable,
            is_host_memory: kind.is_host(),
            variable,
        })
    }

    fn host_allocation(
        (kind, info): (MemoryKind, Arc<AllocationInfo>),
        context: ContextHandle,
        device: u32,
        base: u64,
        bytes: usize,
        storage: Storage,
    ) -> Allocation {
        Allocation {
            base,
            bytes: bytes as u64,
            kind,
            context,
            device,
            alive: true,
            free: None,
            freed: false,
            storage,
            info,
            bitmap: OnceLock::new(),
        }
    }

    fn fresh(&self, bytes: usize, align: usize) -> Option<Backing> {
        let backing = Backing::zeroed(bytes, align)?;
        if bytes <= self.poison_max_bytes {
            backing.shared_bytes().fill(0, bytes, &POISON);
        }
        Some(backing)
    }

    fn insert(&mut self, allocation: Allocation) {
        self.allocations.insert(allocation.base, allocation);
    }

    /// The allocation that starts at `base`, live or dead.
    pub(crate) fn at(&self, base: u64) -> Option<&Allocation> {
        self.allocations.get(&base)
    }

    /// Notes that a free is enqueued.
    pub(crate) fn enqueue_free(&mut self, base: u64, op: OpId, stream: StreamHandle) {
        if let Some(allocation) = self.allocations.get_mut(&base) {
            allocation.free = Some((op, stream));
        }
    }

    /// The allocation's life begins.
    pub(crate) fn begin(&mut self, base: u64) {
        if let Some(allocation) = self.allocations.get_mut(&base) {
            allocation.alive = true;
        }
    }

    /// The allocation's life ends: its bytes go, except those that the host reaches, which first
    /// spend a while in quarantine.
    pub(crate) fn end(&mut self, base: u64) {
        let Some(allocation) = self.allocations.get_mut(&base) else {
            return;
        };
        allocation.freed = true;
        match allocation.kind {
            MemoryKind::Registered => {
                self.allocations.remove(&base);
            }
            MemoryKind::Pinned | MemoryKind::Managed => {
                self.quarantine_bytes += allocation.bytes;
                self.quarantine.push_back(base);
                while self.quarantine_bytes > QUARANTINE_MAX_BYTES
                    && let Some(oldest) = self.quarantine.pop_front()
                    && let Some(gone) = self.allocations.remove(&oldest)
                {
                    self.quarantine_bytes -= gone.bytes;
                }
            }
            MemoryKind::Device | MemoryKind::Pool | MemoryKind::Variable | MemoryKind::Constant => {
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

    /// The live allocations made in `context`, by base.
    pub(crate) fn live_in(&self, context: ContextHandle) -> Vec<u64> {
        let inside = self.live().filter(|a| a.context == context);
        inside.map(|a| a.base).collect()
    }

    /// All allocations that are not freed.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Allocation> {
        self.allocations
            .values()
            .filter(|allocation| !allocation.freed)
    }

    /// Bytes of live memory of the kinds that `of` picks.
    pub(crate) fn live_bytes(&self, of: impl Fn(MemoryKind) -> bool) -> u64 {
        self.live().filter(|a| of(a.kind)).map(|a| a.bytes).sum()
    }

    /// The allocation around `address`, live or dead.
    pub(crate) fn around(&self, address: u64) -> Option<&Allocation> {
        self.below(address).filter(|found| address < found.end())
    }

    /// The last allocation that starts at `address` or before, live or dead.
    pub(crate) fn below(&self, address: u64) -> Option<&Allocation> {
        let (_, allocation) = self.allocations.range(..=address).next_back()?;
        Some(allocation)
    }

    /// What a kernel that has run did to the allocation that starts at `base`.
    pub(crate) fn take_bitmap(
        &mut self,
        base: u64,
    ) -> Option<(Arc<AllocationInfo>, Box<AccessBitmap>)> {
        let allocation = self.allocations.get_mut(&base)?;
        Some((Arc::clone(&allocation.info), allocation.bitmap.take()?))
    }

    /// The live allocation that holds all of the range, and the range's offset in it.
    pub(crate) fn locate(
        &self,
        address: u64,
        bytes: u64,
        time: AccessTime,
    ) -> Result<(&Allocation, usize), AccessError> {
        let out_of_bounds = || {
            let nearest_allocation = self.nearest_allocation(address, bytes);
            let nearest = nearest_allocation
                .nearest()
                .map_or_else(String::new, Allocation::describe);
            let problem = format!("{} {nearest}", nearest_allocation.describe());
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
        if bytes > allocation.end() - address {
            return Err(out_of_bounds());
        }
        Ok((allocation, (address - allocation.base) as usize))
    }

    /// The memory of a range, for an operation that runs.
    pub(crate) fn shared_bytes(
        &self,
        address: u64,
        bytes: u64,
        op: OpId,
    ) -> Result<(SharedBytes<'_>, usize), AccessError> {
        let (allocation, offset) = self.locate(address, bytes, AccessTime::Run(op))?;
        let shared_bytes = allocation
            .shared_bytes()
            .expect("an allocation that is not freed has its memory");
        Ok((shared_bytes, offset))
    }

    /// Writes to memory that no operation uses yet: a module's variables.
    pub(crate) fn initialise(&self, base: u64, bytes: &[u8]) {
        if let Some(shared_bytes) = self
            .allocations
            .get(&base)
            .and_then(Allocation::shared_bytes)
        {
            shared_bytes.copy_from(0, bytes);
        }
    }

    /// Whether the address is a device's, mapped or not.
    pub(crate) fn is_device_address(address: u64) -> bool {
        address >= DEVICE_BASE
    }

    /// Whether a host range is page-locked or managed, whole; a range that is so in part is an
    /// error (rule 15).
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
        } else if found.kind == MemoryKind::Managed {
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
