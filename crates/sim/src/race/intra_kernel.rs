//! Findings within one kernel: races between its threads, its other errors, invalid accesses,
//! element types.

use std::sync::Arc;

use super::{
    ElementMismatch,
    check::AccessChecker,
    effect::InvalidAccess,
    finding::{FindingMemory, Party},
    history::Actor,
    proposal::Proposal,
};
use crate::{
    ReportKind, Severity,
    exec::{
        KernelAccess, KernelError, KernelErrorKind, KernelOrder, KernelRace, MissingOrder,
        RacedMemory,
    },
    memory::AllocationInfo,
};

impl AccessChecker {
    /// Adds the invalid access that made the actor's kernel fail.
    pub(super) fn report_invalid_access(&mut self, actor: &Actor, invalid_access: &InvalidAccess) {
        let Some(operation) = actor.operation() else {
            return;
        };
        let (kind, summary) = match invalid_access.misaligned {
            true => (ReportKind::Misaligned, "misaligned"),
            false => (ReportKind::OutOfBounds, "out of bounds"),
        };
        self.findings.add(super::Finding {
            kind,
            severity: Severity::Error,
            problem: format!("{summary}: {}", invalid_access.problem),
            memory: invalid_access
                .info
                .as_ref()
                .map(|info| FindingMemory::of(info, Vec::new())),
            later: Party {
                thread: Some(invalid_access.access.clone()),
                ..Party::of(operation, invalid_access.access.does())
            },
            earlier: None,
            missing: None,
            proposal: None,
            class: None,
        });
    }

    /// Adds an error of threads of the actor's kernel.
    pub(super) fn report_kernel_error(
        &mut self,
        actor: &Actor,
        error: &KernelError,
        order: KernelOrder,
    ) {
        let Some(operation) = actor.operation() else {
            return;
        };
        let party = |access: &KernelAccess, does| Party {
            thread: Some(access.clone()),
            ..Party::of(operation, does)
        };
        let (problem, does, missing) = kernel_error_text(&error.kind);
        let mut missing = format!("missing: {missing}");
        if order != KernelOrder::Index {
            missing += &format!("\n  found as here with order={order}");
        }
        self.findings.add(super::Finding {
            kind: match error.kind {
                KernelErrorKind::DivergentBarrier { .. }
                | KernelErrorKind::TwoBarriers
                | KernelErrorKind::SkippedBarrier => ReportKind::DivergentBarrier,
                KernelErrorKind::UninitialisedUse { .. } => ReportKind::UninitialisedUse,
                KernelErrorKind::VariableOverrun { .. } => ReportKind::VariableOverrun,
                _ => ReportKind::SyncOperands,
            },
            severity: match error.kind {
                KernelErrorKind::TwoBarriers => Severity::Warning,
                _ => Severity::Error,
            },
            problem,
            memory: None,
            later: party(&error.later, does[0]),
            earlier: error.earlier.as_ref().map(|access| party(access, does[1])),
            missing: Some(missing),
            proposal: None,
            class: None,
        });
    }

    /// Adds an access of another size than the declared element type, once for each kernel and
    /// array.
    pub(super) fn report_element_mismatch(
        &mut self,
        actor: &Actor,
        mismatch: &ElementMismatch,
        access: &KernelAccess,
    ) {
        let Some(operation) = actor.operation() else {
            return;
        };
        let ElementMismatch {
            accessed, declared, ..
        } = mismatch;
        let does = match (access.write, access.atomic) {
            (false, _) => "reads",
            (true, false) => "writes",
            (true, true) => "updates",
        };
        let (param, element) = (declared.name, declared.element);
        let problem = format!(
            "`{}` of {} bytes where the array `{param}` is declared to hold `{element}` of {} \
             bytes",
            accessed.name(),
            accessed.bytes(),
            declared.element_bytes
        );
        let finding = super::Finding {
            kind: ReportKind::ElementType,
            severity: Severity::Error,
            problem: format!("{} {does} {problem}", operation.summary),
            memory: None,
            later: Party {
                thread: Some(access.clone()),
                ..Party::of(operation, does)
            },
            earlier: None,
            missing: None,
            proposal: None,
            class: None,
        };
        let is_told =
            self.findings.listed().iter().any(|reported| {
                (reported.kind, &reported.problem) == (finding.kind, &finding.problem)
            });
        if !is_told {
            self.findings.add(finding);
        }
    }

