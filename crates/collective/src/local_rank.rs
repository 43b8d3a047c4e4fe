//! The ranks of this process, and the collective stream of each device.

use std::{
    fmt,
    panic::Location,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use millstream::{Device, Result, Stream, groups};

pub(super) struct LocalRank {
    pub(super) rank: usize,
    /// The stream that all groups of the device share, with the highest priority.
    pub(super) stream: Arc<Stream>,
}

/// The collective stream of a device, while a group uses it.
#[derive(Default)]
struct SharedStream(Mutex<Weak<Stream>>);

impl LocalRank {
    /// Creates a rank on the device, with the device's collective stream.
    pub(super) fn new(
        rank: usize,
        device: &Device,
        location: &'static Location<'static>,
    ) -> Result<Self> {
        let slot = device.slot(SharedStream::default);
        let mut shared = slot.0.lock();
        groups::check_alive(device)?;
        let stream = match shared.upgrade() {
            Some(stream) => stream,
            None => {
                let stream = Arc::new(groups::stream(device, "collectives", location)?);
                *shared = Arc::downgrade(&stream);
                stream
            }
        };
        Ok(Self { rank, stream })
    }

    pub(super) fn device(&self) -> Device {
        self.stream.device()
    }
}

impl fmt::Debug for LocalRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.rank, self.device())
    }
}
