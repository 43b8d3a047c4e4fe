//! Explicit transfers: `from_host`, `to_host` and `item`, in the middle of regions and outside
//! them.

use std::{panic::Location, slice};

use millstream::Device;
use ndarray::{Dimension, Ix0};

use crate::{
    Array, Region,
    element::Element,
    error::Result,
    host::{ArrayDownload, Input, PendingValue},
    run::evaluate,
};

impl<T: Element, D: Dimension> Array<T, D> {
    /// Copies a host array to a device, for computations outside regions. The elements are copied
    /// before this returns.
    ///
    /// ```
    /// use millstream_region::Array;
    /// use ndarray::array;
    ///
    /// let device = millstream::Device::simulated()?;
    /// let x = Array::from_host(&device, &array![1.0_f32, 2.0, 3.0])?;
    /// assert_eq!((&x * &x).to_host()?, array![1.0, 4.0, 9.0]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the source has more than 6 axes or is on another device, there is not enough memory, or
    /// the device is lost.
    #[track_caller]
    pub fn from_host(device: &Device, source: impl Input<Self>) -> Result<Self> {
        let region = Region::new(device.clone());
        let array: Self = Input::<Self>::capture(source, &region, Location::caller());
        array.node().failure().map_or(Ok(array), Err)
    }

    /// Downloads the elements. Enqueues the work that they depend on, and waits for nothing else.
    ///
    /// # Errors
    ///
    /// If the array is the result of a failed operation, an index is out of bounds, there is not
    /// enough memory, or the device is lost.
    pub fn to_host(&self) -> Result<ndarray::Array<T, D>> {
        let session = self.session();
        evaluate::evaluate(session, slice::from_ref(self.node()))?;
        let mut download = ArrayDownload::begin_transfer(self, &Region::of(session))?;
        session.check_result(slice::from_ref(self.node()))?.wait()?;
        download.wait()?;
        Ok(download.take())
    }

    /// Enqueues the work that the elements depend on, and records an event behind it: to wait for
    /// the elements without downloading them, or to measure the time to them.
    ///
    /// ```
    /// use millstream_region::Array;
    /// use ndarray::array;
    ///
    /// let device = millstream::Device::simulated()?;
    /// let x = Array::from_host(&device, &array![1.0_f32, 2.0, 3.0])?;
    /// let start = x.record()?;
    /// let end = (&x * &x).sum().record()?;
    /// println!("{:?}", end.elapsed_since(&start)?); // waits for both
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`to_host`](Array::to_host), except that indices are not checked.
    #[track_caller]
    pub fn record(&self) -> Result<millstream::Event> {
        let (session, node) = (self.session(), self.node());
        evaluate::evaluate(session, slice::from_ref(node))?;
        let stream = session.streams().stream_of(&session.device, node.id)?;
        let storage = node.storage().expect("the node is evaluated");
        if !storage.buffer.is_empty() {
            // The stream may be another than that of the work. A read of one byte orders it.
            let mut byte = stream.zeros::<u8>(1)?;
            stream.copy(storage.buffer.slice(0..1), &mut byte)?;
        }
        Ok(stream.record()?)
    }
}

impl<T: Element> Array<T, Ix0> {
    /// Downloads the only element. Enqueues the work that it depends on, and waits for nothing
    /// else.
    ///
    /// ```
    /// use millstream_region::RegionExt;
    /// use ndarray::array;
    ///
    /// let device = millstream::Device::simulated()?;
    /// let x = array![100.0_f32, 20.0];
    /// let small = device.region(|g| {
    ///     let mut x = g.array(&x);
    ///     while x.sum().item()? > 10.0 {
    ///         x = x * 0.5;
    ///     }
    ///     Ok(x)
    /// })?;
    /// assert_eq!(small.wait()?, array![6.25, 1.25]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`to_host`](Array::to_host).
    pub fn item(&self) -> Result<T> {
        Ok(self.to_host()?.into_scalar())
    }
}
