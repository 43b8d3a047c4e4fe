//! Programs as data: steps over the whole safe interface. `interpreter.rs` executes them, and
//! `oracle` computes the expected results.
//!
//! Streams, arrays, pending values and events have numbered slots. A step that names an empty slot
//! is skipped, so every sublist of a program's steps is a program.

use std::fmt;

use millstream::sim::Links;

use super::elem::Elem;

pub(crate) const STREAMS: usize = 4;
pub(crate) const ARRAYS: usize = 6;
pub(crate) const PENDINGS: usize = 6;
pub(crate) const EVENTS: usize = 3;
/// The number of host threads that execute steps, one at a time in program order.
pub(crate) const THREADS: usize = 3;

/// A program: its steps, and the devices it needs.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) devices: usize,
    /// The links between the devices.
    pub(crate) links: Links,
    /// The memory of each device in bytes, if it is scarce.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) steps: Vec<Placed>,
}

/// A step and the index of the thread that executes it.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) thread: usize,
    pub(crate) step: Step,
}

/// The stream of a step, and the type of its elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct On {
    pub(crate) stream: usize,
    pub(crate) elem: Elem,
}

/// The stream of a kernel. With `peer`, it takes its operands as views for the stream's device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct By {
    pub(crate) stream: usize,
    pub(crate) peer: bool,
}

/// A range of an array, in elements of the step's type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) array: usize,
    pub(crate) first: usize,
    pub(crate) len: usize,
    pub(crate) via: Via,
}

impl Part {
    /// Returns the range of all `len` bytes of an array.
    pub(crate) fn whole(array: usize, len: usize) -> Self {
        let via = Via::Slice;
        Self {
            array,
            first: 0,
            len,
            via,
        }
    }
}

/// The method by which a range's view is obtained.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Via {
    Slice,
    Split,
    Chunks,
}

/// A rectangle of an array that is viewed as a table with rows of `pitch` elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rect {
    pub(crate) array: usize,
    pub(crate) pitch: usize,
    /// The row and column of its first element.
    pub(crate) first: [usize; 2],
    /// The numbers of rows and columns.
    pub(crate) size: [usize; 2],
}

/// The origin of a device array's contents.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Made {
    Zeros,
    Upload(u32),
    Owned(Owner, u32),
}

/// The owner of an owned upload's source.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    Vec,
    Box,
    Arc,
    ArcVec,
    Bytes,
}

/// The origin of a pinned array's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pages {
    Zeros,
    Captured(u32),
    Registered(u32),
}

/// The method by which a pending value is consumed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Settle {
    Wait,
    Await,
    Try,
    /// Polls once, and drops the value if it is not ready.
    PollAndDrop,
    /// Polls once, and keeps the value if it is not ready.
    Poll,
    Drop,
    Forget,
}

/// The method by which the host acquires a guard.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach {
    Wait,
    Await,
    /// Polls the guard's future once, then drops it with or without a guard.
    PollOnce,
}

/// A guard of the host, which it may leak.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Guard {
    pub(crate) reach: Reach,
    pub(crate) forget: bool,
}

/// An operation of the host on an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    Wait,
    Ask,
    Since(usize),
    Drop,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamOf {
    New,
    Priority,
    /// The stream of the calling thread.
    Thread,
}

/// The way in which a scope's body ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScopeEnd {
    Value,
    Error,
    Panic,
}

