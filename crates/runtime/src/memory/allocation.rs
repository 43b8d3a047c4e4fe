//! Device allocations: an address, a size, and the access history of the operations that use it.

#![allow(unsafe_code, reason = "submits the allocation")]

use std::{any::Any, fmt, panic::Location, sync::Arc};

use millstream_driver::DevicePtr;

use super::{
    Release,
    budget::ReserveOutcome,
    cache::evict,
    free::{Contents, DroppedBlock},
    out_of_memory,
};
use crate::{
    Error, Result, UsageErrorKind,
    context::{Allocate, DeviceState, HOST_MEMORY, Memory, Operation, StreamState, submit},
    disposal::log,
    error::OperationKind,
    page_locked::{ArrayKey, DeviceArray, Resource},
    tracker::{Access, AccessHistory, AccessKind, StreamId},
};

/// Device memory. On drop it enters the cache for the next array of its size, or is freed in stream
/// order after every operation that was submitted on it.
pub(crate) struct Allocation {
    pub(crate) device: Arc<DeviceState>,
    pub(crate) pointer: DevicePtr,
    pub(crate) history: AccessHistory,
    origin: Origin,
}

/// The source of the memory, which decides how it is freed.
enum Origin {
    /// The device's pool.
    Pool {
        /// The stream in whose order the memory was allocated.
        stream: StreamId,
        /// The contents at the end of the array's life.
        contents: Contents,
    },
    /// Managed memory, which is freed only while the device is idle.
    Managed,
    /// An array of a texture, whose handle is in the place of an address.
    Array(Box<DeviceArray>),
    /// Memory of another library. `None` once it is given back.
    Adopted(Option<Release>),
    /// A variable of a module, which lives as long as the module.
    Module,
}

impl Allocation {
    /// Allocates in the stream's order. The access history orders other streams after it, as rule
    /// 32 (memory of a pool may be used only after its allocation in stream order) requires. An
    /// allocation of 0 bytes makes no driver call. Returns the contents as well, which are the
    /// wanted ones if cached memory has them.
    pub(crate) fn new(
        device: &Arc<DeviceState>,
        stream: &StreamState,
        bytes: usize,
        wanted: Contents,
        location: &'static Location<'static>,
    ) -> Result<(Self, Contents)> {
        let mut history = AccessHistory::new(bytes as u64);
        let (pointer, stream, contents) = if bytes == 0 {
            device.check_alive()?;
            (DevicePtr::from_raw(0), stream.id, Contents::Undefined)
        } else {
            out_of_memory::retry_until_freed(device, bytes as u64, || {
                attempt(device, stream, wanted, &mut history, location)
            })?
        };
        let allocation = Self {
            device: Arc::clone(device),
            pointer,
            history,
            origin: Origin::Pool {
                stream,
                contents: Contents::Undefined,
            },
        };
        Ok((allocation, contents))
    }

    /// Allocates managed memory. It needs no stream order, because reused managed memory has no
    /// pending uses.
    pub(crate) fn managed(device: &Arc<DeviceState>, bytes: usize) -> Result<Self> {
        device.check_alive()?;
        if !device.limits.managed_memory {
            let reason =
                format!("{device} has no managed memory that the host may touch while kernels run");
            return Err(Error::unavailable(reason));
        }
        let pointer = if bytes == 0 {
            DevicePtr::from_raw(0)
        } else {
            take_managed(device, bytes)?
        };
        Ok(Self {
            device: Arc::clone(device),
            pointer,
            // The host may wait for any of its operations.
            history: AccessHistory::always_recording(bytes as u64),
            origin: Origin::Managed,
        })
    }

    /// Creates the array of a texture, or takes one whose uses are complete.
    pub(crate) fn array(
        device: &Arc<DeviceState>,
        key: &ArrayKey,
        bytes: usize,
    ) -> Result<Arc<Self>> {
        device.check_alive()?;
        let array = out_of_memory::retry_until_freed(device, bytes as u64, || {
            let array = device
                .page_locked()
                .idle_frees
                .array(device, key, bytes as u64);
            none_if_out_of_memory(device.checked(array))
        })?;
        let allocation = Self {
            device: Arc::clone(device),
            pointer: DevicePtr::from_raw(array.texture.as_raw()),
            history: AccessHistory::new(bytes as u64),
            origin: Origin::Array(array),
        };
        Ok(allocation.shared())
    }

    /// Returns the array of a texture.
    pub(crate) fn as_array(&self) -> Option<&DeviceArray> {
        match &self.origin {
            Origin::Array(array) => Some(array),
            _ => None,
        }
    }

