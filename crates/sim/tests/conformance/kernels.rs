//! The kernels that the tests launch, loaded before any gate is closed (rule 53: loading code may
//! wait for running kernels).

#![allow(unsafe_code, reason = "knows the signatures of its kernels")]

use std::ffi::c_void;

use crate::conformance::{
    harness::{Harness, Result},
    prelude::*,
};

/// A kernel that keeps its stream busy until the word at its argument is nonzero. On the simulated
/// device the tests use holds instead.
const GATE_PTX: &str = include_str!("../../../../kernels/gate.ptx");

/// Two kernels: `store(u32* target, u32 value)`, and `fails()`, which faults.
pub(crate) const KERNELS_PTX: &str = include_str!("store.ptx");

/// `last_word(u32* target, u32 bytes)`: stores 7 in the last word of `bytes` bytes of dynamic
/// shared memory, which follow 1024 bytes of static shared memory, then stores the value of that
/// word at `target`.
const SHARED_PTX: &str = include_str!("last_word.ptx");

/// `reverse_grid(u32* x, u32* y)`: each thread stores its index in `x`, waits for all threads of
/// the grid, and stores in `y` the word of the thread opposite to it.
const GRID_PTX: &str = include_str!("../races/within/grid.ptx");

pub(crate) struct Kernels {
    gate: FunctionHandle,
    pub(crate) store: FunctionHandle,
    fails: FunctionHandle,
    pub(crate) last_word: FunctionHandle,
    pub(crate) reverse_grid: FunctionHandle,
}

impl Kernels {
    pub(crate) fn load(harness: &Harness) -> Result<Self> {
        Ok(Self {
            gate: function(harness, GATE_PTX, "gate")?,
            store: function(harness, KERNELS_PTX, "store")?,
            fails: function(harness, KERNELS_PTX, "fails")?,
            last_word: function(harness, SHARED_PTX, "last_word")?,
            reverse_grid: function(harness, GRID_PTX, "reverse_grid")?,
        })
    }
}

/// Loads a kernel onto the device. A driver of CUDA 12.0 to 12.3 loads it at its first launch.
fn function(harness: &Harness, ptx: &str, name: &str) -> Result<FunctionHandle> {
    let module = harness.module_load(ptx.as_bytes())?;
    let function = harness.module_function(module, name)?;
    match harness.function_load(function) {
        Err(error) if error.code() == ResultCode::NOT_SUPPORTED => {}
        loaded => loaded?,
    }
    Ok(function)
}

impl DeviceHarness {
    /// Enqueues a kernel of one thread that stores `value` at `target`.
    pub(crate) fn store(&self, target: DevicePtr, value: u32, stream: StreamHandle) -> Result<()> {
        self.launch_store(self.kernels().store, target, value, stream)
    }

    /// Enqueues a [`store`](Self::store) with a kernel that the test loaded.
    pub(crate) fn launch_store(
        &self,
        function: FunctionHandle,
        target: DevicePtr,
        value: u32,
        stream: StreamHandle,
    ) -> Result<()> {
        let params: [*const c_void; 2] = [(&raw const target).cast(), (&raw const value).cast()];
        // SAFETY: the arguments have the kernel's types.
        unsafe { self.launch(function, stream, &params) }
    }

    /// Enqueues the gate kernel, which runs until the word at `flag` is nonzero.
    pub(crate) fn spin(&self, flag: Host, stream: StreamHandle) -> Result<()> {
        let address = flag.address();
        let params: [*const c_void; 1] = [(&raw const address).cast()];
        // SAFETY: the kernel has one argument, a pointer, and the word lives as long as the
        // harness.
        unsafe { self.launch(self.kernels().gate, stream, &params) }
    }

    /// Enqueues a kernel of one thread that stores 7 at `target`, through the last word of this
    /// much dynamic shared memory.
    pub(crate) fn last_word(
        &self,
        target: DevicePtr,
        shared_bytes: u32,
        stream: StreamHandle,
    ) -> Result<()> {
        let params: [*const c_void; 2] =
            [(&raw const target).cast(), (&raw const shared_bytes).cast()];
        // SAFETY: the arguments have the kernel's types.
        unsafe { self.launch_with_shared(self.kernels().last_word, shared_bytes, stream, &params) }
    }

    /// Enqueues a kernel that faults, so that the context is lost.
    pub(crate) fn fail(&self, stream: StreamHandle) -> Result<()> {
        // SAFETY: the kernel has no arguments.
        unsafe { self.launch(self.kernels().fails, stream, &[]) }
    }
}
