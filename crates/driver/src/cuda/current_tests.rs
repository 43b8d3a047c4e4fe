//! Tests of [`Cuda`] against a stub of libcuda: the context that is current during each call, and
//! after it.

#![allow(unsafe_code, reason = "stubs libcuda's functions")]

use std::{
    cell::RefCell,
    ffi::{c_uint, c_void},
    time::Instant,
};

use super::{Cuda, api::Api};
use crate::{
    ContextHandle, Driver, EventHandle, EventKind, FunctionHandle, LaunchDims, ResultCode,
    StreamHandle,
};

/// The null handle: no context.
const NONE: ContextHandle = ContextHandle::from_raw(0);

thread_local! {
    /// The context that is current on this thread in the stub, and the calls it has received.
    static STATE: RefCell<(ContextHandle, Vec<&'static str>)> =
        const { RefCell::new((NONE, Vec::new())) };
}

fn record_call(call: &'static str) -> ResultCode {
    STATE.with_borrow_mut(|(_, calls)| calls.push(call));
    ResultCode::SUCCESS
}

unsafe extern "C" fn get_current(context: *mut ContextHandle) -> ResultCode {
    // SAFETY: the library passes a pointer to writable memory.
    unsafe { context.write(STATE.with_borrow(|(current, _)| *current)) };
    record_call("get")
}

unsafe extern "C" fn set_current(context: ContextHandle) -> ResultCode {
    STATE.with_borrow_mut(|(current, _)| *current = context);
    record_call("set")
}

/// Creates a stream whose handle is the current context's, because on hardware too an object
/// belongs to the context that is current.
unsafe extern "C" fn create_stream(stream: *mut StreamHandle, _: c_uint, _: i32) -> ResultCode {
    let context = STATE.with_borrow(|(current, _)| current.as_raw());
    // SAFETY: the library passes a pointer to writable memory.
    unsafe { stream.write(StreamHandle::from_raw(context)) };
    record_call("create stream")
}

unsafe extern "C" fn create_event(event: *mut EventHandle, _: c_uint) -> ResultCode {
    let context = STATE.with_borrow(|(current, _)| current.as_raw());
    // SAFETY: the library passes a pointer to writable memory.
    unsafe { event.write(EventHandle::from_raw(context)) };
    record_call("create event")
}

unsafe extern "C" fn record(_: EventHandle, _: StreamHandle) -> ResultCode {
    record_call("record")
}

unsafe extern "C" fn wait(_: StreamHandle, _: EventHandle, _: c_uint) -> ResultCode {
    record_call("wait")
}

unsafe extern "C" fn launch(
    _: FunctionHandle,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: c_uint,
    _: StreamHandle,
    _: *mut *mut c_void,
    _: *mut *mut c_void,
) -> ResultCode {
    record_call("launch")
}

/// Creates a driver of the functions above; every other function returns an error.
fn stub() -> Cuda {
    let mut api = Api::uninitialised();
    api.cuCtxGetCurrent = get_current;
    api.cuCtxSetCurrent = set_current;
    api.cuStreamCreateWithPriority = create_stream;
    api.cuEventCreate = create_event;
    api.cuEventRecord = record;
    api.cuStreamWaitEvent = wait;
    api.cuLaunchKernel = launch;
    Cuda {
        api,
        version: 12_000,
        started: Instant::now(),
    }
}

fn calls() -> Vec<&'static str> {
    STATE.with_borrow_mut(|(_, calls)| std::mem::take(calls))
}

fn current_handle() -> ContextHandle {
    STATE.with_borrow(|(current, _)| *current)
}

const OURS: ContextHandle = ContextHandle::from_raw(0x1000);
const FOREIGN: ContextHandle = ContextHandle::from_raw(0x2000);

#[test]
fn objects_belong_to_their_context_when_another_is_current() {
    let cuda = stub();
    for (foreign, expected) in [
        (NONE, &["get", "set", "create stream"][..]),
        (OURS, &["get", "create stream"]),
        (FOREIGN, &["get", "set", "create stream", "set"]),
    ] {
        // SAFETY: the stub accepts any handle.
        unsafe { set_current(foreign) };
        calls();
        // SAFETY: the stub accepts any handle.
        let stream = unsafe { cuda.stream_create(OURS, true, 0) }.expect("it cannot fail");
        assert_eq!(stream.as_raw(), OURS.as_raw(), "with {foreign:?} current");
        assert_eq!(calls(), expected, "with {foreign:?} current");
        let left = if foreign == NONE { OURS } else { foreign };
        assert_eq!(current_handle(), left, "a foreign context is restored");
        // SAFETY: the stub accepts any handle.
        let event =
            unsafe { cuda.event_create(OURS, EventKind::Ordering) }.expect("it cannot fail");
        assert_eq!(event.as_raw(), OURS.as_raw());
    }
}

#[test]
fn launches_records_and_waits_take_the_context_from_the_stream() {
    let cuda = stub();
    let (stream, event) = (StreamHandle::from_raw(0x10), EventHandle::from_raw(0x20));
    // SAFETY: the stub accepts any handle.
    unsafe { cuda.event_record(OURS, event, stream) }.expect("it cannot fail");
    // SAFETY: the stub accepts any handle.
    unsafe { cuda.stream_wait_event(OURS, stream, event) }.expect("it cannot fail");
    let dims = LaunchDims {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
    };
    let function = FunctionHandle::from_raw(0x30);
    // SAFETY: the stub accepts any handle.
    unsafe { cuda.launch_kernel(OURS, function, &dims, stream, &[]) }.expect("it cannot fail");
    assert_eq!(calls(), ["record", "wait", "launch"]);
    // SAFETY: the stub accepts any handle.
    unsafe { cuda.launch_kernel(OURS, function, &dims, StreamHandle::LEGACY, &[]) }
        .expect("it cannot fail");
    assert_eq!(
        calls(),
        ["get", "set", "launch"],
        "a default stream's handle does not determine the context"
    );
}

#[test]
fn an_error_of_making_the_context_current_is_returned() {
    let mut cuda = stub();
    cuda.api.cuCtxSetCurrent = Api::uninitialised().cuCtxSetCurrent;
    // SAFETY: the stub accepts any handle.
    let result = unsafe { cuda.stream_create(FOREIGN, true, 0) };
    let error = result.expect_err("the context cannot be set");
    assert_eq!(error.call(), "cuCtxSetCurrent");
    assert!(!calls().contains(&"create stream"));
}
