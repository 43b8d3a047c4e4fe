//! Write-back of `&mut` parameters: the caller's elements are uploaded, and replaced by the body's.

use std::{
    panic::Location,
    task::{Context, Poll, ready},
};

use ndarray::{ArrayBase, ArrayViewMut, DataMut, Dimension, Ix1, RawData};

use crate::{
    Array, Region,
    element::Element,
    error::{Result, UsageError, UsageErrorKind},
    host::{
        input::{Input, Parameter},
        output::{ArrayDownload, OutputNode, PendingValue},
    },
};

/// A type that callers may pass for a parameter of type `&mut P`, borrowed while the region is
/// pending.
///
/// The elements are copied before the call returns. They are replaced, all at once, when the caller
/// has waited for the region's result. If the region fails or its `Pending` is dropped, they are
/// unchanged.
///
/// ```
/// use millstream_region::InputMut;
/// use ndarray::{Array1, array};
///
/// fn takes<'m>(input: impl InputMut<'m, Array1<f32>>) {
///     drop(input);
/// }
/// takes(&mut array![1.0, 2.0]);
/// takes(array![1.0, 2.0].view_mut());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a parameter of type `&mut {P}`",
    note = "it is `&mut` of an array with the same element type and number of axes, \
            on the host or on the device"
)]
pub trait InputMut<'m, P: Parameter + ?Sized> {
    /// Captures the argument's elements as the body's value.
    #[doc(hidden)]
    fn capture(&self, region: &Region, location: &'static Location<'static>) -> P::Body;

    /// Returns the write-back that replaces the caller's elements by the body's. `location` is the
    /// call of the region function.
    #[doc(hidden)]
    fn write_back(
        self,
        body: P::Body,
        location: &'static Location<'static>,
    ) -> Box<dyn WriteBack + 'm>;
}

/// A pending replacement of a caller's elements.
#[doc(hidden)]
pub trait WriteBack: Send {
    /// Calls `visit` with the node of each array.
    fn visit_nodes(&self, visit: &mut dyn FnMut(OutputNode));

    /// Begins the downloads of arrays whose work is enqueued.
    fn begin_transfer(&mut self, _region: &Region) -> Result<()> {
        Ok(())
    }

    /// Polls the downloads; ready once all elements are on the host.
    fn poll(&mut self, _context: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Blocks this thread until all elements are on the host.
    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    /// Replaces the caller's elements by the downloaded ones.
    fn commit(self: Box<Self>);

    /// Replaces the caller's elements within an enclosing region, which has not evaluated them yet.
    fn commit_within(self: Box<Self>, region: &Region, location: &'static Location<'static>);
}

/// A write-back to a host array.
struct HostWriteBack<'m, T: Element, D> {
    body: Array<T, D>,
    target: ArrayViewMut<'m, T, D>,
    download: Option<ArrayDownload<T, D>>,
}

impl<T: Element, D: Dimension> WriteBack for HostWriteBack<'_, T, D> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(OutputNode)) {
        visit(OutputNode::of(&self.body));
    }

    fn begin_transfer(&mut self, region: &Region) -> Result<()> {
        self.download = Some(ArrayDownload::begin_transfer(&self.body, region)?);
        Ok(())
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.download
            .as_mut()
            .expect("the download has begun")
            .poll(context)
    }

    fn wait(&mut self) -> Result<()> {
        self.download
            .as_mut()
            .expect("the download has begun")
            .wait()
    }

    fn commit(mut self: Box<Self>) {
        let elements = self.download.take().expect("the download has begun").take();
        self.target.assign(&elements);
    }

    fn commit_within(self: Box<Self>, region: &Region, location: &'static Location<'static>) {
        let detail = "a host array cannot be changed by a part of a region, because it is replaced \
                      when the whole region is complete: pass `&mut` of an array of that region";
        let problem = UsageErrorKind::Argument {
            detail: detail.to_owned(),
        };
        region
            .session()
            .record_failure(UsageError::new("region", problem, location).into());
    }
}

/// A write-back to a device array, which needs no transfer.
struct DeviceWriteBack<'m, T, D> {
    body: Array<T, D>,
    target: &'m mut Array<T, D>,
}

impl<T: Element, D: Dimension> WriteBack for DeviceWriteBack<'_, T, D> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(OutputNode)) {
        visit(OutputNode::of(&self.body));
    }

    fn commit(self: Box<Self>) {
        *self.target = self.body.in_session(self.target.session());
    }

    fn commit_within(self: Box<Self>, _region: &Region, _location: &'static Location<'static>) {
        self.commit();
    }
}

/// A write-back of a plain value.
pub(super) struct PlainWriteBack<'m, T> {
    pub(super) body: T,
    pub(super) target: &'m mut T,
}

