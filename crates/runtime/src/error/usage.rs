//! Usage errors: invalid calls.

use std::panic::Location;

use super::UsageErrorKind;

/// An invalid call: the name of the operation, and the problem.
///
/// ```
/// use millstream::{Device, Error, UsageErrorKind};
///
/// let buffer = Device::simulated()?.stream()?.upload(&[1_u8, 2, 3])?;
/// let Err(Error::Usage(error)) = buffer.try_slice(1..9) else {
///     unreachable!("the range is out of bounds")
/// };
/// assert_eq!(error.operation(), "slice");
/// assert!(matches!(error.problem(), UsageErrorKind::Range { len: 3, .. }));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {problem}{}", at_line(*location))]
pub struct UsageError {
    operation: &'static str,
    problem: Box<UsageErrorKind>,
    location: Option<&'static Location<'static>>,
}

impl UsageError {
    #[doc(hidden)]
    #[must_use]
    pub fn new(operation: &'static str, problem: UsageErrorKind) -> Self {
        Self {
            operation,
            problem: Box::new(problem),
            location: None,
        }
    }

    /// Adds the source line of the call.
    #[doc(hidden)]
    #[must_use]
    #[cold]
    pub fn at(mut self, location: &'static Location<'static>) -> Self {
        self.location = Some(location);
        self
    }

    /// Adds advice to the error for an operand on another device.
    #[cold]
    pub(crate) fn advising(mut self, clause: &'static str) -> Self {
        if let UsageErrorKind::OtherDevice { advice, .. } = &mut *self.problem {
            *advice = clause;
        }
        self
    }

    /// Adds the names of a kernel's parameters for the operands.
    #[cold]
    pub(crate) fn naming(mut self, name_of: impl Fn(usize) -> Option<&'static str>) -> Self {
        match &mut *self.problem {
            UsageErrorKind::OtherDevice { operand, name, .. } => *name = name_of(*operand),
            UsageErrorKind::Overlap {
                first,
                first_name,
                second,
                second_name,
            } => (*first_name, *second_name) = (name_of(*first), name_of(*second)),
            _ => {}
        }
        self
    }

    /// Returns the name of the method or kernel that was called.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// Returns the problem with the call.
    #[must_use]
    pub fn problem(&self) -> &UsageErrorKind {
        &self.problem
    }

    /// Returns the source line of the call, for launches, copies, fills, downloads, uploads and
    /// other operations of a stream, and for calls that slice or create an array.
    #[must_use]
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.location
    }
}

impl UsageErrorKind {
    /// The source and the target of a copy overlap in memory.
    pub(crate) const SOURCE_AND_TARGET: Self = Self::Overlap {
        first: 0,
        first_name: Some("source"),
        second: 1,
        second_name: Some("target"),
    };
}

/// Formats the source line of a call, to end a sentence.
fn at_line(location: Option<&Location<'_>>) -> String {
    location.map_or_else(String::new, |location| format!(" ({location})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_of_kernels_are_named_by_their_parameters() {
        let names = ["out", "input"];
        let overlap = UsageErrorKind::Overlap {
            first: 0,
            first_name: None,
            second: 1,
            second_name: None,
        };
        let usage_error = UsageError::new("reverse", overlap);
        assert_eq!(
            usage_error
                .clone()
                .naming(|operand| names.get(operand).copied())
                .to_string(),
            "reverse: operands 0 (`out`) and 1 (`input`) overlap in memory, and at least one is \
             written"
        );
        assert_eq!(usage_error.clone().naming(|_| None), usage_error);
    }
}
