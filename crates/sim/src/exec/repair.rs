//! Repairs of races within a kernel: synchronisation that is inserted into its PTX, tried by
//! running the launch again on the memory as it was before.
//!
//! The places that are tried are those of the two accesses, the join behind each, and the branch in
//! front of it, alone and in pairs. A repair counts if the launch ends without other errors, the
//! race is gone in every order that was checked, and no other appears.

use std::collections::BTreeSet;

use super::kernel_errors::KernelErrors;
use super::kernel_repair::{InsertedSync, KernelEdit, KernelRepair};
use super::launch::{GlobalMemory, Launch, Region, TracedRegion};
use super::order::KernelOrder;
use super::private_memory::PrivateMemory;
use super::races::{KernelRace, MissingOrder, RacedMemory};
use crate::ptx::{self, Kernel};

/// The number of repairs that are tried in one launch, the bytes of PTX that are compiled for them,
/// and the warp instructions that they execute.
const TRIES_MAX: u64 = 48;
const TEXT_MAX: u64 = 8 << 20;
const STEPS_MAX: u64 = 1 << 22;

/// The number of warp instructions that a trial executes besides, to wait for other threads.
const POLLS_MAX: u64 = 1 << 20;

/// The memory of a launch, of which each allocation is copied before its first access.
pub(super) struct KeptMemory<'a> {
    memory: &'a dyn GlobalMemory,
    /// The memory as it was.
    pub(super) before: PrivateMemory<'a>,
}

impl<'a> KeptMemory<'a> {
    pub(super) fn new(memory: &'a dyn GlobalMemory) -> Self {
        Self {
            memory,
            before: PrivateMemory::new(memory),
        }
    }
}

impl GlobalMemory for KeptMemory<'_> {
    fn inner(&self) -> Option<&dyn GlobalMemory> {
        Some(self.memory)
    }

    fn region(&self, address: u64) -> Option<Region<'_>> {
        self.before.region(address);
        self.memory.region(address)
    }

    fn traced_region(&self, address: u64) -> Option<TracedRegion<'_>> {
        self.before.region(address);
        self.memory.traced_region(address)
    }
}

/// The two lines of a race and its memory space.
type Lines = (bool, u32, u32);

fn lines(race: &KernelRace) -> Lines {
    let [one, other] = [race.earlier.ptx_line, race.later.ptx_line];
    let global = matches!(race.memory, RacedMemory::Global { .. });
    (global, one.min(other), one.max(other))
}

/// The races of a run, its other errors, and whether all threads have exited.
type Outcome = (Vec<KernelRace>, KernelErrors, bool);

/// A launch with races, which is tried again.
pub(super) struct Trial<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) launch: &'a Launch<'a>,
    /// The text of the module.
    pub(super) text: &'a str,
    pub(super) orders: Vec<KernelOrder>,
    /// The number of warp instructions of the launch.
    pub(super) steps: u64,
    /// Runs a kernel in an order on a copy of the memory as it was.
    pub(super) run: &'a dyn Fn(&Kernel, &Launch<'_>, KernelOrder) -> Option<Outcome>,
}

