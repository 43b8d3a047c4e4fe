//! A driver that records every call and forwards it to another driver, and can make calls fail.

#![allow(unsafe_code, reason = "forwards unsafe calls under the same contract")]

use std::{collections::BTreeMap, fmt, sync::Arc, thread, time::Duration};

use millstream_driver::*;
use parking_lot::Mutex;

type Result<T> = std::result::Result<T, DriverError>;

/// The way in which a call fails.
pub enum Failure {
    /// The call is not forwarded.
    Instead(DriverError),
    /// The call is forwarded and its result discarded: the driver fails after it has done the work.
    Afterwards(DriverError),
}

/// A function from a call's name to its failure, if the call is to fail.
type Fault = Arc<dyn Fn(&'static str) -> Option<Failure> + Send + Sync>;

/// A wrapper of another driver that records the names of the calls made to it.
pub struct Calls {
    inner: Arc<dyn Driver>,
    made: Mutex<Vec<&'static str>>,
    fault: Mutex<Option<Fault>>,
    /// The number of calls that named a default stream.
    legacy: Mutex<usize>,
}

impl Calls {
    pub fn over(inner: Arc<dyn Driver>) -> Self {
        Self {
            inner,
            made: Mutex::default(),
            fault: Mutex::default(),
            legacy: Mutex::default(),
        }
    }

    /// Makes every later call fail for which `fault` returns an error. A failing call is neither
    /// forwarded nor recorded.
    pub fn fail(
        &self,
        fault: impl Fn(&'static str) -> Option<DriverError> + Send + Sync + 'static,
    ) {
        self.fail_so(move |call| fault(call).map(Failure::Instead));
    }

    /// As [`fail`](Self::fail), with the way in which each call fails.
    pub fn fail_so(&self, fault: impl Fn(&'static str) -> Option<Failure> + Send + Sync + 'static) {
        *self.fault.lock() = Some(Arc::new(fault));
    }

    /// Stops injecting failures.
    pub fn fail_no_more(&self) {
        *self.fault.lock() = None;
    }

    /// Forwards the call and records it, unless it is to fail.
    fn make<T>(&self, call: &'static str, pass_on: impl FnOnce() -> Result<T>) -> Result<T> {
        let fault = self.fault.lock().clone();
        let failure = fault.and_then(|fault| fault(call));
        if let Some(Failure::Instead(error)) = failure {
            return Err(error);
        }
        self.made.lock().push(call);
        let answer = pass_on();
        match failure {
            Some(Failure::Afterwards(error)) => Err(error),
            _ => answer,
        }
    }

    /// Gives `fault` the chance to panic in a call that cannot fail and is not recorded.
    fn may_panic(&self, call: &'static str) {
        let fault = self.fault.lock().clone();
        if let Some(fault) = fault {
            drop(fault(call));
        }
    }

    pub fn forget(&self) {
        self.made.lock().clear();
    }

    /// As [`forget`](Self::forget), once no other thread makes calls any more, such as one that
    /// polls for an operation that is just complete.
    pub fn forget_once_quiet(&self) {
        loop {
            self.forget();
            thread::sleep(Duration::from_millis(2));
            if self.counts().is_empty() {
                return;
            }
        }
    }

    /// Returns the number of calls of each name since the last [`forget`](Self::forget).
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for &call in &*self.made.lock() {
            *counts.entry(call).or_default() += 1;
        }
        counts
    }

    /// Returns the number of calls that named the legacy or the per-thread default stream.
    pub fn legacy(&self) -> usize {
        *self.legacy.lock()
    }

    fn look_at(&self, stream: Option<StreamHandle>) {
        let defaults = [
            StreamHandle::LEGACY,
            StreamHandle::PER_THREAD,
            StreamHandle::from_raw(0),
        ];
        if stream.is_some_and(|stream| defaults.contains(&stream)) {
            *self.legacy.lock() += 1;
        }
    }

    #[track_caller]
    pub fn assert_none(&self) {
        let counts = self.counts();
        assert!(counts.is_empty(), "something was enqueued: {counts:?}");
    }

    /// Returns the number of calls of this name since the last [`forget`](Self::forget).
    pub fn count(&self, call: &str) -> usize {
        self.made
            .lock()
            .iter()
            .filter(|&&made| made == call)
            .count()
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calls over {:?}", self.inner)
    }
}

/// An argument of a driver call that is a stream.
trait IsStream {
    fn as_stream(&self) -> Option<StreamHandle>;
}

impl IsStream for StreamHandle {
    fn as_stream(&self) -> Option<StreamHandle> {
        Some(*self)
    }
}

/// Any other argument. Method resolution finds it only where [`IsStream`] is not implemented,
/// because its receiver has one more reference.
trait IsNoStream {
    fn as_stream(&self) -> Option<StreamHandle> {
        None
    }
}

impl<T> IsNoStream for &T {}

/// Generates a method that records and forwards a call.
macro_rules! pass_on {
    (safe $name:ident($($arg:ident: $type:ty),*) -> $value:ty) => {
        fn $name(&self, $($arg: $type),*) -> Result<$value> {
            self.make(stringify!($name), || self.inner.$name($($arg),*))
        }
    };
    (unsafe $name:ident($($arg:ident: $type:ty),*) -> $value:ty) => {
        unsafe fn $name(&self, $($arg: $type),*) -> Result<$value> {
            $(self.look_at((&$arg).as_stream());)*
            self.make(stringify!($name), || {
                // SAFETY: the caller upholds the contract of the same function of the inner driver.
                unsafe { self.inner.$name($($arg),*) }
            })
        }
    };
}

/// Implements [`Driver`] from the table of its methods.
macro_rules! implement {
    ($($(#[$doc:meta])* [$kind:ident $class:ident $(($stream:ident))? $($optional:ident)?]
       fn $name:ident($($arg:ident: $type:ty),*) -> $value:ty = $function:ident $call:tt;)*) => {
        impl Driver for Calls {
            fn name(&self) -> String {
                format!("{}, counted", self.inner.name())
            }

            fn handle_space(&self) -> usize {
                self.inner.handle_space()
            }

            fn is_simulated(&self) -> bool {
                self.inner.is_simulated()
            }

            fn now_ns(&self) -> u64 {
                self.may_panic("now_ns");
                self.inner.now_ns()
            }

            fn stream_number(&self, stream: StreamHandle) -> Option<u64> {
                self.inner.stream_number(stream)
            }

            fn note_host_access(&self, access: &HostAccess) {
                self.inner.note_host_access(access);
            }

            fn note_float_operands(&self, function: FunctionHandle, operands: &[FloatOperand]) {
                self.inner.note_float_operands(function, operands);
            }

            fn note_memory_reuse(&self, reuse: &MemoryReuse) {
                self.inner.note_memory_reuse(reuse);
            }

            fn pause(&self, duration: Duration) {
                self.may_panic("pause");
                self.inner.pause(duration);
            }

            $(pass_on!($kind $name($($arg: $type),*) -> $value);)*
        }
    };
}

driver_methods!(implement);
