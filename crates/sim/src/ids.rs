//! Numbers of the simulated objects: never reused, ordered, and telling what they number.

use std::fmt;

use millstream_driver::{
    ContextHandle, EventHandle, FunctionHandle, ModuleHandle, PoolHandle, StreamHandle,
};

use crate::ReportKind;

/// An operation of some stream. Numbers rise in the order of enqueueing, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct OpId(pub(crate) u64);

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}", self.0)
    }
}

/// A handle type: the tag in the upper bits makes a handle of one kind never equal to one of
/// another.
pub(crate) trait Handle: Copy + Ord {
    /// Tells this kind of handle from the others.
    const TAG: usize;
    /// What people call the object.
    const NAME: &'static str;
    /// The handle with this number.
    fn from_number(raw: usize) -> Self;
    /// The handle's number.
    fn number(self) -> usize;
    /// The object in texts: `event 3`.
    fn name(self) -> String {
        format!("{} {}", Self::NAME, self.number() ^ Self::TAG << TAG_SHIFT)
    }
    /// Whether a handle with the tag of its kind was given out.
    fn was_allocated(self, handles: &HandleAllocator) -> bool {
        let index = self.number() ^ Self::TAG << TAG_SHIFT;
        (1..=handles.allocated[Self::TAG]).contains(&index)
    }
}

macro_rules! handles {
    ($($name:ident $tag:literal $text:literal $({ $($own:tt)* })?;)*) => {
        $(impl Handle for $name {
            const TAG: usize = $tag;
            const NAME: &'static str = $text;
            fn from_number(raw: usize) -> Self {
                Self::from_raw(raw)
            }
            fn number(self) -> usize {
                self.as_raw()
            }
            $($($own)*)?
        })*
        const TAGS: usize = [$($tag),*].len() + 1;
    };
}

handles! {
    ContextHandle 1 "context" {
        fn name(self) -> String {
            format!("the context of device {}", device(self.number()))
        }
        fn was_allocated(self, handles: &HandleAllocator) -> bool {
            let number = low(self.number());
            self.number() == handles.of_device::<Self>(device(self.number()), number) &&
                handles.contexts.get(device(self.number())).is_some_and(|allocated| (1..=*allocated).contains(&number))
        }
    };
    StreamHandle 2 "stream" {
        fn name(self) -> String {
            let number = low(self.number());
            let stream = match number {
                LEGACY => "the legacy default stream".to_owned(),
                PER_THREAD.. => format!("per-thread default stream {}", number ^ PER_THREAD),
                _ => format!("stream {number}"),
            };
            if self.number() & SEVERAL == 0 {
                stream
            } else {
                format!("{stream} of device {}", device(self.number()))
            }
        }
        fn was_allocated(self, handles: &HandleAllocator) -> bool {
            let (device, number) = (device(self.number()), low(self.number()));
            self.number() == handles.of_device::<Self>(device, number)
                && handles.streams.get(device).is_some_and(|allocated| match number {
                    LEGACY => allocated.legacy,
                    PER_THREAD.. => (1..=allocated.per_thread).contains(&(number ^ PER_THREAD)),
                    _ => (1..=allocated.created).contains(&number),
                })
        }
    };
    EventHandle 3 "event";
    ModuleHandle 4 "module";
    FunctionHandle 5 "function";
    PoolHandle 6 "pool";
}

const TAG_SHIFT: u32 = 40;

/// Set in the handles of contexts and streams if there are several devices, for texts to name them.
const SEVERAL: usize = 1 << 39;

/// Position of the device's number in handles of contexts and streams; their own number is below.
const DEVICE_SHIFT: u32 = 32;

/// The number of a legacy default stream.
const LEGACY: usize = 0;

/// The first number of per-thread default streams.
const PER_THREAD: usize = 1 << 31;

/// The device in a handle of a context or a stream.
fn device(number: usize) -> usize {
    (number & (SEVERAL - 1)) >> DEVICE_SHIFT
}

/// A context's or stream's own number in its handle.
fn low(number: usize) -> usize {
    number & ((1 << DEVICE_SHIFT) - 1)
}

/// Kinds of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// The legacy default stream, with one handle for all contexts of a device.
    Legacy,
    PerThread,
    /// A stream that the caller creates.
    Created,
}

