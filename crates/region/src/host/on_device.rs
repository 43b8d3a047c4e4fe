//! Structs of arrays, transferred field by field.

use ndarray::Dimension;

use crate::{
    Array, Region,
    element::Element,
    error::Result,
    host::{
        input::Parameter,
        output::{Output, OutputNode, PendingValue},
    },
};

/// A type that can be a field of a struct on a device: host arrays and vectors, device arrays,
/// plain values, and structs that derive this trait.
///
/// `#[derive(OnDevice)]` for a struct `Layer` of such fields, named or not, generates a struct
/// `LayerOnDevice` with the same fields on the device. Region functions can then have parameters of
/// type `&Layer`, `&mut Layer` and `Layer` and take either struct for them; the body has a
/// `LayerOnDevice`. A region whose result is `Layer` downloads all of it; one whose result is
/// `LayerOnDevice` leaves it on the device, where other regions can use it without a copy.
///
/// ```
/// use millstream_region::{OnDevice, region};
/// use ndarray::{Array1, Array2, array};
///
/// #[derive(OnDevice)]
/// struct Layer {
///     weights: Array2<f32>,
///     bias: Array1<f32>,
///     slope: f32,
/// }
///
/// #[region]
/// fn keep(layer: Layer) -> LayerOnDevice {
///     layer
/// }
///
/// #[region]
/// fn apply(layer: &Layer, x: &Array1<f32>) -> Array1<f32> {
///     let y = layer.weights.dot(x) + &layer.bias;
///     y.relu() + y.minimum(0.0) * layer.slope
/// }
///
/// let device = millstream::Device::simulated()?;
/// let (weights, bias) = (array![[1.0, 2.0], [3.0, 4.0]], array![0.0, -20.0]);
/// let layer = Layer { weights, bias, slope: 0.5 };
/// let x = array![1.0, 2.0];
/// assert_eq!(apply(&device, &layer, &x)?.wait()?, array![5.0, -4.5]); // the layer is uploaded
/// let kept = keep(&device, &layer)?.wait()?; // and here
/// assert_eq!(apply(&device, &kept, &x)?.wait()?, array![5.0, -4.5]); // not here
/// # Ok::<(), millstream_region::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a struct on a device",
    note = "fields are owned arrays of `ndarray` or `Vec`s of numbers or `bool`, arrays on the \
            device, plain values, and structs that derive `millstream_region::OnDevice`"
)]
pub trait OnDevice: Parameter + Sized {
    /// The pending transfer of the value.
    #[doc(hidden)]
    type Pending: PendingValue<Value = Self>;

    /// Calls `visit` with the node of each array.
    #[doc(hidden)]
    fn visit_nodes(body: &Self::Body, visit: &mut dyn FnMut(OutputNode));

    /// Begins the downloads of arrays whose work is enqueued.
    #[doc(hidden)]
    fn begin_transfer(body: Self::Body, region: &Region) -> Result<Self::Pending>;
}

macro_rules! arrays {
    ($([$($generic:tt)*] $type:ty;)*) => {$(
        impl<T: Element, $($generic)*> OnDevice for $type {
            type Pending = <Self as Output>::Pending;

            fn visit_nodes(body: &<Self as Output>::Body, visit: &mut dyn FnMut(OutputNode)) {
                visit(OutputNode::of(body));
            }

            fn begin_transfer(
                body: <Self as Output>::Body,
                region: &Region,
            ) -> Result<Self::Pending> {
                <Self as Output>::begin_transfer(body, region)
            }
        }
    )*};
}

arrays! {
    [D: Dimension] ndarray::Array<T, D>;
    [D: Dimension] Array<T, D>;
    [] Vec<T>;
}
