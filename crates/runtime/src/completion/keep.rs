//! Values that are kept until an operation is done, with no future to hold them.

use std::{any::Any, mem, sync::Arc};

use super::reactor::{Action, Registration, register};
use crate::device::{DeviceState, StreamState};

/// Keeps a value of this library's own until the stream's ticket `sequence`, which is submitted, is done or the device is
/// lost. The device stays open as long. The value is dropped on the reactor's thread: its drop runs no user code.
pub(crate) fn keep_until_done(
    device: &Arc<DeviceState>,
    stream: &Arc<StreamState>,
    sequence: u64,
    kept: impl Any + Send,
) {
    let registered = register(Registration {
        device: Arc::clone(device),
        stream: Arc::clone(stream),
        sequence,
        action: Action::Drop(Box::new(kept)),
    });
    // Without a reactor no thread polls for the end, so the value is kept for ever.
    if let Err(registration) = registered {
        mem::forget(registration);
    }
}
