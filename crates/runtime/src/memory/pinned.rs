//! `Pinned<T>`: page-locked memory of the host that copies use directly, and that nobody can touch meanwhile.

#![allow(
    unsafe_code,
    reason = "gives out page-locked memory as slices, once no copy uses it"
)]

use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    slice,
    sync::Arc,
};

use super::{Block, bytes_of};
use crate::{
    Result,
    completion::wait_ticket,
    device::DeviceState,
    tracker::{Access, AccessKind, Ledger},
};

/// An array of `T` in page-locked host memory.
///
/// Copies between it and the device run without staging and without holding up the host (rule 7). Each is tracked: the
/// guards of [`read`](Self::read) and [`write`](Self::write) wait for exactly the copies that are in their way, so that
/// nothing is seen before it has arrived or changed before it has left.
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
/// While a guard lives, no copy may use the array:
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
pub struct Pinned<T> {
    device: Arc<DeviceState>,
    block: Option<Block>,
    ledger: Ledger,
    len: usize,
    alive: Arc<()>,
    element: PhantomData<T>,
}

impl<T: bytemuck::Pod> Pinned<T> {
    /// An array of zeros.
    pub(crate) fn zeroed(device: &Arc<DeviceState>, len: usize) -> Result<Self> {
        let bytes = bytes_of::<T>("pinned", len)?;
        let block = if bytes == 0 {
            None
        } else {
            Some(device.staging.take(device, bytes)?)
        };
        if let Some(block) = &block {
            // SAFETY: the block is ours alone and at least this large.
            unsafe { block.pointer.write_bytes(0, bytes) };
        }
        Ok(Self {
            device: Arc::clone(device),
            block,
            ledger: Ledger::new(bytes as u64),
            len,
            alive: Arc::new(()),
            element: PhantomData,
        })
    }

    /// The array, to read. Waits until the copies that write it are done; those that only read it go on beside.
    ///
    /// # Errors
    ///
    /// If the device is lost before they are.
    pub fn read(&self) -> Result<PinnedRead<'_, T>> {
        self.wait_until_free(AccessKind::Read)?;
        // SAFETY: the copies that write it are done, and new ones need a `&mut` to this, which the guard's borrow
        // excludes. The block holds `len` elements, aligned to a page, and any bits are a `T`.
        let elements = unsafe { slice::from_raw_parts(self.elements(), self.len) };
        Ok(PinnedRead { elements })
    }

    /// The array, to read and write. Waits until all copies that use it are done.
    ///
    /// # Errors
    ///
    /// If the device is lost before they are.
    pub fn write(&mut self) -> Result<PinnedWrite<'_, T>> {
        self.wait_until_free(AccessKind::Write)?;
        // SAFETY: all copies are done, and new ones need a borrow of this, which the guard's excludes. The block holds
        // `len` elements, aligned to a page, and any bits are a `T`.
        let elements = unsafe { slice::from_raw_parts_mut(self.elements(), self.len) };
        Ok(PinnedWrite { elements })
    }

    fn elements(&self) -> *mut T {
        self.block
            .as_ref()
            .map_or(std::ptr::dangling_mut(), |block| block.pointer.as_ptr().cast())
    }

    fn wait_until_free(&self, kind: AccessKind) -> Result<()> {
        // No new copy can come meanwhile that is in the way: it would need the borrow that the caller holds.
        for ticket in self.ledger.host_conflicts(&(0..self.ledger.bytes()), kind) {
            if let Some(stream) = self.device.stream(ticket.stream) {
                wait_ticket(&self.device, &stream, ticket.sequence)?;
            }
        }
        Ok(())
    }
}

impl<T> Pinned<T> {
    /// Elements in the array.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the array has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn place(&self) -> PinnedPlace<'_> {
        let pointer = self
            .block
            .as_ref()
            .map_or(std::ptr::null_mut(), |block| block.pointer.as_ptr());
        PinnedPlace {
            device: &self.device,
            ledger: &self.ledger,
            pointer,
            alive: &self.alive,
        }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            self.device.staging.give(block, self.ledger.all_tickets());
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

/// The elements of a [`Pinned`] array, while no copy writes them.
///
/// ```
/// let pinned = millstream::Device::simulated()?.pinned::<u8>(3)?;
/// assert_eq!(*pinned.read()?, [0, 0, 0]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Debug)]
pub struct PinnedRead<'a, T> {
    elements: &'a [T],
}

impl<T> Deref for PinnedRead<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.elements
    }
}

/// The elements of a [`Pinned`] array, while no copy uses them.
///
/// ```
/// let mut pinned = millstream::Device::simulated()?.pinned::<u8>(3)?;
/// pinned.write()?.fill(7);
/// assert_eq!(*pinned.read()?, [7, 7, 7]);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Debug)]
pub struct PinnedWrite<'a, T> {
    elements: &'a mut [T],
}

impl<T> Deref for PinnedWrite<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.elements
    }
}

impl<T> DerefMut for PinnedWrite<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.elements
    }
}

/// Where a pinned operand of a copy is. Only this crate can look inside.
#[doc(hidden)]
#[derive(Clone)]
pub struct PinnedPlace<'a> {
    pub(crate) device: &'a Arc<DeviceState>,
    ledger: &'a Ledger,
    pub(crate) pointer: *mut u8,
    /// Alive as long as the array: as long as its owner may come to wait for its copies.
    pub(crate) alive: &'a Arc<()>,
}

impl<'a> PinnedPlace<'a> {
    pub(crate) fn bytes(&self) -> usize {
        usize::try_from(self.ledger.bytes()).expect("a size that came from a usize")
    }

    pub(crate) fn access(&self, kind: AccessKind) -> Access<'a> {
        Access::new(self.ledger, 0..self.ledger.bytes(), kind)
    }
}
