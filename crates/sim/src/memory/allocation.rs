//! Allocations: origin, lifetime state, and backing memory.

use std::sync::{Arc, OnceLock};

use millstream_driver::{ContextHandle, PoolHandle, StreamHandle};
use millstream_ptx::Site;

use super::{ALIGN, AccessBitmap, MemoryMap, SharedBytes, backing::Backing, host::HostRange};
use crate::ids::{OpId, name};

/// The origin of an allocation, which determines the functions that may free it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// `cuMemAlloc`.
    Device,
    /// `cuMemAllocAsync`.
    Pool,
    /// `cuMemHostAlloc`.
    Pinned,
    /// `cuMemHostRegister`.
    Registered,
    /// `cuMemAllocManaged`.
    Managed,
    /// `malloc` of a kernel.
    Heap,
    /// A variable of a module.
    Variable,
    /// A managed variable of a module.
    ManagedVariable,
    /// A read-only variable of a module.
    Constant,
    /// Physical memory of `cuMemCreate`, mapped by `cuMemMap`.
    Mapped,
}

impl MemoryKind {
    /// Returns whether the memory is page-locked host memory.
    pub(crate) fn is_host(self) -> bool {
        matches!(self, Self::Pinned | Self::Registered)
    }

    /// Returns whether the host and every device can access the memory at the same address.
    pub(crate) fn is_everyones(self) -> bool {
        self.is_host() || self.is_managed()
    }

    /// Returns whether the memory is managed.
    pub(crate) fn is_managed(self) -> bool {
        matches!(self, Self::Managed | Self::ManagedVariable)
    }

    /// Returns whether the memory is a module's variable.
    pub(crate) fn is_variable(self) -> bool {
        matches!(
            self,
            Self::Variable | Self::ManagedVariable | Self::Constant
        )
    }

    /// Returns the alignment of device memory, as on an H200 (rule 56).
    pub(super) fn alignment(self, bytes: u64) -> u64 {
        let own = match self {
            Self::Pool if bytes.is_multiple_of(1 << 20) => 1 << bytes.trailing_zeros(),
            Self::Pool => ALIGN,
            _ => bytes.checked_next_power_of_two().unwrap_or(u64::MAX),
        };
        own.clamp(ALIGN, 2 << 20)
    }

    /// Returns the name of the origin in messages.
    pub(super) fn origin(self) -> &'static str {
        match self {
            Self::Device => "cuMemAlloc",
            Self::Pool => "cuMemAllocAsync",
            Self::Pinned => "cuMemHostAlloc",
            Self::Registered => "cuMemHostRegister",
            Self::Managed => "cuMemAllocManaged",
            Self::Heap => "malloc",
            Self::Mapped => "cuMemCreate",
            Self::Variable | Self::ManagedVariable | Self::Constant => "a module's variable",
        }
    }
}

/// The origin of a pool's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromPool {
    pub(crate) pool: PoolHandle,
    /// The allocating operation and its stream.
    pub(crate) allocated_by: (OpId, StreamHandle),
}

/// The description of an allocation for the race checker's findings.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllocationInfo {
    /// The number of the allocation, from 1 in the order of creation; 0 is pageable memory.
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// The driver function that created it.
    pub(crate) origin: &'static str,
    /// The device of the memory, if there are several.
    pub(crate) device: Option<u32>,
    /// The allocating operation and its stream, for pool memory.
    pub(crate) allocated_by: Option<(OpId, StreamHandle)>,
    /// The label and source line of the creating call, if recorded.
    pub(crate) site: Option<Site>,
    /// Set if the memory counts as initialised from the start: the host can write it without the
    /// simulator's knowledge, or it is a variable.
    pub(crate) initialised: bool,
    /// Set for host memory: the host sees the data that is copied to it.
    pub(crate) is_host_memory: bool,
    /// Set if the host can access the memory without the simulator's knowledge.
    pub(crate) is_everyones: bool,
    /// Set for a module's variable, which the driver frees with the module.
    pub(crate) variable: bool,
}

impl AllocationInfo {
    /// Returns the number, size and origin in words.
    pub(crate) fn describe(&self) -> String {
        if self.number == 0 {
            return "pageable host memory".into();
        }
        format!("allocation {} ({})", self.number, self.origin())
    }

    /// Returns the size, the creating function, and the caller's source line.
    pub(crate) fn origin(&self) -> String {
        format!("{} bytes, {}", self.bytes, self.made())
    }

    /// Returns the creating function and the caller's source line.
    pub(crate) fn made(&self) -> String {
        let mut text = self.origin.to_owned();
        if let Some(device) = self.device {
            text += &format!(" on device {device}");
        }
        if let Some((op, stream)) = self.allocated_by {
            text += &format!(" by {op} on {}", name(stream));
        }
        if let Some(site) = &self.site {
            text += &format!(", {site}");
        }
        text
    }
}

/// The devices that may read and write a mapping, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceAccess {
    pub(crate) read: u64,
    pub(crate) write: u64,
}

