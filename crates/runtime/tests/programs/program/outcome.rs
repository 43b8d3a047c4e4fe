//! A step's outcome, as the interpreter logs it.

use millstream::{Error, Rejected};

/// The bytes that a step returned to the host.
pub(crate) type Seen = Option<Vec<u8>>;

#[derive(Debug)]
pub(crate) struct LogEntry {
    pub(crate) outcome: Outcome,
    pub(crate) seen: Seen,
}

#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    /// The step names an empty slot.
    Skipped,
    Failed(Error),
    /// The body of a scope panicked.
    Panicked,
}

/// The outcome of a step that did not succeed.
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
