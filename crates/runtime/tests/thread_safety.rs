//! Auto traits of public types: `Send`, `Sync`, `UnwindSafe` and `RefUnwindSafe`.

use std::{
    panic::{RefUnwindSafe, UnwindSafe},
    sync::Arc,
};

use millstream::{
    Buffer, Device, Error, Event, LaunchConfig, Managed, OperationKind, Pending, Pinned, Rejected,
    Release, Scope, Select, Stream, Timeline, Trace, UsageError, UsageErrorKind, View, ViewMut,
    array::{Advice, ReadGuard, WriteGuard},
    driver::Driver,
    error::OutOfMemory,
    interop::Lease,
    sim::{Gpu, Hold, SimConfig},
    timeline::{Overlap, TimedOperation},
};
use millstream_collective::{Collectives, Reduce};

use crate::scenarios::prelude::sums;

/// Evaluates to whether a type implements a trait. The inherent constant, defined only for types
/// with the bound, takes precedence over the trait's.
macro_rules! has {
    ($type:ty: $bound:path) => {{
        struct Asked<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "used only for types without the bound")]
        trait Otherwise {
            const HAS: bool = false;
        }
        impl<T: ?Sized> Otherwise for Asked<T> {}
        #[allow(dead_code, reason = "used only for types with the bound")]
        impl<T: $bound + ?Sized> Asked<T> {
            const HAS: bool = true;
        }
        <Asked<$type>>::HAS
    }};
}

/// Builds a table of types, each as text with the four traits it implements.
macro_rules! table {
    ($($type:ty),* $(,)?) => {
        vec![$((
            stringify!($type),
            [
                has!($type: Send),
                has!($type: Sync),
                has!($type: UnwindSafe),
                has!($type: RefUnwindSafe),
            ],
        )),*]
    };
}

/// These types are `Send`, `Sync`, `UnwindSafe` and `RefUnwindSafe`.
#[test]
fn handles_arrays_and_values_are_send_sync_and_unwind_safe() {
    let free = table![
        Device,
        Lease<'static, f32>,
        Release,
        Stream,
        Event,
        Timeline,
        Buffer<f32>,
        View<'static, f32>,
        Pinned<f32>,
        Managed<f32>,
        ReadGuard<'static, f32>,
        sums::Kernels,
        LaunchConfig,
        OperationKind,
        Overlap,
        Trace,
        TimedOperation,
        Select,
        SimConfig,
        Error,
        UsageError,
        UsageErrorKind,
        OutOfMemory,
        Rejected<Vec<f32>>,
        Advice,
        Collectives,
        Reduce,
    ];
    for (name, answers) in free {
        assert_eq!(
            answers, [true; 4],
            "{name}: Send, Sync, UnwindSafe, RefUnwindSafe"
        );
    }
    assert!(has!(Gpu: Send) && has!(Gpu: Sync) && has!(Hold: Send) && has!(Hold: Sync));
    assert!(has!(Arc<dyn Driver>: Send) && has!(Arc<dyn Driver>: Sync));
}

/// Mutable borrows are not `UnwindSafe`, like `&mut`; they implement the other three traits.
#[test]
fn mutable_borrows_are_send_and_sync() {
    let writing = table![ViewMut<'static, f32>, WriteGuard<'static, f32>];
    for (name, answers) in writing {
        assert_eq!(answers, [true, true, false, true], "{name}");
    }
    assert!(has!(Scope<'static>: Send) && has!(Scope<'static>: Sync));
}

/// `Pending` is `Send` but not `Sync`, because the closure that makes its value need not be `Sync`.
#[test]
fn a_pending_value_is_send_but_not_sync() {
    assert!(has!(Pending<Vec<f32>>: Send) && has!(Pending<Vec<f32>>: Unpin));
    assert!(!has!(Pending<Vec<f32>>: Sync));
    assert!(has!(Pending<Vec<f32>>: UnwindSafe));
}

/// Arrays of elements that are neither `Send` nor `Sync` are neither as well.
#[test]
fn arrays_of_elements_that_are_not_send_are_not_send() {
    assert!(!has!(Buffer<*mut u8>: Send) && !has!(Buffer<*mut u8>: Sync));
    assert!(!has!(View<'static, *mut u8>: Send) && !has!(ViewMut<'static, *mut u8>: Send));
    assert!(!has!(Pinned<*mut u8>: Send) && !has!(Pinned<*mut u8>: Sync));
    assert!(!has!(Managed<*mut u8>: Send) && !has!(Managed<*mut u8>: Sync));
    assert!(!has!(ReadGuard<'static, *mut u8>: Send) && !has!(WriteGuard<'static, *mut u8>: Send));
}
