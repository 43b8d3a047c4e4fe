//! What a step has come to, as its machine saw it.

use millstream::{Error, Rejected};

/// The bytes that a step has brought to the host.
pub(crate) type Seen = Option<Vec<u8>>;

/// What a step has come to.
#[derive(Debug)]
pub(crate) struct LogEntry {
    pub(crate) outcome: Outcome,
    pub(crate) seen: Seen,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    /// A place that it names was empty.
    Skipped,
    Failed(Error),
    /// A scope that its body left by a panic.
    Panicked,
}

/// Why a step was not done.
pub(crate) struct Stop {
    pub(crate) outcome: Outcome,
    pub(crate) seen: Seen,
}

impl Stop {
    pub(crate) const SKIP: Self = Self {
        outcome: Outcome::Skipped,
        seen: None,
    };
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self {
            outcome: Outcome::Failed(error),
            seen: None,
        }
    }
}

impl<S> From<Rejected<S>> for Stop {
    fn from(rejected: Rejected<S>) -> Self {
        rejected.error.into()
    }
}

pub(crate) type Answer = Result<Seen, Stop>;

impl From<Answer> for LogEntry {
    fn from(answer: Answer) -> Self {
        match answer {
            Ok(seen) => Self {
                outcome: Outcome::Done,
                seen,
            },
            Err(Stop { outcome, seen }) => Self { outcome, seen },
        }
    }
}
