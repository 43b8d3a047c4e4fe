//! The traits of operands that operations read and write.

use std::{rc::Rc, sync::Arc};

use super::{
    Buffer, Global, Managed, PeerView, PeerViewMut, Pinned, PinnedView, PinnedViewMut, View,
    ViewMut, view::Span,
};
use crate::page_locked::PinnedSpan;

pub(super) mod sealed {
    pub trait Sealed {}
}
use sealed::Sealed;

/// An array on the device that an operation may read: `&Buffer<T>`, `&mut Buffer<T>`, [`View`],
/// [`ViewMut`], and references and the standard library's smart pointers to these.
pub trait ReadOperand<T>: Sealed {
    /// Returns the number of elements.
    fn len(&self) -> usize;

    /// Returns whether there are no elements.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the location of the elements.
    #[doc(hidden)]
    fn operand(&self) -> DeviceOperand<'_>;

    /// Returns whether the operand gives exclusive access, so that an operation may write it.
    #[doc(hidden)]
    fn is_exclusive(&self) -> bool;
}

/// An array on the device that an operation may read and write: `&mut Buffer<T>`,
/// `&mut Box<Buffer<T>>`, [`ViewMut`] and `&mut ViewMut`.
///
/// Operations do not write through a shared reference:
///
/// ```compile_fail,E0277
/// # let stream = millstream::Device::simulated()?.stream()?;
/// let buffer = stream.zeros::<f32>(3)?;
/// stream.fill(&buffer, 1.0)?;
/// # Ok::<(), millstream::Error>(())
/// ```
///
/// Nor through a shared pointer:
///
/// ```compile_fail,E0277
/// # let stream = millstream::Device::simulated()?.stream()?;
/// let mut buffer = std::sync::Arc::new(stream.zeros::<f32>(3)?);
/// stream.fill(&mut buffer, 1.0)?;
/// # Ok::<(), millstream::Error>(())
/// ```
pub trait WriteOperand<T>: ReadOperand<T> {}

/// The location of an operand on the device, opaque outside of this crate.
#[doc(hidden)]
#[derive(Clone)]
pub struct DeviceOperand<'a>(pub(crate) Span<'a>);

/// A source of copies: every [`ReadOperand`], [`Pinned`] and its views, and
/// [`Texture`](super::Texture).
///
/// ```
/// # let stream = millstream::Device::simulated()?.stream()?;
/// let mut target = stream.zeros::<u8>(2)?;
/// let pinned = stream.device().pinned_from(&[1_u8, 2])?;
/// stream.copy(&pinned, &mut target)?;
/// assert_eq!(stream.download(&target)?.wait()?, [1, 2]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub trait CopySource<T>: Sealed {
    /// Returns the location of the elements.
    #[doc(hidden)]
    fn source(&self) -> CopyOperand<'_>;
}

/// A target of copies: every [`WriteOperand`], [`PinnedViewMut`], `&mut` [`Pinned`], and
/// `&mut` [`Texture`](super::Texture).
///
/// ```
/// # let stream = millstream::Device::simulated()?.stream()?;
/// let source = stream.upload(&[1_u8, 2])?;
/// let mut pinned = stream.device().pinned::<u8>(2)?;
/// stream.copy(&source, &mut pinned)?;
/// assert_eq!(*pinned.read()?, [1, 2]);
/// # Ok::<(), millstream::Error>(())
/// ```
pub trait CopyTarget<T>: CopySource<T> {}