impl Trial<'_> {
    /// Looks for a repair of each race of the launch.
    pub(super) fn repair(&self, races: &mut [KernelRace]) {
        let found = races.iter().map(lines).collect();
        let all_steps = self.steps.saturating_mul(self.orders.len() as u64).max(1);
        let tries = (STEPS_MAX / all_steps).min(TEXT_MAX / (self.text.len() as u64).max(1));
        let mut tries = 0..tries.min(TRIES_MAX);
        let mut known: Vec<(KernelRepair, BTreeSet<Lines>)> = Vec::new();
        for race in races {
            let own = lines(race);
            let earlier = known.iter().find(|(_, left)| !left.contains(&own));
            race.repair = earlier.map(|(repair, _)| repair.clone());
            for repair in self.candidates(race) {
                if race.repair.is_some() || tries.next().is_none() {
                    break;
                }
                if let Some(left) = self.with(&repair)
                    && left.is_subset(&found)
                    && !left.contains(&own)
                {
                    race.repair = Some(repair.clone());
                    known.push((repair, left));
                }
            }
        }
    }

    /// Returns the races that the launch has with a repair; `None` if it has errors.
    fn with(&self, repair: &KernelRepair) -> Option<BTreeSet<Lines>> {
        let module = ptx::parse(&repair.apply(self.text)?).ok()?;
        let kernel = module.kernel(self.kernel.name())?;
        // A repair may make threads wait for each other without an end.
        let launch = Launch {
            step_limit: self.launch.step_limit.min(4 * self.steps + POLLS_MAX),
            ..*self.launch
        };
        let mut left = BTreeSet::new();
        for order in &self.orders {
            let (races, kernel_errors, ended) = (self.run)(kernel, &launch, *order)?;
            if !ended || kernel_errors.into_errors().next().is_some() {
                return None;
            }
            left.extend(races.iter().map(lines));
        }
        Some(left)
    }

    /// Returns the repairs to try for a race, the smallest first.
    fn candidates(&self, race: &KernelRace) -> Vec<KernelRepair> {
        use InsertedSync as I;
        let is_copy = race.missing == MissingOrder::CopyWait;
        let same_block = race.later.block == race.earlier.block;
        let inserted = match race.missing {
            MissingOrder::Lanes => &[I::WarpBarrier, I::Barrier][..],
            MissingOrder::Block => &[I::Barrier],
            MissingOrder::CopyWait => &[I::CopyWait],
            MissingOrder::Acquire if same_block => &[I::BlockFence],
            MissingOrder::Acquire | MissingOrder::Blocks => &[I::Fence],
            // A lock without its fences shows like a plain update.
            MissingOrder::Update => &[I::Fence],
        };
        let (later, earlier) = (race.later.ptx_line, race.earlier.ptx_line);
        let mut repairs = Vec::new();
        for inserted in inserted {
            let mut single: Vec<KernelEdit> = Vec::new();
            for line in [later, earlier] {
                let mut places = vec![(line, false)];
                if matches!(inserted, I::Fence | I::BlockFence) {
                    places.push((line, true));
                } else {
                    places.extend(self.around(line));
                }
                for (line, behind) in places {
                    let edit = self.edit(*inserted, line, behind);
                    if !single.contains(&edit) {
                        single.push(edit);
                    }
                }
            }
            let pairs = single.iter().enumerate().flat_map(|(index, one)| {
                let others = single[index + 1..].iter();
                others.map(move |other| vec![one.clone(), other.clone()])
            });
            let alone = single.iter().map(|edit| vec![edit.clone()]);
            repairs.extend(alone.chain(pairs));
        }
        if is_copy {
            let both = [I::CopyWait, I::Barrier].map(|sync| self.edit(sync, later, false));
            // The barrier is inserted first, so that it comes behind the wait.
            repairs.insert(1, both.into_iter().rev().collect());
        }
        if race.later.atomic && race.earlier.atomic && !same_block {
            let scopes = BTreeSet::from([later, earlier]).into_iter();
            let scopes = scopes.map(|line| self.edit(I::DeviceScope, line, false));
            repairs.insert(0, scopes.collect());
        }
        let with_order = repairs.into_iter().map(|mut edits| {
            if !is_copy {
                edits.sort_by_key(|edit| edit.line);
            }
            KernelRepair { edits }
        });
        with_order.collect()
    }

    /// Returns the join behind a line, and the branch in front of it: where the threads of a block
    /// meet that a condition separates.
    fn around(&self, line: u32) -> impl Iterator<Item = (u32, bool)> {
        let text: Vec<&str> = self.text.split('\n').collect();
        let (before, behind) = text.split_at((line as usize).min(text.len()));
        let is_label = |line: &&str| line.trim_end().ends_with(':');
        let is_end = |line: &&str| line.starts_with('}');
        let to_end = behind.iter().take_while(|line| !is_end(line));
        // The statement behind the label.
        let join = to_end.clone().position(is_label).and_then(|label| {
            let is_statement = |line: &&str| line.trim_end().ends_with(';');
            let next = to_end.skip(label + 1).position(is_statement)?;
            Some((line + 1 + (label + 1 + next) as u32, false))
        });
        let is_branch = |line: &&str| line.trim_start().starts_with('@') && line.contains("bra");
        let branch = before
            .iter()
            .rposition(|line| is_branch(line) || is_end(line));
        let branch = branch.filter(|at| is_branch(&before[*at]));
        let branch = branch.map(|at| (at as u32 + 1, false));
        join.into_iter().chain(branch)
    }

    fn edit(&self, inserted: InsertedSync, line: u32, behind: bool) -> KernelEdit {
        let lines = self.kernel.code.lines.iter();
        let pc = lines.zip(0..).filter(|(own, _)| **own == line);
        let source = pc.map(|(_, pc)| pc).next();
        KernelEdit {
            inserted,
            line,
            behind,
            source: source.and_then(|pc| self.kernel.source(pc)),
        }
    }
}
