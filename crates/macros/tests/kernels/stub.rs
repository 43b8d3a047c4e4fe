//! A stub of the runtime: its launches run nothing.

#![allow(missing_docs, reason = "a stub")]

use std::{marker::PhantomData, sync::Arc};

/// The runtime's implementation of clauses, from its source file.
#[path = "../../../runtime/src/kernel/clause/mod.rs"]
pub mod clause;

#[derive(Debug)]
pub struct Device;

#[derive(Debug)]
pub struct Stream;

/// The launch configuration: the number of blocks, and of threads per block, in x.
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig(pub u32, pub u32);

/// The error of a clause that does not hold.
#[derive(Debug, PartialEq, Eq)]
pub struct Error {
    pub(crate) kernel: &'static str,
    pub(crate) clause: &'static str,
    pub(crate) values: String,
}

impl Error {
    pub fn requires(kernel: &'static str, clause: &'static str, values: String) -> Self {
        Self {
            kernel,
            clause,
            values,
        }
    }
}

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug)]
pub struct Occupancy<'a>(PhantomData<&'a ()>);

pub mod kernel {
    use super::*;

    pub use super::clause;

    impl From<&LaunchConfig> for clause::LaunchShape {
        fn from(&LaunchConfig(blocks, threads): &LaunchConfig) -> Self {
            Self::new([blocks, 1, 1], [threads, 1, 1], 0)
        }
    }

    pub const fn assert_device_alignment<T>() {
        assert!(align_of::<T>() <= 256);
    }

    #[derive(Debug)]
    pub struct ModuleSource {
        pub module: &'static str,
        pub origin: &'static str,
        pub declared: &'static str,
        pub ptx: &'static str,
        pub cuda: Option<&'static str>,
        pub kernels: &'static [Signature],
        pub variables: &'static [()],
    }

    #[derive(Debug)]
    pub struct Signature {
        pub name: &'static str,
        pub params: &'static [Param],
    }

    #[derive(Debug)]
    pub struct Param {
        pub name: &'static str,
        pub kind: ParamKind,
    }

    #[derive(Debug)]
    pub enum ParamKind {
        Slice { writable: bool },
        Scalar { size: usize, align: usize },
    }

    #[derive(Debug)]
    pub struct Function;

    #[derive(Debug)]
    pub struct Array {
        pub param: usize,
        pub name: &'static str,
        pub element: fn(),
    }

    pub fn element<T>() {}

    pub fn declare_arrays(_: &[Function], _: &[&[Array]]) {}

    pub fn occupancy(_: &Function) -> Occupancy<'_> {
        Occupancy(PhantomData)
    }

    #[allow(clippy::len_without_is_empty, reason = "a stub")]
    pub trait ReadOperand<T> {
        fn len(&self) -> usize;
    }

    pub trait WriteOperand<T>: ReadOperand<T> {}

    impl<T> ReadOperand<T> for &mut [T] {
        fn len(&self) -> usize {
            <[T]>::len(self)
        }
    }

    impl<T> WriteOperand<T> for &mut [T] {}

    #[derive(Debug)]
    pub struct Argument<'a>(PhantomData<&'a ()>);

    impl<'a> Argument<'a> {
        pub fn write<T>(_: &'a mut impl WriteOperand<T>) -> Self {
            Self(PhantomData)
        }

        pub fn scalar<T>(_: &'a T) -> Self {
            Self(PhantomData)
        }
    }

    pub fn load(_: &Device, source: &'static ModuleSource) -> Result<Arc<[Function]>> {
        Ok(source.kernels.iter().map(|_| Function).collect())
    }

    /// Runs nothing.
    ///
    /// # Safety
    ///
    /// As for a launch of the runtime.
    pub unsafe fn launch<const N: usize>(
        _: &Function,
        _: &Stream,
        _: LaunchConfig,
        _: [Argument<'_>; N],
    ) -> Result<()> {
        Ok(())
    }
}
