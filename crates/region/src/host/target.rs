//! Where a region function is called: with a device it is a region of its own, within a region it
//! is part of that.

use std::panic::Location;

use millstream::Device;

use super::{output::Output, pending::Pending, write_back::WriteBack};
use crate::{Region, error::Result};

/// What a region function takes in front of its parameters: `&Device`, and its result is on its way
/// to the host; or, within a region, `&Region`, and its result is an array of that region.
///
/// ```
/// use millstream_region::{RegionExt, region};
/// use ndarray::{Array1, array};
///
/// #[region]
/// fn squares(x: &Array1<f32>) -> Array1<f32> {
///     x * x
/// }
///
/// let device = millstream::Device::simulated()?;
/// let x = array![1.0_f32, 2.0, 3.0];
/// assert_eq!(squares(&device, &x)?.wait()?, array![1.0, 4.0, 9.0]);
/// let sum = device.region(|g| squares(g, &x).sum())?; // nothing of it crosses but `x` and the sum
/// assert_eq!(sum.wait()?.into_scalar(), 14.0);
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a region function cannot run on `{Self}`",
    note = "the first argument is `&Device`, or `&Region` within another region"
)]
pub trait RegionTarget: private::Sealed {
    /// What the function gives.
    type Output<'m, R: Output>;

    /// The region in which the body runs.
    #[doc(hidden)]
    fn enter(&self) -> Region;

    /// The body has run.
    #[doc(hidden)]
    #[track_caller]
    fn leave<'m, R: Output>(
        self,
        region: Region,
        body: R::Body,
        write_backs: Vec<Box<dyn WriteBack + 'm>>,
    ) -> Self::Output<'m, R>;
}

mod private {
    pub trait Sealed {}
    impl Sealed for &millstream::Device {}
    impl Sealed for &crate::Region {}
}

impl RegionTarget for &Device {
    type Output<'m, R: Output> = Result<Pending<'m, R>>;

    fn enter(&self) -> Region {
        Region::new((*self).clone())
    }

    fn leave<'m, R: Output>(
        self,
        region: Region,
        body: R::Body,
        write_backs: Vec<Box<dyn WriteBack + 'm>>,
    ) -> Result<Pending<'m, R>> {
        Pending::begin(region, body, write_backs)
    }
}

impl RegionTarget for &Region {
    type Output<'m, R: Output> = R::Body;

    fn enter(&self) -> Region {
        (*self).clone()
    }

    #[track_caller]
    fn leave<'m, R: Output>(
        self,
        region: Region,
        body: R::Body,
        write_backs: Vec<Box<dyn WriteBack + 'm>>,
    ) -> R::Body {
        let location = Location::caller();
        for back in write_backs {
            back.commit_within(&region, location);
        }
        body
    }
}
