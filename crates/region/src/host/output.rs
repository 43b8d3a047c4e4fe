//! Results of regions and their downloads.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use half::{bf16, f16};
use ndarray::{Dimension, Ix0, Ix1, IxDyn};

use crate::{
    Array, Region,
    element::Element,
    error::{Error, Result},
    expr::{NodeRef, Session},
    shape::Shape,
};

/// A result type of regions. Host arrays, vectors and single elements are downloaded; device arrays
/// stay on the device; tuples of results and structs that derive `OnDevice` are transferred field
/// by field.
///
/// ```
/// use millstream_region::{Array, Output};
/// use std::marker::PhantomData;
///
/// fn the_same<T>(_: PhantomData<T>, _: PhantomData<T>) {}
/// type OfMatrix = <ndarray::Array2<f32> as Output>::Body;
/// the_same(PhantomData::<OfMatrix>, PhantomData::<Array<f32, ndarray::Ix2>>);
/// the_same(PhantomData::<<f32 as Output>::Body>, PhantomData::<Array<f32, ndarray::Ix0>>);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a region function",
    note = "results are ndarray's arrays of numbers or `bool`, `Vec`s of those, single elements, \
            arrays on the device, tuples of results, and structs that derive \
            `millstream_region::OnDevice`"
)]
pub trait Output: Sized {
    /// The type that the body returns for this result.
    type Body;
    /// The type that the caller gets: the result type itself, or for a `Result` its value, because
    /// the call and the wait return its error.
    type Value;
    /// The pending transfer of the result.
    #[doc(hidden)]
    type Pending: PendingValue<Value = Self::Value>;

    /// Calls `visit` with the node of each array, or returns the error that the body returned.
    #[doc(hidden)]
    fn visit_nodes(body: &Self::Body, visit: &mut dyn FnMut(OutputNode)) -> Result<()>;

    /// Begins the downloads of arrays whose work is enqueued.
    #[doc(hidden)]
    fn begin_transfer(body: Self::Body, region: &Region) -> Result<Self::Pending>;
}

/// The node of an array that a region returns, to be evaluated.
#[doc(hidden)]
pub struct OutputNode(pub(crate) NodeRef);

impl OutputNode {
    pub(crate) fn of<T, D>(array: &Array<T, D>) -> Self {
        Self(NodeRef::clone(array.node()))
    }
}

/// A type that the body of [`RegionExt::region`](crate::RegionExt::region) can return, with the
/// host type to which it is downloaded.
///
/// ```
/// use millstream_region::{Array, DeviceValue};
/// use std::marker::PhantomData;
///
/// fn the_same<T>(_: PhantomData<T>, _: PhantomData<T>) {}
/// type OfMatrix = <Array<f32, ndarray::Ix2> as DeviceValue>::Host;
/// the_same(PhantomData::<OfMatrix>, PhantomData::<ndarray::Array2<f32>>);
/// ```
#[diagnostic::on_unimplemented(
    message = "the body of a region cannot return `{Self}`",
    note = "the body returns device arrays, tuples of those, or `Result`s"
)]
pub trait DeviceValue: Sized {
    /// The result type of the region.
    type Host: Output<Body = Self>;
}

impl<T: Element, D: Dimension> DeviceValue for Array<T, D> {
    type Host = ndarray::Array<T, D>;
}

impl<V: DeviceValue> DeviceValue for Result<V, Error> {
    type Host = Result<V::Host, Error>;
}

/// A value whose transfer is pending.
#[doc(hidden)]
pub trait PendingValue: Send + Unpin {
    /// The type of the value.
    type Value;

    /// Polls the transfer; ready once the value is complete.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>>;

    /// Blocks this thread until the value is complete.
    fn wait(&mut self) -> Result<()>;

    /// Returns whether elements are downloaded, which may be taken only if all indices were within
    /// bounds.
    fn is_download(&self) -> bool {
        true
    }

    /// Returns the complete value.
    fn take(self) -> Self::Value;
}

/// A pending download of an array.
#[doc(hidden)]
pub struct ArrayDownload<T: Element, D> {
    pending: Option<millstream::Pending<Vec<T::Stored>>>,
    elements: Vec<T::Stored>,
    shape: Shape,
    kind: std::marker::PhantomData<fn() -> D>,
}

