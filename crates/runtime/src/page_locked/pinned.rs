//! `Pinned<T>`: page-locked host memory that copies use directly, inaccessible to the host
//! meanwhile.

#![allow(unsafe_code, reason = "exposes page-locked memory as slices if unused")]

use std::{
    fmt,
    marker::PhantomData,
    ops::{Range, RangeBounds},
    panic::Location,
    sync::Arc,
};

use bytemuck::Pod;

use super::{
    HostAccessGuard, HostRange, POOLED, PinnedBlock, ReadGuard, WriteGuard, host_access,
    idle_frees::{RegisteredVec, Resource, unregister},
};
use crate::{
    Device, Rejected, Result, UsageError,
    context::DeviceState,
    element_layout::{bytes_of, check_alignment, resolve},
    tracker::{Access, AccessHistory, AccessKind, Ticket},
};

/// An array of `T` in page-locked host memory.
///
/// Copies between it and the device need no staging and do not block the host ([rule 7]:
/// asynchronous copies of page-locked memory return at once). Each is tracked: the guards of
/// [`read`](Self::read) and [`write`](Self::write) wait for exactly the conflicting copies, so that
/// the host sees complete data and never changes data that a copy still reads.
///
/// ```
/// use millstream::Device;
///
/// let device = Device::simulated()?;
/// let stream = device.stream()?;
/// let mut pinned = device.pinned::<f32>(2)?;
/// pinned.write()?.copy_from_slice(&[1.0, 2.0]);
/// let mut buffer = stream.zeros::<f32>(2)?;
/// stream.copy(&pinned, &mut buffer)?;
/// pinned.write()?[0] = 5.0; // waits until the copy has read it
/// assert_eq!(stream.download(&buffer)?.wait()?, [1.0, 2.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// While a guard exists, no copy can use the array:
///
/// ```compile_fail,E0502
/// # let device = millstream::Device::simulated()?;
/// # let stream = device.stream()?;
/// # let mut pinned = device.pinned::<f32>(2)?;
/// # let mut buffer = stream.zeros::<f32>(2)?;
/// let mut guard = pinned.write()?;
/// stream.copy(&pinned, &mut buffer)?;
/// guard[0] = 5.0;
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// [rule 7]: crate::guide::semantics#rule-7
#[doc(alias("PinnedHostSlice", "LockedBuffer", "pin_memory"))]
pub struct Pinned<T> {
    device: Arc<DeviceState>,
    memory: Option<Memory>,
    history: AccessHistory,
    len: usize,
    alive: Arc<()>,
    element: PhantomData<T>,
}

/// The source of the array's memory.
enum Memory {
    Pool(PinnedBlock),
    RegisteredVec(RegisteredVec),
}

impl Memory {
    fn pointer(&self) -> *mut u8 {
        match self {
            Self::Pool(block) => block.pointer.as_ptr(),
            Self::RegisteredVec(registered) => registered.pointer.as_ptr(),
        }
    }
}

impl Device {
    /// Creates an array of `len` zeros in page-locked host memory.
    ///
    /// # Errors
    ///
    /// If the memory cannot be page-locked, the elements need an alignment of more than 256 bytes,
    /// or the device is lost.
    #[track_caller]
    #[doc(alias(
        "cuMemHostAlloc",
        "cuMemAllocHost",
        "cudaMallocHost",
        "cudaHostAlloc",
        "alloc_pinned"
    ))]
    pub fn pinned<T: Pod>(&self, len: usize) -> Result<Pinned<T>> {
        Pinned::zeroed(self.state(), len, Location::caller())
    }

    /// Creates an array in page-locked host memory with the elements of `source`.
    ///
    /// # Errors
    ///
    /// As [`pinned`](Self::pinned).
    #[track_caller]
    pub fn pinned_from<T: Pod>(&self, source: &[T]) -> Result<Pinned<T>> {
        let mut pinned = self.pinned(source.len())?;
        pinned.write()?.copy_from_slice(source);
        Ok(pinned)
    }
}

