//! Where the simulator tells the checker what its operations did, and takes over what was found.

use std::{ops::Range, sync::Arc};

use millstream_ptx::Site;

use super::{
    op::{Copy, KernelLaunch, OpKind, Source, Target},
    world::World,
};
use crate::{
    Report, ReportKind,
    exec::{Fault, FaultKind, KernelAccess, Noticed, RacedMemory},
    ids::OpId,
    memory::{Rows, Tag, Touch},
    race::{Effect, Finding, Spot, Stray},
};

impl World {
    /// What an operation other than a kernel is about to do.
    pub(crate) fn effects_of(&self, kind: &OpKind) -> Vec<Effect> {
        if !self.race.is_on() {
            return Vec::new();
        }
        let tag = |base: u64| self.memory.at(base).map(|found| Arc::clone(&found.tag));
        match kind {
            OpKind::Copy(copy) => vec![self.copied(copy)],
            OpKind::Fill(fill) => {
                match self.spot(fill.target, &Rows::one(fill.bytes), fill.bytes) {
                    Some(spot) => vec![spot.touched(Touch::WRITE)],
                    None => Vec::new(),
                }
            }
            OpKind::Allocation(base) => tag(*base).map(Effect::Birth).into_iter().collect(),
            OpKind::Free(base) => tag(*base).map(Effect::End).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn copied(&self, copy: &Copy) -> Effect {
        let (rows, from, to) = (&copy.rows, copy.rows.source_pitch, copy.rows.target_pitch);
        Effect::Copy {
            from: match &copy.source {
                Source::Mapped(address) => self.spot(*address, rows, from),
                Source::Captured(_) => None,
                Source::Host(range) => Some(self.host_spot(range.address(), rows, from)),
            },
            to: match &copy.target {
                Target::Mapped(address) => self.spot(*address, rows, to),
                Target::Host(range) => Some(self.host_spot(range.address(), rows, to)),
            },
        }
    }

    /// The part of the rows that is in the allocation around their first address, live or dead.
    fn spot(&self, address: u64, rows: &Rows, pitch: u64) -> Option<Spot> {
        let found = self.memory.around(address)?;
        let mut runs = runs(address - found.base, rows, pitch);
        runs.retain_mut(|run| {
            run.end = run.end.min(found.bytes);
            run.start < run.end
        });
        Some(Spot {
            tag: Arc::clone(&found.tag),
            runs,
        })
    }

    /// Rows of host memory, page-locked or not.
    pub(crate) fn host_spot(&self, address: u64, rows: &Rows, pitch: u64) -> Spot {
        self.spot(address, rows, pitch).unwrap_or_else(|| Spot {
            tag: Arc::new(Tag {
                filled: true,
                of_host: true,
                ..Tag::default()
            }),
            runs: runs(address, rows, pitch),
        })
    }

    /// What a kernel has done to the allocations that start at `touched`, what was noticed within
    /// it, and how it failed, if it did.
    pub(crate) fn effects_of_kernel(
        &mut self,
        launch: &KernelLaunch,
        mut touched: Vec<u64>,
        noticed: Noticed,
        failure: Option<&Fault>,
    ) -> Vec<Effect> {
        touched.sort_unstable();
        let mut effects: Vec<_> = touched
            .into_iter()
            .filter_map(|base| {
                let (tag, marks) = self.memory.take_marks(base)?;
                Some(Effect::Touch(tag, marks.runs()))
            })
            .collect();
        for (pc, access) in noticed.executed {
            let mismatches = launch.mismatches.iter();
            let mismatches = mismatches.filter(|mismatch| mismatch.pc == pc);
            effects
                .extend(mismatches.map(|mismatch| {
                    Effect::Mismatch(Box::new((mismatch.clone(), access.clone())))
                }));
        }
        effects.extend(noticed.races.into_iter().map(|race| {
            let tag = match race.memory {
                RacedMemory::Global { base } => {
                    self.memory.at(base).map(|found| Arc::clone(&found.tag))
                }
                RacedMemory::Shared { .. } => None,
            };
            Effect::KernelRace(tag, Box::new(race))
        }));
        effects.extend(failure.and_then(|failure| self.stray(failure)));
        effects
    }

    /// The access that made a kernel fail.
    fn stray(&self, fault: &Fault) -> Option<Effect> {
        let (address, bytes, write, misaligned) = match fault.kind {
            FaultKind::OutOfBounds {
                address,
                bytes,
                write,
            } => (address, bytes, write, false),
            FaultKind::Misaligned {
                address,
                bytes,
                write,
            } => (address, bytes, write, true),
            _ => return None,
        };
        let does = if write { "write" } else { "read" };
        let around = self.memory.around(address);
        let (problem, tag) = match around {
            Some(found) if misaligned => {
                let offset = address - found.base;
                (format!("at byte {offset} of"), Some(&found.tag))
            }
            Some(found) if found.bytes - (address - found.base) >= u64::from(bytes) => {
                let offset = address - found.base;
                let touch = if write { Touch::WRITE } else { Touch::READ };
                let range = offset..offset + u64::from(bytes);
                return Some(Effect::Touch(Arc::clone(&found.tag), vec![(range, touch)]));
            }
            _ => {
                let outside = self.memory.outside(address, bytes.into());
                let nearest = outside.nearest().map(|found| &found.tag);
                (format!("which {}", outside.words()), nearest)
            }
        };
        let place = match tag {
            Some(_) => String::new(),
            None => format!(" at {address:#x}"),
        };
        Some(Effect::Stray(Box::new(Stray {
            misaligned,
            problem: format!("{does} of {bytes} bytes{place}, {problem}"),
            tag: tag.map(Arc::clone),
            access: KernelAccess {
                block: fault.block,
                thread: fault.thread,
                ptx_line: fault.ptx_line,
                source: fault.source_line.as_deref().map(str::to_owned),
                write,
                atomic: false,
            },
        })))
    }

    /// A call reads host memory itself, before it returns (rules 10 and 14).
    pub(crate) fn race_captures(&mut self, address: u64, rows: &Rows) {
        if self.race.is_on() {
            let read = self.host_spot(address, rows, rows.source_pitch);
            let read = read.touched(Touch::READ);
            self.race.host_did(vec![read], self.call, Site::current());
            self.take_findings();
        }
    }

    /// An operation is done.
    pub(crate) fn race_done(&mut self, op: OpId, effects: Vec<Effect>) {
        self.race.did(op, effects, true);
        self.take_findings();
    }

    /// An operation will never run, for its context is lost. Memory still begins and ends.
    pub(crate) fn race_cancelled(&mut self, op: OpId, kind: &OpKind) {
        let effects = self.effects_of(kind).into_iter();
        let effects = effects.filter_map(|effect| match effect {
            Effect::Birth(_) => Some(effect),
            Effect::End(tag) => Some(Effect::Forget(tag)),
            _ => None,
        });
        self.race_done(op, effects.collect());
    }

    /// An allocation is ended by a call, which has waited.
    pub(crate) fn race_ended(&mut self, base: u64) {
        if let Some(found) = self.memory.at(base) {
            let end = Effect::End(Arc::clone(&found.tag));
            self.race.host_did(vec![end], self.call, Site::current());
            self.take_findings();
        }
    }

    /// Reports the findings since the last call, except those that the report of a fault describes.
    pub(crate) fn take_findings(&mut self) {
        let new = &self.race.findings()[self.findings_reported..];
        self.findings_reported += new.len();
        let told = |finding: &&Finding| {
            matches!(
                finding.kind,
                ReportKind::OutOfBounds | ReportKind::Misaligned
            )
        };
        self.reports.extend(
            new.iter()
                .filter(|finding| !told(finding))
                .map(|finding| Report {
                    kind: finding.kind,
                    grade: finding.grade,
                    call: finding.later.call,
                    device: finding.later.device,
                    text: finding.to_string(),
                    time_ns: self.now_ns,
                }),
        );
    }
}

/// The bytes of rows of which the first begins at `start`; rows without gaps are one run.
fn runs(start: u64, rows: &Rows, pitch: u64) -> Vec<Range<u64>> {
    let (count, bytes) = if pitch == rows.width {
        (1, rows.bytes())
    } else {
        (rows.height, rows.width)
    };
    (0..count)
        .map(|row| start + row * pitch..start + row * pitch + bytes)
        .collect()
}
