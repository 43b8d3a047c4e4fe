//! The launches whose instructions are counted: on one stream and on eight, with Millstream and
//! without it.

use crate::report::Goal;

/// The number of pending operations in a stream of an H200, beyond which an enqueuing call blocks
/// (rule 54).
pub(crate) const QUEUE_DEPTH: u64 = 1_021;

/// The operands and streams of the counted launches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pattern {
    /// One stream and no arrays, with raw driver calls.
    Raw,
    /// One stream; each launch uses the next three of all live arrays.
    OneStream,
    /// Eight streams in turn; all launches have the same three operands, so each waits for the
    /// previous one.
    Chain,
    /// Eight streams in turn; all read the same two arrays, and each writes its own.
    Readers,
    /// Eight streams in turn; seven read the array that the eighth writes, so one launch waits for
    /// seven and seven wait for one.
    FanInAndOut,
    /// Two streams; each launch is on the first, and its result is lent to the second and returned.
    HandOver,
    /// A region of ten operations, which is fused into one launch.
    Region,
    /// The same for an array of another length at each call.
    RegionLengths,
    /// A region of a layer with a weight and a bias for each column, for another number of rows at
    /// each call.
    RegionRows,
    /// A region of the softmax of rows, of another number of rows at each call.
    RegionSoftmax,
    /// A region of the sum of an array, which several blocks share.
    RegionSum,
    /// A region of two operations, which reads the result of the previous one.
    RegionDependent,
    /// A region of ten scans, launched one by one.
    RegionLaunches,
    /// A region of ten scans, replayed as a graph.
    RegionGraph,
    /// A prepared region of ten operations.
    PreparedRegion,
    /// A prepared region of ten scans.
    PreparedScans,
    /// Replays of a graph of one launch.
    GraphReplay,
    /// Replays of a graph of one launch, before each of which an argument is changed.
    GraphChange,
    /// Copies from a device to another, with raw driver calls.
    RawPeerCopy,
    /// Copies from a device to another on one stream, each of the same array to the same array.
    PeerCopy,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// The name on the command line.
    pub(crate) name: &'static str,
    pub(crate) pattern: Pattern,
    /// The number of live arrays.
    pub(crate) live: usize,
    /// The number of later operations of a stream after which an operation counts as complete.
    pub(crate) lag: u64,
    pub(crate) goal: Goal,
}

impl Pattern {
    /// Returns whether replays of a graph are counted.
    pub(crate) fn is_graph(self) -> bool {
        matches!(self, Self::GraphReplay | Self::GraphChange)
    }

    pub(crate) fn is_region(self) -> bool {
        matches!(
            self,
            Self::Region
                | Self::RegionLengths
                | Self::RegionRows
                | Self::RegionSoftmax
                | Self::RegionSum
                | Self::RegionDependent
                | Self::RegionLaunches
                | Self::RegionGraph
                | Self::PreparedRegion
                | Self::PreparedScans
        )
    }
}

impl Case {
    const fn new(name: &'static str, pattern: Pattern, live: usize, lag: u64) -> Self {
        let goal = match pattern {
            Pattern::Region
            | Pattern::RegionLengths
            | Pattern::RegionRows
            | Pattern::RegionSoftmax => Goal::AtMost(60_000.0),
            Pattern::PreparedRegion | Pattern::PreparedScans => Goal::AtMost(2_500.0),
            Pattern::OneStream => Goal::AtMost(450.0),
            Pattern::Chain | Pattern::Readers | Pattern::FanInAndOut => Goal::AtMost(1_400.0),
            _ => Goal::None,
        };
        Self {
            name,
            pattern,
            live,
            lag,
            goal,
        }
    }

    /// Returns the number of launches or regions that are counted, a multiple of the number of
    /// streams.
    pub(crate) fn counted(&self) -> usize {
        if self.pattern.is_region() { 80 } else { 8_000 }
    }

    /// Returns the number of launches or regions before counting begins, enough to fill the queues
    /// of all streams several times over.
    pub(crate) fn warm_up(&self) -> usize {
        if self.pattern.is_region() {
            200
        } else {
            20_000
        }
    }

    /// Returns a description of the case, for the table.
    pub(crate) fn what(&self) -> String {
        let device = if self.lag == 0 {
            "done at once"
        } else {
            "queues full"
        };
        let launch = |streams| format!("launch, {streams}, {} live arrays, {device}", self.live);
        let what = match self.pattern {
            Pattern::Raw | Pattern::OneStream => return launch("1 stream"),
            Pattern::Chain => return launch("8 streams in a chain"),
            Pattern::Readers => return launch("8 streams read two operands"),
            Pattern::FanInAndOut => return launch("8 streams, 7 read what 1 writes"),
            Pattern::HandOver => "launch, its result lent to another library's stream and back",
            Pattern::Region => "region of ten operations",
            Pattern::RegionLengths => "region of ten operations, of another length each time",
            Pattern::RegionRows => "region of a layer, of other rows each time",
            Pattern::RegionSoftmax => "region of a softmax, of other rows each time",
            Pattern::RegionSum => "region of a sum",
            Pattern::RegionDependent => {
                "region of two operations on the result of the previous one"
            }
            Pattern::RegionLaunches => "region of ten scans, launched one by one",
            Pattern::RegionGraph => "region of ten scans, as a graph",
            Pattern::PreparedRegion => "prepared region of ten operations",
            Pattern::PreparedScans => "prepared region of ten scans",
            Pattern::GraphReplay => "replay of a graph of one launch",
            Pattern::GraphChange => "change of an argument, and replay of a graph of one launch",
            Pattern::RawPeerCopy | Pattern::PeerCopy => "copy to another device, queue full",
        };
        String::from(what)
    }
}

/// All cases. The first two, without Millstream, are the baselines of the others.
pub(crate) const CASES: [Case; 27] = [
    Case::new("raw", Pattern::Raw, 0, QUEUE_DEPTH),
    Case::new("raw-peer-copy", Pattern::RawPeerCopy, 0, QUEUE_DEPTH),
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
    Case::new("hand-over", Pattern::HandOver, 10, QUEUE_DEPTH),
    Case::new("region", Pattern::Region, 1, 0),
    Case::new("region-lengths", Pattern::RegionLengths, 1, 0),
    Case::new("region-rows", Pattern::RegionRows, 1, 0),
    Case::new("region-softmax", Pattern::RegionSoftmax, 1, 0),
    Case::new("region-sum", Pattern::RegionSum, 1, 0),
    Case::new("region-dependent", Pattern::RegionDependent, 1, QUEUE_DEPTH),
    Case::new("region-launches", Pattern::RegionLaunches, 1, 0),
    Case::new("region-graph", Pattern::RegionGraph, 1, 0),
    Case::new("region-prepared", Pattern::PreparedRegion, 1, 0),
    Case::new("region-prepared-scans", Pattern::PreparedScans, 1, 0),
    Case::new("graph-replay", Pattern::GraphReplay, 10, QUEUE_DEPTH),
    Case::new("graph-change", Pattern::GraphChange, 10, QUEUE_DEPTH),
    Case::new("peer-copy", Pattern::PeerCopy, 2, QUEUE_DEPTH),
];
