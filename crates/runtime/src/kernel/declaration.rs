//! Declarations of modules by [`kernels!`](crate::kernels): kernels, parameters and variables.

use bytemuck::Pod;

/// A PTX module and the kernels declared for it. Created by [`kernels!`](crate::kernels), as a
/// `static`.
#[doc(hidden)]
#[derive(Debug)]
pub struct ModuleSource {
    /// The module's name, for errors.
    pub module: &'static str,
    /// The expression that the PTX comes from, for errors: it names the file.
    pub origin: &'static str,
    /// File and line of the declaration, for errors.
    pub declared: &'static str,
    /// The PTX text; empty if the module is compiled when it is loaded.
    pub ptx: &'static str,
    /// The CUDA C++ to compile when the module is loaded.
    pub cuda: Option<&'static str>,
    /// The kernels, in the order of their functions.
    pub kernels: &'static [Signature],
    /// The variables, in the order of their methods.
    pub variables: &'static [Variable],
}

/// A declared kernel.
#[doc(hidden)]
#[derive(Debug)]
pub struct Signature {
    /// The name of the kernel's entry in the PTX.
    pub name: &'static str,
    /// The kernel's parameters.
    pub params: &'static [Param],
}

/// A declared variable of the module.
#[doc(hidden)]
#[derive(Debug)]
pub struct Variable {
    /// The variable's name in the PTX.
    pub name: &'static str,
    /// The type of its elements.
    pub element: ElementLayout,
    /// True if it is declared as one element, not as an array.
    pub is_single: bool,
}

/// A declared parameter.
#[doc(hidden)]
#[derive(Debug)]
pub struct Param {
    /// The parameter's name, for errors.
    pub name: &'static str,
    /// The parameter's kind.
    pub kind: ParamKind,
}

/// The kind of a declared parameter.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum ParamKind {
    /// An array, which is passed as its address.
    Slice {
        /// True if the kernel may write the array.
        writable: bool,
    },
    /// The length of the slice before it, as a kernel in Rust takes it.
    Len,
    /// A scalar, which is passed by value.
    Scalar {
        /// The scalar's size in bytes.
        size: usize,
        /// The scalar's alignment in bytes.
        align: usize,
    },
}

impl ParamKind {
    /// Returns whether the parameter belongs to the argument before it.
    pub(super) fn is_len(self) -> bool {
        matches!(self, Self::Len)
    }

    /// Returns the size and the alignment of the passed value.
    pub(super) fn layout(self) -> (usize, usize) {
        match self {
            Self::Slice { .. } | Self::Len => (size_of::<u64>(), align_of::<u64>()),
            Self::Scalar { size, align } => (size, align),
        }
    }
}

/// The type of a variable's elements.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct ElementLayout {
    /// The name of the type, for errors.
    pub(super) name: fn() -> &'static str,
    pub(super) bytes: usize,
    pub(super) align: usize,
}

impl ElementLayout {
    /// Returns the layout of a type.
    #[must_use]
    pub const fn of<T: Pod>() -> Self {
        Self {
            name: std::any::type_name::<T>,
            bytes: size_of::<T>(),
            align: align_of::<T>(),
        }
    }
}
