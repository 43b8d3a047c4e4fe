//! Packed arrays as parameters and results of regions.

use std::marker::PhantomData;

use ndarray::{Axis, Dimension, Ix0, Slice};

use crate::{
    Packed, Region,
    element::Element,
    error::{Line, Result},
    expr::Session,
    host::{
        ArrayDownload, DeviceValue, Input, OnDevice, Output, OutputNode, Parameter, PendingStruct,
        PendingValue, PlainValue, input::ArraySource,
    },
    run::evaluate,
};

/// The result type of regions that return [`Packed`] elements to the host: an array of `ndarray`
/// with their number of rows. Region functions declare it; a closure returns [`Packed`] itself.
///
/// ```
/// use millstream_region::{Unpacked, region};
/// use ndarray::{Array1, array};
///
/// #[region]
/// fn positive(x: &Array1<f32>) -> (Unpacked<f32>, Unpacked<i64>) {
///     let mask = x.greater(0.0);
///     (x.compress(&mask), mask.flatnonzero())
/// }
///
/// let device = millstream::Device::simulated()?;
/// let found = positive(&device, &array![-1.0, 2.5, 0.0, 7.0])?.wait()?;
/// assert_eq!(found, (array![2.5, 7.0], array![1, 3]));
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[derive(Debug)]
pub struct Unpacked<T, D = ndarray::Ix1> {
    kind: PhantomData<fn() -> (T, D)>,
}

impl<T: Element, D: Dimension> DeviceValue for Packed<T, D> {
    type Host = Unpacked<T, D>;
}

impl<T: Element, D: Dimension> Output for Unpacked<T, D> {
    type Body = Packed<T, D>;
    type Value = ndarray::Array<T, D>;
    type Pending = PackedDownload<T, D>;

    fn visit_nodes(body: &Packed<T, D>, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        <Packed<T, D> as OnDevice>::visit_nodes(body, visit);
        Ok(())
    }

    fn begin_transfer(body: Packed<T, D>, region: &Region) -> Result<PackedDownload<T, D>> {
        let elements = ArrayDownload::begin_transfer(body.elements(), region)?;
        let length = ArrayDownload::begin_transfer(&body.len(), region)?;
        Ok(PendingStruct::new(
            (elements, length),
            |(mut elements, length)| {
                let length = length.into_scalar() as isize;
                elements.slice_axis_inplace(Axis(0), Slice::from(..length));
                elements
            },
        ))
    }
}

/// The pending downloads of packed elements and their number.
type PackedDownload<T, D> =
    PendingStruct<(ArrayDownload<T, D>, ArrayDownload<i64, Ix0>), ndarray::Array<T, D>>;

impl<T: Element, D: Dimension> Output for Packed<T, D> {
    type Body = Self;
    type Value = Self;
    type Pending = PlainValue<Self>;

    fn visit_nodes(body: &Self, visit: &mut dyn FnMut(OutputNode)) -> Result<()> {
        <Self as OnDevice>::visit_nodes(body, visit);
        Ok(())
    }

    fn begin_transfer(body: Self, region: &Region) -> Result<PlainValue<Self>> {
        <Self as OnDevice>::begin_transfer(body, region)
    }
}

impl<T: Element, D: Dimension> OnDevice for Packed<T, D> {
    type Pending = PlainValue<Self>;

    fn visit_nodes(body: &Self, visit: &mut dyn FnMut(OutputNode)) {
        visit(OutputNode::of(body.elements()));
        visit(OutputNode::of(&body.len()));
    }

    fn begin_transfer(body: Self, region: &Region) -> Result<PlainValue<Self>> {
        // As an array that stays on the device, in a session of its own.
        let alone = Session::new(region.device().clone());
        let elements = body.elements().in_session(&alone);
        Ok(PlainValue(Packed::of(
            elements,
            body.len().in_session(&alone),
        )))
    }
}

impl<T: Element, D: Dimension> Parameter for Packed<T, D> {
    type Body = Self;
}

impl<T: Element, D: Dimension> Input<Packed<T, D>> for &Packed<T, D> {
    fn capture(self, region: &Region, line: Line) -> Packed<T, D> {
        let elements = self.elements().array(region, line);
        Packed::of(elements, self.len().array(region, line))
    }
}

impl<T: Element, D: Dimension> Input<Packed<T, D>> for Packed<T, D> {
    fn capture(self, region: &Region, line: Line) -> Self {
        (&self).capture(region, line)
    }
}

impl<T: Element, D: Dimension> Packed<T, D> {
    /// Downloads the elements. Enqueues the work that they depend on, and waits for nothing else.
    ///
    /// ```
    /// use millstream_region::Array;
    /// use ndarray::array;
    ///
    /// let device = millstream::Device::simulated()?;
    /// let x = Array::from_host(&device, &array![3.0_f32, -4.0, 5.0])?;
    /// assert_eq!(x.compress(&x.greater(0.0)).to_host()?, array![3.0, 5.0]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Array::to_host`](crate::Array::to_host).
    pub fn to_host(&self) -> Result<ndarray::Array<T, D>> {
        let session = self.elements().session();
        let nodes = [self.elements().node().clone(), self.len().node().clone()];
        evaluate::evaluate(session, &nodes)?;
        let mut download = Unpacked::begin_transfer(self.clone(), &Region::of(session))?;
        session.check_result(&nodes)?.wait()?;
        download.wait()?;
        Ok(download.take())
    }
}
