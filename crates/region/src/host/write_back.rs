//! Write-back of `&mut` parameters: the caller's elements are uploaded, and replaced by the body's.

use std::task::{Context, Poll, ready};

use ndarray::{ArrayBase, ArrayViewMut, DataMut, Dimension, Ix1, RawData};

use crate::{
    Array, Region,
    element::Element,
    error::{Line, Result, UsageError, UsageErrorKind},
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
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a parameter of type `&mut {P}`",
    note = "it is `&mut` of an array with the same element type and number of axes, \
            on the host or on the device"
)]
pub trait InputMut<'m, P: Parameter + ?Sized> {
    /// Captures the argument's elements as the body's value.
    #[doc(hidden)]
    fn capture(&self, region: &Region, line: Line) -> P::Body;

    /// Returns the write-back that replaces the caller's elements by the body's. `line` is the call
    /// of the region function.
    #[doc(hidden)]
    fn write_back(self, body: P::Body, line: Line) -> Box<dyn WriteBack + 'm>;
}

/// A pending replacement of a caller's elements.
#[doc(hidden)]
pub trait WriteBack: Send {
    /// Calls `visit` with the node of each array; a plain value has none.
    fn visit_nodes(&self, _visit: &mut dyn FnMut(OutputNode)) {}

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
    fn commit_within(self: Box<Self>, _region: &Region, _line: Line) {
        self.commit();
    }
}

pub(super) struct HostWriteBack<'m, T: Element, D> {
    body: Array<T, D>,
    target: ArrayViewMut<'m, T, D>,
    download: Option<ArrayDownload<T, D>>,
}

impl<'m, T: Element, D: Dimension + 'm> HostWriteBack<'m, T, D> {
    /// Returns the write-back of an array to a view of the same shape.
    pub(super) fn boxed(
        body: Array<T, D>,
        target: ArrayViewMut<'m, T, D>,
        line: Line,
    ) -> Box<dyn WriteBack + 'm> {
        let body = body.shaped_as(target.shape(), line);
        Box::new(Self {
            body,
            target,
            download: None,
        })
    }
}

const BEGUN: &str = "the download has begun";

impl<T: Element, D: Dimension> WriteBack for HostWriteBack<'_, T, D> {
    fn visit_nodes(&self, visit: &mut dyn FnMut(OutputNode)) {
        visit(OutputNode::of(&self.body));
    }

    fn begin_transfer(&mut self, region: &Region) -> Result<()> {
        self.download = Some(ArrayDownload::begin_transfer(&self.body, region)?);
        Ok(())
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.download.as_mut().expect(BEGUN).poll(context)
    }

    fn wait(&mut self) -> Result<()> {
        self.download.as_mut().expect(BEGUN).wait()
    }

    fn commit(mut self: Box<Self>) {
        self.target.assign(&self.download.expect(BEGUN).take());
    }

    fn commit_within(self: Box<Self>, region: &Region, line: Line) {
        let detail = "a host array cannot be changed by a part of a region, because it is replaced \
                      when the whole region is complete: pass `&mut` of an array of that region";
        let usage_error = UsageError::new("region", UsageErrorKind::argument(detail), line);
        region.session().record_failure(usage_error.into());
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
}

pub(super) struct PlainWriteBack<'m, T> {
    pub(super) body: T,
    pub(super) target: &'m mut T,
}

impl<T: Send> WriteBack for PlainWriteBack<'_, T> {
    fn commit(self: Box<Self>) {
        *self.target = self.body;
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
        let mut backs = self.0.iter_mut();
        backs.try_for_each(|back| back.begin_transfer(region))
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

    fn commit_within(self: Box<Self>, region: &Region, line: Line) {
        let backs = self.0.into_iter();
        backs.for_each(|back| back.commit_within(region, line));
    }
}

macro_rules! on_host {
    ($(
        [$($generic:tt)*] $parameter:ty, $argument:ty, $dimension:ty,
        |$this:ident| $view:expr, $target:expr;
    )*) => {$(
        impl<'m, T: Element, $($generic)*> InputMut<'m, $parameter> for $argument {
            fn capture(&self, region: &Region, line: Line) -> Array<T, $dimension> {
                let $this = self;
                region.upload(&$view, line)
            }

            fn write_back(
                self,
                body: Array<T, $dimension>,
                line: Line,
            ) -> Box<dyn WriteBack + 'm> {
                let $this = self;
                HostWriteBack::boxed(body, $target, line)
            }
        }
    )*};
}

on_host! {
    [Q: RawData<Elem = T>, S: DataMut<Elem = T>, D: Dimension + 'm]
        ArrayBase<Q, D>, &'m mut ArrayBase<S, D>, D, |array| array.view(), array.view_mut();
    [Q: RawData<Elem = T>, D: Dimension + 'm]
        ArrayBase<Q, D>, ArrayViewMut<'m, T, D>, D, |array| array.view(), array;
}

macro_rules! on_device {
    ($([$($generic:tt)*] $parameter:ty, $dimension:ty;)*) => {$(
        impl<'m, T: Element, $($generic)*> InputMut<'m, $parameter>
            for &'m mut Array<T, $dimension>
        {
            fn capture(&self, region: &Region, line: Line) -> Array<T, $dimension> {
                Input::<Array<T, $dimension>>::capture(&**self, region, line)
            }

            fn write_back(
                self,
                body: Array<T, $dimension>,
                _line: Line,
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
