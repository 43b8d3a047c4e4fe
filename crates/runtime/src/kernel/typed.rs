//! `Kernel`: a kernel of a module that was loaded at run time, with a signature that the compiler
//! checks launches against.

#![allow(unsafe_code, reason = "submits launches")]

use std::{fmt, marker::PhantomData, panic::Location};

use bytemuck::Pod;
use millstream_driver::BlockSize;
use smallvec::SmallVec;

use super::{
    Argument, Array, Element, Elements, Function, LaunchConfig, Occupancy, ParamKind, ReadOperand,
    WriteOperand, element, launch::launch_at, occupancy,
};
use crate::{Result, Stream, element_layout::assert_device_alignment};

/// A kernel of a [`Module`](crate::Module), loaded on one device. `S` is its signature, which
/// [`signature!`](crate::signature) writes.
///
/// ```standalone_crate
/// use millstream::{Device, Kernel, Ptx, signature};
///
/// struct Kernels {
///     vecadd: Kernel<signature!(&[f32], &[f32], &mut [f32], u64)>,
/// }
///
/// let device = Device::simulated()?;
/// let module = device.module(Ptx::text("vecadd.ptx", include_str!("../../kernels/vecadd.ptx")))?;
/// let kernels = Kernels { vecadd: module.function("vecadd")? };
///
/// let stream = device.stream()?;
/// let a = stream.upload(&[1.0_f32, 2.0, 3.0])?;
/// let mut c = stream.zeros::<f32>(3)?;
/// // SAFETY: vecadd accesses 3 elements of each array, and writes only the last.
/// unsafe { kernels.vecadd.launch(&stream, 3, (&a, &a, &mut c, 3)) }?;
/// assert_eq!(stream.download(&c)?.wait()?, [2.0, 4.0, 6.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct Kernel<S> {
    function: Function,
    signature: PhantomData<fn(S)>,
}

impl<S> Clone for Kernel<S> {
    fn clone(&self) -> Self {
        Self {
            function: self.function.clone(),
            signature: PhantomData,
        }
    }
}

impl<S> fmt::Debug for Kernel<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.function.fmt(f)
    }
}

impl<S: KernelSignature> Kernel<S> {
    pub(super) fn new(function: Function) -> Self {
        Self {
            function,
            signature: PhantomData,
        }
    }

    /// Enqueues a launch. It runs after every operation that conflicts with its operands, or with a
    /// variable of the module that the kernel uses, and concurrently with all others.
    ///
    /// `arguments` is a tuple with an argument for each parameter of the signature: an array to
    /// read for `&[T]`, one to write for `&mut [T]`, and the value for any other type.
    ///
    /// # Errors
    ///
    /// If an operand belongs to another device, if a written operand overlaps another one, if the
    /// device does not support the launch configuration, or if the device is lost. Nothing is
    /// enqueued then.
    ///
    /// # Safety
    ///
    /// The kernel has the signature: it only reads its parameters `&[T]`, and its elements have
    /// these types. With these arguments it stays within its operands and the variables of its
    /// module, and its threads do not race on any byte.
    #[track_caller]
    pub unsafe fn launch<A: LaunchArguments<S>>(
        &self,
        stream: &Stream,
        config: impl Into<LaunchConfig>,
        mut arguments: A,
    ) -> Result<()> {
        let location = Location::caller();
        let mut list = ArgumentList::new();
        arguments.push_to(&mut list);
        // SAFETY: the types say that the arguments match the signature, which was compared with the
        // kernel's; the rest is the caller's promise.
        unsafe { launch_at(&self.function, stream, config.into(), &list, location) }
    }

    /// Returns the number of blocks of `threads` threads and `shared_bytes` bytes of dynamic shared
    /// memory that the whole device can run at once: the most of a
    /// [cooperative](LaunchConfig::cooperative) grid.
    ///
    /// # Errors
    ///
    /// If `threads` is 0, or the device is lost.
    #[doc(alias("cuOccupancyMaxActiveBlocksPerMultiprocessor"))]
    pub fn resident_blocks(&self, threads: u32, shared_bytes: u32) -> Result<u64> {
        self.occupancy().resident_blocks(threads, shared_bytes)
    }

    /// Returns a number of threads per block with which most threads of the kernel run at once, if
    /// each block has `shared_bytes` bytes of dynamic shared memory, and the number of such blocks
    /// that fill the device.
    ///
    /// # Errors
    ///
    /// If the device is lost.
    #[doc(alias("cuOccupancyMaxPotentialBlockSize"))]
    pub fn suggested_block(&self, shared_bytes: u32) -> Result<BlockSize> {
        self.occupancy().suggested_block(shared_bytes)
    }

    /// Returns the maximum number of threads per block.
    #[must_use]
    pub fn threads_max(&self) -> u32 {
        self.occupancy().threads_max()
    }

    fn occupancy(&self) -> Occupancy<'_> {
        occupancy(&self.function)
    }
}

