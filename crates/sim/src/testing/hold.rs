//! Holds: tests enqueue them to block a stream, and release them later.

use std::sync::{Arc, Weak};

use millstream_driver::StreamHandle;

use crate::{
    Gpu,
    core::{gpu::GpuInner, objects::stream::WaitSet, op::OpKind},
    ids::OpId,
};

/// A hold on a stream: later work of the stream waits until the hold is released or dropped.
///
/// ```
/// use millstream_driver::{Completion, DeviceOrdinal, Driver};
/// use millstream_sim::{Gpu, SimConfig};
/// let gpu = Gpu::new(SimConfig::new());
/// let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
/// // SAFETY: the context is alive, and the stream belongs to it.
/// unsafe {
///     let stream = gpu.stream_create(context, true, 0).unwrap();
///     let hold = gpu.hold(stream);
///     assert_eq!(gpu.stream_query(context, stream).unwrap(), Completion::Pending);
///     hold.release();
///     gpu.stream_synchronize(context, stream).unwrap();
/// }
/// ```
#[derive(Debug)]
#[must_use = "dropping a hold releases it"]
pub struct Hold {
    gpu: Weak<GpuInner>,
    operation: OpId,
}

impl Hold {
    /// Enqueues a hold. Panics if the stream is not alive.
    pub(crate) fn new(gpu: &Gpu, stream: StreamHandle) -> Self {
        let mut state = gpu.enter();
        let context = match state.streams.get(&stream) {
            Some(known) => Some(known.context),
            None => state.devices.iter().find_map(|device| device.context),
        };
        let resolved = context.and_then(|context| state.stream_even_lost(context, stream).ok());
        let stream = resolved.unwrap_or_else(|| {
            panic!("cannot hold {stream:?}: the stream is not alive; create it first")
        });
        let operation = state.enqueue(stream, OpKind::Hold(None), &WaitSet::default());
        Self {
            gpu: Arc::downgrade(&gpu.inner),
            operation,
        }
    }

    /// Releases the hold.
    pub fn release(self) {
        drop(self);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(inner) = self.gpu.upgrade() {
            let gpu = Gpu { inner };
            let mut state = gpu.enter();
            state.release_hold(self.operation);
            state.run_after_call();
            state.settle();
            drop(state);
            gpu.inner.changed.notify_all();
        }
    }
}