/// Counts of the streams that a device has had.
#[derive(Clone, Copy, Debug, Default)]
struct StreamCounts {
    legacy: bool,
    per_thread: usize,
    created: usize,
}

/// Handle allocator: handles are numbered for each kind; those of contexts and streams for each
/// device.
#[derive(Debug)]
pub(crate) struct HandleAllocator {
    allocated: [usize; TAGS],
    contexts: Vec<usize>,
    streams: Vec<StreamCounts>,
}

impl HandleAllocator {
    /// An allocator for a number of devices.
    pub(crate) fn new(devices: u32) -> Self {
        Self {
            allocated: [0; TAGS],
            contexts: vec![0; devices as usize],
            streams: vec![StreamCounts::default(); devices as usize],
        }
    }

    /// Whether texts have to name devices.
    pub(crate) fn has_several_devices(&self) -> bool {
        self.streams.len() > 1
    }

    /// A handle that was never given before.
    pub(crate) fn next<H: Handle>(&mut self) -> H {
        self.allocated[H::TAG] += 1;
        H::from_number(H::TAG << TAG_SHIFT | self.allocated[H::TAG])
    }

    /// A new handle for a context of a device.
    pub(crate) fn next_context(&mut self, device: u32) -> ContextHandle {
        let allocated = &mut self.contexts[device as usize];
        *allocated += 1;
        let number = *allocated;
        Handle::from_number(self.of_device::<ContextHandle>(device as usize, number))
    }

    /// A new handle for a stream of a device; the legacy default stream always has the same.
    pub(crate) fn next_stream(&mut self, device: u32, kind: StreamKind) -> StreamHandle {
        let allocated = &mut self.streams[device as usize];
        let number = match kind {
            StreamKind::Legacy => {
                allocated.legacy = true;
                LEGACY
            }
            StreamKind::PerThread => {
                allocated.per_thread += 1;
                PER_THREAD | allocated.per_thread
            }
            StreamKind::Created => {
                allocated.created += 1;
                allocated.created
            }
        };
        Handle::from_number(self.of_device::<StreamHandle>(device as usize, number))
    }

    fn of_device<H: Handle>(&self, device: usize, number: usize) -> usize {
        let several = if self.has_several_devices() {
            SEVERAL
        } else {
            0
        };
        H::TAG << TAG_SHIFT | several | device << DEVICE_SHIFT | number
    }

    /// Why a handle names nothing that lives: it did once, or it never did.
    pub(crate) fn explain<H: Handle>(&self, handle: H) -> (ReportKind, String) {
        let (kind, number) = (H::NAME, handle.number());
        if handle.was_allocated(self) {
            (
                ReportKind::DeadHandle,
                format!(
                    "{} ({number:#x}) is used after it was given up",
                    handle.name()
                ),
            )
        } else {
            (
                ReportKind::UnknownHandle,
                format!("{number:#x} is no {kind} that this driver gave out"),
            )
        }
    }
}

/// The object's name in texts: `stream 3`.
pub(crate) fn name<H: Handle>(handle: H) -> String {
    handle.name()
}

/// A stream's device, if there are several.
pub(crate) fn device_if_several(stream: StreamHandle) -> Option<u32> {
    let number = stream.as_raw();
    (number & SEVERAL != 0).then_some(device(number) as u32)
}

/// A stream's number in texts; `None` for default streams.
pub(crate) fn stream_number(stream: StreamHandle) -> Option<u64> {
    let number = low(stream.as_raw());
    let created =
        stream.as_raw() >> TAG_SHIFT == StreamHandle::TAG && (1..PER_THREAD).contains(&number);
    created.then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_known_dead_unknown_or_of_another_kind() {
        let mut handles = HandleAllocator::new(1);
        let stream = handles.next_stream(0, StreamKind::Created);
        assert_eq!(name(stream), "stream 1");
        assert_eq!(handles.explain(stream).0, ReportKind::DeadHandle);
        let forged = StreamHandle::from_raw(stream.as_raw() + 1);
        assert_eq!(handles.explain(forged).0, ReportKind::UnknownHandle);
        let event = EventHandle::from_raw(stream.as_raw());
        assert_eq!(handles.explain(event).0, ReportKind::UnknownHandle);
    }
}
