//! Races between the threads of one kernel, as findings.

use std::sync::Arc;

use super::{
    check::Checker,
    effect::Tag,
    finding::{FoundMemory, Party},
    state::Actor,
};
use crate::{
    ReportKind,
    exec::{KernelAccess, KernelRace, MissingOrder, RacedMemory},
};

impl Checker {
    /// Two threads of the actor's kernel have raced, in that allocation or in shared memory.
    pub(super) fn tell_kernel_race(&mut self, actor: &Actor, tag: Option<&Arc<Tag>>, race: &KernelRace) {
        let Some(deed) = actor.deed() else {
            return;
        };
        let party = |access: &KernelAccess| Party {
            thread: Some(access.clone()),
            ..Party::of(deed, access.does())
        };
        let (kind, place, memory) = match (&race.memory, tag) {
            (RacedMemory::Shared { name, bytes }, _) => {
                let [x, y, z] = race.later.block;
                let memory = FoundMemory {
                    allocation: 0,
                    allocation_bytes: *bytes,
                    description: format!("{name} ({bytes} bytes, shared memory of block ({x}, {y}, {z}))"),
                    ranges: race.ranges.clone(),
                };
                (ReportKind::SharedMemoryRace, "shared", Some(memory))
            }
            (RacedMemory::Global { .. }, tag) => {
                let memory = tag.map(|tag| FoundMemory::of(tag, race.ranges.clone()));
                (ReportKind::GlobalMemoryRace, "global", memory)
            }
        };
        let mut missing = format!("missing: {}", race.missing);
        if race.later.atomic != race.earlier.atomic {
            missing += "; and only one of the two is atomic";
        }
        if race.later.atomic && race.earlier.atomic && race.missing == MissingOrder::Blocks {
            missing += "; and one of the two is atomic for its own block only";
        }
        let (earlier, later) = (race.earlier.noun(), race.later.noun());
        self.add(super::Finding {
            kind,
            problem: format!("{earlier}/{later} race within a kernel, in {place} memory, on"),
            memory,
            later: party(&race.later),
            earlier: Some(party(&race.earlier)),
            missing: Some(missing),
        });
    }
}