impl<T: Pod> Pinned<T> {
    pub(crate) fn zeroed(
        device: &Arc<DeviceState>,
        len: usize,
        location: &'static Location<'static>,
    ) -> Result<Self> {
        let at = |usage_error: UsageError| usage_error.at(location);
        let bytes = bytes_of::<T>("pinned", len).map_err(at)?;
        check_alignment::<T>("pinned").map_err(at)?;
        let block = if bytes == 0 {
            None
        } else {
            Some(device.page_locked().staging.take(device, bytes)?)
        };
        if let Some(block) = &block {
            device.name_memory(block.address(), "pinned", location);
            let _access = HostAccessGuard::writes(
                &device.driver,
                block.pointer.as_ptr(),
                bytes,
                "pinned",
                location,
            );
            // SAFETY: this function owns the block, which is at least this large.
            unsafe { block.pointer.write_bytes(0, bytes) };
        }
        Ok(Self::of(device, block.map(Memory::Pool), len))
    }

    /// Page-locks a vector's memory, so that copies use it directly. Page-locking takes 100 µs or
    /// more, which pays for memory that is copied often.
    ///
    /// When the array is dropped, the vector's memory is freed once no copy uses it and the device
    /// is idle. [`into_vec`](Self::into_vec) returns the vector instead.
    ///
    /// ```
    /// use millstream::{Device, Pinned};
    ///
    /// let device = Device::simulated()?;
    /// let stream = device.stream()?;
    /// let frame = Pinned::register(&device, vec![1.0_f32; 4096])?;
    /// let mut buffer = stream.zeros::<f32>(4096)?;
    /// stream.copy(&frame, &mut buffer)?;
    /// assert_eq!(frame.into_vec()?, [1.0; 4096]); // waits for the copy
    /// # Ok::<(), millstream::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the memory cannot be page-locked, a part of it already is, or the device is lost. The
    /// vector is in the error.
    #[track_caller]
    #[doc(alias("cuMemHostRegister", "cudaHostRegister"))]
    pub fn register(device: &Device, source: Vec<T>) -> Result<Self, Rejected<Vec<T>>> {
        let device = device.state();
        let _name = device.named("register", Location::caller());
        device.page_locked().idle_frees.release_if_idle(device);
        if let Err(error) = device.check_alive() {
            return Err(Rejected::new(error, source));
        }
        let len = source.len();
        let memory = if size_of_val(source.as_slice()) == 0 {
            None
        } else {
            Some(Memory::RegisteredVec(RegisteredVec::lock(device, source)?))
        };
        Ok(Self::of(device, memory, len))
    }

    fn of(device: &Arc<DeviceState>, memory: Option<Memory>, len: usize) -> Self {
        Self {
            device: Arc::clone(device),
            memory,
            history: AccessHistory::new((len * size_of::<T>()) as u64),
            len,
            alive: Arc::new(()),
            element: PhantomData,
        }
    }

    /// Returns the elements as a vector, once the copies that use the array are complete. For
    /// registered memory this is the registered vector if all devices are idle; unlocking it would
    /// otherwise wait for them ([rule 30]: unregistering host memory waits until the device is
    /// idle). In all other cases it is a copy.
    ///
    /// # Errors
    ///
    /// If the device is lost before the copies are done.
    ///
    /// [rule 30]: crate::guide::semantics#rule-30
    #[track_caller]
    pub fn into_vec(mut self) -> Result<Vec<T>> {
        self.host_range(.., Location::caller())?
            .wait(AccessKind::Write)?;
        match self.memory.take() {
            None => Ok(Vec::new()),
            Some(Memory::RegisteredVec(registered)) => {
                // SAFETY: the copies are complete, and new ones would need this array. The vector
                // is the registered one.
                Ok(unsafe { unregister(&self.device, registered, Location::caller()) })
            }
            Some(pool) => {
                self.memory = Some(pool);
                self.read().map(|elements| elements.to_vec())
            }
        }
    }

