//! Targets of region functions: a device, or an enclosing region.

use std::panic::Location;

use millstream::Device;

use crate::{
    Region,
    error::Result,
    host::{output::Output, pending::Pending, write_back::WriteBack},
};

/// The first argument of a region function: `&Device`, for which the function is a region of its
/// own with a pending result, or `&Region`, for which it is part of that region and returns the
/// result's arrays in it.
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
    /// The type that the call returns.
    type Output<'m, R: Output>;

    /// Returns the region in which the body runs.
    #[doc(hidden)]
    fn enter(&self) -> Region;

    /// Ends the body: evaluates its result on a device, or returns it to the enclosing region.
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
