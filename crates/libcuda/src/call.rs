//! A call of an exported function: its name, its default stream, and the resolution of handles.

use std::panic::{AssertUnwindSafe, catch_unwind};

use millstream_driver::{
    ContextHandle, DeviceOrdinal, EventHandle, FunctionHandle, GraphHandle, ModuleHandle,
    ResultCode, StreamHandle,
};
use millstream_sim::race::Site;

use crate::{
    abi::{Device, Handle},
    codes::Answer,
    current,
    objects::{ContextEntry, FunctionEntry, ModuleEntry},
    process::{self, Process},
    progress,
};

/// A call in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// The name of the exported function.
    pub(crate) name: &'static str,
    /// The stream that a null handle, and every function without a stream, stands for.
    pub(crate) default_stream: StreamHandle,
}

/// Runs the body of an exported function and returns its result as a number. A panic becomes
/// `CUDA_ERROR_UNKNOWN`, because it must not reach the C caller.
pub(crate) fn run(name: &'static str, per_thread: bool, body: impl FnOnce(&Call) -> Answer) -> i32 {
    let call = Call {
        name,
        default_stream: match per_thread {
            true => StreamHandle::PER_THREAD,
            false => StreamHandle::LEGACY,
        },
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&call)));
    progress::erase();
    let code = match outcome {
        Ok(Ok(())) => ResultCode::SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => ResultCode::UNKNOWN,
    };
    code.as_raw()
}

impl Call {
    /// Returns the state of the process. Fails with `NOT_INITIALIZED` before `cuInit`.
    pub(crate) fn process(&self) -> Answer<&'static Process> {
        process::process()
    }

    /// Returns the code for a handle that refers to no live object, and reports the use of it.
    pub(crate) fn wrong_handle(&self, kind: &str, handle: Handle) -> ResultCode {
        if handle != 0
            && let Ok(process) = self.process()
        {
            let name = self.name;
            let mut text = format!("{name}: {handle:#x} is no {kind}, or was destroyed before");
            if let Some(_label) = process.label() {
                text += &Site::current().map_or_else(String::new, |site| format!(", {site}"));
            }
            process.problem("UnknownHandle", &text);
        }
        ResultCode::INVALID_HANDLE
    }

    /// As [`wrong_handle`](Self::wrong_handle), for handles whose code is `INVALID_VALUE`.
    pub(crate) fn wrong_value(&self, kind: &str, handle: Handle) -> ResultCode {
        self.wrong_handle(kind, handle);
        ResultCode::INVALID_VALUE
    }

    pub(crate) fn device(&self, device: Device) -> Answer<DeviceOrdinal> {
        let process = self.process()?;
        let count = process.device_count();
        if (0..count).contains(&device) {
            Ok(DeviceOrdinal::from_raw(device))
        } else {
            Err(ResultCode::INVALID_DEVICE)
        }
    }

    /// Returns the current context. Fails with `INVALID_CONTEXT` if there is none, and with
    /// `CONTEXT_IS_DESTROYED` if it was destroyed.
    pub(crate) fn context(&self) -> Answer<ContextHandle> {
        let process = self.process()?;
        let context = current::top()?.ok_or(ResultCode::INVALID_CONTEXT)?;
        if process.objects.lock().contexts.contains_key(&context) {
            Ok(context)
        } else {
            Err(ResultCode::CONTEXT_IS_DESTROYED)
        }
    }

    /// Returns a context by its handle. Fails with `INVALID_CONTEXT` if it is not alive.
    pub(crate) fn context_of_handle(&self, raw: Handle) -> Answer<ContextHandle> {
        let context = ContextHandle::from_raw(raw);
        let process = self.process()?;
        if process.objects.lock().contexts.contains_key(&context) {
            return Ok(context);
        }
        self.wrong_handle("context", raw);
        Err(ResultCode::INVALID_CONTEXT)
    }

    pub(crate) fn context_entry(&self, context: ContextHandle) -> Answer<ContextEntry> {
        let objects = self.process()?.objects.lock();
        let entry = objects.contexts.get(&context);
        entry.copied().ok_or(ResultCode::CONTEXT_IS_DESTROYED)
    }

    /// Resolves a stream handle: the stream, and the context that it belongs to. The handles of the
    /// default streams belong to the current context.
    pub(crate) fn stream(&self, raw: Handle) -> Answer<(ContextHandle, StreamHandle)> {
        let stream = match StreamHandle::from_raw(raw) {
            null if null.as_raw() == 0 => self.default_stream,
            given => given,
        };
        if stream == StreamHandle::LEGACY || stream == StreamHandle::PER_THREAD {
            return Ok((self.context()?, stream));
        }
        let found = self.process()?.objects.lock().streams.get(&stream).copied();
        let entry = found.ok_or_else(|| self.wrong_handle("stream", raw))?;
        Ok((entry.context, stream))
    }

    pub(crate) fn graph(&self, raw: Handle) -> Answer<(ContextHandle, GraphHandle)> {
        let graph = GraphHandle::from_raw(raw);
        let context = self.process()?.gpu.graph_context(graph);
        let context = context.ok_or_else(|| self.wrong_value("graph", raw))?;
        Ok((context, graph))
    }

    pub(crate) fn event(&self, raw: Handle) -> Answer<(ContextHandle, EventHandle)> {
        let event = EventHandle::from_raw(raw);
        let found = self.process()?.objects.lock().events.get(&event).copied();
        let entry = found.ok_or_else(|| self.wrong_handle("event", raw))?;
        Ok((entry.context, event))
    }

    pub(crate) fn module(&self, raw: Handle) -> Answer<(ModuleHandle, ModuleEntry)> {
        let module = ModuleHandle::from_raw(raw);
        let found = self.process()?.objects.lock().modules.get(&module).copied();
        let entry = found.ok_or_else(|| self.wrong_handle("module", raw))?;
        Ok((module, entry))
    }

    /// Resolves a function handle, which must be a kernel of a module.
    pub(crate) fn function_of_module(
        &self,
        raw: Handle,
    ) -> Answer<(FunctionHandle, FunctionEntry)> {
        let function = FunctionHandle::from_raw(raw);
        let objects = self.process()?.objects.lock();
        let found = objects.functions.get(&function).cloned();
        drop(objects);
        let entry = found.ok_or_else(|| self.wrong_handle("function", raw))?;
        Ok((function, entry))
    }
}