impl<T: Element, D> ArrayDownload<T, D> {
    /// Enqueues the download of an array whose work is enqueued.
    pub(crate) fn begin_transfer(array: &Array<T, D>, region: &Region) -> Result<Self> {
        let node = array.node();
        let stream = region
            .session()
            .streams()
            .stream_of(&region.session().device, node.id)?;
        let storage = node
            .storage()
            .expect("results are evaluated before they are downloaded");
        let elements = storage.buffer.view().cast::<T::Stored>()?;
        Ok(Self {
            pending: Some(stream.download(elements)?),
            elements: Vec::new(),
            shape: node.shape.clone(),
            kind: std::marker::PhantomData,
        })
    }

    fn elements(self) -> impl Iterator<Item = T> {
        self.elements.into_iter().map(T::load)
    }
}

impl<T: Element, D: Dimension> PendingValue for ArrayDownload<T, D> {
    type Value = ndarray::Array<T, D>;

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(pending) = &mut self.pending {
            self.elements = ready!(Pin::new(pending).poll(context))?;
            self.pending = None;
        }
        Poll::Ready(Ok(()))
    }

    fn wait(&mut self) -> Result<()> {
        if let Some(pending) = self.pending.take() {
            self.elements = pending.wait()?;
        }
        Ok(())
    }

    fn take(self) -> ndarray::Array<T, D> {
        let shape = IxDyn(&self.shape);
        ndarray::Array::from_shape_vec(shape, self.elements().collect())
            .ok()
            .and_then(|array| array.into_dimensionality().ok())
            .expect("the download has the number of elements of the array and the axes of its type")
    }
}

impl<T: Element, D: Dimension> Output for ndarray::Array<T, D> {
    type Body = Array<T, D>;
    type Value = Self;
    type Pending = ArrayDownload<T, D>;

    fn visit_nodes(body: &Array<T, D>, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        visit(OutputNode::of(body));
        Ok(())
    }

    fn begin_transfer(body: Array<T, D>, region: &Region) -> Result<ArrayDownload<T, D>> {
        ArrayDownload::begin_transfer(&body, region)
    }
}

/// A pending download of a vector.
#[doc(hidden)]
pub struct VecDownload<T: Element>(ArrayDownload<T, Ix1>);

impl<T: Element> PendingValue for VecDownload<T> {
    type Value = Vec<T>;

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.0.poll(context)
    }

    fn wait(&mut self) -> Result<()> {
        self.0.wait()
    }

    fn take(self) -> Vec<T> {
        self.0.elements().collect()
    }
}

impl<T: Element> Output for Vec<T> {
    type Body = Array<T, Ix1>;
    type Value = Self;
    type Pending = VecDownload<T>;

    fn visit_nodes(body: &Array<T, Ix1>, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        visit(OutputNode::of(body));
        Ok(())
    }

    fn begin_transfer(body: Array<T, Ix1>, region: &Region) -> Result<VecDownload<T>> {
        ArrayDownload::begin_transfer(&body, region).map(VecDownload)
    }
}

/// A pending download of a single element.
#[doc(hidden)]
pub struct ScalarDownload<T: Element>(ArrayDownload<T, Ix0>);

impl<T: Element> PendingValue for ScalarDownload<T> {
    type Value = T;

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.0.poll(context)
    }

    fn wait(&mut self) -> Result<()> {
        self.0.wait()
    }

    fn take(self) -> T {
        self.0
            .elements()
            .next()
            .expect("an array without axes has one element")
    }
}

macro_rules! scalars {
    ($($type:ty),*) => {$(
        impl Output for $type {
            type Body = Array<$type, Ix0>;
            type Value = Self;
            type Pending = ScalarDownload<$type>;

            fn visit_nodes(body: &Self::Body, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
                visit(OutputNode::of(body));
                Ok(())
            }

            fn begin_transfer(body: Self::Body, region: &Region) -> Result<ScalarDownload<$type>> {
                ArrayDownload::begin_transfer(&body, region).map(ScalarDownload)
            }
        }
    )*};
}

scalars!(
    f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool
);

/// A device array as a result, which needs no transfer.
#[doc(hidden)]
pub struct ResidentArray<T, D>(Array<T, D>);

impl<T: Element, D: Dimension> PendingValue for ResidentArray<T, D> {
    type Value = Array<T, D>;

    fn poll(&mut self, _context: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    fn is_download(&self) -> bool {
        false
    }

    fn take(self) -> Array<T, D> {
        self.0
    }
}

impl<T: Element, D: Dimension> Output for Array<T, D> {
    type Body = Self;
    type Value = Self;
    type Pending = ResidentArray<T, D>;

