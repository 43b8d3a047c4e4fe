//! What a panic leaves behind: nothing of this crate is half done when one passes by.
//!
//! No lock is held while user code runs, locks do not poison, and an operation whose submission
//! panics settles as failed. Handles, arrays and values on their way may therefore be used on after
//! a `catch_unwind`, and need no `AssertUnwindSafe` to get out of one. The parts below are those
//! that the compiler does not find by itself: they have locks inside, or a driver, or a closure of
//! this crate.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::{
    Pending, Timeline,
    context::{DeviceState, StreamState},
    tracker::AccessHistory,
};

impl UnwindSafe for DeviceState {}
impl RefUnwindSafe for DeviceState {}
impl UnwindSafe for StreamState {}
impl RefUnwindSafe for StreamState {}
impl UnwindSafe for AccessHistory {}
impl RefUnwindSafe for AccessHistory {}
impl UnwindSafe for Timeline {}
impl RefUnwindSafe for Timeline {}
impl<T> UnwindSafe for Pending<T> {}
