//! Unwind safety: a panic leaves all values of this crate in a consistent state.
//!
//! No lock is held while user code runs, locks do not poison, and an operation whose submission
//! panics settles as failed. Handles, arrays and pending values may therefore be used after a
//! `catch_unwind`, and may be captured by its closure without `AssertUnwindSafe`. The types below
//! need explicit implementations because they contain locks, a driver or a closure of this crate,
//! for which the compiler does not derive the traits.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::{
    Error, Pending, Release,
    context::{DeviceState, GrantedLease, StreamState},
    tracker::AccessHistory,
};

impl UnwindSafe for DeviceState {}
impl RefUnwindSafe for DeviceState {}
impl UnwindSafe for StreamState {}
impl RefUnwindSafe for StreamState {}
impl UnwindSafe for AccessHistory {}
impl RefUnwindSafe for AccessHistory {}
/// The error of a foreign call's closure is only read.
impl UnwindSafe for Error {}
impl RefUnwindSafe for Error {}
impl UnwindSafe for GrantedLease {}
impl RefUnwindSafe for GrantedLease {}
impl UnwindSafe for Release {}
impl RefUnwindSafe for Release {}
#[cfg(feature = "timeline")]
impl UnwindSafe for crate::Timeline {}
#[cfg(feature = "timeline")]
impl RefUnwindSafe for crate::Timeline {}
impl<T> UnwindSafe for Pending<T> {}