    /// Returns the surface of a texture's array, as kernels take it.
    pub(crate) fn surface(&self) -> DevicePtr {
        let surface = self.as_array().map_or(0, |array| array.surface.as_raw());
        DevicePtr::from_raw(surface)
    }

    /// Takes over memory of another library, which is given back on drop.
    pub(crate) fn adopt(
        device: &Arc<DeviceState>,
        pointer: DevicePtr,
        bytes: usize,
        release: Release,
    ) -> Self {
        Self {
            device: Arc::clone(device),
            pointer,
            history: AccessHistory::new(bytes as u64),
            origin: Origin::Adopted(Some(release)),
        }
    }

    /// Returns whether this is memory of another library.
    pub(crate) fn is_adopted(&self) -> bool {
        matches!(self.origin, Origin::Adopted(_))
    }

    /// Returns the keeper of memory of another library if it has this type.
    pub(crate) fn keeper_mut<K: Any>(&mut self) -> Option<&mut K> {
        match &mut self.origin {
            Origin::Adopted(release) => release.as_mut()?.keeper_mut(),
            _ => None,
        }
    }

    /// Returns the keeper of memory of another library, which is then not given back on drop.
    pub(crate) fn take_keeper(&mut self) -> Option<Box<dyn Any + Send>> {
        match &mut self.origin {
            Origin::Adopted(release) => release.take()?.into_keeper(),
            _ => None,
        }
    }

    /// Wraps the memory of a module's variable, with the history of its operations.
    pub(super) fn variable(
        device: &Arc<DeviceState>,
        pointer: DevicePtr,
        history: AccessHistory,
    ) -> Self {
        Self {
            device: Arc::clone(device),
            pointer,
            history,
            origin: Origin::Module,
        }
    }

    /// Puts the allocation behind a reference count, for arrays that graphs may share.
    pub(crate) fn shared(self) -> Arc<Self> {
        let owner = Arc::into_raw(Arc::new(self));
        // SAFETY: the pointer comes from `into_raw` and is used once.
        let shared = unsafe { Arc::from_raw(owner) };
        shared.history.set_owner(owner.cast());
        shared
    }

    /// Returns the allocation that a recording has made for an array.
    pub(crate) fn recorded(memory: Memory) -> Arc<Self> {
        memory
            .downcast()
            .expect("a recording's memory is an allocation")
    }

    /// Returns the allocation that contains this history, for a graph, which keeps it.
    ///
    /// # Errors
    ///
    /// If a graph cannot keep the memory: page-locked and managed memory, which has no reference
    /// count, and memory that is lent for a scope. `operand` is its index, for the error.
    pub(crate) fn of(history: &AccessHistory, operand: usize) -> Result<Arc<Self>, UsageErrorKind> {
        let why = HOST_MEMORY;
        let owner = history.owner().ok_or(UsageErrorKind::Recording { why })?;
        let owner = owner.cast::<Self>();
        // SAFETY: only `shared` sets an owner, and sets the allocation of which the history is a
        // field, by a pointer from `into_raw`. The history is borrowed, so a reference to the
        // allocation is alive.
        if let Origin::Adopted(Some(release)) = unsafe { &(*owner).origin }
            && release.is_scoped
        {
            return Err(UsageErrorKind::LentForScope { operand });
        }
        // SAFETY: the owner is an `Arc` of which a reference is alive.
        unsafe { Arc::increment_strong_count(owner) };
        // SAFETY: the reference was counted above, for this.
        Ok(unsafe { Arc::from_raw(owner) })
    }

    /// Notes that all operations on the memory leave every byte as 0.
    pub(crate) fn note_zeros(&mut self) {
        if let Origin::Pool { contents, .. } = &mut self.origin {
            *contents = Contents::Zeros;
        }
    }

    pub(crate) fn is_variable(&self) -> bool {
        matches!(self.origin, Origin::Module)
    }

    /// Returns whether the host can access the memory as well.
    pub(crate) fn is_managed(&self) -> bool {
        matches!(self.origin, Origin::Managed)
    }
}

/// Rounds a size of managed memory up to a power of two of at least a page, so that it can be
/// reused.
fn managed_size(bytes: usize) -> usize {
    bytes.max(4096).checked_next_power_of_two().unwrap_or(bytes)
}

fn take_managed(device: &DeviceState, bytes: usize) -> Result<DevicePtr> {
    let size = managed_size(bytes);
    if let Some(pointer) = device.page_locked().idle_frees.take_managed(device, size) {
        return Ok(pointer);
    }
    out_of_memory::retry_until_freed(device, bytes as u64, || {
        device.page_locked().idle_frees.release_if_idle(device);
        // SAFETY: the device's context is alive.
        let memory = unsafe { device.driver.mem_alloc_managed(device.context, size) };
        none_if_out_of_memory(device.checked(memory))
    })
}

