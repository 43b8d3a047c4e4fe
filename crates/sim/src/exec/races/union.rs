//! The union of the races that a launch shows in several orders.

use std::collections::BTreeMap;
use std::num::NonZero;

use super::collector::{KernelRace, MissingOrder, RacedMemory};
use crate::exec::order::KernelOrder;

/// The orders of a launch in which a [`KernelRace`] was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RaceOrders {
    /// The number of orders in which the race was found.
    pub found: NonZero<u32>,
    /// The number of orders in which the launch ran.
    pub run: u32,
    /// An order that shows the race as it is described: the order of indices, if that does.
    pub shown_by: KernelOrder,
}

impl RaceOrders {
    /// A race found in the only order.
    pub(super) const ONLY: Self = Self {
        found: NonZero::<u32>::MIN,
        run: 1,
        shown_by: KernelOrder::Index,
    };
}

/// The races of a launch in several orders.
#[derive(Debug, Default)]
pub(in crate::exec) struct RaceUnion {
    /// The races by memory space and lines.
    races: BTreeMap<(bool, u32, u32), KernelRace>,
    run: u32,
}

impl RaceUnion {
    /// Adds the races of one run. A run in another order that has not `completed` shows races, but
    /// does not count as one without others.
    pub(in crate::exec) fn add(
        &mut self,
        order: KernelOrder,
        races: Vec<KernelRace>,
        completed: bool,
    ) {
        if !completed && races.is_empty() && order != KernelOrder::Index {
            return;
        }
        self.run += 1;
        for mut race in races {
            let lines = [race.earlier.ptx_line, race.later.ptx_line];
            let global = matches!(race.memory, RacedMemory::Global { .. });
            let key = (global, lines[0].min(lines[1]), lines[0].max(lines[1]));
            race.orders.shown_by = order;
            match self.races.get_mut(&key) {
                None => {
                    self.races.insert(key, race);
                }
                Some(known) => {
                    let orders_found = known.orders.found.saturating_add(1);
                    let (rank, known_rank) = (race.class.rank(), known.class.rank());
                    let index = order == KernelOrder::Index;
                    if rank > known_rank || rank == known_rank && index {
                        *known = race;
                    }
                    known.orders.found = orders_found;
                }
            }
        }
    }

    /// Returns all races, in the order of their lines.
    pub(in crate::exec) fn races(self) -> Vec<KernelRace> {
        let mut races = self.races;
        mark_lost_updates(&mut races);
        let counted = races.into_values().map(|mut race| {
            race.orders.run = self.run;
            race
        });
        counted.collect()
    }
}

/// Marks the races of threads that read bytes and then write them by the same lines: a barrier
/// between the two accesses would keep none of the updates.
fn mark_lost_updates(races: &mut BTreeMap<(bool, u32, u32), KernelRace>) {
    let is_plain = |race: &KernelRace| {
        let other = matches!(race.missing, MissingOrder::Acquire | MissingOrder::CopyWait);
        !race.later.atomic && !race.earlier.atomic && !other
    };
    let among_writers = |(key, race): (&(bool, u32, u32), &KernelRace)| {
        (key.1 == key.2 && is_plain(race)).then(|| (*key, race.memory.clone(), race.ranges.clone()))
    };
    let writes: Vec<_> = races.iter().filter_map(among_writers).collect();
    for (key @ (_, line, _), memory, written) in writes {
        let reads = races.range_mut((key.0, 0, line)..(key.0, line, line));
        let reads = reads.filter(|((.., last), race)| {
            let mut pairs = written
                .iter()
                .flat_map(|a| race.ranges.iter().map(move |b| (a, b)));
            *last == line
                && is_plain(race)
                && race.later.write != race.earlier.write
                && race.memory == memory
                && pairs.any(|(a, b)| a.start < b.end && b.start < a.end)
        });
        let marked = reads.map(|(_, race)| race.missing = MissingOrder::Update);
        if marked.count() > 0
            && let Some(race) = races.get_mut(&key)
        {
            race.missing = MissingOrder::Update;
        }
    }
}
