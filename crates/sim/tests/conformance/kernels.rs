//! The kernels that the tests launch, loaded before any gate is closed (rule 53).

#![allow(
    unsafe_code,
    reason = "vouches for the signatures of the kernels that it launches"
)]

use std::ffi::c_void;

use libtest_mimic::Failed;
use millstream_driver::{ContextHandle, DevicePtr, Driver, DriverError, FunctionHandle, StreamHandle};

use crate::{host::Host, rig::Rig};

type Result<T, E = DriverError> = std::result::Result<T, E>;

/// Keeps its stream busy until the word at its argument is not 0. The simulated device has holds instead.
const GATE_PTX: &str = include_str!("../../../../kernels/gate.ptx");

/// `store(u32* target, u32 value)`, and `fails()`, which is a fault.
pub(crate) const KERNELS_PTX: &str = r"
.version 7.0
.target sm_52
.address_size 64
.visible .entry store(.param .u64 target, .param .u32 value)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [target];
    ld.param.u32 %r1, [value];
    cvta.to.global.u64 %rd2, %rd1;
    st.global.u32 [%rd2], %r1;
    ret;
}
.visible .entry fails()
{
    trap;
    ret;
}
";

/// The kernels of a rig.
pub(crate) struct Kernels {
    gate: FunctionHandle,
    pub(crate) store: FunctionHandle,
    fails: FunctionHandle,
}

impl Kernels {
    pub(crate) fn load(driver: &dyn Driver, context: ContextHandle) -> Result<Self, Failed> {
        Ok(Self {
            gate: function(driver, context, GATE_PTX, "gate")?,
            store: function(driver, context, KERNELS_PTX, "store")?,
            fails: function(driver, context, KERNELS_PTX, "fails")?,
        })
    }
}

/// A kernel that is on the device.
fn function(
    driver: &dyn Driver,
    context: ContextHandle,
    ptx: &str,
    name: &str,
) -> Result<FunctionHandle, Failed> {
    // SAFETY: the context is alive.
    let module = unsafe { driver.module_load(context, ptx.as_bytes()) }?;
    // SAFETY: the module is alive.
    let function = unsafe { driver.module_function(context, module, name) }?;
    // SAFETY: the function is of that module.
    unsafe { driver.function_load(context, function) }?;
    Ok(function)
}

impl Rig {
    /// Enqueues a kernel of one thread that stores `value`.
    pub(crate) fn store(&self, target: DevicePtr, value: u32, stream: StreamHandle) -> Result<()> {
        self.launch_store(self.kernels().store, target, value, stream)
    }

    /// As [`store`](Self::store), with a kernel loaded by the test.
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

    /// Enqueues the gate kernel, which runs until the word at `flag` is not 0.
    pub(crate) fn spin(&self, flag: Host, stream: StreamHandle) -> Result<()> {
        let address = flag.address();
        let params: [*const c_void; 1] = [(&raw const address).cast()];
        // SAFETY: the kernel has one argument, a pointer, and the word lives as long as the rig.
        unsafe { self.launch(self.kernels().gate, stream, &params) }
    }

    /// Enqueues a kernel that loses the context.
    pub(crate) fn fail(&self, stream: StreamHandle) -> Result<()> {
        // SAFETY: the kernel has no arguments.
        unsafe { self.launch(self.kernels().fails, stream, &[]) }
    }
}
