//! Errors, in two layers: what the caller did wrong, and what the device could not do.

mod operation;

use std::{fmt, ops::Range, panic::Location, sync::Arc};

use millstream_driver::DriverError;

use operation::probably;
pub use operation::{OperationKind, Suspect};

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something did not happen.
///
/// ```
/// use millstream::{Device, Error};
///
/// let stream = Device::simulated()?.stream()?;
/// let four = stream.upload(&[1, 2, 3, 4])?;
/// let mut three = stream.zeros::<i32>(3)?;
/// let error = stream.copy(&four, &mut three).unwrap_err();
/// assert!(matches!(error, Error::Usage(_)));
/// assert_eq!(error.to_string(), "copy: the source has 4 elements and the target 3; they must be equal");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call was wrong. Nothing was enqueued, and everything is usable as before.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The device did not do what it was asked, rightly, to do.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The device has not enough memory, also after all that was freed had been given back.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
    /// An earlier failure has made the device unusable: nothing runs on it any more in this
    /// process.
    #[error("the device is lost: {cause}{}", probably(suspects))]
    #[non_exhaustive]
    DeviceLost {
        /// The failure that was seen first.
        cause: DriverError,
        /// The operations that may have caused it: see [`Health`](crate::Health).
        suspects: Arc<[Suspect]>,
    },
    /// No such device, or nothing that can drive it.
    #[error("{reason}")]
    Unavailable {
        /// What was looked for, where, and what was found.
        reason: Arc<str>,
    },
    /// A simulated device was asked for, or is needed for want of a GPU, in a build without the
    /// feature `sim`.
    #[error(
        "{asked}; the simulated device is not part of this build: enable the feature `sim` of the crate `millstream`"
    )]
    #[non_exhaustive]
    NoSimulator {
        /// What asked for it: an environment variable, or the lack of a GPU and its reason.
        asked: Arc<str>,
    },
}

impl Error {
    pub(crate) fn unavailable(reason: impl fmt::Display) -> Self {
        Self::Unavailable {
            reason: reason.to_string().into(),
        }
    }

    /// The error of a kernel whose `requires` clause does not hold. Called by code that `kernels!`
    /// writes.
    #[doc(hidden)]
    #[must_use]
    #[cold]
    #[track_caller]
    pub fn requires(kernel: &'static str, clause: &'static str, values: String) -> Self {
        let usage_error = UsageError::new(kernel, UsageErrorKind::Requires { clause, values });
        usage_error.at(Location::caller()).into()
    }
}

/// A wrong call: what was called, and what is wrong with it.
///
/// ```
/// use millstream::{Device, Error, UsageErrorKind};
///
/// let buffer = Device::simulated()?.stream()?.upload(&[1_u8, 2, 3])?;
/// let Err(Error::Usage(error)) = buffer.try_slice(1..9) else { unreachable!("nine is past the end") };
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
    pub(crate) fn new(operation: &'static str, problem: UsageErrorKind) -> Self {
        Self {
            operation,
            problem: Box::new(problem),
            location: None,
        }
    }

    /// The same, with the line that made the call.
    #[cold]
    pub(crate) fn at(mut self, location: &'static Location<'static>) -> Self {
        self.location = Some(location);
        self
    }

    /// The same, with the names of a kernel's parameters for the operands.
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

    /// What was called: a method's or a kernel's name.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// What is wrong with the call.
    #[must_use]
    pub fn problem(&self) -> &UsageErrorKind {
        &self.problem
    }

    /// The line that made the call: of launches, and of calls that take a part of an array or make
    /// one.
    #[must_use]
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.location
    }
}

