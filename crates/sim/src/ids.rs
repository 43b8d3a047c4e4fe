//! Handles of simulated objects: never reused, ordered, and tagged with the kind of object.

use std::fmt;

use millstream_driver::{
    ArrayHandle, ContextHandle, EventHandle, FunctionHandle, GraphExecHandle, GraphHandle,
    GraphNodeHandle, ModuleHandle, PoolHandle, StreamHandle, SurfaceHandle, TextureHandle,
};

use crate::ReportKind;

/// The id of an operation. Ids rise in the order of enqueueing, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct OpId(pub(crate) u64);

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}", self.0)
    }
}

/// A handle type. The tag in the upper bits keeps handles of different kinds distinct.
pub(crate) trait Handle: Copy + Ord {
    /// The tag of this kind of handle.
    const TAG: usize;
    /// The name of the object kind in messages.
    const NAME: &'static str;
    fn from_number(raw: usize) -> Self;
    fn number(self) -> usize;
    /// Returns the object's name in messages, such as `event 3`.
    fn name(self) -> String {
        format!("{} {}", Self::NAME, self.number() ^ Self::TAG << TAG_SHIFT)
    }
    /// Returns whether the handle was allocated, given the tag of its kind.
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
                Self::from_raw(raw as _)
            }
            fn number(self) -> usize {
                self.as_raw() as _
            }
            $($($own)*)?
        })*
        const TAGS: usize = [$($tag),*].len() + 1;
    };
}

handles! {
    ContextHandle 1 "context" {
        fn name(self) -> String {
            let (device, number) = (device(self.number()), low(self.number()));
            match number {
                OWN.. => format!("own context {} of device {device}", number ^ OWN),
                _ => format!("the context of device {device}"),
            }
        }
        fn was_allocated(self, handles: &HandleAllocator) -> bool {
            let (device, number) = (device(self.number()), low(self.number()));
            self.number() == handles.of_device::<Self>(device, number)
                && handles.contexts.get(device).is_some_and(|allocated| match number {
                    OWN.. => (1..=allocated.own).contains(&(number ^ OWN)),
                    _ => (1..=allocated.primary).contains(&number),
                })
        }
    };
    StreamHandle 2 "stream" {
        fn name(self) -> String {
            let number = low(self.number());
            let stream = match number {
                LEGACY => "the legacy default stream".to_owned(),
                PER_THREAD.. => format!("per-thread default stream {}", number ^ PER_THREAD),
                OWN_LEGACY.. => format!(
                    "the legacy default stream of own context {}",
                    number ^ OWN_LEGACY
                ),
                BRANCH.. => format!("branch {} of the graphs", number ^ BRANCH),
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
                    OWN_LEGACY.. => {
                        let own = handles.contexts.get(device).map_or(0, |counts| counts.own);
                        (1..=own).contains(&(number ^ OWN_LEGACY))
                    }
                    // No call returns the handle of a branch.
                    BRANCH.. => false,
                    _ => (1..=allocated.created).contains(&number),
                })
        }
    };
    EventHandle 3 "event";
    ModuleHandle 4 "module";
    FunctionHandle 5 "function";
    PoolHandle 6 "pool";
    GraphHandle 7 "graph";
    GraphNodeHandle 8 "graph node";
    GraphExecHandle 9 "executable graph";
    ArrayHandle 10 "CUDA array";
    TextureHandle 11 "texture";
    SurfaceHandle 12 "surface";
}

const TAG_SHIFT: u32 = 40;

/// The flag in handles of contexts and streams that messages name the device, set if there are
/// several devices.
const SEVERAL: usize = 1 << 39;

/// The bit position of the device index in handles of contexts and streams; the object's number is
/// below.
const DEVICE_SHIFT: u32 = 32;

/// The first number of own contexts: those that are not a device's primary context.
const OWN: usize = 1 << 31;

/// The number of the legacy default stream of a primary context.
const LEGACY: usize = 0;

/// The first number of legacy default streams of own contexts, which have their context's number.
const OWN_LEGACY: usize = 1 << 30;

/// The first number of the branches of executable graphs.
const BRANCH: usize = 1 << 29;

/// The first number of per-thread default streams.
const PER_THREAD: usize = 1 << 31;

/// Returns the device index in a handle of a context or stream.
fn device(number: usize) -> usize {
    (number & (SEVERAL - 1)) >> DEVICE_SHIFT
}

/// Returns the object's number in a handle of a context or stream.
fn low(number: usize) -> usize {
    number & ((1 << DEVICE_SHIFT) - 1)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// The legacy default stream of a primary context, with one handle for all primary contexts of
    /// a device.
    Legacy,
    /// The legacy default stream of the device's latest own context.
    OwnLegacy,
    /// The default stream of one thread in a context.
    PerThread,
    /// A stream created by the caller.
    Created,
    /// A branch of an executable graph: nodes in a line, which the race checker orders like a
    /// stream's operations.
    Branch,
}

/// The numbers of contexts allocated on a device.
#[derive(Clone, Copy, Debug, Default)]
struct ContextCounts {
    primary: usize,
    own: usize,
}

/// The numbers of streams allocated on a device.
#[derive(Clone, Copy, Debug, Default)]
struct StreamCounts {
    /// Set once the legacy default stream is allocated.
    legacy: bool,
    per_thread: usize,
    created: usize,
    branches: usize,
}

