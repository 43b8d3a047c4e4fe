//! Rule 53: loading a kernel's code may wait for running kernels. Whether a launch of that kernel
//! then waits is only recorded, because no documentation promises that two kernels run
//! concurrently.

use crate::conformance::{kernels::KERNELS_PTX, prelude::*};

pub(crate) fn r53(dev: &DeviceHarness) -> Observation {
    let beside = ConcurrentCall {
        dev,
        held: dev.stream()?,
        stream: dev.stream()?,
        memory: dev.memory(4)?,
    };
    let loaded_before = beside.launch(dev.kernels().store, 1)?;

    let ptx = KERNELS_PTX.as_bytes();
    let mut module = None;
    let load = beside.call(|| {
        module = Some(dev.module_load(ptx)?);
        Ok(())
    })?;
    let module = module.ok_or("a module")?;
    let mut function = None;
    let find = beside.call(|| {
        function = Some(dev.module_function(module, "store")?);
        Ok(())
    })?;
    let function = function.ok_or("a function")?;
    let load_function = beside.call(|| dev.function_load(function))?;
    let loaded_beside = beside.launch(function, 2)?;
    let run_before = beside.launch(function, 3)?;

    let lazy = dev.module_function(dev.module_load(ptx)?, "store")?;
    let not_loaded = beside.launch(lazy, 4)?;
    Ok(format!(
        "beside a kernel: cuModuleLoadDataEx {load}, cuModuleGetFunction {find}, cuFuncLoad \
         {load_function}; a launch of \
         what was loaded before {loaded_before}, loaded beside one {loaded_beside}, that again \
         {run_before}, not loaded \
         {not_loaded}"
    ))
}

/// Calls on one stream while a gate keeps another stream busy.
struct ConcurrentCall<'a> {
    dev: &'a DeviceHarness,
    held: StreamHandle,
    stream: StreamHandle,
    memory: DevicePtr,
}

impl ConcurrentCall<'_> {
    /// Makes the call while the gate is closed, and returns its outcome as one word.
    fn call(
        &self,
        call: impl FnOnce() -> Result<(), DriverError> + Send,
    ) -> Result<&'static str, Failed> {
        let word = self.dev.either(self.dev.gate(self.held)?, call)?.word();
        self.dev.stream_synchronize(self.held)?;
        Ok(word)
    }

    /// Launches a kernel that stores `value`. Returns the outcome of the call and of the kernel.
    fn launch(&self, function: FunctionHandle, value: u32) -> Result<&'static str, Failed> {
        let Self {
            dev,
            held,
            stream,
            memory,
        } = *self;
        let gate = dev.gate(held)?;
        let launch = dev.either(gate, || dev.launch_store(function, memory, value, stream))?;
        let word = match &launch {
            CallOutcome::Returned(_) if dev.gets_done(stream)? => "returns and runs",
            CallOutcome::Returned(_) => "returns and the kernel waits",
            CallOutcome::Blocked => "blocks",
        };
        drop(launch);
        dev.stream_synchronize(held)?;
        check(
            dev.read(memory, 4, stream)? == value.to_le_bytes(),
            "the kernel runs in the end",
        )?;
        Ok(word)
    }
}
