//! A stub of the runtime that records its calls.

#![allow(missing_docs, reason = "a stub")]

use std::{
    panic::Location,
    sync::{Arc, Mutex},
};

/// The runtime's implementation of clauses, from its source file.
#[path = "../../../runtime/src/kernel/clause/mod.rs"]
pub mod clause;

/// A device that records its launches.
#[derive(Debug, Default)]
pub struct Device {
    pub(crate) launches: Arc<Mutex<Vec<String>>>,
}

/// A stream without behaviour.
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

/// A variable as text.
#[derive(Debug)]
pub struct Global<T>(pub String, std::marker::PhantomData<T>);

/// The name of a kernel.
#[derive(Debug)]
pub struct Occupancy<'a>(pub &'a str);

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
        pub variables: &'static [Variable],
    }

    #[derive(Debug)]
    pub struct Variable {
        pub name: &'static str,
        pub element: ElementLayout,
        pub is_single: bool,
    }

    /// The size of a type.
    #[derive(Debug)]
    pub struct ElementLayout(pub usize);

    impl ElementLayout {
        pub const fn of<T>() -> Self {
            Self(size_of::<T>())
        }
    }

    /// The declared variables as text.
    #[derive(Clone, Debug)]
    pub struct Variables(Vec<String>);

    impl Variables {
        pub fn array<T>(&self, index: usize) -> Global<T> {
            Global(self.0[index].clone(), Default::default())
        }
    }

    pub fn load_variables(_: &Device, source: &'static ModuleSource) -> Result<Variables> {
        let variables = source.variables.iter().map(|variable| {
            let Variable {
                name,
                element: ElementLayout(bytes),
                is_single,
            } = variable;
            format!("{name}: {bytes} bytes, single {is_single}")
        });
        Ok(Variables(variables.collect()))
    }

    pub fn occupancy(function: &Function) -> Occupancy<'_> {
        Occupancy(&function.name)
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
        Len,
        Scalar { size: usize, align: usize },
    }

    #[derive(Debug)]
    pub struct Function {
        name: String,
        /// The declared element types of its arrays.
        pub arrays: Mutex<String>,
        launches: Arc<Mutex<Vec<String>>>,
    }

    pub struct Array {
        pub param: usize,
        pub name: &'static str,
        pub element: fn() -> &'static str,
    }

    pub fn element<T: 'static>() -> &'static str {
        std::any::type_name::<T>()
    }

    /// Stores the element types in the functions.
    pub fn declare_arrays(functions: &[Function], arrays: &[&[Array]]) {
        for (function, arrays) in functions.iter().zip(arrays) {
            let arrays = arrays.iter().map(|array| {
                let element = (array.element)();
                format!("{} {}: {element}", array.param, array.name)
            });
            let arrays: Vec<_> = arrays.collect();
            *function.arrays.lock().expect("not poisoned") = arrays.join(", ");
        }
    }

    #[allow(clippy::len_without_is_empty, reason = "a stub")]
    pub trait ReadOperand<T> {
        fn len(&self) -> usize;
    }

    pub trait WriteOperand<T>: ReadOperand<T> {}

    impl<T> ReadOperand<T> for &[T] {
        fn len(&self) -> usize {
            <[T]>::len(self)
        }
    }

    impl<T> ReadOperand<T> for &mut [T] {
        fn len(&self) -> usize {
            <[T]>::len(self)
        }
    }

    impl<T> WriteOperand<T> for &mut [T] {}

    /// A recorded argument, as text.
    pub struct Argument<'a>(String, std::marker::PhantomData<&'a ()>);

    impl<'a> Argument<'a> {
        pub fn read<T>(operand: &'a impl ReadOperand<T>) -> Self {
            Self(format!("read {}", operand.len()), Default::default())
        }

        pub fn write<T>(operand: &'a mut impl WriteOperand<T>) -> Self {
            Self(format!("write {}", operand.len()), Default::default())
        }

        pub fn read_slice<T>(operand: &'a impl ReadOperand<T>) -> Self {
            Self(
                format!("read {0}, len {0}", operand.len()),
                Default::default(),
            )
        }

        pub fn write_slice<T>(operand: &'a mut impl WriteOperand<T>) -> Self {
            Self(
                format!("write {0}, len {0}", operand.len()),
                Default::default(),
            )
        }

        pub fn scalar<T: Scalar>(value: &'a T) -> Self {
            Self(value.text(), Default::default())
        }
    }

    pub fn load(device: &Device, source: &'static ModuleSource) -> Result<Arc<[Function]>> {
        let function = |signature: &Signature| {
            let params = signature
                .params
                .iter()
                .map(|Param { name, kind }| match kind {
                    ParamKind::Slice { writable: false } => format!("{name}: read"),
                    ParamKind::Slice { writable: true } => format!("{name}: write"),
                    ParamKind::Len => format!("{name}: len"),
                    ParamKind::Scalar { size, align } => format!("{name}: {size}/{align}"),
                });
            let params: Vec<_> = params.collect();
            let name = format!(
                "{} {} {}({})",
                source.cuda.unwrap_or(source.ptx),
                source.module,
                signature.name,
                params.join(", ")
            );
            Function {
                name,
                arrays: Mutex::default(),
                launches: device.launches.clone(),
            }
        };
        Ok(source.kernels.iter().map(function).collect())
    }

    /// Records a launch.
    ///
    /// # Safety
    ///
    /// As for a launch of the runtime.
    pub unsafe fn launch<const N: usize>(
        function: &Function,
        stream: &Stream,
        config: LaunchConfig,
        arguments: [Argument<'_>; N],
    ) -> Result<()> {
        // SAFETY: nothing is executed here.
        unsafe { launch_at(function, stream, config, &arguments, Location::caller()) }
    }

    /// In the stub, checked-in PTX is that of a source if both begin alike.
    pub const fn assert_compiled_from(ptx: &str, source: &str, message: &'static str) {
        assert!(ptx.as_bytes()[0] == source.as_bytes()[0], "{}", message);
    }

    /// Records a launch.
    ///
    /// # Safety
    ///
    /// As for a launch of the runtime.
    pub unsafe fn launch_at(
        function: &Function,
        _: &Stream,
        LaunchConfig(blocks, threads): LaunchConfig,
        arguments: &[Argument<'_>],
        _: &'static Location<'static>,
    ) -> Result<()> {
        let arguments: Vec<_> = arguments
            .iter()
            .map(|argument| argument.0.as_str())
            .collect();
        let launch = format!(
            "{} on {blocks}x{threads}: {}",
            function.name,
            arguments.join(", ")
        );
        function.launches.lock().expect("not poisoned").push(launch);
        Ok(())
    }
}

/// A value that a kernel takes as a parameter.
pub trait Scalar {
    fn text(&self) -> String;
}

macro_rules! scalars {
    ($($type:ty)*) => {
        $(
            impl Scalar for $type {
                fn text(&self) -> String {
                    format!("{self:?}")
                }
            }
        )*
    };
}

scalars!(i32 u32 i64 f32 crate::Window crate::clauses::Size crate::clauses::Shape);
