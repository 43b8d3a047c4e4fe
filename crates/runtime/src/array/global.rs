//! `Global<T>`: a variable of a module, as an array.

use std::{marker::PhantomData, ops::RangeBounds, panic::Location, sync::Arc};

use bytemuck::Pod;

use super::{View, ViewMut, accessors::array, view::Span};
use crate::{Result, memory::Allocation};

/// A variable in a module's global or constant memory (`__device__` or `__constant__` in CUDA C++),
/// as an array of `T`.
///
/// [`Module::global`](crate::Module::global) returns it. It is used like a
/// [`Buffer`](crate::Buffer): operations of the host on it, and launches of the module's kernels
/// that use the variable, run in the order in which they conflict.
///
/// ```
/// use millstream::{Device, Ptx, signature};
///
/// let device = Device::simulated()?;
/// let module = device.module(Ptx::text("scale.ptx", "
///     .version 8.0
///     .target sm_75
///     .address_size 64
///     .const .align 4 .f32 factor;
///     .visible .entry scale(.param .u64 x)
///     {
///         .reg .f32 %f<3>;
///         .reg .b64 %rd;
///         ld.param.u64 %rd, [x];
///         cvta.to.global.u64 %rd, %rd;
///         ld.const.f32 %f1, [factor];
///         ld.global.f32 %f2, [%rd];
///         mul.f32 %f1, %f1, %f2;
///         st.global.f32 [%rd], %f1;
///         ret;
///     }"))?;
/// let scale = module.function::<signature!(&mut [f32])>("scale")?;
/// let mut factor = module.global::<f32>("factor")?;
///
/// let (stream, other) = (device.stream()?, device.stream()?);
/// let mut x = stream.upload(&[4.0_f32])?;
/// other.fill(&mut factor, 2.5)?;
/// // SAFETY: the kernel reads and writes the first element.
/// unsafe { scale.launch(&stream, (1, 1), (&mut x,)) }?; // runs after the fill
/// assert_eq!(stream.download(&x)?.wait()?, [10.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct Global<T> {
    pub(super) allocation: Arc<Allocation>,
    pub(super) len: usize,
    pub(super) element: PhantomData<T>,
}

impl<T: Pod> Global<T> {
    /// Wraps the memory of a variable that consists of `len` elements.
    pub(crate) fn new(allocation: Arc<Allocation>, len: usize) -> Self {
        Self {
            allocation,
            len,
            element: PhantomData,
        }
    }
}

array!(Global);