/// The handle allocator. Handles are numbered for each kind of object; contexts and streams also
/// for each device.
#[derive(Debug)]
pub(crate) struct HandleAllocator {
    /// The number of handles allocated for each tag.
    allocated: [usize; TAGS],
    /// The numbers of contexts allocated on each device.
    contexts: Vec<ContextCounts>,
    /// The numbers of streams allocated on each device.
    streams: Vec<StreamCounts>,
}

impl HandleAllocator {
    pub(crate) fn new(devices: u32) -> Self {
        Self {
            allocated: [0; TAGS],
            contexts: vec![ContextCounts::default(); devices as usize],
            streams: vec![StreamCounts::default(); devices as usize],
        }
    }

    /// Returns whether the simulation has several devices, so that messages must name them.
    pub(crate) fn has_several_devices(&self) -> bool {
        self.streams.len() > 1
    }

    pub(crate) fn next<H: Handle>(&mut self) -> H {
        self.allocated[H::TAG] += 1;
        H::from_number(H::TAG << TAG_SHIFT | self.allocated[H::TAG])
    }

    /// Allocates a handle for a device's primary context.
    pub(crate) fn next_context(&mut self, device: u32) -> ContextHandle {
        let allocated = &mut self.contexts[device as usize].primary;
        *allocated += 1;
        let number = *allocated;
        Handle::from_number(self.of_device::<ContextHandle>(device as usize, number))
    }

    /// Allocates a handle for a context of a device that is not its primary context.
    pub(crate) fn next_own_context(&mut self, device: u32) -> ContextHandle {
        let allocated = &mut self.contexts[device as usize].own;
        *allocated += 1;
        let number = OWN | *allocated;
        Handle::from_number(self.of_device::<ContextHandle>(device as usize, number))
    }

    /// Allocates a handle for a stream of a device; the legacy default stream of primary contexts
    /// always has the same one.
    pub(crate) fn next_stream(&mut self, device: u32, kind: StreamKind) -> StreamHandle {
        let own_contexts = self.contexts[device as usize].own;
        let allocated = &mut self.streams[device as usize];
        let number = match kind {
            StreamKind::Legacy => {
                allocated.legacy = true;
                LEGACY
            }
            StreamKind::OwnLegacy => OWN_LEGACY | own_contexts,
            StreamKind::PerThread => {
                allocated.per_thread += 1;
                PER_THREAD | allocated.per_thread
            }
            StreamKind::Created => {
                allocated.created += 1;
                allocated.created
            }
            StreamKind::Branch => {
                allocated.branches += 1;
                BRANCH | allocated.branches
            }
        };
        Handle::from_number(self.of_device::<StreamHandle>(device as usize, number))
    }

    /// Composes the number of a context or stream handle.
    fn of_device<H: Handle>(&self, device: usize, number: usize) -> usize {
        let several = if self.has_several_devices() {
            SEVERAL
        } else {
            0
        };
        H::TAG << TAG_SHIFT | several | device << DEVICE_SHIFT | number
    }

    /// Explains an invalid handle: its object was destroyed, or the handle was never allocated.
    pub(crate) fn explain<H: Handle>(&self, handle: H) -> (ReportKind, String) {
        let (kind, number) = (H::NAME, handle.number());
        if handle.was_allocated(self) {
            (
                ReportKind::DeadHandle,
                format!(
                    "{} ({number:#x}) was used after it was destroyed or unloaded",
                    handle.name()
                ),
            )
        } else {
            (
                ReportKind::UnknownHandle,
                format!("{number:#x} is not a {kind} handle that this driver returned"),
            )
        }
    }
}

/// Returns the object's name in messages, such as `stream 3`.
pub(crate) fn name<H: Handle>(handle: H) -> String {
    handle.name()
}

pub(crate) fn device_if_several(stream: StreamHandle) -> Option<u32> {
    let number = stream.as_raw();
    (number & SEVERAL != 0).then_some(device(number) as u32)
}

/// Returns a stream's number in messages; `None` for default streams.
pub(crate) fn stream_number(stream: StreamHandle) -> Option<u64> {
    let number = low(stream.as_raw());
    let created =
        stream.as_raw() >> TAG_SHIFT == StreamHandle::TAG && (1..BRANCH).contains(&number);
    created.then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_contexts_and_their_legacy_streams_have_names_of_their_own() {
        let mut handles = HandleAllocator::new(1);
        let primary = handles.next_context(0);
        let own = handles.next_own_context(0);
        assert_eq!(name(primary), "the context of device 0");
        assert_eq!(name(own), "own context 1 of device 0");
        let legacy = handles.next_stream(0, StreamKind::OwnLegacy);
        assert_eq!(name(legacy), "the legacy default stream of own context 1");
        assert_eq!(stream_number(legacy), None);
        assert_eq!(handles.explain(own).0, ReportKind::DeadHandle);
        assert_eq!(handles.explain(legacy).0, ReportKind::DeadHandle);
        let next = ContextHandle::from_raw(own.as_raw() + 1);
        assert_eq!(handles.explain(next).0, ReportKind::UnknownHandle);
    }

    #[test]
    fn an_invalid_handle_is_dead_unknown_or_of_another_kind() {
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