    /// Adds a race between two threads of the actor's kernel, in that allocation or in shared
    /// memory.
    pub(super) fn report_kernel_race(
        &mut self,
        actor: &Actor,
        info: Option<&Arc<AllocationInfo>>,
        race: &KernelRace,
    ) {
        let Some(operation) = actor.operation() else {
            return;
        };
        if race.class.severity() == Severity::Note && !self.notes {
            return;
        }
        let party = |access: &KernelAccess| Party {
            thread: Some(access.clone()),
            ..Party::of(operation, access.does())
        };
        let (kind, place, memory) = match (&race.memory, info) {
            (RacedMemory::Shared { name, bytes }, _) => {
                let [x, y, z] = race.later.block;
                let memory = FindingMemory {
                    allocation: 0,
                    allocation_bytes: *bytes,
                    description: format!(
                        "{name} ({bytes} bytes, shared memory of block ({x}, {y}, {z}))"
                    ),
                    ranges: race.ranges.clone(),
                };
                (ReportKind::SharedMemoryRace, "shared", Some(memory))
            }
            (RacedMemory::Global { .. }, info) => {
                let memory = info.map(|info| FindingMemory::of(info, race.ranges.clone()));
                (ReportKind::GlobalMemoryRace, "global", memory)
            }
        };
        let mut missing = format!("missing: {}", race.missing);
        if race.later.atomic != race.earlier.atomic {
            missing += "; and only one of the two is atomic";
        }
        let volatile = race.later.volatile || race.earlier.volatile;
        let atomic = race.later.atomic && race.earlier.atomic && !volatile;
        if atomic && race.missing == MissingOrder::Blocks {
            missing += "; and one of the two is atomic for its own block only";
        }
        let orders = &race.orders;
        if orders.found.get() < orders.run || orders.shown_by != KernelOrder::Index {
            missing += &format!(
                "\n  found in {} of {} orders of blocks and warps, as here with order={}",
                orders.found, orders.run, orders.shown_by
            );
        }
        if orders.found.get() < orders.run {
            missing += "; where it was not, an atomic orders the two accesses, or leads the \
                        threads elsewhere, only because the threads come to it in that order";
        }
        let (earlier, later) = (race.earlier.noun(), race.later.noun());
        let mut finding = super::Finding {
            kind,
            severity: race.class.severity(),
            problem: format!("{earlier}/{later} race within a kernel, in {place} memory, on"),
            memory,
            later: party(&race.later),
            earlier: Some(party(&race.earlier)),
            missing: Some(missing),
            proposal: Proposal::within(race),
            class: Some(race.class),
        };
        // Other launches report the same, so that equal reports can be counted.
        if let Some(known) = self.findings.known(&finding) {
            finding.proposal.clone_from(&known.proposal);
        }
        self.findings.add(finding);
    }
}

/// Returns the description of an error, the verbs of the later and the earlier thread, and what is
/// missing.
fn kernel_error_text(error: &KernelErrorKind) -> (String, [&'static str; 2], &'static str) {
    use KernelErrorKind as E;
    let count = |threads: Option<u32>| {
        threads.map_or("the whole block".to_owned(), |count| {
            format!("{count} threads")
        })
    };
    match error {
        E::DivergentBarrier { barrier, in_warp } => (
            format!(
                "divergent barrier: threads of a {} wait at barrier {barrier} on two lines",
                if *in_warp { "warp" } else { "block" },
            ),
            ["waits", "waits"],
            "one barrier that all of them reach together; this one stands in a branch that only \
             some of them take",
        ),
        E::TwoBarriers => (
            "two barriers: warps of a block wait for each other at two __syncthreads()".to_owned(),
            ["waits", "waits"],
            "one __syncthreads() for the whole block, as CUDA demands; PTX counts warps only",
        ),
        E::SkippedBarrier => (
            "skipped barrier: one thread of a block waits at barrier 0, another goes around it \
             and ends"
                .to_owned(),
            ["exits", "waits"],
            "a __syncthreads() that all threads of the block reach, or none; this one stands in a \
             branch or a loop that some of them leave out",
        ),
        E::ThreadCounts { barrier, counts } => (
            format!(
                "thread counts that differ: barrier {barrier} for {} and for {}",
                count(counts[0]),
                count(counts[1])
            ),
            ["arrives", "arrives"],
            "one thread count for all that meet at the barrier, or another barrier for some",
        ),
        E::MixedOperations {
            barrier,
            operations: [later, earlier],
        } => (
            format!("mixed operations: `{later}` and `{earlier}` on barrier {barrier}"),
            ["arrives", "arrives"],
            "another barrier for the reduction: it may not share one with other operations",
        ),
        E::ArrivedTwice { barrier } => (
            format!("arrival at barrier {barrier}, which has not completed since the last one"),
            ["arrives again", "arrives"],
            "a wait for the barrier between the two arrivals, or another barrier for one of them",
        ),
        E::UninitialisedUse { text } => (
            text.clone(),
            ["uses the value", "loads it"],
            "a write of the bytes before they are loaded, and a barrier between the two if another \
             thread writes them",
        ),
        E::VariableOverrun { text } => (
            text.clone(),
            ["accesses it", ""],
            "a check of the index, or a larger variable",
        ),
        E::NotInMask { operation, mask } => (
            format!("`{operation}` by a thread that its member mask {mask:#010x} does not name"),
            ["takes part", ""],
            "the thread's own bit in the mask, or a branch around the operation for the threads \
             that the mask leaves out",
        ),
        E::IncompleteWarp { operation, mask } => (
            format!(
                "`{operation}` by {} of a warp's 32 threads: it needs all of them",
                mask.count_ones()
            ),
            ["takes part", ""],
            "a number of threads that is a multiple of 32, none of which ends before",
        ),
    }
}