/// The arguments of a launch.
#[doc(hidden)]
pub type ArgumentList<'a> = SmallVec<[Argument<'a>; 12]>;

mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// An array that a kernel reads: `&[T]` in a [`signature!`](crate::signature).
#[doc(hidden)]
pub enum Read<T> {
    #[doc(hidden)]
    _Type(PhantomData<T>, std::convert::Infallible),
}

/// An array that a kernel reads and writes: `&mut [T]` in a [`signature!`](crate::signature).
#[doc(hidden)]
pub enum Write<T> {
    #[doc(hidden)]
    _Type(PhantomData<T>, std::convert::Infallible),
}

/// A value: `T` in a [`signature!`](crate::signature).
#[doc(hidden)]
pub enum Value<T> {
    #[doc(hidden)]
    _Type(PhantomData<T>, std::convert::Infallible),
}

/// An array that is passed as its address and its length, as Rust passes `&[T]` and `&mut [T]`.
#[doc(hidden)]
pub enum WithLen<P> {
    #[doc(hidden)]
    _Type(PhantomData<P>, std::convert::Infallible),
}

/// A parameter of a signature.
#[doc(hidden)]
pub trait SignatureParam: Sealed {
    /// Adds the parameters of the kernel in the PTX.
    fn push_to(list: &mut DeclaredParams);
}

/// The parameters that a signature declares.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct DeclaredParams {
    pub(super) kinds: Vec<ParamKind>,
    pub(super) arrays: Vec<Array>,
}

/// The names of parameters in messages, which have none.
const NUMBERS: [&str; 32] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16",
    "17", "18", "19", "20", "21", "22", "23", "24", "25", "26", "27", "28", "29", "30", "31",
];

impl DeclaredParams {
    fn push_array(&mut self, writable: bool, element: fn() -> Element) {
        let param = self.kinds.len();
        self.kinds.push(ParamKind::Slice { writable });
        self.arrays.push(Array {
            param,
            name: NUMBERS.get(param).copied().unwrap_or("an array"),
            element,
        });
    }
}

impl<T> Sealed for Read<T> {}
impl<T> Sealed for Write<T> {}
impl<T> Sealed for Value<T> {}
impl<P> Sealed for WithLen<P> {}

impl<T: Elements> SignatureParam for Read<T> {
    fn push_to(list: &mut DeclaredParams) {
        const { assert_device_alignment::<T>() };
        list.push_array(false, element::<T>);
    }
}

impl<T: Elements> SignatureParam for Write<T> {
    fn push_to(list: &mut DeclaredParams) {
        const { assert_device_alignment::<T>() };
        list.push_array(true, element::<T>);
    }
}

impl<T: Pod> SignatureParam for Value<T> {
    fn push_to(list: &mut DeclaredParams) {
        list.kinds.push(ParamKind::Scalar {
            size: size_of::<T>(),
            align: align_of::<T>(),
        });
    }
}

impl<P: SignatureParam> SignatureParam for WithLen<P> {
    fn push_to(list: &mut DeclaredParams) {
        P::push_to(list);
        list.kinds.push(ParamKind::Len);
    }
}

/// The signature of a kernel: a tuple of parameters that [`signature!`](crate::signature) writes.
pub trait KernelSignature: Sealed {
    /// Returns the parameters of the kernel in the PTX.
    #[doc(hidden)]
    fn declared() -> DeclaredParams;
}

/// The arguments for a signature `S`: a tuple with an argument for each parameter.
#[diagnostic::on_unimplemented(
    message = "these are not the arguments of a kernel with the signature `{S}`",
    note = "pass a tuple with `&array` for `&[T]`, `&mut array` for `&mut [T]`, and the value for \
            any other parameter"
)]
pub trait LaunchArguments<S> {
    /// Adds the arguments in order.
    #[doc(hidden)]
    fn push_to<'a>(&'a mut self, list: &mut ArgumentList<'a>);
}

/// An argument for the parameter `P`.
#[doc(hidden)]
pub trait ArgumentFor<P> {
    /// Adds the arguments in the PTX.
    fn push_to<'a>(&'a mut self, list: &mut ArgumentList<'a>);
}

impl<T: Elements, O: ReadOperand<T>> ArgumentFor<Read<T>> for O {
    fn push_to<'a>(&'a mut self, list: &mut ArgumentList<'a>) {
        list.push(Argument::read(&*self));
    }
}

impl<T: Elements, O: WriteOperand<T>> ArgumentFor<Write<T>> for O {
    fn push_to<'a>(&'a mut self, list: &mut ArgumentList<'a>) {
        list.push(Argument::write(self));
    }
}

impl<T: Pod> ArgumentFor<Value<T>> for T {
    fn push_to<'a>(&'a mut self, list: &mut ArgumentList<'a>) {
        list.push(Argument::scalar(&*self));
    }
}

impl<T: Pod, O: ReadOperand<T>> ArgumentFor<WithLen<Read<T>>> for O {
    fn push_to<'a>(&'a mut self, list: &mut ArgumentList<'a>) {
        list.push(Argument::read_slice(&*self));
    }
}