/// Replaces the driver's out-of-memory error by `None`.
fn none_if_out_of_memory<T>(allocated: Result<T>) -> Result<Option<T>> {
    match allocated {
        Ok(pointer) => Ok(Some(pointer)),
        Err(error) if DeviceState::is_out_of_memory(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Allocates within the limit and the device's free memory. Returns the address, the stream in
/// whose order the memory was allocated, and its contents, or `None` if memory is short.
fn attempt(
    device: &DeviceState,
    stream: &StreamState,
    wanted: Contents,
    history: &mut AccessHistory,
    location: &'static Location<'static>,
) -> Result<Option<(DevicePtr, StreamId, Contents)>> {
    device.check_alive()?;
    // Locked only if other streams have used a cached block.
    let mut submit_queue = None;
    let budget = &device.memory().budget;
    let outcome = budget.reserve(history.bytes(), wanted, |ticket| {
        ticket.stream == stream.id
            || device.is_done(ticket)
            || submit_queue
                .get_or_insert_with(|| stream.submit_queue.try_lock())
                .as_ref()
                .is_some_and(|submit_queue| submit_queue.clock.covers(ticket))
    });
    drop(submit_queue);
    let reservation = match outcome {
        ReserveOutcome::Cached(block) => {
            history.inherit(&block.uses);
            let contents = match (block.contents, wanted) {
                (Contents::Zeros, Contents::Zeros) => Contents::Zeros,
                _ => {
                    device.name_memory(block.pointer, "allocate", location);
                    Contents::Undefined
                }
            };
            return Ok(Some((block.pointer, block.origin, contents)));
        }
        ReserveOutcome::Reserved(reservation, evicted) => {
            evict(device, evicted);
            reservation
        }
        ReserveOutcome::OverLimit => return Ok(None),
    };
    let allocated = none_if_out_of_memory(allocate(device, stream, history, location))?;
    if allocated.is_some() {
        reservation.commit();
    }
    Ok(allocated.map(|pointer| (pointer, stream.id, Contents::Undefined)))
}

fn allocate(
    device: &DeviceState,
    stream: &StreamState,
    history: &AccessHistory,
    location: &'static Location<'static>,
) -> Result<DevicePtr> {
    let bytes = history.bytes();
    let mut operation = Operation {
        kind: OperationKind::Allocation,
        label: "allocate",
        location,
        bytes,
        accesses: [Access::new(history, 0..bytes, AccessKind::Write)].into(),
        host_waiter: None,
    };
    let command = Allocate {
        bytes: usize::try_from(bytes).expect("a size that came from a usize"),
    };
    // SAFETY: the command touches nothing that exists yet.
    unsafe { submit(device, stream, &mut operation, command) }.map(|(_, pointer)| pointer)
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if matches!(self.origin, Origin::Module) {
            let history = std::mem::replace(&mut self.history, AccessHistory::new(0));
            let variables = &self.device.memory().module_variables;
            return variables.put_back(self.pointer, history);
        }
        let (pointer, bytes) = (self.pointer, self.history.bytes());
        let is_lent = self.history.is_lent();
        if let Origin::Adopted(release) = &mut self.origin
            && let Some(release) = release.take()
        {
            return match is_lent {
                true => release.leak(),
                false => release.give_back(&self.device, self.history.last_tickets()),
            };
        }
        if bytes == 0 {
            return;
        }
        if is_lent {
            log!(
                warn,
                ?pointer,
                bytes,
                "memory is leaked, because it is lent for ever"
            );
            return;
        }
        let uses = self.history.last_tickets();
        let device = &self.device;
        match self.origin {
            Origin::Adopted(_) | Origin::Module => {}
            Origin::Pool { stream, contents } => {
                let block = DroppedBlock {
                    pointer,
                    bytes,
                    origin: stream,
                    uses,
                    contents,
                };
                evict(device, device.memory().budget.cache_block(block));
            }
            Origin::Array(ref array) => {
                let array = Resource::Array(array.clone());
                device.page_locked().idle_frees.defer(array, uses);
            }
            Origin::Managed => {
                let bytes = managed_size(usize::try_from(bytes).unwrap_or(usize::MAX));
                let managed = Resource::Managed { pointer, bytes };
                device.page_locked().idle_frees.defer(managed, uses);
            }
        }
    }
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes at {:#x} on {}",
            self.history.bytes(),
            self.pointer.as_raw(),
            self.device
        )
    }
}
