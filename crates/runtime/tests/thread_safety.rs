//! Which public types may be sent to other threads, shared with them, and kept over a panic.

use std::{
    panic::{RefUnwindSafe, UnwindSafe},
    sync::Arc,
};

use millstream::{
    Advice, Buffer, Device, Error, Event, LaunchConfig, Managed, OperationKind, OutOfMemory,
    Overlap, Pending, Pinned, ReadGuard, Recording, Rejected, Scope, Select, Stream,
    TimedOperation, Timeline, UsageError, UsageErrorKind, View, ViewMut, WriteGuard,
    driver::Driver,
    sim::{Gpu, Hold, SimConfig},
};

millstream::kernels! {
    // SAFETY: none is launched.
    unsafe mod sums from include_str!("../../../kernels/vecadd.ptx") {
        safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64);
    }
}

/// Whether a type has a trait. An inherent constant goes before a trait's, and is there for types
/// with the bound alone.
macro_rules! has {
    ($type:ty: $bound:path) => {{
        struct Asked<T: ?Sized>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "there for types without the bound alone")]
        trait Otherwise {
            const HAS: bool = false;
        }
        impl<T: ?Sized> Otherwise for Asked<T> {}
        #[allow(dead_code, reason = "there for types with the bound alone")]
        impl<T: $bound + ?Sized> Asked<T> {
            const HAS: bool = true;
        }
        <Asked<$type>>::HAS
    }};
}

/// The types with their answers, each as a line of text.
macro_rules! table {
    ($($type:ty),* $(,)?) => {
        vec![$((
            stringify!($type),
            [has!($type: Send), has!($type: Sync), has!($type: UnwindSafe), has!($type: RefUnwindSafe)],
        )),*]
    };
}

/// What may be sent, shared, and kept over a panic that passed by.
#[test]
fn handles_arrays_and_values_may_go_anywhere() {
    let free = table![
        Device,
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
        Recording,
        TimedOperation,
        Select,
        SimConfig,
        Error,
        UsageError,
        UsageErrorKind,
        OutOfMemory,
        Rejected<Vec<f32>>,
        Advice,
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

/// What writes through a borrow is, like `&mut`, not kept over a panic; the rest as above.
#[test]
fn what_borrows_to_write_may_go_to_other_threads() {
    let writing = table![ViewMut<'static, f32>, WriteGuard<'static, f32>];
    for (name, answers) in writing {
        assert_eq!(answers, [true, true, false, true], "{name}");
    }
    assert!(has!(Scope<'static>: Send) && has!(Scope<'static>: Sync));
}

/// A value on its way goes to one thread at a time: what makes the value of it need not be shared.
#[test]
fn a_pending_value_may_be_sent_and_not_shared() {
    assert!(has!(Pending<Vec<f32>>: Send) && has!(Pending<Vec<f32>>: Unpin));
    assert!(!has!(Pending<Vec<f32>>: Sync));
    assert!(has!(Pending<Vec<f32>>: UnwindSafe));
}

/// Elements that must stay on their thread keep their arrays there.
#[test]
fn arrays_of_what_stays_on_its_thread_stay_with_it() {
    assert!(!has!(Buffer<*mut u8>: Send) && !has!(Buffer<*mut u8>: Sync));
    assert!(!has!(View<'static, *mut u8>: Send) && !has!(ViewMut<'static, *mut u8>: Send));
    assert!(!has!(Pinned<*mut u8>: Send) && !has!(Pinned<*mut u8>: Sync));
    assert!(!has!(Managed<*mut u8>: Send) && !has!(Managed<*mut u8>: Sync));
    assert!(!has!(ReadGuard<'static, *mut u8>: Send) && !has!(WriteGuard<'static, *mut u8>: Send));
}
