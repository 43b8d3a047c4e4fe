//! Verdicts on races within a launch.

use std::fmt;

use crate::Grade;

/// The reason for the grade of a [`KernelRace`](super::KernelRace).
///
/// Threads that write the same bytes to one place leave the same bytes in every order, if no other
/// access races with them; compilers emit such stores for reductions. CUDA's memory model has no
/// exception for them, so they are a [note](Grade::Note). Every other race is an
/// [error](Grade::Error).
///
/// ```
/// use millstream_sim::{Grade, exec::Verdict};
/// assert_eq!(Verdict::SameBytes.grade(), Grade::Note);
/// assert_eq!(Verdict::DifferentBytes.grade(), Grade::Error);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// All accesses that race for the bytes write the same values.
    SameBytes,
    /// The two write the same bytes, but another race at some of them is an error.
    SameBytesAmongOthers,
    /// The two write different bytes.
    DifferentBytes,
    /// One of the two reads the bytes. An atomic reads them as well as writing them.
    Read,
}

impl Verdict {
    /// Whether the race is an error.
    #[must_use]
    pub fn grade(self) -> Grade {
        match self {
            Self::SameBytes => Grade::Note,
            Self::SameBytesAmongOthers | Self::DifferentBytes | Self::Read => Grade::Error,
        }
    }
}

impl Verdict {
    /// The order among races at the same lines: the highest is reported.
    pub(super) fn rank(self) -> u8 {
        match self {
            Self::SameBytes => 0,
            Self::SameBytesAmongOthers => 1,
            Self::DifferentBytes | Self::Read => 2,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SameBytes => "both write the same bytes, and no other access races for them",
            Self::SameBytesAmongOthers => {
                "both write the same bytes, but other accesses that race for them do not"
            }
            Self::DifferentBytes => "the two write different bytes",
            Self::Read => "one of the two reads the bytes",
        })
    }
}
