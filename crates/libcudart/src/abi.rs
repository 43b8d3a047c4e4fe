//! The types of the C interface: checked pointers, and the structures of CUDA's headers.
//!
//! Only a C caller makes a [`Ptr`], by passing a pointer, and CUDA's documentation obliges that
//! caller: the pointer is null, or valid for what the function does with it. Null is checked here,
//! the rest cannot be.

#![allow(unsafe_code, reason = "uses the pointers of the calling program")]

use std::ffi::CStr;

use crate::codes::{Answer, INVALID_VALUE, refuse_if};

/// A pointer that the program passed.
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Ptr<T>(*mut T);

impl<T> Clone for Ptr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ptr<T> {}

impl<T: Copy> Ptr<T> {
    pub(crate) fn of(address: usize) -> Self {
        Self(std::ptr::with_exposed_provenance_mut(address))
    }

    pub(crate) fn address(self) -> usize {
        self.0.expose_provenance()
    }

    /// Fails with `cudaErrorInvalidValue` for a null pointer.
    pub(crate) fn check(self) -> Answer {
        refuse_if(self.0.is_null(), INVALID_VALUE)
    }

    /// Returns the value. Fails with `cudaErrorInvalidValue` for a null pointer.
    pub(crate) fn get(self) -> Answer<T> {
        self.check()?;
        // SAFETY: the caller passed a pointer to a readable `T`, as the module says.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// Writes the value. Fails with `cudaErrorInvalidValue` for a null pointer.
    pub(crate) fn set(self, value: T) -> Answer {
        self.check()?;
        // SAFETY: the caller passed a pointer to a writable `T`, as the module says.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Returns the pointer to the value behind `count` others.
    pub(crate) fn at(self, count: usize) -> Self {
        Self(self.0.wrapping_add(count))
    }

    pub(crate) fn to<U: Copy>(self) -> Ptr<U> {
        Ptr(self.0.cast())
    }
}

impl Ptr<u8> {
    /// Returns the text up to its zero byte. Fails with `cudaErrorInvalidValue` for a null pointer.
    pub(crate) fn text(self) -> Answer<&'static CStr> {
        self.check()?;
        // SAFETY: the caller passed a pointer to text that a zero byte ends; the names of
        // registered functions and variables stay as long as the program is loaded.
        Ok(unsafe { CStr::from_ptr(self.0.cast()) })
    }
}

/// `dim3`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dim3 {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
}

/// `cudaExtent` and `cudaPos`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// `cudaPitchedPtr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pitched {
    pub(crate) address: usize,
    pub(crate) pitch: usize,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// `cudaMemcpy3DParms`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Box3 {
    pub(crate) source_array: usize,
    pub(crate) source_at: Extent,
    pub(crate) source: Pitched,
    pub(crate) target_array: usize,
    pub(crate) target_at: Extent,
    pub(crate) target: Pitched,
    pub(crate) extent: Extent,
    pub(crate) kind: i32,
}

/// `cudaMemcpy3DPeerParms`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerBox3 {
    pub(crate) source_array: usize,
    pub(crate) source_at: Extent,
    pub(crate) source: Pitched,
    pub(crate) source_device: i32,
    pub(crate) target_array: usize,
    pub(crate) target_at: Extent,
    pub(crate) target: Pitched,
    pub(crate) target_device: i32,
    pub(crate) extent: Extent,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DriverBox3 {
    pub(crate) source: DriverSide,
    pub(crate) target: DriverSide,
    pub(crate) extent: Extent,
}

/// One side of [`DriverBox3`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DriverSide {
    pub(crate) at: Extent,
    pub(crate) level: usize,
    pub(crate) memory_type: u32,
    pub(crate) host: usize,
    pub(crate) device: usize,
    pub(crate) array: usize,
    /// The context, in copies between devices.
    pub(crate) context: usize,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// A stream that the program passed.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream(pub(crate) usize);

/// A `__global__` function, by the address of its stub in the host's code, or a kernel.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function(pub(crate) usize);

const _: () = {
    assert!(size_of::<Box3>() == 160);
    assert!(size_of::<DriverBox3>() == 200);
};