    fn visit_nodes(body: &Self, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        visit(OutputNode::of(body));
        Ok(())
    }

    fn begin_transfer(body: Self, region: &Region) -> Result<ResidentArray<T, D>> {
        // The array gets a session of its own, so that it does not keep the region's streams alive.
        let alone = Session::new(region.device().clone());
        Ok(ResidentArray(body.in_session(&alone)))
    }
}

/// A wrapper that leaves an array on the device, for the closures of
/// [`RegionExt::region`](crate::RegionExt::region), whose arrays are downloaded otherwise. A region
/// function declares a result of type [`Array`] instead.
///
/// ```
/// use millstream_region::{Keep, RegionExt};
/// use ndarray::array;
///
/// let device = millstream::Device::simulated()?;
/// let x = array![1.0_f32, 2.0];
/// let (twice, sum) = device.region(|g| {
///     let x = g.array(&x);
///     (Keep(&x * 2.0), x.sum())
/// })?.wait()?;
/// assert_eq!((twice * 2.0).to_host()?, array![4.0, 8.0]);
/// assert_eq!(sum, ndarray::arr0(3.0));
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Keep<T, D>(pub Array<T, D>);

impl<T: Element, D: Dimension> DeviceValue for Keep<T, D> {
    type Host = Self;
}

impl<T: Element, D: Dimension> Output for Keep<T, D> {
    type Body = Self;
    type Value = Array<T, D>;
    type Pending = ResidentArray<T, D>;

    fn visit_nodes(body: &Self, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        <Array<T, D> as Output>::visit_nodes(&body.0, visit)
    }

    fn begin_transfer(body: Self, region: &Region) -> Result<ResidentArray<T, D>> {
        <Array<T, D> as Output>::begin_transfer(body.0, region)
    }
}

/// The result of a body that can fail.
impl<R: Output> Output for Result<R, Error> {
    type Body = Result<R::Body, Error>;
    type Value = R::Value;
    type Pending = R::Pending;

    fn visit_nodes(body: &Self::Body, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        match body {
            Ok(body) => R::visit_nodes(body, visit),
            Err(error) => Err(error.clone()),
        }
    }

    fn begin_transfer(body: Self::Body, region: &Region) -> Result<Self::Pending> {
        R::begin_transfer(body?, region)
    }
}

macro_rules! tuples {
    ($(($($name:ident . $place:tt),*);)*) => {$(
        impl<$($name: PendingValue),*> PendingValue for ($($name,)*) {
            type Value = ($($name::Value,)*);

            #[allow(unused_variables, reason = "there is a tuple of none")]
            fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
                $(ready!(self.$place.poll(context))?;)*
                Poll::Ready(Ok(()))
            }

            fn wait(&mut self) -> Result<()> {
                $(self.$place.wait()?;)*
                Ok(())
            }

            fn is_download(&self) -> bool {
                false $(|| self.$place.is_download())*
            }

            #[allow(clippy::unused_unit, reason = "there is a tuple of none")]
            fn take(self) -> Self::Value {
                ($(self.$place.take(),)*)
            }
        }

        impl<$($name: DeviceValue),*> DeviceValue for ($($name,)*) {
            type Host = ($($name::Host,)*);
        }

        impl<$($name: Output),*> Output for ($($name,)*) {
            type Body = ($($name::Body,)*);
            type Value = ($($name::Value,)*);
            type Pending = ($($name::Pending,)*);

            #[allow(unused_variables, reason = "there is a tuple of none")]
            fn visit_nodes(body: &Self::Body, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
                $($name::visit_nodes(&body.$place, visit)?;)*
                Ok(())
            }

            #[allow(unused_variables, clippy::unused_unit, reason = "there is a tuple of none")]
            fn begin_transfer(body: Self::Body, region: &Region) -> Result<Self::Pending> {
                Ok(($($name::begin_transfer(body.$place, region)?,)*))
            }
        }
    )*};
}

tuples! {
    ();
    (A.0);
    (A.0, B.1);
    (A.0, B.1, C.2);
    (A.0, B.1, C.2, E.3);
    (A.0, B.1, C.2, E.3, F.4);
    (A.0, B.1, C.2, E.3, F.4, G.5);
    (A.0, B.1, C.2, E.3, F.4, G.5, H.6);
    (A.0, B.1, C.2, E.3, F.4, G.5, H.6, I.7);
}
