//! Resources that are freed only while the devices are idle: managed memory, arrays of textures,
//! page-locked vectors, executable graphs, and the remains of a device that was closed while others
//! work.
//!
//! `cuMemFree`, `cuArrayDestroy`, `cuMemFreeHost` and `cuMemHostUnregister` make the host wait for
//! all work of the device (rule 30), and of other devices that have access to the memory,
//! `cuGraphExecDestroy` may (rule 62), and a module must not be unloaded while a kernel of it runs.
//! Dropped resources are therefore kept here, with the tickets that may still use them, until all
//! devices of the driver are seen idle. Managed memory and arrays are reused before that, once
//! those tickets are done.

#![allow(unsafe_code, reason = "frees memory, modules and graphs")]

use std::{alloc::Layout, mem::ManuallyDrop, panic::Location, ptr::NonNull};

use bytemuck::Pod;
use millstream_driver::{
    ContextHandle, DevicePtr, Driver, DriverError, GraphExecHandle, ModuleHandle,
};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::{
    device_array::{ArrayKey, DeviceArray},
    host_access::HostAccessGuard,
    staging::PinnedBlock,
};
use crate::{Rejected, context::DeviceState, disposal::log, future::all_done, tracker::Ticket};

/// The maximum number of dropped executable graphs on a busy device. Beyond it, the oldest is
/// destroyed before the next graph is made.
const GRAPHS_MAX: usize = 64;

/// The page-locked memory of a vector. Dropping this leaks the memory, because it must not be freed
/// while it is page-locked.
#[derive(Debug)]
pub(crate) struct RegisteredVec {
    pub(crate) pointer: NonNull<u8>,
    len: usize,
    capacity: usize,
    element: Layout,
}

// SAFETY: a vector of plain data; tickets decide when it may be accessed, from whichever thread.
unsafe impl Send for RegisteredVec {}
// SAFETY: a shared reference only exposes the address.
unsafe impl Sync for RegisteredVec {}

impl RegisteredVec {
    /// Page-locks the elements of a vector that is not empty. Returns the vector if that fails.
    pub(crate) fn lock<T: Pod>(
        device: &DeviceState,
        source: Vec<T>,
    ) -> Result<Self, Rejected<Vec<T>>> {
        let mut source = ManuallyDrop::new(source);
        let registered = Self {
            pointer: NonNull::from(source.as_mut_slice()).cast(),
            len: source.len(),
            capacity: source.capacity(),
            element: Layout::new::<T>(),
        };
        let bytes = registered.bytes();
        // SAFETY: the vector's elements are memory of this process, and stay where they are until
        // they are unlocked.
        let locked = unsafe {
            device
                .driver
                .host_register(device.context, registered.pointer, bytes)
        };
        match device.checked(locked) {
            Ok(()) => Ok(registered),
            Err(error) => Err(Rejected::new(error, ManuallyDrop::into_inner(source))),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.len * self.element.size()
    }

    /// Unlocks the memory, which no operation may use.
    fn unlock(&self, driver: &dyn Driver, context: ContextHandle) -> Result<(), DriverError> {
        // SAFETY: it was registered in this context, and by this function's contract nothing uses
        // it.
        unsafe { driver.host_unregister(context, self.pointer) }
    }

    /// Returns the vector. Its memory must be unlocked already.
    ///
    /// # Safety
    ///
    /// The vector's type is `Vec<T>`.
    unsafe fn into_vec<T: Pod>(self) -> Vec<T> {
        // SAFETY: these are the parts of a vector that this value owns, of this type by this
        // function's contract.
        unsafe { Vec::from_raw_parts(self.pointer.cast().as_ptr(), self.len, self.capacity) }
    }

    /// Frees the memory, which must be unlocked already.
    fn free(self) {
        let layout =
            Layout::from_size_align(self.capacity * self.element.size(), self.element.align())
                .expect("the layout of a vector that was");
        // SAFETY: the vector's memory came from the global allocator with this layout, and this
        // value owns it.
        unsafe { std::alloc::dealloc(self.pointer.as_ptr(), layout) };
    }
}

#[derive(Debug)]
pub(crate) enum Resource {
    Managed {
        pointer: DevicePtr,
        bytes: usize,
    },
    Array(Box<DeviceArray>),
    RegisteredVec(RegisteredVec),
    PageLocked(PinnedBlock),
    Module(ModuleHandle),
    /// Launches that are enqueued may still run.
    Graph(GraphExecHandle),
}

impl Resource {
    /// Returns the bytes of device memory.
    fn device_bytes(&self) -> u64 {
        match self {
            Self::Managed { bytes, .. } => *bytes as u64,
            Self::Array(array) => array.bytes,
            _ => 0,
        }
    }

