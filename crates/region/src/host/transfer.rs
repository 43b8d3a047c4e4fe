//! Uploads and downloads outside of regions and in the middle of them: `from_host`, `to_host`,
//! `item`.

use std::{panic::Location, slice};

use millstream::Device;
use ndarray::{Dimension, Ix0};

use super::{ArrayDownload, Input, PendingValue};
use crate::{Array, Region, element::Element, error::Result, evaluate};

impl<T: Element, D: Dimension> Array<T, D> {
    /// A copy of an array of the host, on a device, for calculations outside of any region. It is
    /// copied before this returns.
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
    /// If there is not enough memory, or the device is lost.
    #[track_caller]
    pub fn from_host(device: &Device, source: impl Input<Self>) -> Result<Self> {
        let region = Region::new(device.clone());
        let array: Self = Input::<Self>::capture(source, &region, Location::caller());
        match array.node().failure() {
            Some(error) => Err(error),
            None => Ok(array),
        }
    }

    /// The elements, on the host. All that they need is enqueued, and waited for: nothing else is.
    ///
    /// # Errors
    ///
    /// If the array stands for a mistake, an index turned out to be none of its axis, there is not
    /// enough memory, or the device is lost.
    pub fn to_host(&self) -> Result<ndarray::Array<T, D>> {
        let session = self.session();
        evaluate::evaluate(session, slice::from_ref(self.node()))?;
        let mut download = ArrayDownload::begin_transfer(self, &Region::of(session))?;
        session.check_result(slice::from_ref(self.node()))?.wait()?;
        download.wait()?;
        Ok(download.take())
    }
}

impl<T: Element> Array<T, Ix0> {
    /// The only element, on the host: all that it needs is enqueued, and waited for.
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
    /// As of [`to_host`](Array::to_host).
    pub fn item(&self) -> Result<T> {
        Ok(self.to_host()?.into_scalar())
    }
}
