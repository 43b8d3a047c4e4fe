//! Keeping something alive until an operation is done, for nobody in particular.

use std::{
    any::Any,
    sync::Arc,
    task::{Wake, Waker},
};

use parking_lot::Mutex;

use super::reactor::{Wish, register};
use crate::device::{DeviceState, StreamState};

/// Drops its content when it is woken, on the reactor's thread.
struct Keep(Mutex<Option<Box<dyn Any + Send>>>);

impl Wake for Keep {
    fn wake(self: Arc<Self>) {
        // Dropped outside the lock: what is kept may be a user's, with a destructor of its own.
        let kept = self.0.lock().take();
        drop(kept);
    }
}

/// Keeps `kept` until the stream's ticket `sequence`, which is submitted, is done or the device is lost. The device
/// stays open as long.
pub(crate) fn keep_until_done(
    device: &Arc<DeviceState>,
    stream: &Arc<StreamState>,
    sequence: u64,
    kept: impl Any + Send,
) {
    let keep = Keep(Mutex::new(Some(Box::new(kept))));
    let registered = register(Wish {
        device: Arc::clone(device),
        stream: Arc::clone(stream),
        sequence,
        waker: Arc::new(Mutex::new(Some(Waker::from(Arc::new(keep))))),
        to_the_end: true,
    });
    // Without a reactor nobody can tell when, so it is kept for ever.
    if let Err(wish) = registered {
        std::mem::forget(wish);
    }
}