/// What can be wrong with a call.
///
/// ```
/// use millstream::UsageErrorKind;
/// let problem = UsageErrorKind::Length { source_len: 4, target_len: 3 };
/// assert_eq!(problem.to_string(), "the source has 4 elements and the target 3; they must be equal");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageErrorKind {
    /// Two operands differ in length.
    #[error("the source has {source_len} elements and the target {target_len}; they must be equal")]
    Length {
        /// Elements of the source.
        source_len: usize,
        /// Elements of the target.
        target_len: usize,
    },
    /// A range does not lie within its array.
    #[error("the range {}..{} does not lie within the array's 0..{len}", range.start, range.end)]
    Range {
        /// The range asked for, in elements.
        range: Range<usize>,
        /// Elements of the array.
        len: usize,
    },
    /// An array does not have as many elements as rows and columns make.
    #[error("{rows} rows of {cols} elements are not the array's {len}")]
    View2dSize {
        /// Rows asked for.
        rows: usize,
        /// Elements of a row.
        cols: usize,
        /// Elements of the array.
        len: usize,
    },
    /// Rows at a distance do not fit in their array.
    #[error("{rows} rows of {cols} elements, {pitch} apart, do not fit in the array's {len}")]
    View2dPitch {
        /// Rows asked for.
        rows: usize,
        /// Elements of a row.
        cols: usize,
        /// Elements from the start of a row to the start of the next.
        pitch: usize,
        /// Elements of the array.
        len: usize,
    },
    /// Rows lie so close that they would overlap.
    #[error("rows of {cols} elements that are {pitch} apart would overlap")]
    View2dRows {
        /// Elements of a row.
        cols: usize,
        /// Elements from the start of a row to the start of the next.
        pitch: usize,
    },
    /// A rectangle does not lie within its view.
    #[error(
        "rows {}..{} and columns {}..{} do not lie within the view's {view_rows} rows and {view_cols} columns",
        rows.start, rows.end, cols.start, cols.end
    )]
    Rect {
        /// The rows asked for.
        rows: Range<usize>,
        /// The columns asked for.
        cols: Range<usize>,
        /// Rows of the view.
        view_rows: usize,
        /// Columns of the view.
        view_cols: usize,
    },
    /// Two rectangles differ in rows or columns.
    #[error(
        "the source has {source_rows} rows of {source_cols} elements and the target {target_rows} of {target_cols}; \
         they must be equal"
    )]
    Shape {
        /// Rows of the source.
        source_rows: usize,
        /// Columns of the source.
        source_cols: usize,
        /// Rows of the target.
        target_rows: usize,
        /// Columns of the target.
        target_cols: usize,
    },
    /// A size in bytes does not fit the machine's words.
    #[error("{elements} elements of {element_bytes} bytes are more than an address can count")]
    TooLarge {
        /// Elements asked for.
        elements: usize,
        /// Bytes of one.
        element_bytes: usize,
    },
    /// The bytes of an array are no whole number of elements of another type.
    #[error(
        "{elements} elements of {element_bytes} bytes are no whole number of elements of {target_element_bytes} bytes"
    )]
    CastSize {
        /// Elements of the array.
        elements: usize,
        /// Bytes of one.
        element_bytes: usize,
        /// Bytes of an element of the other type.
        target_element_bytes: usize,
    },
    /// The address of an array is not aligned as elements of another type must be.
    #[error(
        "the first element is aligned to {alignment} bytes, and the new elements need {target_alignment}"
    )]
    CastAlignment {
        /// The largest power of two that divides the address.
        alignment: u64,
        /// What elements of the other type need.
        target_alignment: usize,
    },
    /// The elements of an array in page-locked or managed memory need a larger alignment than such
    /// memory has, so that the host could not refer to them.
    #[error(
        "elements of type `{element}` are aligned to {alignment} bytes, and this memory to no more \
         than {guaranteed}: use a type with a smaller alignment"
    )]
    Alignment {
        /// The elements' type.
        element: &'static str,
        /// Its alignment in bytes.
        alignment: usize,
        /// The alignment that can be counted on, in bytes.
        guaranteed: usize,
    },
    /// An operand lives on another device than the stream.
    #[error(
        "operand {operand}{} is on {operand_device}, the stream on {stream_device}",
        in_brackets(*name)
    )]
    OtherDevice {
        /// The operand's place among the operands, from 0.
        operand: usize,
        /// The operand's name: of a kernel's operands, that of the parameter.
        name: Option<&'static str>,
        /// The operand's device.
        operand_device: String,
        /// The stream's device.
        stream_device: String,
    },
    /// A kernel is loaded on another device than the stream's.
    #[error(
        "the kernel is loaded on {kernel_device}, the stream is on {stream_device}: load the module on the stream's device"
    )]
    KernelElsewhere {
        /// The kernel's device.
        kernel_device: String,
        /// The stream's device.
        stream_device: String,
    },
    /// Two operands of one operation share bytes, and one of them is written.
    #[error(
        "operands {first}{} and {second}{} share bytes, and at least one is written",
        in_brackets(*first_name),
        in_brackets(*second_name)
    )]
    Overlap {
        /// The one's place among the operands, from 0.
        first: usize,
        /// The one's name: of a kernel's operands, that of the parameter.
        first_name: Option<&'static str>,
        /// The other's place.
        second: usize,
        /// The other's name.
        second_name: Option<&'static str>,
    },
    /// A copy between two arrays of the host, which needs no device.
    #[error("both arrays are in the host's memory; copy them there")]
    BothOnHost,
    /// An operation that only managed memory has.
    #[error("the array is not in managed memory")]
    NotManaged,
    /// An operand in the host's memory where it must be on the device.
    #[error("operand {operand} is in the host's memory")]
    OnHost {
        /// The operand's place among the operands, from 0.
        operand: usize,
    },
    /// A `requires` clause of a kernel does not hold.
    #[error("it requires `{clause}`, which does not hold{}", of_values(values))]
    Requires {
        /// The clause as it is written in the kernel's declaration.
        clause: &'static str,
        /// The clause's operands and their values, as in `c.len() = 500, n = 1000`, and whether its
        /// arithmetic overflows.
        values: String,
    },
    /// A kernel's declaration does not match its PTX.
    #[error("the declaration does not match the PTX: {detail}")]
    Signature {
        /// Which parameter, what is declared, and what the PTX has.
        detail: String,
    },
    /// The PTX is not usable.
    #[error("the PTX does not load: {detail}")]
    Ptx {
        /// Line, opcode or parameter, as far as it is known.
        detail: String,
    },
    /// A call of this library from inside a foreign call, which holds its stream's lock.
    #[error(
        "this library was called inside the closure of a foreign call, which runs with its stream locked; call it \
         before or after the foreign call"
    )]
    InForeignCall,
    /// A launch that the device cannot have.
    #[error("{detail}")]
    LaunchConfig {
        /// Which dimension, what was asked for, and the limit.
        detail: String,
    },
}