    /// Adds an operation that may use the memory when the array is dropped.
    pub(crate) fn inherit(&mut self, ticket: Ticket) {
        self.history.inherit(&[ticket]);
    }

    fn host_range(
        &self,
        range: impl RangeBounds<usize>,
        location: &'static Location<'static>,
    ) -> Result<HostRange<'_>> {
        let range = resolve("slice", range, self.len).map_err(|error| error.at(location))?;
        let span = self.span().subspan(range.clone(), size_of::<T>());
        Ok(HostRange {
            device: &self.device,
            history: &self.history,
            bytes: span.range(),
            first: span.pointer(),
            len: range.len(),
        })
    }
}

// The elements are aligned: `zeroed` checked a block's, and those of a vector are.
host_access!(Pinned, "pinned::<u8>(3)?");

impl<T> Pinned<T> {
    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the array has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn span(&self) -> PinnedSpan<'_> {
        let pointer = self
            .memory
            .as_ref()
            .map_or(std::ptr::null_mut(), Memory::pointer);
        PinnedSpan {
            device: &self.device,
            history: &self.history,
            memory: pointer,
            bytes: 0..self.len * size_of::<T>(),
            alive: &self.alive,
        }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        match self.memory.take() {
            None => {}
            Some(Memory::Pool(block)) => {
                self.device
                    .name_memory(block.address(), POOLED, Location::caller());
                self.device
                    .page_locked()
                    .staging
                    .give(block, self.history.all_tickets());
            }
            Some(Memory::RegisteredVec(registered)) => {
                let uses = self.history.all_tickets();
                self.device
                    .page_locked()
                    .idle_frees
                    .defer(Resource::RegisteredVec(registered), uses);
            }
        }
    }
}

impl<T> fmt::Debug for Pinned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Pinned({} × {} for {})",
            self.len,
            std::any::type_name::<T>(),
            self.device
        )
    }
}

/// The location of a pinned operand of a copy, opaque outside of this crate.
#[doc(hidden)]
#[derive(Clone)]
pub struct PinnedSpan<'a> {
    pub(crate) device: &'a Arc<DeviceState>,
    pub(crate) history: &'a AccessHistory,
    /// The address of the whole array.
    memory: *mut u8,
    /// The range of bytes from the start of the array.
    pub(crate) bytes: Range<usize>,
    /// Alive as long as the array, whose owner may wait for its copies.
    pub(crate) alive: &'a Arc<()>,
}

// SAFETY: a span is an address; tickets decide when the memory may be accessed, from whichever
// thread.
unsafe impl Send for PinnedSpan<'_> {}
// SAFETY: a shared span exposes the address only.
unsafe impl Sync for PinnedSpan<'_> {}

impl<'a> PinnedSpan<'a> {
    pub(crate) fn pointer(&self) -> *mut u8 {
        self.pointer_at(self.bytes.start)
    }

    /// Returns the address of a byte of the array.
    pub(crate) fn pointer_at(&self, byte: usize) -> *mut u8 {
        self.memory.wrapping_add(byte)
    }

    pub(crate) fn access(&self, kind: AccessKind) -> Access<'a> {
        Access::new(self.history, self.range(), kind)
    }

    fn range(&self) -> Range<u64> {
        self.bytes.start as u64..self.bytes.end as u64
    }

    pub(crate) fn subspan(self, range: Range<usize>, element_bytes: usize) -> Self {
        let start = self.bytes.start + range.start * element_bytes;
        Self {
            bytes: start..start + range.len() * element_bytes,
            ..self
        }
    }
}

impl fmt::Debug for PinnedSpan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.bytes;
        write!(
            f,
            "{start}..{end} of page-locked memory for {}",
            self.device
        )
    }
}
