//! Findings of the race checker: structured, as text, and as JSON.

use std::{fmt, ops::Range};

use serde_json::{Value, json};

use super::proposal::Proposal;
use crate::{
    ReportKind, Severity,
    exec::{KernelAccess, RaceClass},
};

/// The number of byte ranges that a text lists.
const RANGES_SHOWN: usize = 4;

/// A finding of the race checker, the structured form of the text in its
/// [`Report`](crate::Report).
///
/// ```
/// use millstream_driver::{DeviceOrdinal, Driver, FillPattern};
/// use millstream_sim::{Gpu, ReportKind, SimConfig};
/// let gpu = Gpu::new(SimConfig::new());
/// let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
/// // SAFETY: context, streams and memory are alive.
/// unsafe {
///     let memory = gpu.mem_alloc(context, 64).unwrap();
///     for _ in 0..2 {
///         let stream = gpu.stream_create(context, true, 0).unwrap();
///         gpu.memset_async(context, memory, FillPattern::U8(1), 64, stream).unwrap();
///     }
///     gpu.context_synchronize(context).unwrap();
/// }
/// let race = &gpu.findings()[0];
/// assert_eq!(race.kind, ReportKind::Race);
/// assert_eq!(race.memory.as_ref().unwrap().ranges, [0..64]);
/// assert!(race.missing.is_some()); // the order that would prevent it
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The kind of the finding.
    pub kind: ReportKind,
    /// The severity.
    pub severity: Severity,
    /// A short description of the problem.
    pub problem: String,
    /// The memory, if the finding is about an allocation.
    pub memory: Option<FindingMemory>,
    /// The actor; of two, the one that was enqueued or called later.
    pub later: Party,
    /// The earlier actor of the conflict.
    pub earlier: Option<Party>,
    /// The missing ordering edge between the two.
    pub missing: Option<String>,
    /// The smallest synchronisation that would order the two.
    pub proposal: Option<Proposal>,
    /// The reason for the severity of a race within a kernel.
    pub class: Option<RaceClass>,
}

/// The allocation of a [`Finding`], and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FindingMemory {
    /// The allocation's number, from 1 in the order of allocation. 0 stands for pageable host
    /// memory and for variables in a block's shared memory.
    pub allocation: u64,
    /// The size in bytes; 0 for pageable memory.
    pub allocation_bytes: u64,
    /// A description with number, size, origin and source line.
    pub description: String,
    /// The bytes, as offsets in the allocation; addresses in pageable memory. Empty if the finding
    /// is about the whole allocation.
    pub ranges: Vec<Range<u64>>,
}

/// One actor of a [`Finding`]: an operation or the host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Party {
    /// The operation's number, from 1 in the order of enqueueing; `None` for the host.
    pub operation: Option<u64>,
    /// The kind of the operation, with the kernel's name.
    pub what: String,
    /// The name of its stream in texts.
    pub stream: Option<String>,
    /// The device of the stream, if there are several.
    pub device: Option<u32>,
    /// The thread of the kernel, if the finding is about one.
    pub thread: Option<KernelAccess>,
    /// The access as a verb: `reads`, `writes`.
    pub does: &'static str,
    /// The driver function that enqueued it.
    pub call: &'static str,
    /// The caller's [`Label`](crate::race::Label), or the line of a host access.
    pub site: Option<String>,
}

impl Finding {
    /// Returns the finding as a JSON object with the names of its fields.
    #[must_use]
    pub fn to_json(&self) -> String {
        json!({
            "kind": format!("{:?}", self.kind),
            "severity": self.severity.to_string(),
            "problem": self.problem,
            "memory": self.memory.as_ref().map(FindingMemory::json),
            "later": self.later.json(),
            "earlier": self.earlier.as_ref().map(Party::json),
            "missing": self.missing,
            "proposal": self.proposal.as_ref().map(Proposal::json),
            "class": self.class.map(|class| class.to_string()),
        })
        .to_string()
    }

    /// Returns the kind of the finding and the places of its actors: findings of a loop differ in
    /// other respects only.
    pub(super) fn places(&self) -> String {
        let place = |party: &Party| {
            let thread = party.thread.as_ref();
            let line = thread.map(|access| (access.ptx_line, &access.source));
            format!(
                "{:?}",
                (&party.what, party.does, party.call, &party.site, line)
            )
        };
        let earlier = self.earlier.as_ref().map(place);
        format!("{:?}", (self.kind, place(&self.later), earlier))
    }

    /// Returns whether both describe the same accesses. The missing edges may differ, because the
    /// host may have seen more work complete.
    pub(super) fn is_the_race_of(&self, other: &Self) -> bool {
        let sides = (&self.later, &self.earlier, &self.memory);
        self.kind == other.kind && sides == (&other.later, &other.earlier, &other.memory)
    }
}

impl FindingMemory {
    fn json(&self) -> Value {
        let ranges: Vec<_> = self
            .ranges
            .iter()
            .map(|range| [range.start, range.end])
            .collect();
        json!({
            "allocation": self.allocation,
            "allocation_bytes": self.allocation_bytes,
            "description": self.description,
            "ranges": ranges,
        })
    }
}

impl Party {
    fn json(&self) -> Value {
        let thread = self.thread.as_ref().map(|access| {
            json!({
                "block": access.block,
                "thread": access.thread,
                "ptx_line": access.ptx_line,
                "source": access.source,
                "write": access.write,
                "atomic": access.atomic,
                "volatile": access.volatile,
            })
        });
        json!({
            "operation": self.operation,
            "what": self.what,
            "stream": self.stream,
            "device": self.device,
            "thread": thread,
            "does": self.does,
            "call": self.call,
            "site": self.site,
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problem)?;
        if let Some(memory) = &self.memory {
            write!(f, "{memory}")?;
        }
        write!(f, "\n  {}", self.later)?;
        if let Some(earlier) = &self.earlier {
            write!(f, "\n  {earlier}")?;
        }
        if let Some(missing) = &self.missing {
            write!(f, "\n  {missing}")?;
        }
        if let Some(proposal) = &self.proposal {
            write!(f, "\n  to order them: {proposal}")?;
        }
        if let Some(class) = &self.class {
            write!(f, "\n  {}: {class}", self.severity)?;
        }
        Ok(())
    }
}

impl fmt::Display for FindingMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            ranges,
            description,
            ..
        } = self;
        if ranges.is_empty() {
            return write!(f, " {description}");
        }
        if self.allocation == 0 && self.allocation_bytes == 0 {
            let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
            return write!(f, " {bytes} bytes of {description}");
        }
        for (index, range) in ranges.iter().take(RANGES_SHOWN).enumerate() {
            let summary = if index == 0 { " bytes" } else { "," };
            write!(f, "{summary} {}..{}", range.start, range.end)?;
        }
        if ranges.len() > RANGES_SHOWN {
            write!(f, " and {} more ranges", ranges.len() - RANGES_SHOWN)?;
        }
        write!(f, " of {description}")
    }
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.operation, &self.stream) {
            (Some(operation), Some(stream)) => {
                write!(f, "operation {operation} on {stream}, {}", self.what)?
            }
            _ => f.write_str(&self.what)?,
        }
        if let Some(thread) = &self.thread {
            write!(f, ", {thread}")?;
        }
        if let Some(site) = &self.site {
            write!(f, ", {site},")?;
        }
        write!(f, " {}", self.does)
    }
}
