//! Errors of regions, which name the operation, its shapes and its source line.

mod mesh;
mod tensor_file;

use std::{fmt, panic::Location};

use millstream::Device;

pub use mesh::MeshErrorKind;
pub use tensor_file::{TensorFileError, TensorFileProblem};

use crate::shape::Shape;

pub(crate) type Line = &'static Location<'static>;

/// An operation's name and source line.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    pub(crate) operation: &'static str,
    pub(crate) line: Line,
}

impl Site {
    /// Returns the site of an operation on the caller's line.
    #[track_caller]
    pub(crate) fn of(operation: &'static str) -> Self {
        let line = Location::caller();
        Self { operation, line }
    }

    pub(crate) fn error(self, problem: impl Into<UsageErrorKind>) -> UsageError {
        UsageError::new(self.operation, problem.into(), self.line)
    }
}

/// A result whose error is the region [`Error`] by default.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a region or of a single operation. Host data is unchanged.
///
/// ```
/// use millstream_region::{Error, RegionExt};
/// use ndarray::array;
/// let device = millstream::Device::simulated()?;
/// let (a, b) = (array![1.0_f32, 2.0, 3.0], array![1.0_f32, 2.0]);
/// let error = device.region(|g| g.array(&a) + g.array(&b)).unwrap_err();
/// assert!(matches!(error, Error::Usage(_)));
/// assert!(error.to_string().starts_with("add: incompatible shapes [3] and [2] ("));
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A wrong operation of the region. No kernel whose effect the host could see has run.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// A failed device operation or a failure of the runtime.
    #[error(transparent)]
    Device(#[from] millstream::Error),
    /// A file of tensors that cannot be read or written.
    #[error(transparent)]
    TensorFile(#[from] TensorFileError),
}

/// A wrong operation, with its name, its source line and its kind of error.
///
/// ```
/// use millstream_region::{Error, UsageErrorKind, RegionExt};
/// let device = millstream::Device::simulated()?;
/// let result = device.region(|g| g.zeros::<f32, _>((2, 3)).into_shape_with_order(7));
/// let Err(Error::Usage(error)) = result else {
///     unreachable!("six elements do not fill seven")
/// };
/// assert_eq!(error.operation(), "into_shape_with_order");
/// assert!(matches!(error.problem(), UsageErrorKind::Reshape { .. }));
/// assert_eq!(error.location().file(), file!());
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {problem} ({location})")]
pub struct UsageError {
    operation: &'static str,
    problem: Box<UsageErrorKind>,
    location: Line,
}

impl UsageError {
    pub(crate) fn new(operation: &'static str, problem: UsageErrorKind, location: Line) -> Self {
        let problem = Box::new(problem);
        Self {
            operation,
            problem,
            location,
        }
    }

    /// Returns the name of the operation.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// Returns the kind of error, with the shapes or values concerned.
    #[must_use]
    pub fn problem(&self) -> &UsageErrorKind {
        &self.problem
    }

    /// Returns the source line of the operation.
    #[must_use]
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }
}

/// An array's shape, as reported in errors.
#[derive(Clone, PartialEq, Eq)]
pub struct ArrayShape(Shape);

impl ArrayShape {
    /// Returns the lengths of the axes, outermost axis first.
    #[must_use]
    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }
}

impl From<&[usize]> for ArrayShape {
    fn from(shape: &[usize]) -> Self {
        Self(Shape::from_slice(shape))
    }
}

impl fmt::Debug for ArrayShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_slice())
    }
}

