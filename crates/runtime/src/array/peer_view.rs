//! Views of memory for kernels on another device.

use std::{fmt, marker::PhantomData};

use super::{
    Buffer, View, ViewMut,
    view::{Reach, Span, len},
};
use crate::{
    Device, Result, UsageError, UsageErrorKind,
    context::DeviceState,
    multi_device::{PeerStatus, peer_status},
};

/// A view of a range of a [`Buffer`] that kernels on another device may read over the link between
/// the devices.
///
/// A kernel takes a plain buffer only on its own device, so that no access crosses a link by
/// accident. [`Buffer::peer`] permits it. The operation is ordered with all others on the same
/// memory, as on one device.
///
/// ```standalone_crate
/// use millstream::{Device, LaunchConfig, sim::{Gpu, SimConfig}};
///
/// millstream::kernels! {
///     // SAFETY: the signature is that of vecadd.cu; its threads access `n` elements of each
///     // array and no others.
///     unsafe mod sums from include_str!("../../kernels/vecadd.ptx") {
///         safe fn vecadd(a: &[f32], b: &[f32], c: &mut [f32], n: u64)
///             requires a.len() >= n, b.len() >= n, c.len() >= n;
///     }
/// }
///
/// let gpu = Gpu::new(SimConfig::new().devices(2));
/// let (here, there) = (Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?);
/// let (stream, other) = (here.stream()?, there.stream()?);
/// let a = other.upload(&[1.0_f32, 2.0])?; // on the other device
/// let mut c = stream.zeros::<f32>(2)?;
/// let kernels = sums::load(&here)?;
/// let a = a.peer(&here)?;
/// kernels.vecadd(&stream, LaunchConfig::linear(2), &a, &a, &mut c, 2)?;
/// assert_eq!(stream.download(&c)?.wait()?, [2.0, 4.0]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub struct PeerView<'a, T> {
    pub(super) span: Span<'a>,
    element: PhantomData<&'a T>,
}

/// A view of a range of a [`Buffer`] that kernels on another device may read and write over the
/// link between the devices.
pub struct PeerViewMut<'a, T> {
    pub(super) span: Span<'a>,
    element: PhantomData<&'a mut T>,
}

macro_rules! common {
    ($name:ident) => {
        len!($name);

        impl<T> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let name = stringify!($name);
                write!(
                    f,
                    "{name}({} elements of {:?})",
                    self.len(),
                    self.span.allocation
                )
            }
        }
    };
}

common!(PeerView);
common!(PeerViewMut);

/// Returns the span as an operand of kernels on `device`, or an error if that device cannot access
/// the memory.
fn for_peer<'a>(operation: &'static str, span: Span<'a>, device: &Device) -> Result<Span<'a>> {
    check_access(operation, device.state(), &span.allocation.device)?;
    Ok(Span {
        reach: Reach::Peer,
        ..span
    })
}

/// Returns a usage error unless kernels on `from` can access memory of `to`. Sets the pair up on
/// first use.
pub(crate) fn check_access(
    operation: &'static str,
    from: &DeviceState,
    to: &DeviceState,
) -> Result<()> {
    let reason = if !from.shares_driver(to) {
        "the devices belong to different drivers".to_owned()
    } else if let PeerStatus::Staged { reason } = peer_status(from, to)? {
        reason.to_string()
    } else {
        return Ok(());
    };
    let (from, to) = from.told_apart(to);
    Err(UsageError::new(operation, UsageErrorKind::NoPeerAccess { from, to, reason }).into())
}

macro_rules! peers {
    ($($owner:ty: |$this:ident| $span:expr;)*) => {
        $(
            impl<T> $owner {
                /// Returns a view for kernels on `device`, which may be another than the array's.
                ///
                /// The first use of a pair of devices turns peer access on and probes it, which
                /// takes some ten milliseconds and may wait for running kernels, because it loads a
                /// module ([rule 53](crate::guide::semantics#rule-53)). Later uses cost nothing.
                ///
                /// # Errors
                ///
                /// If kernels on `device` cannot access the memory, or one of the devices is lost.
                pub fn peer(&self, device: &Device) -> Result<PeerView<'_, T>> {
                    let $this = self;
                    Ok(PeerView {
                        span: for_peer("peer", $span, device)?,
                        element: PhantomData,
                    })
                }
            }
        )*
    };
}

macro_rules! peers_mut {
    ($($owner:ty: |$this:ident| $span:expr;)*) => {
        $(
            impl<T> $owner {
                /// Returns a view for kernels on `device`, which may be another than the array's,
                /// like [`peer`](Self::peer), for reading and writing.
                ///
                /// # Errors
                ///
                /// As [`peer`](Self::peer).
                pub fn peer_mut(&mut self, device: &Device) -> Result<PeerViewMut<'_, T>> {
                    let $this = self;
                    Ok(PeerViewMut {
                        span: for_peer("peer_mut", $span, device)?,
                        element: PhantomData,
                    })
                }
            }
        )*
    };
}

peers! {
    Buffer<T>: |buffer| buffer.span();
    View<'_, T>: |view| view.span.clone();
    ViewMut<'_, T>: |view| view.span.clone();
}

peers_mut! {
    Buffer<T>: |buffer| buffer.span();
    ViewMut<'_, T>: |view| view.span.clone();
}
