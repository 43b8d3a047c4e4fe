//! Raw driver calls, with just enough ownership that the benchmarks themselves are safe.
//!
//! All memory is freed only once the whole context is idle, and the host never reads memory that
//! the device may write. Operations in any order are therefore sound; their results are not
//! checked.

#![allow(unsafe_code, reason = "calls the driver with its own memory")]

mod graph;
mod nccl;
mod stream;

use std::{
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::{Result, ensure};
use millstream_driver::{
    Completion, ContextHandle, DeviceOrdinal, DevicePtr, Driver, EventHandle, EventKind,
    FunctionHandle,
};

pub(crate) use graph::RawGraph;
pub(crate) use nccl::RawComms;
pub(crate) use stream::RawStream;

/// The number of threads in a block of every launch.
pub(crate) const BLOCK: u32 = 256;

#[derive(Debug)]
pub(crate) struct Raw {
    driver: Arc<dyn Driver>,
    device: DeviceOrdinal,
    context: ContextHandle,
}

impl Raw {
    pub(crate) fn open(driver: Arc<dyn Driver>, ordinal: i32) -> Result<Arc<Self>> {
        let device = DeviceOrdinal::from_raw(ordinal);
        let context = driver.primary_context_retain(device)?;
        Ok(Arc::new(Self {
            driver,
            device,
            context,
        }))
    }

    fn parts(&self) -> (&dyn Driver, ContextHandle) {
        (&*self.driver, self.context)
    }

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the context is retained.
        Ok(unsafe { self.driver.context_synchronize(self.context) }?)
    }

    /// Turns peer access on between two devices, in both directions: for their contexts, and for
    /// the default pools.
    pub(crate) fn enable_peer_access(&self, other: &Self) -> Result<()> {
        for (from, to) in [(self, other), (other, self)] {
            let pool = to.driver.default_pool(to.device)?;
            let driver = &*from.driver;
            // SAFETY: both contexts are retained.
            unsafe { driver.context_enable_peer_access(from.context, to.context) }?;
            // SAFETY: a default pool lives as long as its device.
            unsafe { driver.pool_set_access(pool, from.device, true) }?;
        }
        Ok(())
    }

    pub(crate) fn stream(self: &Arc<Self>) -> Result<RawStream> {
        RawStream::new(self)
    }

    /// Creates an event without a time stamp.
    pub(crate) fn event(self: &Arc<Self>) -> Result<RawEvent> {
        // SAFETY: the context is retained.
        let handle = unsafe { self.driver.event_create(self.context, EventKind::Ordering) }?;
        Ok(RawEvent {
            raw: Arc::clone(self),
            handle,
        })
    }

    pub(crate) fn memory(self: &Arc<Self>, bytes: usize) -> Result<RawMemory> {
        // SAFETY: the context is retained.
        let pointer = unsafe { self.driver.mem_alloc(self.context, bytes) }?;
        Ok(RawMemory {
            raw: Arc::clone(self),
            pointer,
            bytes,
        })
    }

    /// Allocates page-locked host memory.
    pub(crate) fn pinned(self: &Arc<Self>, bytes: usize) -> Result<RawHost> {
        // SAFETY: the context is retained.
        let start = unsafe { self.driver.host_alloc(self.context, bytes) }?;
        Ok(RawHost {
            raw: Arc::clone(self),
            start,
            bytes,
            pageable: None,
        })
    }

    /// Allocates pageable host memory and touches every page.
    pub(crate) fn pageable(self: &Arc<Self>, bytes: usize) -> RawHost {
        let mut memory = vec![1_u8; bytes];
        RawHost {
            raw: Arc::clone(self),
            start: NonNull::from(memory.as_mut_slice()).cast(),
            bytes,
            pageable: Some(memory),
        }
    }

    pub(crate) fn vecadd(&self) -> Result<RawKernel> {
        self.kernel(include_str!("../../kernels/vecadd.ptx"), "vecadd")
    }

    /// Loads a kernel whose parameters are arrays of `f32` and the number of elements of each that
    /// its threads touch.
    pub(crate) fn kernel(&self, ptx: &str, name: &str) -> Result<RawKernel> {
        // SAFETY: the context is retained. The module is never unloaded.
        let module = unsafe { self.driver.module_load(self.context, ptx.as_bytes()) }?;
        // SAFETY: the module was just loaded.
        let function = unsafe { self.driver.module_function(self.context, module, name) }?;
        // SAFETY: the function is of that module. Loading it now keeps the first launch from
        // waiting (rule 53).
        unsafe { self.driver.function_load(self.context, function) }?;
        Ok(RawKernel { function })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`; all that was made of it holds it, and is gone.
        let _ = unsafe { self.driver.primary_context_release(self.device) };
    }
}

/// A loaded kernel of arrays and a length, such as `vecadd`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawKernel {
    function: FunctionHandle,
}

#[derive(Debug)]
pub(crate) struct RawMemory {
    raw: Arc<Raw>,
    pointer: DevicePtr,
    bytes: usize,
}

impl RawMemory {
    /// Returns the address of the `bytes` at offset `at`.
    fn part(&self, at: usize, bytes: usize) -> Result<DevicePtr> {
        let end = at.checked_add(bytes);
        ensure!(
            end.is_some_and(|end| end <= self.bytes),
            "{bytes} bytes at offset {at} do not fit in {} bytes",
            self.bytes
        );
        Ok(self.pointer.offset(at as u64))
    }
}

impl Drop for RawMemory {
    fn drop(&mut self) {
        let _ = self.raw.synchronize();
        // SAFETY: allocated by `memory`, and nothing uses it any more.
        let _ = unsafe { self.raw.driver.mem_free(self.raw.context, self.pointer) };
    }
}

/// An allocation of host memory whose contents are never read.
#[derive(Debug)]
pub(crate) struct RawHost {
    raw: Arc<Raw>,
    start: NonNull<u8>,
    bytes: usize,
    /// The pageable memory; `None` for page-locked memory of the driver.
    pageable: Option<Vec<u8>>,
}

impl RawHost {
    /// Returns the start of the memory. Its user must know that the device does not write there.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for RawHost {
    fn drop(&mut self) {
        let _ = self.raw.synchronize();
        if self.pageable.is_none() {
            // SAFETY: allocated by `pinned`, and nothing uses it any more.
            let _ = unsafe { self.raw.driver.host_free(self.raw.context, self.start) };
        }
    }
}

#[derive(Debug)]
pub(crate) struct RawEvent {
    raw: Arc<Raw>,
    handle: EventHandle,
}

impl RawEvent {
    pub(crate) fn is_complete(&self) -> Result<bool> {
        // SAFETY: the event is alive.
        let found = unsafe { self.raw.driver.event_query(self.raw.context, self.handle) }?;
        Ok(found == Completion::Complete)
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        // SAFETY: a pending event may be destroyed (rule 25), and this one is used nowhere else.
        let _ = unsafe { self.raw.driver.event_destroy(self.raw.context, self.handle) };
    }
}

/// A word that a gate kernel waits for. Its memory is never freed, so a kernel may read it at any
/// time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flag(&'static AtomicU32);

impl Flag {
    pub(crate) fn new(raw: &Raw) -> Result<Self> {
        // SAFETY: the context is retained.
        let start = unsafe { raw.driver.host_alloc(raw.context, size_of::<AtomicU32>()) }?;
        let word = start.cast::<AtomicU32>();
        // SAFETY: the memory is new, large enough and aligned to a page.
        unsafe { word.write(AtomicU32::new(0)) };
        // SAFETY: the word was just written, and its memory is never freed.
        Ok(Self(unsafe { word.as_ref() }))
    }

    /// Returns the address to pass to a kernel.
    pub(crate) fn address(self) -> u64 {
        std::ptr::from_ref(self.0).addr() as u64
    }

    /// Lets the kernels that wait for this flag continue.
    pub(crate) fn raise(self) {
        self.0.store(1, Ordering::SeqCst);
    }
}
