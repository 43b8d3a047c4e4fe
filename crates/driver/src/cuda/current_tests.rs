//! Tests of [`Cuda`] against a stand-in for libcuda: which context its calls find current, and
//! which they leave.

#![allow(unsafe_code, reason = "plays libcuda")]

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

/// No context.
const NONE: ContextHandle = ContextHandle::from_raw(0);

thread_local! {
    /// What the stand-in driver has current on this thread, and the calls that it was made.
    static STATE: RefCell<(ContextHandle, Vec<&'static str>)> = const { RefCell::new((NONE, Vec::new())) };
}

fn note(call: &'static str) -> ResultCode {
    STATE.with_borrow_mut(|(_, calls)| calls.push(call));
    ResultCode::SUCCESS
}

unsafe extern "C" fn get_current(context: *mut ContextHandle) -> ResultCode {
    // SAFETY: the library passes a place for the result.
    unsafe { context.write(STATE.with_borrow(|(current, _)| *current)) };
    note("get")
}

unsafe extern "C" fn set_current(context: ContextHandle) -> ResultCode {
    STATE.with_borrow_mut(|(current, _)| *current = context);
    note("set")
}

/// As on hardware, the object belongs to whichever context is current: its handle is that
/// context's.
unsafe extern "C" fn create_stream(stream: *mut StreamHandle, _: c_uint, _: i32) -> ResultCode {
    let context = STATE.with_borrow(|(current, _)| current.as_raw());
    // SAFETY: the library passes a place for the result.
    unsafe { stream.write(StreamHandle::from_raw(context)) };
    note("create stream")
}

unsafe extern "C" fn create_event(event: *mut EventHandle, _: c_uint) -> ResultCode {
    let context = STATE.with_borrow(|(current, _)| current.as_raw());
    // SAFETY: the library passes a place for the result.
    unsafe { event.write(EventHandle::from_raw(context)) };
    note("create event")
}

unsafe extern "C" fn record(_: EventHandle, _: StreamHandle) -> ResultCode {
    note("record")
}

unsafe extern "C" fn wait(_: StreamHandle, _: EventHandle, _: c_uint) -> ResultCode {
    note("wait")
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
    note("launch")
}

/// A driver of nothing but these functions.
fn stand_in() -> Cuda {
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
fn objects_are_made_in_their_context_whatever_other_code_made_current() {
    let cuda = stand_in();
    for (foreign, expected) in [
        (NONE, &["get", "set", "create stream"][..]),
        (OURS, &["get", "create stream"]),
        (FOREIGN, &["get", "set", "create stream", "set"]),
    ] {
        // SAFETY: the stand-in takes any handle.
        unsafe { set_current(foreign) };
        calls();
        // SAFETY: the stand-in takes any handle.
        let stream = unsafe { cuda.stream_create(OURS, true, 0) }.expect("it cannot fail");
        assert_eq!(stream.as_raw(), OURS.as_raw(), "with {foreign:?} current");
        assert_eq!(calls(), expected, "with {foreign:?} current");
        let left = if foreign == NONE { OURS } else { foreign };
        assert_eq!(current_handle(), left, "a foreign context is put back");
        // SAFETY: the stand-in takes any handle.
        let event =
            unsafe { cuda.event_create(OURS, EventKind::Ordering) }.expect("it cannot fail");
        assert_eq!(event.as_raw(), OURS.as_raw());
    }
}

#[test]
fn launches_records_and_waits_take_the_context_from_the_stream() {
    let cuda = stand_in();
    let (stream, event) = (StreamHandle::from_raw(0x10), EventHandle::from_raw(0x20));
    // SAFETY: the stand-in takes any handle.
    unsafe { cuda.event_record(OURS, event, stream) }.expect("it cannot fail");
    // SAFETY: the stand-in takes any handle.
    unsafe { cuda.stream_wait_event(OURS, stream, event) }.expect("it cannot fail");
    let dims = LaunchDims {
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
    };
    let function = FunctionHandle::from_raw(0x30);
    // SAFETY: the stand-in takes any handle.
    unsafe { cuda.launch_kernel(OURS, function, &dims, stream, &[]) }.expect("it cannot fail");
    assert_eq!(calls(), ["record", "wait", "launch"]);
    // SAFETY: the stand-in takes any handle.
    unsafe { cuda.launch_kernel(OURS, function, &dims, StreamHandle::LEGACY, &[]) }
        .expect("it cannot fail");
    assert_eq!(
        calls(),
        ["get", "set", "launch"],
        "a handle that all contexts share names none"
    );
}

#[test]
fn a_context_that_cannot_be_made_current_is_the_answer() {
    let mut cuda = stand_in();
    cuda.api.cuCtxSetCurrent = Api::uninitialised().cuCtxSetCurrent;
    // SAFETY: the stand-in takes any handle.
    let answer = unsafe { cuda.stream_create(FOREIGN, true, 0) };
    let error = answer.expect_err("the context cannot be set");
    assert_eq!(error.call(), "cuCtxSetCurrent");
    assert!(!calls().contains(&"create stream"));
}