impl fmt::Display for ArrayShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The kinds of wrong operations.
///
/// ```
/// use millstream_region::UsageErrorKind;
/// let problem = UsageErrorKind::Shapes { left: [3][..].into(), right: [2][..].into() };
/// assert_eq!(problem.to_string(), "incompatible shapes [3] and [2]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageErrorKind {
    /// Shapes of two operands that do not broadcast, or that do not fit the operation.
    #[error("incompatible shapes {left} and {right}")]
    Shapes {
        /// The shape of the first operand.
        left: ArrayShape,
        /// The shape of the second operand.
        right: ArrayShape,
    },
    /// A shape that does not broadcast to another.
    #[error(
        "cannot broadcast shape {shape} to {target}: aligned at the last axis, \
         each length must be 1 or equal"
    )]
    Broadcast {
        /// The shape of the array.
        shape: ArrayShape,
        /// The requested shape.
        target: ArrayShape,
    },
    /// A new shape with a different number of elements.
    #[error("cannot reshape {shape} to {target}: the numbers of elements differ")]
    Reshape {
        /// The shape of the array.
        shape: ArrayShape,
        /// The requested shape.
        target: ArrayShape,
    },
    /// An array whose number of axes differs from that of a dimension type.
    #[error("expected {axes} axes, found shape {shape}")]
    AxisCount {
        /// The shape of the array.
        shape: ArrayShape,
        /// The number of axes of the type.
        axes: usize,
    },
    /// An axis that the array does not have.
    #[error("axis {axis} is out of bounds for shape {shape}")]
    Axis {
        /// The requested axis.
        axis: usize,
        /// The shape of the array.
        shape: ArrayShape,
    },
    /// A list of axes that does not name each axis of the array exactly once.
    #[error("axes {axes:?} do not name each axis of shape {shape} exactly once")]
    Permutation {
        /// The given axes.
        axes: Vec<usize>,
        /// The shape of the array.
        shape: ArrayShape,
    },
    /// A slice or an index that is out of bounds.
    #[error("{range} is out of bounds for axis {axis} of length {length}")]
    Slice {
        /// The requested slice or index.
        range: String,
        /// The axis of the array.
        axis: usize,
        /// The length of the axis.
        length: usize,
    },
    /// A minimum, a maximum or the position of one, of an array without elements.
    #[error("shape {shape} has no elements, and this reduction needs at least one")]
    Empty {
        /// The shape of the array.
        shape: ArrayShape,
    },
    /// An empty list of arrays, where an operation needs at least one.
    #[error(
        "no arrays to join: pass at least one, which determines the type and the shape \
         of the result"
    )]
    NoArrays,
    /// An invalid argument.
    #[error("{detail}")]
    Argument {
        /// The given argument and the requirement that it violates.
        detail: String,
    },
    /// A shape with more axes than a device array can have.
    #[error("shape {shape} has more than 6 axes, the maximum on a device")]
    TooManyAxes {
        /// The shape.
        shape: ArrayShape,
    },
    /// A shape whose size in bytes exceeds `isize::MAX`. Axes of length 0 are left out of the
    /// product, as in `ndarray`.
    #[error("shape {shape} is too large: its bytes exceed isize::MAX")]
    TooLarge {
        /// The shape.
        shape: ArrayShape,
    },
    /// An element of an index array that is out of bounds.
    #[error("{} is out of bounds for axis {axis} of length {length}", named(*index))]
    Index {
        /// The index, or `None` if the axis is empty, so that every index is. One on the device
        /// beyond ±2³⁹ is given as the nearest of these bounds. Of several, one is reported, the
        /// same in each run.
        index: Option<i64>,
        /// The indexed axis.
        axis: usize,
        /// The length of the axis.
        length: usize,
    },
    /// A wrong use of a mesh or of an array on one.
    #[error(transparent)]
    Mesh(#[from] MeshErrorKind),
    /// Operands on two different devices.
    #[error(
        "operands are on different devices, {left} and {right}: \
         move one with `to_host` and `from_host`"
    )]
    OtherDevice {
        /// The device of the first operand.
        left: String,
        /// The device of the second operand.
        right: String,
    },
}

/// The number of bits that a kernel has to report an index, and the bounds to which it clamps it.
pub(crate) const INDEX_BITS: u32 = 40;
pub(crate) const INDEX_MIN: i64 = -1 << (INDEX_BITS - 1);
pub(crate) const INDEX_MAX: i64 = -INDEX_MIN - 1;

/// Names an index that was found on the device.
fn named(index: Option<i64>) -> String {
    match index {
        None => "an index".to_owned(),
        Some(INDEX_MIN) => format!("an index of {INDEX_MIN} or less"),
        Some(INDEX_MAX) => format!("an index of {INDEX_MAX} or more"),
        Some(index) => format!("index {index}"),
    }
}

impl UsageErrorKind {
    pub(crate) fn shapes(left: &[usize], right: &[usize]) -> Self {
        let (left, right) = (left.into(), right.into());
        Self::Shapes { left, right }
    }

    pub(crate) fn axis(axis: usize, shape: &[usize]) -> Self {
        let shape = shape.into();
        Self::Axis { axis, shape }
    }

    pub(crate) fn argument(detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Self::Argument { detail }
    }

    pub(crate) fn other_device(left: &Device, right: &Device) -> Self {
        let (left, right) = left.told_apart(right);
        Self::OtherDevice { left, right }
    }
}
