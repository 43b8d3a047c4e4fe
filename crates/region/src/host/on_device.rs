//! Structs of arrays, transferred field by field.

use ndarray::Dimension;

use crate::{
    Array, Region,
    element::Element,
    error::Result,
    host::{
        files::{TensorReader, TensorWriter},
        input::Parameter,
        output::{Output, OutputNode, PendingValue},
    },
};

/// A type that can be a field of a struct on a device: host arrays and vectors, device arrays,
/// plain values, structs that derive this trait, and `Vec`s, `Option`s, tuples and `[_; N]` of
/// those.
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
///
/// # Lists and options
///
/// A `Vec` of elements is one array; any other list, such as `Vec<Layer>`, is a
/// `Vec<LayerOnDevice>` in the body, and `[Layer; 2]`, `Option<Layer>` and `(Layer, f32)` are the
/// same of what is in them. A model with layers is one value:
///
/// ```
/// use millstream_region::{OnDevice, region};
/// use ndarray::{Array1, Array2, array};
///
/// #[derive(OnDevice)]
/// struct Layer {
///     weights: Array2<f32>,
///     bias: Option<Array1<f32>>,
/// }
///
/// #[derive(OnDevice)]
/// struct Model {
///     layers: Vec<Layer>,
///     scale: f32,
/// }
///
/// #[region]
/// fn apply(model: &Model, x: &Array1<f32>) -> Array1<f32> {
///     let mut y = x * model.scale;
///     for layer in &model.layers {
///         y = layer.weights.dot(&y);
///         if let Some(bias) = &layer.bias {
///             y += bias;
///         }
///     }
///     y
/// }
///
/// let device = millstream::Device::simulated()?;
/// let layer = |bias| Layer { weights: array![[1.0, 2.0], [3.0, 4.0]], bias };
/// let model = Model { layers: vec![layer(None), layer(Some(array![0.5, 0.0]))], scale: 2.0 };
/// assert_eq!(apply(&device, &model, &array![1.0, 0.0])?.wait()?, array![14.5, 30.0]);
/// # Ok::<(), millstream_region::Error>(())
/// ```
///
/// A region changes what is in a list or an option that it has as `&mut`, but not its number of
/// items. Structs can be generic: `struct Layer<T: Element>` with `weights: Array2<T>`.
///
/// # Files
///
/// A struct is read from a file of tensors, and written to one, by the names of its fields
/// (`SafeTensors`, with the feature `safetensors`). Fields of fields are separated by dots, and
/// items of lists and tuples are numbers: `layers.0.weights`. `#[on_device(name = "h")]` gives a
/// field another name, which may be empty or contain dots; a field with `#[on_device(skip)]` is not
/// in the file, and gets its type's default value. An `Option` is `None` if there is no tensor for
/// it. A list, its last item and a value in an `Option` have at least one tensor. A number is a
/// tensor with one element.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a field of a struct on a device",
    note = "fields are owned arrays of `ndarray` or `Vec`s of numbers or `bool`, arrays on the \
            device, plain values, structs that derive `millstream_region::OnDevice`, and `Vec`s, \
            `Option`s, tuples and `[_; N]` of those"
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

    /// Reads the value from a file, from the tensors of this name.
    #[doc(hidden)]
    fn read(reader: &TensorReader<'_>, name: &str) -> Result<Self::Body> {
        Err(reader.no_tensor::<Self>(name))
    }

    /// Adds the tensors of the value to a file, under this name.
    #[doc(hidden)]
    fn write(_body: &Self::Body, writer: &mut TensorWriter<'_>, name: &str) -> Result<()> {
        Err(writer.no_tensor::<Self>(name))
    }
}

macro_rules! arrays {
    ($($type:ty;)*) => {$(
        impl<T: Element, D: Dimension> OnDevice for $type {
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

            fn read(reader: &TensorReader<'_>, name: &str) -> Result<Array<T, D>> {
                reader.array(name)
            }

            fn write(
                body: &Array<T, D>,
                writer: &mut TensorWriter<'_>,
                name: &str,
            ) -> Result<()> {
                writer.array(name, body);
                Ok(())
            }
        }
    )*};
}

arrays! {
    ndarray::Array<T, D>;
    Array<T, D>;
}