/// The memory that holds an allocation's bytes.
#[derive(Debug)]
pub(super) enum Storage {
    /// Memory that the simulator allocated.
    Owned(Backing),
    /// Registered memory of the caller.
    Registered(HostRange),
    /// Physical memory that may be mapped elsewhere too, and the devices that may use it here.
    Mapped(Arc<Backing>, DeviceAccess),
    /// No memory: the allocation was freed.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Allocation {
    /// The first address.
    pub(crate) base: u64,
    /// The length in bytes.
    pub(crate) bytes: u64,
    /// The origin.
    pub(crate) kind: MemoryKind,
    /// The context that created it.
    pub(crate) context: ContextHandle,
    /// The device of the memory, for device memory.
    pub(crate) device: u32,
    /// The pool that the memory is from.
    pub(crate) pool: Option<PoolHandle>,
    /// Set once the allocating operation has run; always set for memory outside a pool.
    pub(super) alive: bool,
    /// The freeing operation and its stream, once a free is enqueued.
    pub(crate) free: Option<(OpId, StreamHandle)>,
    /// Set once the free has run.
    pub(super) freed: bool,
    /// The backing memory.
    pub(super) storage: Storage,
    /// The description for the race checker.
    pub(crate) info: Arc<AllocationInfo>,
    /// Zeros in place of the memory, for a kernel that cannot see it although it has access.
    pub(super) hole: OnceLock<Option<Backing>>,
    /// The accesses of the running kernel so far, if the race checker records them.
    pub(crate) bitmap: OnceLock<Box<AccessBitmap>>,
}

impl Allocation {
    /// Creates the entry of memory outside a pool.
    pub(super) fn new(
        (kind, info): (MemoryKind, Arc<AllocationInfo>),
        context: ContextHandle,
        device: u32,
        base: u64,
        bytes: usize,
        storage: Storage,
    ) -> Self {
        Self {
            base,
            bytes: bytes as u64,
            kind,
            context,
            device,
            pool: None,
            alive: true,
            free: None,
            freed: false,
            storage,
            info,
            hole: OnceLock::new(),
            bitmap: OnceLock::new(),
        }
    }

    /// Returns the address after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.bytes
    }

    /// Returns whether a free has been enqueued or has run.
    pub(crate) fn is_dead_to_new_work(&self) -> bool {
        self.freed || self.free.is_some()
    }

    /// Returns the memory, unless it was freed.
    pub(crate) fn shared_bytes(&self) -> Option<SharedBytes<'_>> {
        match &self.storage {
            Storage::Owned(backing) => Some(backing.shared_bytes()),
            Storage::Registered(range) => Some(range.shared_bytes()),
            // A mapping may be shorter than the memory.
            Storage::Mapped(backing, _) => backing.shared_bytes().slice(0, self.bytes as usize),
            Storage::Gone => None,
        }
    }

    /// Returns zeros in place of the memory, until the running kernel ends. `None` if the host is
    /// out of memory.
    pub(crate) fn hole(&self) -> Option<SharedBytes<'_>> {
        let hole = self
            .hole
            .get_or_init(|| Backing::zeroed(self.bytes as usize, 16));
        Some(hole.as_ref()?.shared_bytes())
    }

    /// Returns the allocation and its history in words, for reports.
    pub(crate) fn describe(&self) -> String {
        let (number, base, end) = (self.info.number, self.base, self.end());
        let mut text = format!(
            "allocation {number} at {base:#x}..{end:#x} ({}",
            self.info.origin()
        );
        match (self.free, self.freed) {
            (Some((op, stream)), true) => text += &format!(", freed by {op} on {}", name(stream)),
            (Some((op, stream)), false) => {
                text += &format!(", to be freed by {op} on {}, still pending", name(stream));
            }
            (None, true) => text += ", freed",
            (None, false) => {}
        }
        text + ")"
    }
}

impl MemoryMap {
    /// Discards the [holes](Allocation::hole) that the kernel before has written to.
    pub(crate) fn close_holes(&mut self) {
        for allocation in self.allocations.values_mut() {
            allocation.hole.take();
        }
    }

    /// Sets the driver function that created an allocation, where its kind does not tell.
    pub(crate) fn set_origin(&mut self, base: u64, origin: &'static str) {
        if let Some(allocation) = self.allocations.get_mut(&base) {
            Arc::make_mut(&mut allocation.info).origin = origin;
        }
    }

    /// Sets the label and source line of a live allocation to the current call's, and returns the
    /// new description.
    pub(crate) fn rename(&mut self, base: u64) -> Option<Arc<AllocationInfo>> {
        let allocation = self.allocations.get_mut(&base)?;
        if allocation.is_dead_to_new_work() {
            return None;
        }
        let info = AllocationInfo {
            site: Site::current(),
            ..(*allocation.info).clone()
        };
        allocation.info = Arc::new(info);
        Some(Arc::clone(&allocation.info))
    }

    /// Takes the accesses that a kernel made to the allocation at `base`.
    pub(crate) fn take_bitmap(
        &mut self,
        base: u64,
    ) -> Option<(Arc<AllocationInfo>, Box<AccessBitmap>)> {
        let allocation = self.allocations.get_mut(&base)?;
        Some((Arc::clone(&allocation.info), allocation.bitmap.take()?))
    }

    /// Goes on with the accesses that a kernel has made to an allocation. Returns them if the
    /// allocation is gone.
    pub(crate) fn put_bitmap(
        &mut self,
        base: u64,
        info: &AllocationInfo,
        bitmap: Box<AccessBitmap>,
    ) -> Option<Box<AccessBitmap>> {
        match self.allocations.get_mut(&base) {
            Some(found) if found.info.number == info.number => found.bitmap.set(bitmap).err(),
            _ => Some(bitmap),
        }
    }
}
