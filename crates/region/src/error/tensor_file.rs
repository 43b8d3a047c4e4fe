//! Errors of files of tensors.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::error::ArrayShape;

/// An error of a file of tensors, with the file and the tensor.
#[derive(Clone, Debug)]
pub struct TensorFileError {
    path: PathBuf,
    tensor: String,
    problem: TensorFileProblem,
}

impl TensorFileError {
    pub(crate) fn new(path: &Path, tensor: &str, problem: TensorFileProblem) -> Self {
        let (path, tensor) = (path.to_owned(), tensor.to_owned());
        Self {
            path,
            tensor,
            problem,
        }
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the tensor; it is empty if the error concerns the whole file.
    #[must_use]
    pub fn tensor(&self) -> &str {
        &self.tensor
    }

    /// Returns the kind of error.
    #[must_use]
    pub fn problem(&self) -> &TensorFileProblem {
        &self.problem
    }
}

impl fmt::Display for TensorFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.tensor[..] {
            "" => write!(f, "{path}: {}", self.problem),
            tensor => write!(f, "{path}: tensor `{tensor}`: {}", self.problem),
        }
    }
}

impl std::error::Error for TensorFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            TensorFileProblem::Io(error) => Some(&**error),
            _ => None,
        }
    }
}

/// The kinds of errors of files of tensors.
///
/// ```
/// use millstream_region::TensorFileProblem;
/// let problem = TensorFileProblem::ElementType { expected: "f32", found: "bf16".to_owned() };
/// assert_eq!(problem.to_string(), "expected elements of type f32, found bf16");
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorFileProblem {
    /// A file that cannot be read or written.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// A file whose contents violate its format.
    #[error("the file is malformed: {0}")]
    Malformed(String),
    /// A tensor that the file does not have.
    #[error("there is no such tensor")]
    Missing,
    /// A tensor with other elements than the array.
    #[error("expected elements of type {expected}, found {found}")]
    ElementType {
        /// The element type of the array.
        expected: &'static str,
        /// The element type in the file.
        found: String,
    },
    /// A tensor with another number of axes than the array.
    #[error("expected {axes} axes, found shape {shape}")]
    Axes {
        /// The number of axes of the array.
        axes: usize,
        /// The shape in the file.
        shape: ArrayShape,
    },
    /// A list or an option that has no tensor in a file, where it would be read as another.
    #[error(
        "a file would lose this: a list, its last item and a value in an `Option` each have a \
         tensor, and a list at most 16 items for each tensor"
    )]
    Lost,
    /// A name that two fields have, or that the format has for itself.
    #[error("a file has this name once: give another by `#[on_device(name = ...)]`")]
    Twice,
    /// A field of a type that is no tensor.
    #[error(
        "a `{ty}` is no tensor: mark the field with `#[on_device(skip)]`, so that it gets its \
         default value"
    )]
    NoTensor {
        /// The type of the field.
        ty: &'static str,
    },
}
