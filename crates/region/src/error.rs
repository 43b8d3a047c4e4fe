//! What can go wrong in a region, in terms of its arrays and of the line that went wrong.

use std::{fmt, panic::Location};

use crate::shape::Shape;

/// The result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a region has no result. Nothing of the host was changed by it.
///
/// ```
/// use millstream_region::{Error, RegionExt};
/// use ndarray::array;
///
/// let device = millstream::Device::simulated()?;
/// let (a, b) = (array![1.0_f32, 2.0, 3.0], array![1.0_f32, 2.0]);
/// let Err(error) = device.region(|g| g.array(&a) + g.array(&b)) else { unreachable!("three and two do not fit") };
/// assert!(matches!(error, Error::Usage(_)));
/// assert!(error.to_string().starts_with("add: shapes [3] and [2] do not fit together"));
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation of the region was wrong. No kernel of it has run that the host could see.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The device, or the library below, could not do what it was asked for.
    #[error(transparent)]
    Device(#[from] millstream::Error),
}

/// A wrong operation: which, where in the source, and what is wrong with it.
///
/// ```
/// use millstream_region::{Error, UsageErrorKind, RegionExt};
///
/// let device = millstream::Device::simulated()?;
/// let result = device.region(|g| g.zeros::<f32, _>((2, 3)).into_shape_with_order(7));
/// let Err(Error::Usage(misuse)) = result else { unreachable!("six are not seven") };
/// assert_eq!(misuse.operation(), "into_shape_with_order");
/// assert!(matches!(misuse.problem(), UsageErrorKind::Reshape { .. }));
/// assert_eq!(misuse.location().file(), file!());
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {problem}, at {location}")]
pub struct UsageError {
    operation: &'static str,
    problem: Box<UsageErrorKind>,
    location: &'static Location<'static>,
}

impl UsageError {
    pub(crate) fn new(
        operation: &'static str,
        problem: UsageErrorKind,
        location: &'static Location<'static>,
    ) -> Self {
        Self {
            operation,
            problem: Box::new(problem),
            location,
        }
    }

    /// The operation's name.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// What is wrong with it.
    #[must_use]
    pub fn problem(&self) -> &UsageErrorKind {
        &self.problem
    }

    /// The line that asked for it.
    #[must_use]
    pub fn location(&self) -> &'static Location<'static> {
        self.location
    }
}

/// The lengths of an array's axes, as errors tell them.
///
/// ```
/// use millstream_region::ArrayShape;
/// assert_eq!(ArrayShape::from(&[2, 3][..]).to_string(), "[2, 3]");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct ArrayShape(Shape);

impl ArrayShape {
    /// The lengths, outermost axis first.
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

/// What can be wrong with an operation.
///
/// ```
/// use millstream_region::UsageErrorKind;
/// let problem = UsageErrorKind::Shapes { left: [3][..].into(), right: [2][..].into() };
/// assert_eq!(problem.to_string(), "shapes [3] and [2] do not fit together");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UsageErrorKind {
    /// Two operands cannot be stretched to one shape, or do not have the shapes that the operation
    /// needs.
    #[error("shapes {left} and {right} do not fit together")]
    Shapes {
        /// The first operand's.
        left: ArrayShape,
        /// The second operand's.
        right: ArrayShape,
    },
    /// An array cannot be stretched to a shape.
    #[error("shape {shape} cannot be stretched to {target}")]
    Broadcast {
        /// The array's.
        shape: ArrayShape,
        /// The one asked for.
        target: ArrayShape,
    },
    /// A new shape has another number of elements.
    #[error("shape {shape} has another number of elements than {target}")]
    Reshape {
        /// The array's.
        shape: ArrayShape,
        /// The one asked for.
        target: ArrayShape,
    },
    /// An array does not have as many axes as a type says.
    #[error("shape {shape} does not have {axes} axes")]
    AxisCount {
        /// The array's shape.
        shape: ArrayShape,
        /// How many the type has.
        axes: usize,
    },
    /// An array does not have this axis.
    #[error("shape {shape} has no axis {axis}")]
    Axis {
        /// The axis asked for.
        axis: usize,
        /// The array's shape.
        shape: ArrayShape,
    },
    /// The axes of a permutation are not each of the array's axes once.
    #[error("{axes:?} are not the axes of shape {shape}, each once")]
    Permutation {
        /// The axes given.
        axes: Vec<usize>,
        /// The array's shape.
        shape: ArrayShape,
    },
    /// A slice or an index goes beyond its axis.
    #[error("{range} is not within 0..{length} along axis {axis}")]
    Slice {
        /// What was asked for.
        range: String,
        /// The axis.
        axis: usize,
        /// Its length.
        length: usize,
    },
    /// The least, the greatest or the mean of no elements.
    #[error("shape {shape} has no elements to choose from")]
    Empty {
        /// The array's.
        shape: ArrayShape,
    },
    /// No arrays were given to an operation that needs one at least.
    #[error(
        "no arrays are given, and the result has the type and the shape of those: give at least one"
    )]
    NoArrays,
    /// An argument that makes no sense.
    #[error("{detail}")]
    Argument {
        /// What was given, and what is needed.
        detail: String,
    },
    /// More axes than arrays of a device can have.
    #[error("shape {shape} has more than 6 axes")]
    TooManyAxes {
        /// The shape.
        shape: ArrayShape,
    },
    /// More elements than a machine word counts; an axis without elements does not make up for the
    /// others.
    #[error("shape {shape} has more elements than an address can count")]
    TooLarge {
        /// The shape.
        shape: ArrayShape,
    },
    /// An element of an index array is not an index of the axis.
    #[error("an index is not within 0..{length} along axis {axis}")]
    Index {
        /// The axis.
        axis: usize,
        /// Its length.
        length: usize,
    },
    /// Two operands are on different devices.
    #[error("one operand is on {left}, the other on {right}")]
    OtherDevice {
        /// The first operand's.
        left: String,
        /// The second operand's.
        right: String,
    },
}
