//! Findings within one kernel: races between its threads, failing accesses, element types.

use std::sync::Arc;

use super::{
    Mismatch,
    check::Checker,
    effect::Stray,
    finding::{FoundMemory, Party},
    state::Actor,
};
use crate::{
    Grade, ReportKind,
    exec::{KernelAccess, KernelRace, MissingOrder, RacedMemory},
    memory::Tag,
};

impl Checker {
    /// Adds the access that made the actor's kernel fail.
    pub(super) fn tell_stray(&mut self, actor: &Actor, stray: &Stray) {
        let Some(deed) = actor.deed() else {
            return;
        };
        let (kind, word) = match stray.misaligned {
            true => (ReportKind::Misaligned, "misaligned"),
            false => (ReportKind::OutOfBounds, "out of bounds"),
        };
        self.add(super::Finding {
            kind,
            grade: Grade::Error,
            problem: format!("{word}: {}", stray.problem),
            memory: stray
                .tag
                .as_ref()
                .map(|tag| FoundMemory::of(tag, Vec::new())),
            later: Party {
                thread: Some(stray.access.clone()),
                ..Party::of(deed, stray.access.does())
            },
            earlier: None,
            missing: None,
            verdict: None,
        });
    }

    /// Adds an access that does not fit the declared element type, once for each kernel and array.
    pub(super) fn tell_mismatch(
        &mut self,
        actor: &Actor,
        mismatch: &Mismatch,
        access: &KernelAccess,
    ) {
        let Some(deed) = actor.deed() else {
            return;
        };
        let Mismatch {
            accessed, declared, ..
        } = mismatch;
        let does = match (access.write, access.atomic) {
            (false, _) => "reads",
            (true, false) => "writes",
            (true, true) => "updates",
        };
        let (param, element) = (declared.name, declared.element);
        let problem = format!(
            "`{}` of {} bytes where the array `{param}` is declared to hold `{element}` of {} bytes",
            accessed.name(),
            accessed.bytes(),
            declared.element_bytes
        );
        let finding = super::Finding {
            kind: ReportKind::ElementType,
            grade: Grade::Error,
            problem: format!("{} {does} {problem}", deed.word),
            memory: None,
            later: Party {
                thread: Some(access.clone()),
                ..Party::of(deed, does)
            },
            earlier: None,
            missing: None,
            verdict: None,
        };
        let is_told = self
            .findings
            .iter()
            .any(|told| (told.kind, &told.problem) == (finding.kind, &finding.problem));
        if !is_told {
            self.add(finding);
        }
    }

    /// Two threads of the actor's kernel have raced, in that allocation or in shared memory.
    pub(super) fn tell_kernel_race(
        &mut self,
        actor: &Actor,
        tag: Option<&Arc<Tag>>,
        race: &KernelRace,
    ) {
        let Some(deed) = actor.deed() else {
            return;
        };
        if race.verdict.grade() == Grade::Note && !self.notes {
            return;
        }
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
                    description: format!(
                        "{name} ({bytes} bytes, shared memory of block ({x}, {y}, {z}))"
                    ),
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
            grade: race.verdict.grade(),
            problem: format!("{earlier}/{later} race within a kernel, in {place} memory, on"),
            memory,
            later: party(&race.later),
            earlier: Some(party(&race.earlier)),
            missing: Some(missing),
            verdict: Some(race.verdict),
        });
    }
}
