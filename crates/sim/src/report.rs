//! What the simulated driver found wrong: a breach of the caller's obligations, or a fault on the
//! device.

use std::fmt;

/// What sort of wrong a [`Report`] is about.
///
/// ```
/// assert_ne!(millstream_sim::ReportKind::DoubleFree, millstream_sim::ReportKind::UseAfterFree);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReportKind {
    /// A handle that this driver never gave out.
    UnknownHandle,
    /// A handle whose object was given up before.
    DeadHandle,
    /// A handle of one context used with another (rules 20 and 26).
    WrongContext,
    /// A range that no live allocation contains whole.
    OutOfBounds,
    /// Memory used after its free (rule 32).
    UseAfterFree,
    /// Memory used before the point of its stream at which it begins to live (rule 32).
    UseBeforeAllocation,
    /// Memory freed twice.
    DoubleFree,
    /// A free of an address at which no allocation starts, or by the wrong function.
    WrongFree,
    /// A host range of which only a part is page-locked (rule 15).
    PartlyRegistered,
    /// An address that is not aligned as the operation demands.
    Misaligned,
    /// Source and target of a copy overlap.
    Overlap,
    /// A launch whose shape or arguments the kernel or the device does not take.
    BadLaunch,
    /// An argument outside its documented range.
    BadArgument,
    /// An object given up while work that needs it was pending.
    StillInUse,
    /// A host function called the driver (rule 27).
    HostFunctionCalledDriver,
    /// A kernel failed while it ran. The context is lost.
    KernelFault,
    /// A copy or fill failed while it ran. The context is lost.
    CopyFault,
    /// Two operations of different streams use the same bytes, one of them writes them, and nothing
    /// orders the two.
    Race,
    /// The host uses bytes that an operation writes, or writes bytes that one reads, and has not
    /// waited for it.
    HostRace,
    /// Two threads of one kernel use the same bytes of shared memory, one of them writes them, and
    /// nothing orders the two.
    SharedMemoryRace,
    /// The same of global memory, which threads of all blocks of a kernel share.
    GlobalMemoryRace,
    /// Memory freed by an operation or a call that nothing orders behind a use of it (rule 32).
    FreeInFlight,
    /// Bytes read by a kernel, or copied to the host, that nobody ever wrote.
    UninitialisedRead,
    /// A kernel accesses floating-point numbers of another size than an array's declared elements.
    ElementType,
    /// A stream's queue is full and nothing moves: on a GPU the program would hang (rule 54).
    QueueFull,
    /// A [replay](crate::SimConfig::replay) met other calls than those of the recorded run.
    ReplayDiverged,
}

/// The severity of a report.
///
/// ```
/// use millstream_sim::Severity;
/// assert!(Severity::Note < Severity::Error);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A race that changes no value: threads of a kernel write the same bytes to one place.
    /// Reported only on [request](crate::SimConfig::kernel_race_notes).
    Note,
    /// A mistake.
    #[default]
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Error => "error",
        })
    }
}

/// One thing found wrong, in words: what, which operation and stream, which addresses, which
/// allocation.
///
/// Operations are numbered from 1 in the order in which they were enqueued.
///
/// ```
/// # use millstream_sim::{Gpu, SimConfig};
/// assert!(Gpu::new(SimConfig::new()).reports().is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The sort of breach or fault.
    pub kind: ReportKind,
    /// Its severity.
    pub severity: Severity,
    /// The driver function during which it was found, by its `cu*` name. For a fault on the device
    /// that is whichever call the operation happened to run in, not the call that enqueued it.
    pub call: &'static str,
    /// The device that it is about, in a simulation with several devices.
    pub device: Option<u32>,
    /// What happened.
    pub text: String,
    /// When, on the virtual clock.
    pub time_ns: u64,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {} ns in {}", self.kind, self.time_ns, self.call)?;
        if let Some(device) = self.device {
            write!(f, " on device {device}")?;
        }
        write!(f, ": {}", self.text)
    }
}
