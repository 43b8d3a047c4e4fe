//! Collects the races of a launch as [`KernelRace`] values.

use std::{collections::BTreeMap, fmt, ops::Range};

use super::{
    access_record::AccessRecord, block_threads::BlockThreads, race_class::RaceClass,
    shadow::RacingPair, union::RaceOrders,
};
use crate::exec::cooperative::is_workspace;
use crate::exec::kernel_access::KernelAccess;
use crate::exec::kernel_repair::KernelRepair;
use crate::exec::launch::{GlobalMemory, Launch};
use crate::ptx::Kernel;

/// The maximum number of line pairs reported for a launch, for each severity.
const FOUND_MAX: usize = 256;

/// The maximum number of separate byte ranges recorded for a pair of lines.
const RANGES_MAX: usize = 1024;

/// A data race within a launch: two threads access the same bytes, at least one of them writes, and
/// neither access happens before the other.
///
/// Races at the same two lines of a kernel are reported as one, with the first two threads found.
///
/// ```
/// use millstream_sim::exec::{GlobalMemory, Launch, MissingOrder, Region, RaceClass, run_checked};
/// struct None;
/// impl GlobalMemory for None {
///     fn region(&self, _: u64) -> Option<Region<'_>> {
///         Option::None
///     }
/// }
/// let module = millstream_sim::ptx::parse(
///     ".version 8.0
///      .target sm_75
///      .address_size 64
///      .visible .entry k() {
///          .reg .b32 %r<2>;
///          .shared .b32 last;
///          mov.u32 %r1, %tid.x;
///          st.shared.u32 [last], %r1;
///          ret;
///      }",
/// )
/// .unwrap();
/// let launch = Launch::new([1; 3], [64, 1, 1]);
/// let (ran, races) = run_checked(module.kernel("k").unwrap(), &launch, &None);
/// assert!(ran.is_ok());
/// assert_eq!(races[0].ranges, [0..4]);
/// assert_eq!(races[0].later.ptx_line, 8);
/// assert_eq!(races[0].missing, MissingOrder::Lanes);
/// assert_eq!(races[0].class, RaceClass::DifferentBytes);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelRace {
    /// The memory that contains the bytes.
    pub memory: RacedMemory,
    /// The bytes that any two threads race for at these lines, as offsets in the variable or
    /// allocation. If the lines race in several variables or allocations, the ranges are those of
    /// one.
    pub ranges: Vec<Range<u64>>,
    /// The access that was executed later in this run.
    pub later: KernelAccess,
    /// The access that was executed earlier in this run.
    pub earlier: KernelAccess,
    /// The synchronisation that would have ordered the accesses.
    pub missing: MissingOrder,
    /// The most severe class among all races at these lines.
    pub class: RaceClass,
    /// The orders of execution in which the race was found.
    pub orders: RaceOrders,
    /// A repair that was tried, if one was looked for and found.
    pub repair: Option<KernelRepair>,
}

/// The memory that contains the bytes of a [`KernelRace`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RacedMemory {
    /// Shared memory of the block.
    Shared {
        /// The variable's name, in backquotes, or `dynamic shared memory`.
        name: String,
        /// The variable's size in bytes.
        bytes: u64,
    },
    /// Global memory, which all blocks share.
    Global {
        /// The address of the allocation's first byte.
        base: u64,
    },
}

/// The synchronisation that would have ordered the two accesses of a [`KernelRace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingOrder {
    /// Synchronisation between the lanes of one warp.
    Lanes,
    /// A barrier of the block.
    Block,
    /// A release by the one block that the other acquires.
    Blocks,
    /// An acquire: a thread has atomically read a value with which the earlier access was released,
    /// but no fence of a sufficient scope follows the read.
    Acquire,
    /// An atomic function: the threads read the bytes and then write them by the same lines, so
    /// that updates are lost.
    Update,
    /// A wait for an asynchronous copy by the thread that started it.
    CopyWait,
}

impl fmt::Display for MissingOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lanes => {
                "no __syncwarp() between the two: a warp's threads do not run in lockstep"
            }
            Self::Block => "no __syncthreads() between the two",
            Self::Blocks => {
                "nothing orders the two blocks: one must call __threadfence() and then write an \
                 atomic, and the other read it and then call __threadfence()"
            }
            Self::Acquire => {
                "the earlier access was released with a value that was then read atomically, but \
                 the reader must call __threadfence() (__threadfence_block() suffices within a \
                 block) behind that read, or make it an acquire"
            }
            Self::Update => {
                "no atomic: threads read the bytes and then write them by the same lines, so \
                 updates are lost; use an atomic function, such as atomicAdd(), or a lock with a \
                 __threadfence() after it is taken and another before it is released"
            }
            Self::CopyWait => {
                "the thread that started the asynchronous copy has not waited for it: call \
                 __pipeline_wait_prior() (cp.async.wait_group) with fewer groups, or \
                 cp.async.wait_all, and then a barrier if other threads use the bytes"
            }
        })
    }
}

