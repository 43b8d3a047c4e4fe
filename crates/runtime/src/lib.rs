//! GPU work that is asynchronous by default and cannot race.
//!
//! Methods of a [`Stream`] enqueue work for the device and return at once. The library derives the
//! dependencies: an operation runs after every earlier operation that accesses the same bytes if
//! one of the two writes them, whichever streams and threads they come from. Operations of other
//! streams may run at the same time. The waits are made on the device. Operands live as long as
//! operations need them, and the host waits only when it asks for a value.
//!
//! ```
//! use millstream::Device;
//!
//! let device = Device::simulated()?; // or Device::open(Select::Auto): a GPU if there is one
//! let (a, b, c) = (device.stream()?, device.stream()?, device.stream()?);
//!
//! let numbers = a.upload(&[1.0_f32; 1024])?;
//! let (mut left, mut right) = (b.zeros::<f32>(1024)?, c.zeros::<f32>(1024)?);
//! b.copy(&numbers, &mut left)?; // waits for the upload, on the device
//! c.copy(&numbers, &mut right)?; // so does this; both copies run together
//! drop(numbers); // freed behind both copies, without waiting for them
//! assert_eq!(a.download(&left)?.wait()?, [1.0; 1024]);
//! # Ok::<(), millstream::Error>(())
//! ```
//!
//! The same program runs on a GPU through `libcuda`, which is loaded at run time, and on a
//! simulated device that needs no CUDA at all: see [`Select`].
//!
//! # Where to read on
//!
//! - [The guide](guide) explains everything, a page for each subject.
#![cfg_attr(
    feature = "sim",
    doc = "- [Start](guide::start): install it, run a first program, launch a first kernel.\n\
           - [Why nothing races](guide::model): how an order is found for each operation, which \
           mistakes do not compile, and what the library does not see.\n\
           - [Testing](guide::testing): [`check`](fn@check) runs a program under many schedules of \
           the simulated device, whose race checker names the two source lines of a race.\n\
           - From [CUDA C++](guide::from_cuda), [cudarc](guide::from_cudarc) or \
           [CuPy](guide::from_cupy): the same calls side by side."
)]
//!
//! The items of this page are those of most programs. The modules have the others: [`mod@array`]
//! the operands of copies, [`device`] properties and topology, [`error`] diagnostics and suspects,
//! [`graph`] options and figures, [`timeline`] the times of operations.

#![cfg_attr(
    not(all(feature = "dlpack", feature = "timeline")),
    allow(dead_code, unused_imports, reason = "DLPack and timelines use it")
)]

pub mod array;
#[cfg(feature = "sim")]
pub mod check;
mod context;
pub mod copy;
pub mod device;
mod disposal;
mod element_layout;
pub mod error;
mod event;
mod future;
pub mod graph;
#[doc(hidden)]
pub mod groups;
pub mod guide;
pub mod interop;
#[doc(hidden)]
pub mod kernel;
pub mod memory;
mod multi_device;
mod page_locked;
mod rejected;
mod scope;
mod spans;
mod sync;
#[cfg(feature = "timeline")]
pub mod timeline;
mod tracker;
mod unwind;

#[doc(hidden)]
pub use array::DeviceOperand;
#[doc(inline)]
pub use array::{
    Buffer, Global, Managed, Pinned, ReadOperand, Surface, Texture, View, ViewMut, WriteOperand,
};
#[cfg(feature = "sim")]
#[doc(inline)]
pub use check::{Check, check, check_async};
pub use context::{Device, Stream};
#[doc(inline)]
pub use device::Select;
#[doc(hidden)]
pub use disposal::log_later;
#[doc(inline)]
pub use error::{Error, OperationKind, Result, UsageError, UsageErrorKind};
pub use event::Event;
pub use future::Pending;
#[doc(hidden)]
pub use graph::{BoundReplay, RecordedKernels, UnboundGraph};
#[doc(inline)]
pub use graph::{Graph, GraphRecorder};
pub use kernel::{
    Cuda, Dim3, Kernel, KernelSignature, LaunchArguments, LaunchConfig, Module, Occupancy, Ptx,
};
#[doc(inline)]
pub use memory::Release;
pub use millstream_driver as driver;
/// Declares typed kernels from PTX.
///
/// # On a device
///
/// ```standalone_crate
/// use millstream::{Device, LaunchConfig};
///
/// millstream::kernels! {
///     // SAFETY: the signature is that of vecadd.cu; its threads access `n` elements of each
///     // array and no others.
///     unsafe mod sums from include_str!("../kernels/vecadd.ptx") {
///         safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64)
///             requires a.len() >= n, b.len() >= n, c.len() >= n;
///     }
/// }
///
/// let device = Device::simulated()?;
/// let kernels = sums::load(&device)?;
/// let stream = device.stream()?;
/// let a = stream.upload(&[1.0_f32, 2.0, 3.0])?;
/// let mut c = stream.zeros::<f32>(3)?;
/// kernels.vecadd(&stream, LaunchConfig::linear(3), &a, &a, &mut c, 3)?;
/// assert_eq!(stream.download(&c)?.wait()?, [2.0, 4.0, 6.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// An array that a kernel writes cannot be another operand of the same launch:
///
/// ```compile_fail,E0502
/// # use millstream::{Device, LaunchConfig};
/// # millstream::kernels! {
/// #     unsafe mod sums from include_str!("../kernels/vecadd.ptx") {
/// #         safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64);
/// #     }
/// # }
/// # let device = Device::simulated()?;
/// # let kernels = sums::load(&device)?;
/// # let stream = device.stream()?;
/// let mut a = stream.upload(&[1.0_f32, 2.0, 3.0])?;
/// kernels.vecadd(&stream, LaunchConfig::linear(3), &a, &a, &mut a, 3)?;
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// # Half-precision and complex elements
///
/// Elements have any type that is plain old data (`bytemuck::Pod`). With their features `bytemuck`,
/// the crate `half` has `f16` and `bf16`, which are `__half` and `__nv_bfloat16` in CUDA C++, and
/// `num-complex` has `Complex<T>`, which has the layout of `cuComplex` (`float2`) and
/// `cuDoubleComplex` (`double2`). A kernel takes them as `&[f16]` and `&mut [Complex<f32>]`. A
/// `cuComplex` that is passed by value is aligned to 8 bytes: declare a `#[repr(C, align(8))]` type
/// for it, since loading compares alignments.
///
/// ```
/// use half::f16;
/// use num_complex::Complex;
///
/// let stream = millstream::Device::simulated()?.stream()?;
/// let halves = stream.upload(&[f16::from_f32(1.5); 4])?;
/// let waves = stream.upload(&[Complex::new(0.0_f32, 1.0); 4])?;
/// assert_eq!(stream.download(&halves)?.wait()?[0].to_f32(), 1.5);
/// assert_eq!(stream.download(&waves)?.wait()?[3].im, 1.0);
/// # Ok::<(), millstream::Error>(())
/// ```
pub use millstream_macros::kernels;
#[cfg(feature = "sim")]
pub use millstream_sim as sim;
pub use multi_device::PeerStatus;
#[doc(hidden)]
pub use page_locked::StagingOptions;
pub use rejected::Rejected;
pub use scope::Scope;
#[cfg(feature = "timeline")]
#[doc(inline)]
pub use timeline::{Timeline, Trace};
#[doc(hidden)]
pub use tracing as __tracing;
