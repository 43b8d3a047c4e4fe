//! Reports of the simulated driver: violations of the caller's obligations and faults on the
//! device.

use std::fmt;

/// The kind of error that a [`Report`] describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReportKind {
    /// A handle that this driver never returned.
    UnknownHandle,
    /// A handle whose object was destroyed.
    DeadHandle,
    /// A handle of one context used with another (rules 20 and 26: streams, and events to record,
    /// belong to one context).
    WrongContext,
    /// A range that no single live allocation contains.
    OutOfBounds,
    /// Memory used after its free (rule 32: every use is ordered between allocation and free).
    UseAfterFree,
    /// Memory used before its allocation in stream order (rule 32).
    UseBeforeAllocation,
    /// Memory freed twice.
    DoubleFree,
    /// A free of an address where no allocation starts, or with the wrong function.
    WrongFree,
    /// A host range that is only partly page-locked (rule 15).
    PartlyRegistered,
    /// An address that is not aligned as the operation requires.
    Misaligned,
    /// A copy whose source and destination overlap.
    Overlap,
    /// A launch with a configuration or arguments that the kernel or the device does not accept.
    BadLaunch,
    /// An argument outside its documented range.
    BadArgument,
    /// An object destroyed while pending work needs it.
    StillInUse,
    /// A driver call from a host function (rule 27).
    HostFunctionCalledDriver,
    /// A kernel that failed while it ran. The context is lost.
    KernelFault,
    /// A copy or fill that failed while it ran. The context is lost.
    CopyFault,
    /// A race between two operations of different streams: both access the same bytes, at least one
    /// writes, and neither happens before the other.
    Race,
    /// A race between the host and an operation: both access the same bytes, at least one writes,
    /// and the host has not waited for the operation.
    HostRace,
    /// A race between two threads of one kernel on shared memory: both access the same bytes, at
    /// least one writes, and they are unordered.
    SharedMemoryRace,
    /// A race between two threads of one kernel on global memory, which the threads of all blocks
    /// share.
    GlobalMemoryRace,
    /// A barrier that the threads of a block reach at different lines, or that some go around, so
    /// that not all of them reach the same one.
    DivergentBarrier,
    /// A barrier or an operation between lanes whose operands do not fit those of other threads: a
    /// member mask without the executing lane, thread counts that differ, or an incomplete warp.
    SyncOperands,
    /// A free that is not ordered after every use of the memory (rule 32).
    FreeInFlight,
    /// A read of uninitialised bytes by a kernel, or by a copy to the host.
    UninitialisedRead,
    /// A use of a value of shared or local memory that was never written: it decides a branch or an
    /// address, or reaches global memory.
    UninitialisedUse,
    /// An access by an address in one variable of shared memory that reaches other bytes.
    VariableOverrun,
    /// A floating-point access in a kernel whose size differs from the array's declared elements.
    ElementType,
    /// The list of the race checker's findings is full: from here on, findings at the places of
    /// listed ones are only [counted](crate::Gpu::unlisted_findings).
    FindingsOmitted,
    /// A kernel that polls memory until an operation that CUDA need not run beside it has written
    /// it. Reported under the strict reading of rule 63.
    ReliesOnConcurrency,
    /// A full stream queue without progress: on a GPU the program would hang (rule 54: enqueueing
    /// into a full queue blocks the host).
    QueueFull,
    /// A [replay](crate::SimConfig::replay) whose calls differ from the logged run.
    ReplayDiverged,
}

/// The severity of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A race without an effect on values: threads of a kernel write the same bytes to the same
    /// address. Reported only on [request](crate::SimConfig::kernel_race_notes).
    Note,
    /// A race of a volatile access with a volatile or atomic one. Both are strong accesses in PTX,
    /// but volatile accesses are not synchronisation in CUDA C++. Also, warps of a block that wait
    /// for each other at two `__syncthreads()`, which PTX allows.
    Warning,
    /// A violation of the caller's obligations, or a fault.
    #[default]
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A violation or fault, with the operation, stream, addresses and allocation in words.
///
/// Operations are numbered from 1 in the order in which they were enqueued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The kind of violation or fault.
    pub kind: ReportKind,
    /// The severity.
    pub severity: Severity,
    /// The `cu*` name of the driver function during which it was detected. A fault on the device
    /// names the call in which the operation happened to run, not the call that enqueued it.
    pub call: &'static str,
    /// The device concerned, in a simulation with several devices.
    pub device: Option<u32>,
    /// The description.
    pub text: String,
    /// The detection time, in nanoseconds of virtual time.
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