    fn is_managed_of(&self, wanted_bytes: usize) -> bool {
        matches!(self, Self::Managed { bytes, .. } if *bytes == wanted_bytes)
    }

    /// Frees the resource. The call may wait for the device.
    ///
    /// # Safety
    ///
    /// It came from this context, and nothing uses it, nor will. A graph that was launched may run.
    unsafe fn free(self, driver: &dyn Driver, context: ContextHandle) -> Result<(), DriverError> {
        match self {
            // SAFETY: by this function's contract.
            Self::Managed { pointer, .. } => unsafe { driver.mem_free(context, pointer) },
            // SAFETY: by this function's contract.
            Self::Array(array) => unsafe { array.free(driver, context) },
            Self::PageLocked(block) => block.free(driver, context),
            // SAFETY: no kernel runs, by this function's contract, and every function of the module
            // kept the device open that left it.
            Self::Module(module) => unsafe { driver.module_unload(context, module) },
            // SAFETY: by this function's contract. Launches that are enqueued complete (rule 47).
            Self::Graph(graph) => unsafe { driver.graph_exec_destroy(context, graph) },
            Self::RegisteredVec(registered) => {
                let unlocked = registered.unlock(driver, context);
                if unlocked.is_ok() {
                    registered.free();
                }
                unlocked
            }
        }
    }
}

/// A dropped resource, with the tickets that may still use it.
#[derive(Debug)]
pub(super) struct IdleFree {
    resource: Resource,
    context: ContextHandle,
    uses: SmallVec<[Ticket; 4]>,
}

impl IdleFree {
    /// Frees the resource, and logs if the driver does not.
    ///
    /// # Safety
    ///
    /// That of [`Resource::free`].
    unsafe fn free(self, driver: &dyn Driver) {
        // SAFETY: by this function's contract.
        if let Err(error) = unsafe { self.resource.free(driver, self.context) } {
            log!(warn, %error, "cannot free a resource of the device; it is leaked");
        }
    }
}

/// The resources to be freed while the devices are idle.
#[derive(Debug)]
pub(crate) struct IdleFrees {
    /// The context of the device's own resources. Those of a closed device may have another one.
    context: ContextHandle,
    frees: Mutex<Vec<IdleFree>>,
}

impl IdleFrees {
    /// Returns the empty list of a device with this context.
    pub(super) fn new(context: ContextHandle) -> Self {
        let frees = Mutex::default();
        Self { context, frees }
    }

    /// Frees all resources if the devices are idle, before a graph is made.
    ///
    /// Otherwise destroys the oldest graphs until fewer than [`GRAPHS_MAX`] are left, which may
    /// wait for the device. It bounds the memory of a program that makes and drops graphs on a
    /// device that is never idle.
    pub(crate) fn make_room_for_graph(&self, device: &DeviceState) {
        self.release_if_idle(device);
        while let Some(graph) = self.take_excess_graph() {
            // SAFETY: it came from this context, and by `defer` it is not launched again.
            unsafe { graph.free(&*device.driver) };
        }
    }

    fn take_excess_graph(&self) -> Option<IdleFree> {
        let mut frees = self.frees.lock();
        let is_graph = |free: &IdleFree| matches!(free.resource, Resource::Graph(_));
        let graphs = frees.iter().filter(|free| is_graph(free)).count();
        let oldest = frees.iter().position(is_graph);
        oldest
            .filter(|_| graphs >= GRAPHS_MAX)
            .map(|at| frees.remove(at))
    }

    /// Defers the free of unused page-locked memory and modules.
    pub(crate) fn defer_unused(
        &self,
        blocks: impl IntoIterator<Item = PinnedBlock>,
        modules: impl IntoIterator<Item = ModuleHandle>,
    ) {
        let blocks = blocks.into_iter().map(Resource::PageLocked);
        for resource in blocks.chain(modules.into_iter().map(Resource::Module)) {
            self.defer(resource, SmallVec::new());
        }
    }

