//! Results of regions and their downloads.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use half::{bf16, f16};
use ndarray::{Dimension, Ix0, IxDyn};

use crate::{
    Array, Region,
    element::Element,
    error::{Error, Result},
    expr::{NodeRef, Session},
    shape::Shape,
};

/// A result type of regions. Host arrays, vectors and single elements are downloaded; device arrays
/// stay on the device; structs that derive `OnDevice`, and tuples, `Option`s, `[_; N]` and `Vec`s
/// of results, are transferred value by value.
///
/// ```
/// use millstream_region::region;
/// use ndarray::{Array1, Array2, array};
///
/// /// Returns the sums of all arrays, and the product of the first with each of the others.
/// #[region]
/// fn products(all: &[Array2<f32>]) -> (Vec<f32>, Option<Array2<f32>>, Vec<Array2<f32>>) {
///     let sums: Vec<_> = all.iter().map(|x| x.sum()).collect();
///     let sums = millstream_region::stack(ndarray::Axis(0), &sums.iter().collect::<Vec<_>>());
///     let products = all.iter().skip(1).map(|x| all[0].dot(x)).collect();
///     (sums.unwrap(), all.last().cloned(), products)
/// }
///
/// let device = millstream::Device::simulated()?;
/// let all = [array![[1.0, 2.0], [3.0, 4.0]], array![[0.0, 1.0], [1.0, 0.0]]];
/// let (sums, last, products) = products(&device, &all)?.wait()?;
/// assert_eq!((sums, last.as_ref()), (vec![10.0, 2.0], Some(&all[1])));
/// assert_eq!(products, [array![[2.0, 1.0], [4.0, 3.0]]]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a region function",
    note = "results are ndarray's arrays of numbers or `bool`, `Vec`s of those, single elements, \
            arrays on the device, `Packed` and `Unpacked` elements, structs that derive \
            `millstream_region::OnDevice`, and `Vec`s, `Option`s, tuples and `[_; N]` of results"
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
#[diagnostic::on_unimplemented(
    message = "the body of a region cannot return `{Self}`",
    note = "the body returns device arrays, `Vec`s, `Option`s, tuples or `[_; N]` of those, or \
            `Result`s"
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
        let session = region.session();
        let stream = session.streams().stream_of(&session.device, node.id)?;
        let storage = node.storage();
        let storage = storage.expect("results are evaluated before they are downloaded");
        let elements = storage.buffer.view().cast::<T::Stored>()?;
        Ok(Self {
            pending: Some(stream.download(elements)?),
            elements: Vec::new(),
            shape: node.shape.clone(),
            kind: std::marker::PhantomData,
        })
    }
}

impl<T: Element, D> ArrayDownload<T, D> {
    /// Returns the complete elements as they are in memory.
    pub(crate) fn into_stored(self) -> Vec<T::Stored> {
        self.elements
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
        let elements = self.elements.into_iter().map(T::load).collect();
        ndarray::Array::from_shape_vec(IxDyn(&self.shape), elements)
            .ok()
            .and_then(|array| array.into_dimensionality().ok())
            .expect("the download has the number of elements of the array and the axes of its type")
    }
}

/// A result that needs no transfer: a plain value, or an array that stays on the device.
#[doc(hidden)]
pub struct PlainValue<T>(pub(super) T);

impl<T: Send + Unpin> PendingValue for PlainValue<T> {
    type Value = T;

    fn poll(&mut self, _context: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn wait(&mut self) -> Result<()> {
        Ok(())
    }

    fn is_download(&self) -> bool {
        false
    }

    fn take(self) -> T {
        self.0
    }
}

/// A pending transfer of a struct's fields, or of elements that become another value.
#[doc(hidden)]
pub struct PendingStruct<A: PendingValue, S> {
    fields: A,
    assemble: fn(A::Value) -> S,
}

impl<A: PendingValue, S> PendingStruct<A, S> {
    /// Combines the transfers of the fields with the function that assembles the struct.
    pub fn new(fields: A, assemble: fn(A::Value) -> S) -> Self {
        Self { fields, assemble }
    }
}

impl<A: PendingValue, S> PendingValue for PendingStruct<A, S> {
    type Value = S;

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.fields.poll(context)
    }

    fn wait(&mut self) -> Result<()> {
        self.fields.wait()
    }

    fn is_download(&self) -> bool {
        self.fields.is_download()
    }

    fn take(self) -> S {
        (self.assemble)(self.fields.take())
    }
}

macro_rules! arrays {
    ($(
        [$($generic:tt)*] $type:ty, $body:ty, $pending:ty,
        |$array:ident, $region:ident| $begin:expr;
    )*) => {$(
        impl<$($generic)*> Output for $type {
            type Body = $body;
            type Value = Self;
            type Pending = $pending;

            fn visit_nodes(body: &$body, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
                visit(OutputNode::of(body));
                Ok(())
            }

            fn begin_transfer($array: $body, $region: &Region) -> Result<$pending> {
                $begin
            }
        }
    )*};
    (scalars: $($type:ty),*) => {
        arrays! {$(
            [] $type, Array<$type, Ix0>, PendingStruct<ArrayDownload<$type, Ix0>, $type>,
            |array, region| {
                let download = ArrayDownload::begin_transfer(&array, region)?;
                Ok(PendingStruct::new(download, ndarray::Array0::into_scalar))
            };
        )*}
    };
}

arrays! {
    [T: Element, D: Dimension] ndarray::Array<T, D>, Array<T, D>, ArrayDownload<T, D>,
    |array, region| ArrayDownload::begin_transfer(&array, region);
    [T: Element, D: Dimension] Array<T, D>, Array<T, D>, PlainValue<Array<T, D>>,
    |array, region| {
        // The array gets a session of its own, so that it does not keep the region's streams alive.
        let alone = Session::new(region.device().clone());
        Ok(PlainValue(array.in_session(&alone)))
    };
}

arrays!(scalars: f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool);

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
    type Pending = PlainValue<Array<T, D>>;

    fn visit_nodes(body: &Self, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        <Array<T, D> as Output>::visit_nodes(&body.0, visit)
    }

    fn begin_transfer(body: Self, region: &Region) -> Result<Self::Pending> {
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
