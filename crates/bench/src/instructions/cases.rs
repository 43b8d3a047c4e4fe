//! What is counted: launches over live arrays on one stream and on eight, through Millstream and
//! without it.

use crate::report::Goal;

/// How many operations a stream of a real device holds before a call that would add one blocks
/// (rule 54).
pub(crate) const QUEUE_DEPTH: u64 = 1_021;

/// Which operands the launches have, and on which streams they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pattern {
    /// One stream and no arrays, straight to the driver.
    Raw,
    /// One stream; each launch takes the next three of all live arrays.
    OneStream,
    /// Eight streams in turn; all launches have the same three operands, so each waits for the one
    /// before it.
    Chain,
    /// Eight streams in turn; all read the same two arrays, and each writes one of its own.
    Readers,
    /// Eight streams in turn; seven read what the eighth writes, so one waits for seven and seven
    /// wait for one.
    FanInAndOut,
    /// Not a launch but a region of ten operations, which comes to one.
    Region,
}

/// One count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// What it is called on the command line.
    pub(crate) name: &'static str,
    pub(crate) pattern: Pattern,
    /// Arrays that are alive.
    pub(crate) live: usize,
    /// How many operations a stream has ahead of it before one counts as complete.
    pub(crate) lag: u64,
    pub(crate) goal: Goal,
}

impl Case {
    const fn new(name: &'static str, pattern: Pattern, live: usize, lag: u64) -> Self {
        let goal = match pattern {
            Pattern::Raw | Pattern::Region => Goal::None,
            Pattern::OneStream => Goal::AtMost(400.0),
            Pattern::Chain | Pattern::Readers | Pattern::FanInAndOut => Goal::AtMost(1_200.0),
        };
        Self {
            name,
            pattern,
            live,
            lag,
            goal,
        }
    }

    /// How many launches, or regions, are counted: a multiple of the streams.
    pub(crate) fn counted(&self) -> usize {
        match self.pattern {
            Pattern::Region => 80,
            _ => 8_000,
        }
    }

    /// How many are made before counting begins: the queues of all streams are full several times
    /// over.
    pub(crate) fn warm_up(&self) -> usize {
        match self.pattern {
            Pattern::Region => 200,
            _ => 20_000,
        }
    }

    /// What is counted, in words.
    pub(crate) fn what(&self) -> String {
        let streams = match self.pattern {
            Pattern::Raw | Pattern::OneStream => "1 stream",
            Pattern::Chain => "8 streams in a chain",
            Pattern::Readers => "8 streams read two operands",
            Pattern::FanInAndOut => "8 streams, 7 read what 1 writes",
            Pattern::Region => return String::from("region of ten operations"),
        };
        let device = if self.lag == 0 {
            "done at once"
        } else {
            "queues full"
        };
        format!("launch, {streams}, {} live arrays, {device}", self.live)
    }
}

/// All of them. The first is without Millstream, and what the others are compared with.
pub(crate) const CASES: [Case; 13] = [
    Case::new("raw", Pattern::Raw, 0, QUEUE_DEPTH),
    Case::new("one-10", Pattern::OneStream, 10, QUEUE_DEPTH),
    Case::new("one-1000", Pattern::OneStream, 1_000, QUEUE_DEPTH),
    Case::new("one-100000", Pattern::OneStream, 100_000, QUEUE_DEPTH),
    Case::new("one-1000000", Pattern::OneStream, 1_000_000, QUEUE_DEPTH),
    Case::new("chain", Pattern::Chain, 10, QUEUE_DEPTH),
    Case::new("chain-done", Pattern::Chain, 10, 0),
    Case::new("chain-100000", Pattern::Chain, 100_000, QUEUE_DEPTH),
    Case::new("readers", Pattern::Readers, 10, QUEUE_DEPTH),
    Case::new("readers-done", Pattern::Readers, 10, 0),
    Case::new("fan", Pattern::FanInAndOut, 10, QUEUE_DEPTH),
    Case::new("fan-done", Pattern::FanInAndOut, 10, 0),
    Case::new("region", Pattern::Region, 1, 0),
];
