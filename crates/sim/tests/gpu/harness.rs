//! The test harness: a device with a stream, and helpers for copies.

#![allow(unsafe_code, reason = "calls the driver's unsafe methods")]

use std::sync::Arc;

use libtest_mimic::Failed;
use millstream_driver::{
    ContextHandle, DeviceOrdinal, DevicePtr, Driver, ModuleHandle, StreamHandle,
    cuda::{Cuda, LoadError},
};

pub(crate) type Outcome = Result<(), Failed>;

/// A device with its context and one stream.
pub(crate) struct Gpu {
    pub(crate) cuda: Arc<Cuda>,
    pub(crate) device: DeviceOrdinal,
    pub(crate) context: ContextHandle,
    pub(crate) stream: StreamHandle,
}

impl Gpu {
    pub(crate) fn open(device: DeviceOrdinal) -> Result<Self, Failed> {
        let cuda = Cuda::load().map_err(|error: LoadError| error.to_string())?;
        let context = cuda.primary_context_retain(device)?;
        // SAFETY: the context was retained just now.
        let stream = unsafe { cuda.stream_create(context, true, 0) }?;
        Ok(Self {
            cuda,
            device,
            context,
            stream,
        })
    }

    pub(crate) fn synchronize(&self) -> Outcome {
        // SAFETY: the stream lives as long as `self`.
        Ok(unsafe { self.cuda.stream_synchronize(self.context, self.stream) }?)
    }

    pub(crate) fn alloc(&self, bytes: usize) -> Result<DevicePtr, Failed> {
        // SAFETY: the stream lives as long as `self`.
        Ok(unsafe { self.cuda.mem_alloc_async(self.context, bytes, self.stream) }?)
    }

    pub(crate) fn free(&self, pointer: DevicePtr) -> Outcome {
        // SAFETY: each test frees what it allocated, once, after its last use of it in this stream.
        Ok(unsafe { self.cuda.mem_free_async(self.context, pointer, self.stream) }?)
    }

    /// Copies to the device and waits for the copy.
    pub(crate) fn write<T: bytemuck::Pod>(&self, target: DevicePtr, values: &[T]) -> Outcome {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        // SAFETY: the tests pass an allocation of their own that is large enough, and the source
        // outlives the copy.
        unsafe {
            self.cuda.copy_host_to_device_async(
                self.context,
                target,
                bytes.as_ptr(),
                bytes.len(),
                self.stream,
            )
        }?;
        self.synchronize()
    }

    /// Copies from the device and waits for the copy.
    pub(crate) fn read<T: bytemuck::Pod>(
        &self,
        source: DevicePtr,
        count: usize,
    ) -> Result<Vec<T>, Failed> {
        let mut values = vec![T::zeroed(); count];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut values);
        // SAFETY: the tests pass an allocation of their own that is large enough, and the target
        // outlives the copy.
        unsafe {
            self.cuda.copy_device_to_host_async(
                self.context,
                bytes.as_mut_ptr(),
                source,
                bytes.len(),
                self.stream,
            )
        }?;
        self.synchronize()?;
        Ok(values)
    }

    pub(crate) fn load(&self, ptx: &str) -> Result<ModuleHandle, Failed> {
        // SAFETY: the context is retained.
        Ok(unsafe { self.cuda.module_load(self.context, ptx.as_bytes()) }?)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // An error here was already returned by an earlier call.
        // SAFETY: the stream belongs to this `Gpu` alone.
        let _ = unsafe { self.cuda.stream_destroy(self.context, self.stream) };
        // SAFETY: this releases, once, the reference that `open` took.
        let _ = unsafe { self.cuda.primary_context_release(self.device) };
    }
}

pub(crate) fn check(holds: bool, claim: &str) -> Outcome {
    if holds { Ok(()) } else { Err(claim.into()) }
}
