//! Holds: gates that a test puts into a stream and opens when it likes.

use std::sync::{Arc, Weak};

use millstream_driver::StreamHandle;

use crate::{
    Gpu,
    core::{goal::Goal, gpu::Shared, op::OpKind},
    ids::OpId,
};

/// A gate in a stream: what comes behind it waits until it is released or dropped.
///
/// ```
/// use millstream_driver::{Completion, DeviceOrdinal, Driver};
/// use millstream_sim::{Gpu, SimConfig};
/// let gpu = Gpu::new(SimConfig::new());
/// let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
/// // SAFETY: the context is alive, and the stream is one of it.
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
    world: Weak<Shared>,
    operation: OpId,
}

impl Hold {
    pub(crate) fn new(gpu: &Gpu, stream: StreamHandle) -> Self {
        let mut session = gpu.enter();
        let context = match session.streams.get(&stream) {
            Some(known) => Some(known.context),
            None => session.devices.iter().find_map(|device| device.context),
        };
        let stream = context.and_then(|context| session.stream_even_lost(context, stream).ok());
        let stream = stream.expect("a hold needs a stream that is alive");
        let operation = session.enqueue(stream, OpKind::Hold(None), &Goal::default());
        Self {
            world: Arc::downgrade(&gpu.shared),
            operation,
        }
    }

    /// Opens the gate.
    pub fn release(self) {
        drop(self);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(shared) = self.world.upgrade() {
            let gpu = Gpu { shared };
            let mut session = gpu.enter();
            session.release_hold(self.operation);
            session.run_after_call();
            session.settle();
            drop(session);
            gpu.shared.changed.notify_all();
        }
    }
}