    /// Defers the free of a resource that no later operation uses.
    pub(crate) fn defer(&self, resource: Resource, uses: SmallVec<[Ticket; 4]>) {
        self.frees.lock().push(IdleFree {
            resource,
            context: self.context,
            uses,
        });
    }

    /// Takes over the resources of closed devices.
    pub(super) fn inherit(&self, left: Vec<IdleFree>) {
        self.frees.lock().extend(left);
    }

    /// Takes all resources of a device whose work is complete.
    pub(super) fn take_unused(&self) -> Vec<IdleFree> {
        let mut frees = std::mem::take(&mut *self.frees.lock());
        for free in &mut frees {
            free.uses.clear();
        }
        frees
    }

    /// Takes managed memory of exactly `bytes` bytes whose uses are all complete, if there is any.
    pub(crate) fn take_managed(&self, device: &DeviceState, bytes: usize) -> Option<DevicePtr> {
        match self.take(device, |free| free.is_managed_of(bytes))? {
            Resource::Managed { pointer, .. } => Some(pointer),
            _ => None,
        }
    }

    /// Takes a complete array of this shape and mode whose uses are all complete, or creates one.
    pub(crate) fn array(
        &self,
        device: &DeviceState,
        key: &ArrayKey,
        bytes: u64,
    ) -> Result<Box<DeviceArray>, DriverError> {
        let fits = |free: &Resource| matches!(free, Resource::Array(array) if array.fits(key));
        if let Some(Resource::Array(array)) = self.take(device, fits) {
            return Ok(array);
        }
        self.release_if_idle(device);
        DeviceArray::create(device, key, bytes).map_err(|(error, made)| {
            if let Some(made) = made {
                self.defer(Resource::Array(made), SmallVec::new());
            }
            error
        })
    }

    /// Returns the bytes of device memory with uses that are not complete. Behind these, the memory
    /// can be freed while the devices are idle.
    pub(crate) fn used_bytes(&self, device: &DeviceState) -> crate::Result<u64> {
        let frees = self.frees.lock();
        let own = frees.iter().filter(|free| free.context == self.context);
        let own = own.map(|free| (free.resource.device_bytes(), free.uses.clone()));
        let own: Vec<_> = own.filter(|(bytes, _)| *bytes > 0).collect();
        // The frees are not locked while the driver is queried.
        drop(frees);
        let mut used_bytes = 0;
        for (bytes, uses) in own {
            if !all_done(device, &uses)? {
                used_bytes += bytes;
            }
        }
        Ok(used_bytes)
    }

    /// Takes a resource that fits and whose uses are all complete, if there is any. Never blocks.
    fn take(&self, device: &DeviceState, fits: impl Fn(&Resource) -> bool) -> Option<Resource> {
        let mut in_use = Vec::new();
        let mut found = None;
        // The frees are not locked while the driver is queried.
        while let Some(free) = self.take_any(&fits) {
            if all_done(device, &free.uses).unwrap_or(false) {
                found = Some(free.resource);
                break;
            }
            in_use.push(free);
        }
        self.inherit(in_use);
        found
    }

    /// Frees all resources if the devices are idle. Never waits for a device; submissions are
    /// blocked meanwhile.
    pub(crate) fn release_if_idle(&self, device: &DeviceState) {
        if self.frees.lock().is_empty() {
            return;
        }
        let free = |_: &dyn Fn(Ticket) -> bool| free_all(&*device.driver, self.take_unused());
        if let Err(error) = device.while_idle(free) {
            log!(debug, %error, "cannot query whether the device is idle");
        }
    }