/// The location of a copy's operand, opaque outside of this crate.
#[doc(hidden)]
#[derive(Clone)]
pub enum CopyOperand<'a> {
    /// On the device.
    Device(DeviceOperand<'a>),
    /// The texels of a texture.
    Texture(DeviceOperand<'a>),
    /// In page-locked memory of the host.
    Pinned(PinnedSpan<'a>),
}

macro_rules! on_device {
    ($($type:ty: |$this:ident| $span:expr, $is_exclusive:literal;)*) => {
        $(
            impl<T> Sealed for $type {}

            impl<T> ReadOperand<T> for $type {
                fn len(&self) -> usize {
                    <$type>::len(self)
                }

                fn operand(&self) -> DeviceOperand<'_> {
                    let $this = self;
                    DeviceOperand($span)
                }

                fn is_exclusive(&self) -> bool {
                    $is_exclusive
                }
            }

            impl<T> CopySource<T> for $type {
                fn source(&self) -> CopyOperand<'_> {
                    CopyOperand::Device(self.operand())
                }
            }
        )*
    };
}

on_device! {
    Buffer<T>: |buffer| buffer.span(), true;
    View<'_, T>: |view| view.span.clone(), false;
    ViewMut<'_, T>: |view| view.span.clone(), true;
    Managed<T>: |managed| managed.span(), true;
    Global<T>: |global| global.span(), true;
    PeerView<'_, T>: |view| view.span.clone(), false;
    PeerViewMut<'_, T>: |view| view.span.clone(), true;
}

macro_rules! page_locked {
    ($($type:ty: |$this:ident| $span:expr;)*) => {
        $(
            impl<T> Sealed for $type {}

            impl<T> CopySource<T> for $type {
                fn source(&self) -> CopyOperand<'_> {
                    let $this = self;
                    CopyOperand::Pinned($span)
                }
            }
        )*
    };
}

page_locked! {
    Pinned<T>: |pinned| pinned.span();
    PinnedView<'_, T>: |view| view.span.clone();
    PinnedViewMut<'_, T>: |view| view.span.clone();
}

macro_rules! by_reference {
    ($($reference:ty: $is_exclusive:literal),*) => {
        $(
            impl<O: Sealed + ?Sized> Sealed for $reference {}

            impl<T, O: ReadOperand<T> + ?Sized> ReadOperand<T> for $reference {
                fn len(&self) -> usize {
                    O::len(self)
                }

                fn operand(&self) -> DeviceOperand<'_> {
                    O::operand(self)
                }

                fn is_exclusive(&self) -> bool {
                    $is_exclusive && O::is_exclusive(self)
                }
            }

            impl<T, O: CopySource<T> + ?Sized> CopySource<T> for $reference {
                fn source(&self) -> CopyOperand<'_> {
                    O::source(self)
                }
            }
        )*
    };
}

by_reference!(&O: false, &mut O: true, Arc<O>: false, Rc<O>: false, Box<O>: true);

impl<T> WriteOperand<T> for &mut Buffer<T> {}
impl<T> WriteOperand<T> for &mut Managed<T> {}
impl<T> WriteOperand<T> for &mut Global<T> {}
impl<T> WriteOperand<T> for &mut Box<Buffer<T>> {}
impl<T> WriteOperand<T> for &mut Box<Managed<T>> {}
impl<T> WriteOperand<T> for ViewMut<'_, T> {}
impl<T> WriteOperand<T> for &mut ViewMut<'_, T> {}
impl<T> WriteOperand<T> for PeerViewMut<'_, T> {}
impl<T> WriteOperand<T> for &mut PeerViewMut<'_, T> {}
impl<T> CopyTarget<T> for &mut Buffer<T> {}
impl<T> CopyTarget<T> for &mut Managed<T> {}
impl<T> CopyTarget<T> for &mut Global<T> {}
impl<T> CopyTarget<T> for &mut Box<Buffer<T>> {}
impl<T> CopyTarget<T> for &mut Box<Managed<T>> {}
impl<T> CopyTarget<T> for ViewMut<'_, T> {}
impl<T> CopyTarget<T> for &mut ViewMut<'_, T> {}
impl<T> CopyTarget<T> for &mut Pinned<T> {}
impl<T> CopyTarget<T> for &mut Box<Pinned<T>> {}
impl<T> CopyTarget<T> for PinnedViewMut<'_, T> {}
impl<T> CopyTarget<T> for &mut PinnedViewMut<'_, T> {}
