//! Random programs, as lists of steps. `machine.rs` carries them out.

use std::ops::Range;

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Elements of each array: few, so that ranges meet often.
pub(crate) const LEN: usize = 48;
pub(crate) const ARRAYS: usize = 4;
pub(crate) const STREAMS: usize = 4;

/// One thing that a program does. Streams and arrays are named by their places.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Fill {
        stream: usize,
        array: usize,
        to: Range<usize>,
        value: f32,
    },
    Upload {
        stream: usize,
        array: usize,
        to: Range<usize>,
        value: f32,
    },
    Copy {
        stream: usize,
        source: usize,
        from: Range<usize>,
        target: usize,
        to: Range<usize>,
    },
    /// A kernel that writes the sums of two arrays, which may be one, to a third.
    Add {
        stream: usize,
        terms: [usize; 2],
        sum: usize,
    },
    Download {
        stream: usize,
        array: usize,
        from: Range<usize>,
    },
    /// Drops an array and makes another: of zeros, or with this value uploaded, from a vector that the upload takes over
    /// or not.
    Renew {
        stream: usize,
        array: usize,
        value: Option<f32>,
        owned: bool,
    },
    ToPinned {
        stream: usize,
        array: usize,
    },
    FromPinned {
        stream: usize,
        array: usize,
    },
    /// Drops the pinned array, perhaps in flight, and makes another; from a vector, or from one with the old one's elements,
    /// or in the pool.
    RenewPinned(Pages),
    ToManaged {
        stream: usize,
        array: usize,
        to: Range<usize>,
    },
    FromManaged {
        stream: usize,
        array: usize,
        from: Range<usize>,
    },
    Prefetch {
        stream: usize,
        part: Range<usize>,
        to_host: bool,
    },
    /// Drops the managed array, perhaps in flight.
    RenewManaged,
    /// Drops a stream's handle, its work pending.
    RenewStream(usize),
    Record(usize),
    WaitForEvent(usize),
    /// Begins a timeline, or drops the one that runs.
    Timeline,
    /// Closes a gate on a stream.
    Close(usize),
    /// Opens the gate that is closed.
    Open,
    /// Two bits for each download on its way: whether to wait for it, await it, poll it once, or drop it.
    Settle(u64),
    ReadPinned,
    /// Writes the pinned array, or the managed one.
    Write {
        managed: bool,
        value: f32,
    },
    ReadManaged(Range<usize>),
    /// Uploads and downloads in a scope.
    Scope {
        stream: usize,
        array: usize,
        to: Range<usize>,
        value: f32,
    },
    FinishTimeline,
}

/// Where a pinned array comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pages {
    Pool,
    Registered,
    /// The old array's vector, registered again.
    Same,
}

/// Draws a program of so many steps, some more where a gate must be opened before the host waits.
pub(crate) fn program(seed: u64, count: usize, with_gates: bool) -> Vec<Step> {
    let mut draw = Draw(Pcg64Mcg::seed_from_u64(seed));
    let mut steps = Vec::new();
    let mut is_gated = false;
    for _ in 0..count {
        let step = draw.step(with_gates, is_gated);
        let host_waits = matches!(
            step,
            Step::Settle(_)
                | Step::ReadPinned
                | Step::ReadManaged(_)
                | Step::Write { .. }
                | Step::RenewPinned(Pages::Same)
                | Step::Scope { .. }
                | Step::FinishTimeline
        );
        if host_waits && is_gated {
            steps.push(Step::Open);
            is_gated = false;
        }
        match step {
            Step::Close(_) => is_gated = true,
            Step::Open => is_gated = false,
            _ => {}
        }
        steps.push(step);
    }
    steps
}

struct Draw(Pcg64Mcg);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0.next_u32() as usize % bound
    }

    /// Small whole numbers, whose sums are exact.
    fn value(&mut self) -> f32 {
        self.below(1000) as f32
    }

    fn range(&mut self, len: usize) -> Range<usize> {
        let start = self.below(LEN - len + 1);
        start..start + len
    }

    fn step(&mut self, with_gates: bool, is_gated: bool) -> Step {
        let (stream, array, value) = (self.below(STREAMS), self.below(ARRAYS), self.value());
        let len = 1 + self.below(LEN);
        let other = (array + 1 + self.below(ARRAYS - 1)) % ARRAYS;
        let to = self.range(len);
        match self.below(if with_gates { 33 } else { 31 }) {
            0..3 => Step::Fill {
                stream,
                array,
                to,
                value,
            },
            3..5 => Step::Upload {
                stream,
                array,
                to,
                value,
            },
            5..8 => Step::Copy {
                stream,
                source: other,
                from: self.range(len),
                target: array,
                to,
            },
            8..10 => {
                let second = (array + 1 + self.below(ARRAYS - 1)) % ARRAYS;
                Step::Add {
                    stream,
                    terms: [other, second],
                    sum: array,
                }
            }
            10..14 => Step::Download {
                stream,
                array,
                from: to,
            },
            14..16 => Step::Renew {
                stream,
                array,
                value: (value > 300.0).then_some(value),
                owned: value > 600.0,
            },
            16 => Step::ToPinned { stream, array },
            17 => Step::FromPinned { stream, array },
            18 => Step::RenewPinned(match self.below(3) {
                0 => Pages::Pool,
                1 => Pages::Registered,
                _ => Pages::Same,
            }),
            19 => Step::RenewStream(stream),
            20 => Step::Record(stream),
            21 => Step::WaitForEvent(stream),
            22 => Step::Settle(self.0.next_u64()),
            23 if value > 500.0 => Step::ReadPinned,
            23 => Step::Write {
                managed: self.below(2) == 0,
                value,
            },
            24 => Step::Scope {
                stream,
                array,
                to,
                value,
            },
            25 if value > 500.0 => Step::FinishTimeline,
            25 => Step::Timeline,
            26 => Step::ToManaged { stream, array, to },
            27 => Step::FromManaged {
                stream,
                array,
                from: to,
            },
            28 => Step::Prefetch {
                stream,
                part: to,
                to_host: value > 500.0,
            },
            29 => Step::RenewManaged,
            30 => Step::ReadManaged(to),
            _ if is_gated => Step::Open,
            _ => Step::Close(stream),
        }
    }
}
