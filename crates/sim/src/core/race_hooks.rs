//! The simulator's calls into the race checker, and the transfer of its findings to the reports.

use std::{ops::Range, sync::Arc};

use millstream_driver::printable;
use millstream_ptx::Site;

use super::{
    objects::waiting::KernelRecord,
    op::{CopyOp, CopySource, CopyTarget, KernelLaunch, OpKind},
    state::SimState,
};
use crate::{
    Report, ReportKind,
    exec::{self, KernelAccess, KernelFault, KernelFaultKind, RacedMemory},
    ids::OpId,
    memory::{AccessBitmap, AccessFlags, AllocationInfo, Rows},
    ptx,
    race::{ByteRanges, Effect, Finding, Input, InvalidAccess, Synchronisation},
};

impl SimState {
    /// Returns the effects that an operation other than a kernel is about to have.
    pub(crate) fn effects_of(&self, kind: &OpKind) -> Vec<Effect> {
        if !self.race_checker.is_on() {
            return Vec::new();
        }
        let info = |base: u64| self.memory.at(base).map(|found| Arc::clone(&found.info));
        if let Some(parts) = self.parts_of(kind) {
            return parts
                .iter()
                .flat_map(|part| self.effects_of(part))
                .collect();
        }
        match kind {
            OpKind::Copy(copy) => vec![self.copied(copy)],
            OpKind::Fill(fill) => {
                match self.byte_ranges(fill.target, &Rows::one(fill.bytes), fill.bytes) {
                    Some(byte_ranges) => vec![byte_ranges.accessed(AccessFlags::WRITE)],
                    None => Vec::new(),
                }
            }
            OpKind::Allocation(base) => info(*base).map(Effect::Allocate).into_iter().collect(),
            OpKind::GraphAllocation(base) => {
                info(*base).map(Effect::AllocateAgain).into_iter().collect()
            }
            OpKind::Free(base) | OpKind::GraphFree(base) => {
                info(*base).map(Effect::Free).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn copied(&self, copy: &CopyOp) -> Effect {
        let (rows, from, to) = (&copy.rows, copy.rows.source_pitch, copy.rows.target_pitch);
        Effect::Copy {
            from: match &copy.source {
                CopySource::Mapped(address) => self.byte_ranges(*address, rows, from),
                CopySource::Captured(_) => None,
                CopySource::Host(range) => Some(self.host_byte_ranges(range.address(), rows, from)),
            },
            to: match &copy.target {
                CopyTarget::Mapped(address) => self.byte_ranges(*address, rows, to),
                CopyTarget::Host(range) => Some(self.host_byte_ranges(range.address(), rows, to)),
            },
        }
    }

    /// Returns the part of the rows within the allocation around their first address, live or
    /// freed.
    fn byte_ranges(&self, address: u64, rows: &Rows, pitch: u64) -> Option<ByteRanges> {
        let found = self.memory.around(address)?;
        let mut runs = runs(address - found.base, rows, pitch);
        runs.retain_mut(|run| {
            run.end = run.end.min(found.bytes);
            run.start < run.end
        });
        Some(ByteRanges {
            info: Arc::clone(&found.info),
            runs,
        })
    }

    /// Returns rows of host memory, page-locked or pageable.
    pub(crate) fn host_byte_ranges(&self, address: u64, rows: &Rows, pitch: u64) -> ByteRanges {
        self.byte_ranges(address, rows, pitch)
            .unwrap_or_else(|| ByteRanges {
                info: Arc::new(AllocationInfo {
                    initialised: true,
                    is_host_memory: true,
                    is_everyones: true,
                    ..AllocationInfo::default()
                }),
                runs: runs(address, rows, pitch),
            })
    }

    /// Returns the effects of a kernel: the blocks of the heap that it allocated and freed, its
    /// accesses, the findings of the checks within it, and the accesses that failed.
    pub(super) fn effects_of_kernel<'a>(
        &mut self,
        launch: &KernelLaunch,
        record: KernelRecord,
        failures: impl Iterator<Item = &'a KernelFault>,
    ) -> Vec<Effect> {
        let KernelRecord {
            mut accesses,
            heap: [allocated, freed],
            findings,
            waited,
            ..
        } = record;
        accesses.sort_by_key(|(base, ..)| *base);
        let mut effects: Vec<_> = allocated.into_iter().map(Effect::Allocate).collect();
        effects.extend(synchronisation(launch, &accesses, &waited).map(Effect::Synchronise));
        let kernel = launch.module.ptx.kernel(&launch.name);
        let prints = kernel.is_some_and(ptx::Kernel::prints);
        effects.extend(prints.then_some(Effect::Output));
        let accesses = accesses.into_iter();
        effects.extend(accesses.map(|(_, info, bitmap)| Effect::Access(info, bitmap.runs())));
        for (pc, access) in findings.executed {
            let mismatches = launch.mismatches.iter();
            let mismatches = mismatches.filter(|mismatch| mismatch.pc == pc);
            effects.extend(mismatches.map(|mismatch| {
                Effect::ElementMismatch(Box::new((mismatch.clone(), access.clone())))
            }));
        }
        effects.extend(findings.races.into_iter().map(|race| {
            let info = match race.memory {
                RacedMemory::Global { base } => {
                    self.memory.at(base).map(|found| Arc::clone(&found.info))
                }
                RacedMemory::Shared { .. } => None,
            };
            Effect::KernelRace(info, Box::new(race))
        }));
        let kernel_errors = findings.kernel_errors.into_errors();
        effects.extend(kernel_errors.map(|error| Effect::KernelError(Box::new(error))));
        effects.extend(failures.filter_map(|failure| self.invalid_access(failure)));
        effects.extend(freed.into_iter().map(Effect::Free));
        effects
    }

    /// Returns the effect of the access that made a kernel fail.
    fn invalid_access(&self, fault: &KernelFault) -> Option<Effect> {
        let (address, bytes, write, misaligned) = match fault.kind {
            KernelFaultKind::OutOfBounds {
                address,
                bytes,
                write,
            } => (address, bytes, write, false),
            KernelFaultKind::Misaligned {
                address,
                bytes,
                write,
            } => (address, bytes, write, true),
            _ => return None,
        };
        let does = if write { "write" } else { "read" };
        let around = self.memory.around(address);
        let (problem, info) = match around {
            Some(found) if misaligned => {
                let offset = address - found.base;
                (format!("at byte {offset} of"), Some(&found.info))
            }
            Some(found) if found.bytes - (address - found.base) >= u64::from(bytes) => {
                let offset = address - found.base;
                let touch = if write {
                    AccessFlags::WRITE
                } else {
                    AccessFlags::READ
                };
                let range = offset..offset + u64::from(bytes);
                return Some(Effect::Access(
                    Arc::clone(&found.info),
                    vec![(range, touch)],
                ));
            }
            _ => {
                let (place, nearest) = self.memory.whereabouts(address, bytes.into());
                (format!("which {place}"), nearest.map(|found| &found.info))
            }
        };
        let place = match info {
            Some(_) => String::new(),
            None => format!(" at {address:#x}"),
        };
        Some(Effect::InvalidAccess(Box::new(InvalidAccess {
            misaligned,
            problem: format!("{does} of {bytes} bytes{place}, {problem}"),
            info: info.map(Arc::clone),
            access: KernelAccess {
                block: fault.block,
                thread: fault.thread,
                ptx_line: fault.ptx_line,
                source: fault.source_line.as_deref().map(str::to_owned),
                write,
                atomic: false,
                volatile: false,
            },
        })))
    }

    /// Records that a call reads host memory before it returns (rules 10 and 14: the source is
    /// captured at the call).
    pub(crate) fn race_captures(&mut self, address: u64, rows: &Rows) {
        if self.race_checker.is_on() {
            let read = self.host_byte_ranges(address, rows, rows.source_pitch);
            let read = read.accessed(AccessFlags::READ);
            let input = Input::HostDid(vec![read], self.call, Site::current());
            self.race_checker.take(input);
            self.take_findings();
        }
    }

    /// Records the effects of a completed operation.
    pub(crate) fn race_done(&mut self, op: OpId, effects: Vec<Effect>) {
        self.race_checker.take(Input::Did(op, effects, true));
        self.take_findings();
    }

    /// Records effects of an operation that may have more.
    pub(crate) fn race_did(&mut self, op: OpId, effects: Vec<Effect>) {
        self.race_checker.take(Input::Did(op, effects, false));
    }

    /// Records an operation that never runs because its context is lost. Lifetimes of memory still
    /// begin and end.
    pub(crate) fn race_cancelled(&mut self, op: OpId, kind: &OpKind) {
        let effects = self.effects_of(kind).into_iter();
        let effects = effects.filter_map(|effect| match effect {
            Effect::Allocate(_) => Some(effect),
            Effect::Free(info) => Some(Effect::Discard(info)),
            _ => None,
        });
        self.race_done(op, effects.collect());
        if let OpKind::Conditional(conditional) = kind {
            for op in conditional.race_ops() {
                self.race_done(op, Vec::new());
            }
        }
    }

    /// Records that a call, which has waited for the device, frees an allocation.
    pub(crate) fn race_freed(&mut self, base: u64) {
        if let Some(found) = self.memory.at(base) {
            let end = Effect::Free(Arc::clone(&found.info));
            let input = Input::HostDid(vec![end], self.call, Site::current());
            self.race_checker.take(input);
            self.take_findings();
        }
    }

    /// Records the end of a graph's memory, which no operation can use any more.
    pub(crate) fn race_discarded(&mut self, base: u64) {
        if let Some(found) = self.memory.at(base) {
            let end = Effect::Discard(Arc::clone(&found.info));
            let input = Input::HostDid(vec![end], self.call, None);
            self.race_checker.take(input);
        }
    }

    /// Adds the new findings to the reports, except the ones that a fault's report already
    /// describes.
    pub(crate) fn take_findings(&mut self) {
        let new = &self.race_checker.findings()[self.findings_reported..];
        self.findings_reported += new.len();
        let told = |finding: &&Finding| {
            matches!(
                finding.kind,
                ReportKind::OutOfBounds | ReportKind::Misaligned
            )
        };
        let reports = new
            .iter()
            .filter(|finding| !told(finding))
            .map(|finding| Report {
                kind: finding.kind,
                severity: finding.severity,
                call: finding.later.call,
                device: finding.later.device,
                text: printable(&finding.to_string()),
                time_ns: self.now_ns,
            });
        for report in reports.collect::<Vec<_>>() {
            self.add_report(report);
        }
        if !self.omission_reported && self.race_checker.omits_findings() {
            self.omission_reported = true;
            let text = "findings at the places of earlier ones are only counted from now on";
            self.report(ReportKind::FindingsOmitted, text.to_owned());
        }
    }
}

/// Returns the strong accesses of a kernel that may order it with others, if it has any. Those that
/// it `waited` for are given by address.
fn synchronisation(
    launch: &KernelLaunch,
    accesses: &[(u64, Arc<AllocationInfo>, Box<AccessBitmap>)],
    waited: &[Range<u64>],
) -> Option<Synchronisation> {
    let kernel = launch.module.ptx.kernel(&launch.name)?;
    let mut releases = None;
    let mut own = Synchronisation {
        is_wait: launch.is_wait_for_value(),
        loops: kernel.code.repeats,
        ..Synchronisation::default()
    };
    for (base, info, bitmap) in accesses {
        let [mut acquired, written] = bitmap.strong_runs();
        acquired.extend(written.iter().flat_map(|run| {
            let seen = waited.iter().map(|seen| {
                let from = seen.start.saturating_sub(*base).max(run.start);
                from..seen.end.saturating_sub(*base).min(run.end)
            });
            seen.filter(|seen| seen.start < seen.end)
        }));
        let ranges = |runs| ByteRanges {
            info: Arc::clone(info),
            runs,
        };
        if !acquired.is_empty() {
            own.acquired.push(ranges(acquired));
        }
        if !written.is_empty() && *releases.get_or_insert_with(|| exec::releases(kernel)) {
            own.released.push(ranges(written));
        }
    }
    (!own.acquired.is_empty() || !own.released.is_empty()).then_some(own)
}

/// Returns the byte ranges of rows from `start` on. Contiguous rows form one range.
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
