//! Classes of data races within a launch.

use std::fmt;

use crate::Severity;

/// The class of a [`KernelRace`](super::KernelRace), which decides its severity.
///
/// Threads that write the same bytes to one location leave the same bytes in every order, if no
/// other access races with them; compilers emit such stores for reductions. CUDA's memory model has
/// no exception for them, so they are a [note](Severity::Note). Races of volatile accesses with
/// each other and with atomics are a [warning](Severity::Warning). Every other race is an
/// [error](Severity::Error).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RaceClass {
    /// All accesses that race for the bytes write the same values.
    SameBytes,
    /// One of the two accesses is volatile and the other volatile or atomic, and they do not write
    /// the same bytes.
    Volatile,
    /// The two accesses write the same bytes, but another race for some of the bytes is an error.
    SameBytesAmongOthers,
    /// The two accesses write different bytes.
    DifferentBytes,
    /// One of the two accesses reads the bytes. An atomic both reads and writes.
    Read,
}

impl RaceClass {
    /// Returns the severity of the race.
    #[must_use]
    pub fn severity(self) -> Severity {
        match self {
            Self::SameBytes => Severity::Note,
            Self::Volatile => Severity::Warning,
            Self::SameBytesAmongOthers | Self::DifferentBytes | Self::Read => Severity::Error,
        }
    }
}

impl RaceClass {
    /// Returns the rank of the class. Of races at the same lines, the highest is reported.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::SameBytes => 0,
            Self::Volatile => 1,
            Self::SameBytesAmongOthers => 2,
            Self::DifferentBytes | Self::Read => 3,
        }
    }
}

impl fmt::Display for RaceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SameBytes => {
                "both write the same bytes, and no other access races for them; let one thread \
                 write them, or use an atomic"
            }
            Self::Volatile => {
                "volatile accesses are not synchronisation in CUDA C++; use atomic functions or \
                 cuda::atomic_ref"
            }
            Self::SameBytesAmongOthers => {
                "both write the same bytes, but other accesses that race for them do not"
            }
            Self::DifferentBytes => "the two write different bytes",
            Self::Read => "one of the two reads the bytes",
        })
    }
}