impl UsageErrorKind {
    /// Source and target of a copy share bytes.
    pub(crate) const SOURCE_AND_TARGET: Self = Self::Overlap {
        first: 0,
        first_name: Some("source"),
        second: 1,
        second_name: Some("target"),
    };
}

/// An operand's name behind its number.
fn in_brackets(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!(" (`{name}`)"))
}

/// The line that made a call, as the end of a sentence.
fn at_line(location: Option<&Location<'_>>) -> String {
    location.map_or_else(String::new, |location| format!(" ({location})"))
}

/// The values of a clause's operands, as the end of a sentence.
fn of_values(values: &str) -> String {
    if values.is_empty() {
        String::new()
    } else {
        format!(": {values}")
    }
}

/// The device's memory did not suffice.
///
/// ```
/// use millstream::{Device, Error};
/// let stream = Device::simulated()?.stream()?;
/// let Err(Error::OutOfMemory(full)) = stream.zeros::<u8>(1 << 50) else { unreachable!("a pebibyte fits nowhere") };
/// assert_eq!(full.requested_bytes, 1 << 50);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "out of device memory: {requested_bytes} bytes asked for, {allocated_bytes} in arrays{}; the pool has {used_bytes} \
     in use and {reserved_bytes} reserved, {free_bytes} of {total_bytes} are free",
    limit_bytes.map_or_else(String::new, |limit_bytes| format!(" that may have {limit_bytes}"))
)]
pub struct OutOfMemory {
    /// What was asked for.
    pub requested_bytes: u64,
    /// Bytes of the device's arrays.
    pub allocated_bytes: u64,
    /// The most that these may be: see
    /// [`Device::set_memory_limit`](crate::Device::set_memory_limit).
    pub limit_bytes: Option<u64>,
    /// Given out by the device's pool and not yet freed.
    pub used_bytes: u64,
    /// Held by the device's pool.
    pub reserved_bytes: u64,
    /// Free on the device, other programs considered.
    pub free_bytes: u64,
    /// All of the device's memory.
    pub total_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_of_a_kernel_have_the_names_of_its_parameters() {
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
            "reverse: operands 0 (`out`) and 1 (`input`) share bytes, and at least one is written"
        );
        assert_eq!(usage_error.clone().naming(|_| None), usage_error);
    }
}
