//! The driver without Millstream: what raw code would hold, with just enough ownership that the benchmarks themselves are safe.
//!
//! Everything here is freed only after the whole context is idle, and host memory that the device may touch is never shown
//! to the host, so no order between operations can make a call unsound. Contents are of no interest here.

#![allow(unsafe_code, reason = "calls the driver, with handles and memory of its own")]

use std::{
    ffi::c_void,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::{Result, ensure};
use millstream_driver::{
    Completion, ContextHandle, DeviceOrdinal, DevicePtr, Driver, EventHandle, EventKind, FillPattern,
    FunctionHandle, LaunchDims, StreamHandle,
};

/// Threads of a block of every launch.
pub(crate) const BLOCK: u32 = 256;

/// A context of a driver.
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

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the context is retained.
        Ok(unsafe { self.driver.context_synchronize(self.context) }?)
    }

    /// A stream of its own, non-blocking.
    pub(crate) fn stream(self: &Arc<Self>) -> Result<RawStream> {
        // SAFETY: the context is retained.
        let handle = unsafe { self.driver.stream_create(self.context, true, 0) }?;
        Ok(RawStream {
            raw: Arc::clone(self),
            handle,
        })
    }

    /// An event without time.
    pub(crate) fn event(self: &Arc<Self>) -> Result<RawEvent> {
        // SAFETY: the context is retained.
        let handle = unsafe { self.driver.event_create(self.context, EventKind::Ordering) }?;
        Ok(RawEvent {
            raw: Arc::clone(self),
            handle,
        })
    }

    /// Device memory.
    pub(crate) fn memory(self: &Arc<Self>, bytes: usize) -> Result<RawMemory> {
        // SAFETY: the context is retained.
        let pointer = unsafe { self.driver.mem_alloc(self.context, bytes) }?;
        Ok(RawMemory {
            raw: Arc::clone(self),
            pointer,
            bytes,
        })
    }

    /// Page-locked host memory.
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

    /// Ordinary host memory, every page of it touched.
    pub(crate) fn pageable(self: &Arc<Self>, bytes: usize) -> RawHost {
        let mut memory = vec![1_u8; bytes];
        RawHost {
            raw: Arc::clone(self),
            start: NonNull::from(memory.as_mut_slice()).cast(),
            bytes,
            pageable: Some(memory),
        }
    }

    /// A kernel with the parameters of `vecadd`.
    pub(crate) fn vecadd(self: &Arc<Self>) -> Result<RawKernel> {
        let ptx = include_str!("../../../kernels/vecadd.ptx");
        // SAFETY: the context is retained. The module is never unloaded.
        let module = unsafe { self.driver.module_load(self.context, ptx.as_bytes()) }?;
        // SAFETY: the module was just loaded.
        let function = unsafe { self.driver.module_function(self.context, module, "vecadd") }?;
        Ok(RawKernel { function })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`; all that was made of it holds it, and is gone.
        let _ = unsafe { self.driver.primary_context_release(self.device) };
    }
}

/// A loaded `vecadd`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawKernel {
    function: FunctionHandle,
}

/// Device memory.
#[derive(Debug)]
pub(crate) struct RawMemory {
    raw: Arc<Raw>,
    pointer: DevicePtr,
    bytes: usize,
}

impl Drop for RawMemory {
    fn drop(&mut self) {
        let _ = self.raw.synchronize();
        // SAFETY: allocated by `memory`, and nothing uses it any more.
        let _ = unsafe { self.raw.driver.mem_free(self.raw.context, self.pointer) };
    }
}

/// Host memory whose contents nobody looks at.
#[derive(Debug)]
pub(crate) struct RawHost {
    raw: Arc<Raw>,
    start: NonNull<u8>,
    bytes: usize,
    /// The memory itself, unless it is the driver's.
    pageable: Option<Vec<u8>>,
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

/// An event.
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

    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the event is alive.
        Ok(unsafe { self.raw.driver.event_synchronize(self.raw.context, self.handle) }?)
    }
}

impl Drop for RawEvent {
    fn drop(&mut self) {
        // SAFETY: a pending event may be destroyed (rule 25), and nobody else has this one.
        let _ = unsafe { self.raw.driver.event_destroy(self.raw.context, self.handle) };
    }
}

/// A stream.
#[derive(Debug)]
pub(crate) struct RawStream {
    raw: Arc<Raw>,
    handle: StreamHandle,
}

impl RawStream {
    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: the stream is alive.
        Ok(unsafe { self.raw.driver.stream_synchronize(self.raw.context, self.handle) }?)
    }

    pub(crate) fn is_idle(&self) -> Result<bool> {
        // SAFETY: the stream is alive.
        let found = unsafe { self.raw.driver.stream_query(self.raw.context, self.handle) }?;
        Ok(found == Completion::Complete)
    }

    /// `c = a + b` for the first `n` numbers.
    #[inline]
    pub(crate) fn vecadd(&self, kernel: RawKernel, operands: [&RawMemory; 3], n: u64) -> Result<()> {
        let room = operands
            .iter()
            .all(|operand| n <= (operand.bytes / size_of::<f32>()) as u64);
        ensure!(room, "an operand is shorter than {n} numbers");
        let addresses = operands.map(|operand| operand.pointer.as_raw());
        let [a, b, c] = addresses
            .each_ref()
            .map(|address| std::ptr::from_ref(address).cast::<c_void>());
        let params = [a, b, c, std::ptr::from_ref(&n).cast()];
        let dims = LaunchDims {
            grid: [u32::try_from(n.div_ceil(u64::from(BLOCK)))?, 1, 1],
            block: [BLOCK, 1, 1],
            shared_bytes: 0,
        };
        // SAFETY: the parameters are those of vecadd.cu, whose threads touch `n` numbers of each operand, which is long enough.
        let launched = unsafe {
            self.raw
                .driver
                .launch_kernel(self.raw.context, kernel.function, &dims, self.handle, &params)
        };
        Ok(launched?)
    }

    #[inline]
    pub(crate) fn record(&self, event: &RawEvent) -> Result<()> {
        // SAFETY: event and stream are alive, and of one context.
        Ok(unsafe {
            self.raw
                .driver
                .event_record(self.raw.context, event.handle, self.handle)
        }?)
    }

    #[inline]
    pub(crate) fn wait_for(&self, event: &RawEvent) -> Result<()> {
        // SAFETY: event and stream are alive.
        Ok(unsafe {
            self.raw
                .driver
                .stream_wait_event(self.raw.context, self.handle, event.handle)
        }?)
    }

    /// Copies the beginning of `source` to that of `target`.
    #[inline]
    pub(crate) fn upload(&self, target: &RawMemory, source: &RawHost, bytes: usize) -> Result<()> {
        ensure!(
            bytes <= target.bytes.min(source.bytes),
            "{bytes} bytes are too many"
        );
        // SAFETY: both are alive until the context is idle, and long enough.
        let copied = unsafe {
            self.raw.driver.copy_host_to_device_async(
                self.raw.context,
                target.pointer,
                source.start.as_ptr(),
                bytes,
                self.handle,
            )
        };
        Ok(copied?)
    }

    /// Copies the beginning of `source` to that of `target`.
    #[inline]
    pub(crate) fn download(&self, target: &RawHost, source: &RawMemory, bytes: usize) -> Result<()> {
        ensure!(
            bytes <= target.bytes.min(source.bytes),
            "{bytes} bytes are too many"
        );
        // SAFETY: both are alive until the context is idle, and long enough; nobody looks at the target.
        let copied = unsafe {
            self.raw.driver.copy_device_to_host_async(
                self.raw.context,
                target.start.as_ptr(),
                source.pointer,
                bytes,
                self.handle,
            )
        };
        Ok(copied?)
    }

    /// Allocates from the pool, fills with zeros if `fill` says so, and frees.
    #[inline]
    pub(crate) fn allocate_and_free(&self, bytes: usize, fill: bool) -> Result<()> {
        let (driver, context) = (&self.raw.driver, self.raw.context);
        // SAFETY: the stream is alive.
        let pointer = unsafe { driver.mem_alloc_async(context, bytes, self.handle) }?;
        if fill {
            let pattern = FillPattern::U8(0);
            // SAFETY: the memory was just allocated in this stream.
            unsafe { driver.memset_async(context, pointer, pattern, bytes, self.handle) }?;
        }
        // SAFETY: as above; its only use is in front of this in the same stream.
        Ok(unsafe { driver.mem_free_async(context, pointer, self.handle) }?)
    }
}

impl Drop for RawStream {
    fn drop(&mut self) {
        // SAFETY: its work completes (rule 21), and nobody else has it.
        let _ = unsafe { self.raw.driver.stream_destroy(self.raw.context, self.handle) };
    }
}

/// A word that a gate kernel waits for. Its memory is never given back, so a kernel may look at it for ever.
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

    /// The address that a kernel gets.
    pub(crate) fn address(self) -> u64 {
        std::ptr::from_ref(self.0).addr() as u64
    }

    /// Lets the kernels go on that wait for it.
    pub(crate) fn raise(self) {
        self.0.store(1, Ordering::SeqCst);
    }
}