/// A race at two lines, to which further bytes may be added.
struct OpenRace {
    /// The range of the variable or allocation: addresses, or offsets in shared memory.
    extent: Range<u64>,
    race: KernelRace,
    /// True if the race exceeded the maximum number of byte ranges.
    cut_short: bool,
}

pub(super) struct RaceCollector<'a> {
    kernel: &'a Kernel,
    launch: &'a Launch<'a>,
    memory: &'a dyn GlobalMemory,
    /// The races by memory space (shared first) and by their two lines in ascending order.
    races: BTreeMap<(bool, u32, u32), OpenRace>,
    /// The bytes with a race that is an error, by memory space and word number.
    errors: BTreeMap<(bool, u64), u8>,
}

impl<'a> RaceCollector<'a> {
    pub(super) fn new(
        kernel: &'a Kernel,
        launch: &'a Launch<'a>,
        memory: &'a dyn GlobalMemory,
    ) -> Self {
        Self {
            kernel,
            launch,
            memory,
            races: BTreeMap::new(),
            errors: BTreeMap::new(),
        }
    }

    /// Adds a race for bytes of the word at `start`, an address or an offset in shared memory.
    pub(super) fn add(
        &mut self,
        global: bool,
        start: u64,
        later: &AccessRecord,
        pair: &RacingPair<'_>,
        threads: &BlockThreads,
    ) {
        self.add_missing(global, start, (later, pair), || {
            missing(later, pair, threads)
        });
    }

    /// Adds a race with an asynchronous copy that its thread has not waited for.
    pub(super) fn add_copy(
        &mut self,
        global: bool,
        start: u64,
        later: &AccessRecord,
        pair: &RacingPair<'_>,
    ) {
        self.add_missing(global, start, (later, pair), || MissingOrder::CopyWait);
    }