impl<T: Pod, O: WriteOperand<T>> ArgumentFor<WithLen<Write<T>>> for O {
    fn push_to<'a>(&'a mut self, list: &mut ArgumentList<'a>) {
        list.push(Argument::write_slice(self));
    }
}

macro_rules! tuples {
    ($($param:ident $argument:ident $at:tt)*) => {
        impl<$($param: SignatureParam),*> Sealed for ($($param,)*) {}

        impl<$($param: SignatureParam),*> KernelSignature for ($($param,)*) {
            fn declared() -> DeclaredParams {
                #[allow(unused_mut, reason = "for a kernel without parameters")]
                let mut list = DeclaredParams::default();
                $($param::push_to(&mut list);)*
                list
            }
        }

        impl<$($param, $argument: ArgumentFor<$param>),*> LaunchArguments<($($param,)*)>
            for ($($argument,)*)
        {
            #[allow(unused_variables, reason = "for a kernel without parameters")]
            fn push_to<'a>(&'a mut self, list: &mut ArgumentList<'a>) {
                $(self.$at.push_to(list);)*
            }
        }
    };
}

macro_rules! all_tuples {
    ([$($done:tt)*]) => {
        tuples!($($done)*);
    };
    ([$($done:tt)*] $param:ident $argument:ident $at:tt $($rest:tt)*) => {
        tuples!($($done)*);
        all_tuples!([$($done)* $param $argument $at] $($rest)*);
    };
}

all_tuples!([]
    P0 A0 0 P1 A1 1 P2 A2 2 P3 A3 3 P4 A4 4 P5 A5 5 P6 A6 6 P7 A7 7 P8 A8 8 P9 A9 9 P10 A10 10
    P11 A11 11 P12 A12 12 P13 A13 13 P14 A14 14 P15 A15 15
);

/// Writes the signature of a kernel, as a type: `signature!(&[f32], &mut [f32], u64)`.
///
/// | parameter | in CUDA C++ | a launch takes |
/// |---|---|---|
/// | `&[T]` | `const T*` | an array to read |
/// | `&mut [T]` | `T*` | an array to read and write |
/// | `&Texture<T>` | `cudaTextureObject_t` | a [texture](crate::Texture) to sample |
/// | `&mut Surface<T>` | `cudaSurfaceObject_t` | the [surface](crate::Surface) of a texture |
/// | `T` | `T` | the value, which is plain old data |
///
/// Kernels written in Rust take a slice as its address and its length. For these, the list begins
/// with `abi = "rust";`: `signature!(abi = "rust"; &[f32], &mut [f32])`.
///
/// ```
/// use millstream::{Kernel, signature};
///
/// type Scale = Kernel<signature!(&[f32], &mut [f32], u64)>;
/// ```
#[macro_export]
macro_rules! signature {
    (abi = "rust"; $($params:tt)*) => {
        $crate::__signature!(rust [] $($params)*)
    };
    ($($params:tt)*) => {
        $crate::__signature!(c [] $($params)*)
    };
}

/// Translates the parameters of [`signature!`] one by one.
#[doc(hidden)]
#[macro_export]
macro_rules! __signature {
    ($abi:ident [$($done:tt)*]) => {
        ($($done)*)
    };
    (c [$($done:tt)*] &mut [$element:ty] $(, $($rest:tt)*)?) => {
        $crate::__signature!(c [$($done)* $crate::kernel::Write<$element>,] $($($rest)*)?)
    };
    (c [$($done:tt)*] &[$element:ty] $(, $($rest:tt)*)?) => {
        $crate::__signature!(c [$($done)* $crate::kernel::Read<$element>,] $($($rest)*)?)
    };
    (c [$($done:tt)*] &mut Surface<$t:ty> $(, $($rest:tt)*)?) => {
        $crate::__signature!(c [$($done)* $crate::kernel::Write<$crate::array::Texels<$t>>,]
            $($($rest)*)?)
    };
    (c [$($done:tt)*] &Texture<$t:ty> $(, $($rest:tt)*)?) => {
        $crate::__signature!(c [$($done)* $crate::kernel::Read<$crate::array::Texels<$t>>,]
            $($($rest)*)?)
    };
    (rust [$($done:tt)*] &mut [$element:ty] $(, $($rest:tt)*)?) => {
        $crate::__signature!(rust
            [$($done)* $crate::kernel::WithLen<$crate::kernel::Write<$element>>,] $($($rest)*)?)
    };
    (rust [$($done:tt)*] &[$element:ty] $(, $($rest:tt)*)?) => {
        $crate::__signature!(rust
            [$($done)* $crate::kernel::WithLen<$crate::kernel::Read<$element>>,] $($($rest)*)?)
    };
    ($abi:ident [$($done:tt)*] $value:ty $(, $($rest:tt)*)?) => {
        $crate::__signature!($abi [$($done)* $crate::kernel::Value<$value>,] $($($rest)*)?)
    };
}