    /// Takes a resource of this device that fits, whether or not it is still in use.
    fn take_any(&self, fits: impl Fn(&Resource) -> bool) -> Option<IdleFree> {
        let mut frees = self.frees.lock();
        let fits = |free: &IdleFree| free.context == self.context && fits(&free.resource);
        let at = frees.iter().position(fits)?;
        Some(frees.remove(at))
    }
}

/// Frees the resources. The devices must be idle.
pub(super) fn free_all(driver: &dyn Driver, frees: Vec<IdleFree>) {
    for free in frees {
        // SAFETY: it came from its context, and with the devices idle nothing uses it.
        unsafe { free.free(driver) };
    }
}

/// Returns a registered vector to its owner: the vector itself if the devices are idle, because
/// unlocking it then does not wait; otherwise a copy, and defers the unlocking.
///
/// # Safety
///
/// The vector's type is `Vec<T>`, and no operation uses its memory.
pub(crate) unsafe fn unregister<T: Pod>(
    device: &DeviceState,
    registered: RegisteredVec,
    location: &'static Location<'static>,
) -> Vec<T> {
    let mut unlocked = None;
    let unlocking =
        device.while_idle(|_| unlocked = Some(registered.unlock(&*device.driver, device.context)));
    if let Err(error) = unlocking {
        log!(debug, %error, "whether the device is idle cannot be told");
    }
    if let Some(Ok(())) = unlocked {
        // SAFETY: by this function's contract.
        return unsafe { registered.into_vec() };
    }
    // SAFETY: the memory holds so many elements of this type, and nothing writes them, by this
    // function's contract.
    let elements =
        unsafe { std::slice::from_raw_parts(registered.pointer.cast().as_ptr(), registered.len) };
    let copy = {
        let pointer = registered.pointer.as_ptr().cast_const().cast();
        let _access = HostAccessGuard::reads(
            &device.driver,
            pointer,
            size_of_val(elements),
            "into_vec",
            location,
        );
        Vec::from(elements)
    };
    match unlocked {
        // Not retried, because the driver may have unlocked it in spite of the error; the memory is
        // leaked.
        Some(Err(error)) => log!(warn, %error, "cannot unlock registered memory; it is leaked"),
        _ => device
            .page_locked()
            .idle_frees
            .defer(Resource::RegisteredVec(registered), SmallVec::new()),
    }
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    fn managed(address: u64, bytes: usize) -> Resource {
        let pointer = DevicePtr::from_raw(address);
        Resource::Managed { pointer, bytes }
    }

    #[test]
    fn managed_memory_is_given_out_for_its_size_alone() {
        let idle_frees = IdleFrees::new(ContextHandle::from_raw(1));
        for (address, bytes) in [(16, 64), (32, 48)] {
            idle_frees.defer(managed(address, bytes), SmallVec::new());
        }
        let address = |bytes| {
            let free = idle_frees.take_any(|free| free.is_managed_of(bytes))?;
            match free.resource {
                Resource::Managed { pointer, .. } => Some(pointer.as_raw()),
                _ => None,
            }
        };
        assert_eq!(address(8), None);
        assert_eq!(address(48), Some(32));
        assert_eq!(address(48), None);
        assert_eq!(address(64), Some(16));

        let closed = IdleFrees::new(ContextHandle::from_raw(2));
        closed.defer(managed(48, 64), SmallVec::new());
        idle_frees.inherit(closed.take_unused());
        assert_eq!(
            address(64),
            None,
            "memory of another context is freed, not reused"
        );
    }

    #[test]
    fn the_oldest_graphs_are_destroyed_first_and_only_above_the_limit() {
        let idle_frees = IdleFrees::new(ContextHandle::from_raw(1));
        idle_frees.defer(managed(16, 64), SmallVec::new());
        for number in 0..=GRAPHS_MAX {
            idle_frees.defer(
                Resource::Graph(GraphExecHandle::from_raw(number)),
                SmallVec::new(),
            );
        }
        let taken = || {
            let free = idle_frees.take_excess_graph();
            free.map(|free| format!("{:?}", free.resource))
        };
        for number in 0..2 {
            let graph = Resource::Graph(GraphExecHandle::from_raw(number));
            assert_eq!(taken(), Some(format!("{graph:?}")));
        }
        assert_eq!(taken(), None);
    }

    #[test]
    fn a_registered_vector_is_as_long_as_its_elements() {
        let mut source = ManuallyDrop::new(Vec::with_capacity(5));
        source.extend([1_u32, 2, 3]);
        let registered = RegisteredVec {
            pointer: NonNull::from(source.as_mut_slice()).cast(),
            len: source.len(),
            capacity: source.capacity(),
            element: Layout::new::<u32>(),
        };
        assert_eq!(registered.bytes(), 12);
        registered.free();
    }
}