    fn add_missing(
        &mut self,
        global: bool,
        start: u64,
        (later, pair): (&AccessRecord, &RacingPair<'_>),
        missing: impl Fn() -> MissingOrder,
    ) {
        // Code for devices before compute capability 7.0 polls the grid's barrier with volatile
        // loads.
        if global && is_workspace(start) {
            return;
        }
        let errors = pair.errors | pair.errors_before;
        if errors != 0 && !pair.volatile {
            *self.errors.entry((global, start / 4)).or_default() |= errors;
        }
        let class = class(later, pair);
        let lines = [pair.earlier.pc, later.pc].map(|pc| self.kernel.line(pc));
        let key = (global, lines[0].min(lines[1]), lines[0].max(lines[1]));
        let known = self.races.get(&key).map(|open| open.race.class);
        if known.is_none_or(|known| known.rank() < class.rank()) {
            self.open(key, start, (later, pair, missing()), class);
        }
        let Some(OpenRace {
            extent,
            race,
            cut_short,
        }) = self.races.get_mut(&key)
        else {
            return;
        };
        for byte in (0..4).filter(|byte| pair.bytes >> byte & 1 == 1) {
            if extent.contains(&(start + byte)) {
                *cut_short |= !insert(&mut race.ranges, start + byte - extent.start);
            }
        }
    }

    /// Inserts a race at two lines, or replaces it by a more severe one. The bytes found so far are
    /// kept if they lie in the same variable or allocation.
    fn open(
        &mut self,
        key: (bool, u32, u32),
        start: u64,
        (later, pair, missing): (&AccessRecord, &RacingPair<'_>, MissingOrder),
        class: RaceClass,
    ) {
        let known = self.races.get(&key);
        let severity = |race: &&OpenRace| race.race.class.severity() == class.severity();
        if known.is_none() && self.races.values().filter(severity).count() >= FOUND_MAX {
            return;
        }
        let place = if key.0 {
            self.region(start)
        } else {
            self.variable(start)
        };
        let Some((extent, memory)) = place else {
            return;
        };
        let mut open = OpenRace {
            extent,
            race: self.race(memory, (later, pair, missing), class),
            cut_short: false,
        };
        if let Some(known) = known.filter(|known| known.extent == open.extent) {
            open.race.ranges.clone_from(&known.race.ranges);
            open.cut_short = known.cut_short;
        }
        self.races.insert(key, open);
    }

    fn race(
        &self,
        memory: RacedMemory,
        (later, pair, missing): (&AccessRecord, &RacingPair<'_>, MissingOrder),
        class: RaceClass,
    ) -> KernelRace {
        KernelRace {
            memory,
            ranges: Vec::new(),
            later: self.access(later, pair.later_lane),
            earlier: self.access(pair.earlier, pair.earlier_lane),
            missing,
            class,
            orders: RaceOrders::ONLY,
            repair: None,
        }
    }

    fn region(&self, address: u64) -> Option<(Range<u64>, RacedMemory)> {
        let region = self.memory.region(address)?;
        let (base, end) = (region.base, region.base + region.bytes.len() as u64);
        Some((base..end, RacedMemory::Global { base }))
    }

    fn variable(&self, offset: u64) -> Option<(Range<u64>, RacedMemory)> {
        let code = &self.kernel.code;
        let (range, name) = self.launch.shared_variable(code, offset);
        let bytes = range.end - range.start;
        // Threads that go on after a fault may have gone outside of shared memory.
        let end = u64::from(code.shared_bytes) + u64::from(self.launch.dynamic_shared_bytes);
        (offset < end).then_some((range, RacedMemory::Shared { name, bytes }))
    }

    fn access(&self, record: &AccessRecord, lane: usize) -> KernelAccess {
        let thread = record.warp * 32 + lane as u32;
        KernelAccess {
            write: record.kind.write,
            atomic: record.kind.strong,
            volatile: record.kind.volatile,
            ..self
                .launch
                .place(self.kernel, record.block, thread, record.pc)
        }
    }

    /// Returns all races: those in shared memory first, then by their lines.
    pub(super) fn all(self) -> Vec<KernelRace> {
        let Self { races, errors, .. } = self;
        let reported = races.into_iter().map(|((global, ..), mut open)| {
            if open.race.class == RaceClass::SameBytes && open.has_any(global, &errors) {
                open.race.class = RaceClass::SameBytesAmongOthers;
            }
            open.race
        });
        reported.collect()
    }
}

impl OpenRace {
    /// Returns whether any of `bytes` is among the race's bytes or, if the race's byte ranges were
    /// cut short, lies anywhere in its variable or allocation.
    fn has_any(&self, global: bool, bytes: &BTreeMap<(bool, u64), u8>) -> bool {
        let whole = 0..self.extent.end - self.extent.start;
        let all = if self.cut_short {
            vec![whole]
        } else {
            self.race.ranges.clone()
        };
        all.into_iter().any(|range| {
            let (from, to) = (
                range.start + self.extent.start,
                range.end + self.extent.start,
            );
            let words = bytes.range((global, from / 4)..=(global, (to - 1) / 4));
            words.into_iter().any(|((_, word), mask)| {
                (0..4).any(|byte| mask >> byte & 1 == 1 && (from..to).contains(&(word * 4 + byte)))
            })
        })
    }
}

fn missing(later: &AccessRecord, pair: &RacingPair<'_>, threads: &BlockThreads) -> MissingOrder {
    if threads.has_observed(pair.earlier, pair.earlier_lane) {
        MissingOrder::Acquire
    } else if pair.earlier.block != later.block {
        MissingOrder::Blocks
    } else if pair.earlier.warp != later.warp {
        MissingOrder::Block
    } else {
        MissingOrder::Lanes
    }
}

fn class(later: &AccessRecord, pair: &RacingPair<'_>) -> RaceClass {
    match (pair.errors, pair.errors_before) {
        (0, 0) => RaceClass::SameBytes,
        _ if pair.volatile => RaceClass::Volatile,
        (0, _) => RaceClass::SameBytesAmongOthers,
        _ if later.kind.read || pair.earlier.kind.read => RaceClass::Read,
        _ => RaceClass::DifferentBytes,
    }
}

/// Adds a byte to ascending, non-adjacent ranges, or returns `false` if there would be too many.
fn insert(ranges: &mut Vec<Range<u64>>, byte: u64) -> bool {
    let at = ranges.partition_point(|range| range.end < byte);
    let count = ranges.len();
    match ranges.get_mut(at) {
        Some(range) if range.contains(&byte) => {}
        Some(range) if range.end == byte => {
            range.end += 1;
            let end = range.end;
            if ranges.get(at + 1).is_some_and(|next| next.start == end) {
                ranges[at].end = ranges.remove(at + 1).end;
            }
        }
        Some(range) if range.start == byte + 1 => range.start = byte,
        _ if count < RANGES_MAX => ranges.insert(at, byte..byte + 1),
        _ => return false,
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::launch::short;
    use proptest::prelude::*;

    #[test]
    fn mangled_names_of_local_variables_are_shortened() {
        for (name, expected) in [
            ("_ZZ5shiftE4tile", "tile"),
            ("_ZZ10last_blockILi0EEvPKjPjS2_S2_E5total", "total"),
            ("_ZZ1fEvE9E1x_E2yz_", "E1x_E2yz_"),
            ("_ZZ5shiftE4tile_0", "_ZZ5shiftE4tile_0"),
            ("part", "part"),
            ("_ZZ", "_ZZ"),
        ] {
            assert_eq!(short(name), expected);
        }
    }

    proptest! {
        #[test]
        fn ranges_hold_exactly_the_added_bytes(
            bytes in proptest::collection::vec(0u64..60, 0..60),
        ) {
            let mut ranges = Vec::new();
            for byte in &bytes {
                prop_assert!(insert(&mut ranges, *byte));
            }
            let held: Vec<u64> = ranges.iter().cloned().flatten().collect();
            let mut expected = bytes;
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(held, expected);
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }
}