impl<T: Send> WriteBack for PlainWriteBack<'_, T> {
    fn visit_nodes(&self, _visit: &mut dyn FnMut(OutputNode)) {}

    fn commit(self: Box<Self>) {
        *self.target = self.body;
    }

    fn commit_within(self: Box<Self>, _region: &Region, _location: &'static Location<'static>) {
        self.commit();
    }
}

/// The write-backs of a struct's fields or of all parameters.
#[doc(hidden)]
pub struct WriteBacks<'m>(pub Vec<Box<dyn WriteBack + 'm>>);

impl WriteBack for WriteBacks<'_> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(OutputNode)) {
        self.0.iter().for_each(|back| back.visit_nodes(visit));
    }

    fn begin_transfer(&mut self, region: &Region) -> Result<()> {
        self.0
            .iter_mut()
            .try_for_each(|back| back.begin_transfer(region))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        for back in &mut self.0 {
            ready!(back.poll(context))?;
        }
        Poll::Ready(Ok(()))
    }

    fn wait(&mut self) -> Result<()> {
        self.0.iter_mut().try_for_each(|back| back.wait())
    }

    fn commit(self: Box<Self>) {
        self.0.into_iter().for_each(|back| back.commit());
    }

    fn commit_within(self: Box<Self>, region: &Region, location: &'static Location<'static>) {
        self.0
            .into_iter()
            .for_each(|back| back.commit_within(region, location));
    }
}

impl<'m, T, S, Q, D> InputMut<'m, ArrayBase<Q, D>> for &'m mut ArrayBase<S, D>
where
    T: Element,
    S: DataMut<Elem = T>,
    Q: RawData<Elem = T>,
    D: Dimension + 'm,
{
    fn capture(&self, region: &Region, location: &'static Location<'static>) -> Array<T, D> {
        region.upload(&self.view(), location)
    }

    fn write_back(
        self,
        body: Array<T, D>,
        location: &'static Location<'static>,
    ) -> Box<dyn WriteBack + 'm> {
        to_host(&body, self.view_mut(), location)
    }
}

impl<'m, T, Q, D> InputMut<'m, ArrayBase<Q, D>> for ArrayViewMut<'m, T, D>
where
    T: Element,
    Q: RawData<Elem = T>,
    D: Dimension + 'm,
{
    fn capture(&self, region: &Region, location: &'static Location<'static>) -> Array<T, D> {
        region.upload(&self.view(), location)
    }

    fn write_back(
        self,
        body: Array<T, D>,
        location: &'static Location<'static>,
    ) -> Box<dyn WriteBack + 'm> {
        to_host(&body, self, location)
    }
}

fn to_host<'m, T: Element, D: Dimension + 'm>(
    body: &Array<T, D>,
    target: ArrayViewMut<'m, T, D>,
    location: &'static Location<'static>,
) -> Box<dyn WriteBack + 'm> {
    let body = body.shaped_as(target.shape(), location);
    Box::new(HostWriteBack {
        body,
        target,
        download: None,
    })
}

macro_rules! on_device {
    ($([$($generic:tt)*] $parameter:ty, $dimension:ty;)*) => {$(
        impl<'m, T: Element, $($generic)*> InputMut<'m, $parameter>
            for &'m mut Array<T, $dimension>
        {
            fn capture(
                &self,
                region: &Region,
                location: &'static Location<'static>,
            ) -> Array<T, $dimension> {
                Input::<Array<T, $dimension>>::capture(&**self, region, location)
            }

            fn write_back(
                self,
                body: Array<T, $dimension>,
                _location: &'static Location<'static>,
            ) -> Box<dyn WriteBack + 'm> {
                Box::new(DeviceWriteBack { body, target: self })
            }
        }
    )*};
}

on_device! {
    [Q: RawData<Elem = T>, D: Dimension + 'm] ArrayBase<Q, D>, D;
    [D: Dimension + 'm] Array<T, D>, D;
    [] [T], Ix1;
    [] Vec<T>, Ix1;
}

macro_rules! rows {
    ($([$($generic:tt)*] $parameter:ty, $argument:ty;)*) => {$(
        impl<'m, T: Element, $($generic)*> InputMut<'m, $parameter> for &'m mut $argument {
            fn capture(
                &self,
                region: &Region,
                location: &'static Location<'static>,
            ) -> Array<T, Ix1> {
                region.upload(&ndarray::ArrayView1::from(&self[..]), location)
            }

            fn write_back(
                self,
                body: Array<T, Ix1>,
                location: &'static Location<'static>,
            ) -> Box<dyn WriteBack + 'm> {
                to_host(&body, ndarray::ArrayViewMut1::from(&mut self[..]), location)
            }
        }
    )*};
}

rows! {
    [] [T], [T];
    [] [T], Vec<T>;
    [const N: usize] [T], [T; N];
    [] Vec<T>, Vec<T>;
}