/// A copy within a scope: an upload of a value, or a download.
#[derive(Clone, Debug)]
pub(crate) struct ScopeCopy {
    pub(crate) stream: usize,
    pub(crate) part: Part,
    pub(crate) upload: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum TimelineStep {
    /// Starts a timeline on this device, in place of the running one.
    Start(usize),
    Finish,
    Drop,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Creates a stream; replaces the one in the slot, which may have pending work.
    Stream {
        stream: usize,
        device: usize,
        of: StreamOf,
    },
    DropStream(usize),
    /// Creates an array on the stream's device; replaces the one in the slot.
    Make {
        at: usize,
        on: On,
        len: usize,
        made: Made,
    },
    MakePinned {
        array: usize,
        device: usize,
        len: usize,
        pages: Pages,
    },
    MakeManaged {
        array: usize,
        device: usize,
        len: usize,
    },
    Drop(usize),
    Forget(usize),
    /// Converts a pinned array into a vector.
    IntoVec(usize),
    Fill {
        on: On,
        to: Part,
        value: u32,
    },
    UploadInto {
        on: On,
        to: Part,
        value: u32,
    },
    /// Uploads an owned source, which a pending value returns.
    OwnedInto {
        on: On,
        to: Part,
        from: (Owner, u32),
        back: usize,
    },
    Copy {
        on: On,
        from: Part,
        to: Part,
    },
    CopyWithin {
        on: On,
        from: Part,
        start: usize,
    },
    FillRows {
        on: On,
        to: Rect,
        value: u32,
    },
    UploadRows {
        on: On,
        to: Rect,
        gap: usize,
        value: u32,
    },
    CopyRows {
        on: On,
        from: Rect,
        to: Rect,
    },
    DownloadRows {
        on: On,
        from: Rect,
        pending: usize,
    },
    Download {
        on: On,
        from: Part,
        pending: usize,
    },
    /// Adds two ranges, which may be the same, as floats.
    Add {
        by: By,
        terms: [Part; 2],
        sum: Part,
    },
    /// Adds a range times a factor to another, in place, as floats.
    Saxpy {
        by: By,
        factor: i8,
        x: Part,
        y: Part,
    },
    /// Computes the brightness of pixels.
    Luminance {
        by: By,
        pixels: Part,
        luma: Part,
    },
    /// Fills a whole array twice on one stream; the second fill opts out of waiting.
    Unordered {
        stream: usize,
        array: usize,
        value: u32,
    },
    /// Writes both parts of an array concurrently, from two threads on two streams.
    Halves {
        array: usize,
        middle: usize,
        streams: [usize; 2],
        value: u32,
    },
    Settle {
        pending: usize,
        how: Settle,
    },
    /// Reads bytes of a pinned or managed array; a copy from the array may be enqueued while the
    /// guard is alive.
    ReadGuard {
        part: Part,
        how: Guard,
        copy: Option<(usize, Part)>,
    },
    WriteGuard {
        part: Part,
        how: Guard,
        value: u32,
    },
    Prefetch {
        stream: usize,
        part: Part,
        to_host: bool,
    },
    Advise {
        array: usize,
        advice: u8,
    },
    Record {
        stream: usize,
        event: usize,
    },
    WaitFor {
        stream: usize,
        event: usize,
    },
    Look {
        event: usize,
        how: Look,
    },
    Synchronize(usize),
    IsIdle(usize),
    Scope {
        device: usize,
        copies: Vec<ScopeCopy>,
        end: ScopeEnd,
    },
    Timeline(TimelineStep),
    /// Opens the device again and drops the previous handle.
    OpenAgain(usize),
    Trim(usize),
    /// Sets the memory limit of the device, in bytes.
    Limit {
        device: usize,
        bytes: Option<u64>,
    },
    StagingLimit {
        device: usize,
        bytes: u64,
    },
    CacheLimit {
        device: usize,
        bytes: u64,
    },
    /// Closes a gate on a stream and opens the one that is closed.
    Close(usize),
    /// Opens the closed gate.
    Open,
    /// Runs two lists concurrently on two threads: the first with the arrays and pending values in
    /// even slots, the second with those in odd slots.
    Apart([Vec<Step>; 2]),
}

impl Step {
    /// Returns whether the host may wait for the device in this step; a closed gate is opened
    /// before it.
    pub(crate) fn may_wait(&self) -> bool {
        match self {
            Self::Settle { how, .. } => matches!(how, Settle::Wait | Settle::Await),
            Self::ReadGuard { how, .. } | Self::WriteGuard { how, .. } => {
                !matches!(how.reach, Reach::PollOnce)
            }
            Self::Look { how, .. } => matches!(how, Look::Wait | Look::Since(_)),
            Self::IntoVec(_)
            | Self::Halves { .. }
            | Self::Synchronize(_)
            | Self::Scope { .. }
            | Self::Timeline(TimelineStep::Finish)
            | Self::Apart(_) => true,
            _ => false,
        }
    }

    /// Returns whether the step leaks an object that keeps its device open.
    pub(crate) fn leaks(&self) -> bool {
        match self {
            Self::Forget(_)
            | Self::Settle {
                how: Settle::Forget,
                ..
            } => true,
            Self::Apart(lists) => lists.iter().flatten().any(Self::leaks),
            _ => false,
        }
    }

    pub(crate) fn launches(&self) -> bool {
        match self {
            Self::Add { .. } | Self::Saxpy { .. } | Self::Luminance { .. } => true,
            Self::Apart(lists) => lists.iter().flatten().any(Self::launches),
            _ => false,
        }
    }
}

impl Program {
    /// Returns whether the memory of a device is limited.
    pub(crate) fn is_scarce(&self) -> bool {
        let limits = |step: &Step| matches!(step, Step::Limit { bytes: Some(_), .. });
        self.memory_bytes.is_some() || self.steps.iter().any(|placed| limits(&placed.step))
    }

    pub(crate) fn leaks(&self) -> bool {
        self.steps.iter().any(|placed| placed.step.leaks())
    }

    pub(crate) fn launches(&self) -> bool {
        self.steps.iter().any(|placed| placed.step.launches())
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} device(s)", self.devices)?;
        if self.devices > 1 {
            write!(f, " linked by {}", self.links)?;
        }
        if let Some(bytes) = self.memory_bytes {
            write!(f, " of {bytes} bytes")?;
        }
        for (number, Placed { thread, step }) in self.steps.iter().enumerate() {
            write!(f, "\n  {number:3} thread {thread}: ")?;
            match step {
                Step::Apart(lists) => {
                    f.write_str("apart")?;
                    for (list, steps) in lists.iter().enumerate() {
                        for step in steps {
                            write!(f, "\n        list {list}: {step:?}")?;
                        }
                    }
                }
                step => write!(f, "{step:?}")?,
            }
        }
        Ok(())
    }
}
