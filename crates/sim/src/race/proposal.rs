//! The synchronisation that would order the two actors of a finding.

use std::fmt;

use serde_json::{Value, json};

use crate::exec::{KernelRace, KernelRepair, MissingOrder};

/// The kind of a [`Proposal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProposalKind {
    /// An event that is recorded behind the one operation, and that the stream of the other waits
    /// for.
    Event,
    /// A wait of the host for the operation.
    HostWait,
    /// A dependency between two nodes of a graph.
    Dependency,
    /// The free on the stream of the operation, behind it.
    FreeOnStream,
    /// The free only after the later operation.
    FreeLater,
    /// A release of the value by the later actor, and an acquire by the earlier one, which waits
    /// for it: any wait for the earlier one would be a deadlock.
    Release,
    /// Synchronisation within the kernel.
    Kernel,
}

/// The smallest synchronisation that would order the two actors of a
/// [`Finding`](super::Finding), judged on the trace.
///
/// ```
/// use millstream_driver::{DeviceOrdinal, Driver, FillPattern};
/// use millstream_sim::{Gpu, SimConfig, race::ProposalKind};
/// let races = |config| {
///     let gpu = Gpu::new(config);
///     let context = gpu.primary_context_retain(DeviceOrdinal::from_raw(0)).unwrap();
///     // SAFETY: context, streams and memory are alive.
///     unsafe {
///         let memory = gpu.mem_alloc(context, 64).unwrap();
///         for _ in 0..2 {
///             let stream = gpu.stream_create(context, true, 0).unwrap();
///             gpu.memset_async(context, memory, FillPattern::U8(1), 64, stream).unwrap();
///         }
///         gpu.context_synchronize(context).unwrap();
///     }
///     gpu.findings()
/// };
/// let proposal = races(SimConfig::new())[0].proposal.clone().unwrap();
/// assert_eq!(proposal.kind, ProposalKind::Event);
/// let (after, before) = (proposal.after.unwrap(), proposal.before.unwrap());
/// assert!(races(SimConfig::new().edge(after, before)).is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proposal {
    /// The kind of synchronisation.
    pub kind: ProposalKind,
    /// The number of the operation that must be complete.
    pub after: Option<u64>,
    /// The number of the operation that must come later; `None` for the host.
    pub before: Option<u64>,
    /// The insertions into the kernel, for a race within it.
    pub repair: Option<KernelRepair>,
    /// The description.
    pub text: String,
}

impl Proposal {
    /// Returns the proposal for a race within a kernel, if there is one.
    pub(super) fn within(race: &KernelRace) -> Option<Self> {
        let text = match (&race.repair, race.missing) {
            (Some(repair), _) => format!("{repair} (tried: the race is gone, no other appears)"),
            (None, MissingOrder::Update) => format!(
                "an atomic function, such as atomicAdd(), in the place of the update on line {} of \
                 the PTX (not tried)",
                race.later.ptx_line.max(race.earlier.ptx_line)
            ),
            (None, _) => return None,
        };
        Some(Self {
            kind: ProposalKind::Kernel,
            after: None,
            before: None,
            repair: race.repair.clone(),
            text,
        })
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "kind": format!("{:?}", self.kind),
            "after": self.after,
            "before": self.before,
            "text": self.text,
        })
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
