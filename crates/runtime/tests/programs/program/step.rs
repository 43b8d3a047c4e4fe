//! Programs as data: steps over the whole safe interface. `interpreter.rs` carries them out,
//! `oracle.rs` says what must come of them.
//!
//! Streams, arrays, pending values and events have numbered places. A step that names an empty
//! place does nothing, so every part of a program is a program.

use std::fmt;

use super::elem::Elem;

/// How many places there are of each kind.
pub(crate) const STREAMS: usize = 4;
pub(crate) const ARRAYS: usize = 6;
pub(crate) const PENDINGS: usize = 6;
pub(crate) const EVENTS: usize = 3;
/// The host's threads that carry out steps, one after another in the program's order.
pub(crate) const THREADS: usize = 3;

/// What a program needs besides its steps.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) devices: usize,
    /// Memory of each device, in bytes, if it is scarce.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) steps: Vec<Placed>,
}

/// A step and the thread that carries it out.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) thread: usize,
    pub(crate) step: Step,
}

/// Elements of an array, counted in the step's type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) array: usize,
    pub(crate) first: usize,
    pub(crate) len: usize,
    pub(crate) via: Via,
}

impl Part {
    /// All bytes of an array of so many.
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

/// How a view of a part is had.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Via {
    Slice,
    Split,
    Chunks,
}

/// A rectangle of an array that is taken as a table with rows of `pitch` elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rect {
    pub(crate) array: usize,
    pub(crate) pitch: usize,
    /// Row and column of its first element.
    pub(crate) first: [usize; 2],
    /// Rows and columns.
    pub(crate) size: [usize; 2],
}

/// How an array on the device comes to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Made {
    Zeros,
    Upload(u32),
    Owned(Owner, u32),
}

/// What owns the memory that an upload takes over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner {
    Vec,
    Box,
    Arc,
    ArcVec,
    Bytes,
}

/// Where a pinned array comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pages {
    Zeros,
    Captured(u32),
    Registered(u32),
}

/// What is done with a pending value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Settle {
    Wait,
    Await,
    Try,
    /// Polled once, and dropped if it is not there.
    PollAndDrop,
    /// Polled once, and kept.
    Poll,
    Drop,
    Forget,
}

/// How the host comes to a guard.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach {
    Wait,
    Await,
    /// Its future is polled once, and dropped with or without a guard.
    PollOnce,
}

/// How the host looks at an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    Wait,
    Ask,
    Since(usize),
    Drop,
}

/// How a stream is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StreamOf {
    New,
    Priority,
    /// The one of the thread that makes it.
    Thread,
}

/// How a scope's body ends.
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

/// What happens to a timeline.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TimelineStep {
    /// On this device; in place of the one that runs.
    Start(usize),
    Finish,
    Drop,
}

/// One thing that a program does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Makes a stream, in place of the one there, whose work may be pending.
    Stream {
        stream: usize,
        device: usize,
        of: StreamOf,
    },
    DropStream(usize),
    /// Makes an array on the stream's device, in place of the one there.
    Make {
        array: usize,
        stream: usize,
        elem: Elem,
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
    /// A pinned array's elements as a vector.
    IntoVec(usize),
    Fill {
        stream: usize,
        elem: Elem,
        to: Part,
        value: u32,
    },
    UploadInto {
        stream: usize,
        elem: Elem,
        to: Part,
        value: u32,
    },
    /// The source comes back as a pending value.
    OwnedInto {
        stream: usize,
        elem: Elem,
        to: Part,
        owner: Owner,
        value: u32,
        pending: usize,
    },
    Copy {
        stream: usize,
        elem: Elem,
        from: Part,
        to: Part,
    },
    CopyWithin {
        stream: usize,
        elem: Elem,
        from: Part,
        start: usize,
    },
    FillRows {
        stream: usize,
        elem: Elem,
        to: Rect,
        value: u32,
    },
    UploadRows {
        stream: usize,
        elem: Elem,
        to: Rect,
        gap: usize,
        value: u32,
    },
    CopyRows {
        stream: usize,
        elem: Elem,
        from: Rect,
        to: Rect,
    },
    DownloadRows {
        stream: usize,
        elem: Elem,
        from: Rect,
        pending: usize,
    },
    Download {
        stream: usize,
        elem: Elem,
        from: Part,
        pending: usize,
    },
    /// The sum of two parts, which may be one, as floats.
    Add {
        stream: usize,
        terms: [Part; 2],
        sum: Part,
    },
    /// Adds a part times a factor to another, in place, as floats.
    Saxpy {
        stream: usize,
        factor: i8,
        x: Part,
        y: Part,
    },
    /// The brightness of pixels.
    Luminance {
        stream: usize,
        pixels: Part,
        luma: Part,
    },
    /// Two fills of a whole array behind each other on one stream, the second of which opts out of
    /// waiting.
    Unordered {
        stream: usize,
        array: usize,
        value: u32,
    },
    /// Both parts of an array at once, by two threads on two streams.
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
    /// Reads bytes of a pinned or managed array; while the guard lives, the array may be copied
    /// from.
    ReadGuard {
        part: Part,
        reach: Reach,
        meanwhile: Option<(usize, Part)>,
        forget: bool,
    },
    WriteGuard {
        part: Part,
        reach: Reach,
        value: u32,
        forget: bool,
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
    /// The device is opened once more, and its other handle dropped.
    OpenAgain(usize),
    Trim(usize),
    /// Bounds the device's arrays, in bytes.
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
    /// Closes a gate on a stream, in place of the one that is closed.
    Close(usize),
    /// Opens the gate that is closed.
    Open,
    /// Two lists at once, by two threads: the first with the arrays and values in even places, the
    /// other with the rest.
    Apart([Vec<Step>; 2]),
}

impl Step {
    /// Whether the host may wait for the device in it: a closed gate is opened before.
    pub(crate) fn may_wait(&self) -> bool {
        match self {
            Self::Settle { how, .. } => matches!(how, Settle::Wait | Settle::Await),
            Self::ReadGuard { reach, .. } | Self::WriteGuard { reach, .. } => {
                !matches!(reach, Reach::PollOnce)
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

    /// Whether what it leaves behind keeps its device open for ever.
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

    /// Whether it launches a kernel.
    pub(crate) fn launches(&self) -> bool {
        match self {
            Self::Add { .. } | Self::Saxpy { .. } | Self::Luminance { .. } => true,
            Self::Apart(lists) => lists.iter().flatten().any(Self::launches),
            _ => false,
        }
    }
}

impl Program {
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
