//! One allocation: where it came from, where it is in its life, and what stands behind it.

use std::sync::{Arc, OnceLock};

use millstream_driver::{ContextHandle, StreamHandle};
use millstream_ptx::Site;

use super::{AccessBitmap, MemoryMap, SharedBytes, backing::Backing, host::HostRange};
use crate::ids::{OpId, name};

/// Where an allocation came from, and so what may free it.
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
    /// A variable of a module.
    Variable,
    /// A variable of a module that kernels only read.
    Constant,
}

impl MemoryKind {
    /// Whether the memory is the host's, page-locked.
    pub(crate) fn is_host(self) -> bool {
        matches!(self, Self::Pinned | Self::Registered)
    }

    /// Whether every device reaches the memory, and the host at the same address.
    pub(crate) fn is_everyones(self) -> bool {
        self.is_host() || self == Self::Managed
    }

    pub(super) fn origin(self) -> &'static str {
        match self {
            Self::Device => "cuMemAlloc",
            Self::Pool => "cuMemAllocAsync",
            Self::Pinned => "cuMemHostAlloc",
            Self::Registered => "cuMemHostRegister",
            Self::Managed => "cuMemAllocManaged",
            Self::Variable | Self::Constant => "a module's variable",
        }
    }
}

/// An allocation, for findings.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllocationInfo {
    /// Allocations are numbered from 1 in the order in which they are made; 0 is pageable memory.
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// The function it came from.
    pub(crate) origin: &'static str,
    /// The device whose memory it is, if there are several.
    pub(crate) device: Option<u32>,
    /// The operation that begins its life, for pool memory.
    pub(crate) allocated_by: Option<(OpId, StreamHandle)>,
    pub(crate) site: Option<Site>,
    /// Whether it holds something from the beginning: the host may write it unseen, or it is a
    /// variable.
    pub(crate) initialised: bool,
    /// Whether the host reads it: what is copied there has arrived.
    pub(crate) is_host_memory: bool,
    /// Whether it is the driver that ends its life, along with its module.
    pub(crate) variable: bool,
}

impl AllocationInfo {
    pub(crate) fn describe(&self) -> String {
        if self.number == 0 {
            return "pageable host memory".into();
        }
        format!("allocation {} ({})", self.number, self.origin())
    }

    /// Its size, the function that made it, and the caller's line.
    pub(crate) fn origin(&self) -> String {
        format!("{} bytes, {}", self.bytes, self.made())
    }

    /// The function that made it, and the caller's line.
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

#[derive(Debug)]
pub(super) enum Storage {
    Owned(Backing),
    Registered(HostRange),
    Gone,
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// First address.
    pub(crate) base: u64,
    /// Length in bytes.
    pub(crate) bytes: u64,
    /// Where it came from.
    pub(crate) kind: MemoryKind,
    /// The context it was made in.
    pub(crate) context: ContextHandle,
    /// The device whose memory it is, for device memory.
    pub(crate) device: u32,
    /// Whether the operation that begins its life has run; always, for other memory.
    pub(super) alive: bool,
    /// The operation that ends its life, and its stream, once a free is enqueued.
    pub(crate) free: Option<(OpId, StreamHandle)>,
    /// Whether it has been freed.
    pub(super) freed: bool,
    pub(super) storage: Storage,
    /// What the race checker calls it.
    pub(crate) info: Arc<AllocationInfo>,
    /// What the kernel that runs has done to it so far, if someone wants to know.
    pub(crate) bitmap: OnceLock<Box<AccessBitmap>>,
}

impl Allocation {
    pub(super) fn end(&self) -> u64 {
        self.base + self.bytes
    }

    /// Whether a free has been enqueued or done.
    pub(crate) fn is_dead_to_new_work(&self) -> bool {
        self.freed || self.free.is_some()
    }

    pub(crate) fn shared_bytes(&self) -> Option<SharedBytes<'_>> {
        match &self.storage {
            Storage::Owned(backing) => Some(backing.shared_bytes()),
            Storage::Registered(range) => Some(range.shared_bytes()),
            Storage::Gone => None,
        }
    }

    /// The allocation and its history, for reports.
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
    /// Calls a live allocation by what the caller says, from here on; gives its new name.
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
}
