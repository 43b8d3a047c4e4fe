//! Parameters of region functions and the arguments that callers may pass for them.

use std::panic::Location;

use ndarray::{ArrayBase, Data, Dimension, Ix1, RawData};

use crate::{
    Array, Region,
    element::{Element, sealed::Sealed},
    error::{Result, UsageError, UsageErrorKind},
    host::{
        on_device::{OnDevice, PlainValue},
        output::OutputNode,
        write_back::{InputMut, PlainWriteBack, WriteBack},
    },
};

/// A parameter type of region functions. Host arrays, slices and vectors become device arrays in
/// the body; numbers and other plain values are unchanged.
///
/// ```
/// use millstream_region::{Array, Parameter};
///
/// fn the_same<T>(_: std::marker::PhantomData<T>, _: std::marker::PhantomData<T>) {}
/// use std::marker::PhantomData;
/// type OfMatrix = <ndarray::Array2<f32> as Parameter>::Body;
/// the_same(PhantomData::<OfMatrix>, PhantomData::<Array<f32, ndarray::Ix2>>);
/// the_same(PhantomData::<<usize as Parameter>::Body>, PhantomData::<usize>);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a region function",
    note = "parameters are ndarray's arrays of numbers or `bool`, slices and `Vec`s of those, \
            arrays on the device, plain values, and structs that derive \
            `millstream_region::OnDevice`"
)]
pub trait Parameter {
    /// The parameter's type in the body.
    type Body;
}

/// A type that callers may pass for a parameter of type `P`. For an array parameter, that is a host
/// array or a device array, owned or borrowed.
///
/// Host arrays are copied before the call returns; device arrays are not copied.
///
/// ```
/// use millstream_region::{Input, RegionExt};
/// use ndarray::{Array1, array};
///
/// fn takes(input: impl Input<Array1<f32>>) {
///     drop(input);
/// }
/// takes(&array![1.0, 2.0]);
/// takes(array![1.0, 2.0].view());
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a parameter of type `{P}`",
    note = "an array argument has the same element type and number of axes, \
            on the host or on the device"
)]
pub trait Input<P: Parameter + ?Sized> {
    /// Captures the argument as the body's value.
    #[doc(hidden)]
    fn capture(self, region: &Region, location: &'static Location<'static>) -> P::Body;
}

impl<T: Element, S: RawData<Elem = T>, D: Dimension> Parameter for ArrayBase<S, D> {
    type Body = Array<T, D>;
}

impl<T: Element, D: Dimension> Parameter for Array<T, D> {
    type Body = Self;
}

impl<T: Element> Parameter for [T] {
    type Body = Array<T, Ix1>;
}

impl<T: Element> Parameter for Vec<T> {
    type Body = Array<T, Ix1>;
}

/// A source of array elements, on the host or on the device.
pub trait ArraySource<T, D>: private::Sealed {
    /// Returns the array in a region, uploading host elements.
    #[doc(hidden)]
    fn array(self, region: &Region, location: &'static Location<'static>) -> Array<T, D>;
}

mod private {
    pub trait Sealed {}
    impl<S: ndarray::RawData, D> Sealed for &ndarray::ArrayBase<S, D> {}
    impl<S: ndarray::RawData, D> Sealed for ndarray::ArrayBase<S, D> {}
    impl<T, D> Sealed for &crate::Array<T, D> {}
    impl<T, D> Sealed for crate::Array<T, D> {}
    impl<T> Sealed for &[T] {}
    impl<T, const N: usize> Sealed for &[T; N] {}
    impl<T> Sealed for &Vec<T> {}
    impl<T> Sealed for Vec<T> {}
}

impl<T: Element, S: Data<Elem = T>, D: Dimension> ArraySource<T, D> for &ArrayBase<S, D> {
    fn array(self, region: &Region, location: &'static Location<'static>) -> Array<T, D> {
        region.upload(&self.view(), location)
    }
}

impl<T: Element, S: Data<Elem = T>, D: Dimension> ArraySource<T, D> for ArrayBase<S, D> {
    fn array(self, region: &Region, location: &'static Location<'static>) -> Array<T, D> {
        region.upload(&self.view(), location)
    }
}

impl<T: Element, D: Dimension> ArraySource<T, D> for &Array<T, D> {
    fn array(self, region: &Region, location: &'static Location<'static>) -> Array<T, D> {
        let session = region.session();
        if *self.device() == session.device {
            return self.in_session(session);
        }
        let (left, right) = session.device.told_apart(self.device());
        let problem = UsageErrorKind::OtherDevice { left, right };
        let usage_error = UsageError::new("region", problem, location);
        Array::of(
            session,
            session.fail(<T as Sealed>::DTYPE, self.shape(), usage_error, location),
        )
    }
}

impl<T: Element, D: Dimension> ArraySource<T, D> for Array<T, D> {
    fn array(self, region: &Region, location: &'static Location<'static>) -> Array<T, D> {
        ArraySource::array(&self, region, location)
    }
}

impl<T: Element> ArraySource<T, Ix1> for &[T] {
    fn array(self, region: &Region, location: &'static Location<'static>) -> Array<T, Ix1> {
        region.upload(&ndarray::ArrayView1::from(self), location)
    }
}

impl<T: Element, const N: usize> ArraySource<T, Ix1> for &[T; N] {
    fn array(self, region: &Region, location: &'static Location<'static>) -> Array<T, Ix1> {
        ArraySource::array(&self[..], region, location)
    }
}

impl<T: Element> ArraySource<T, Ix1> for &Vec<T> {
    fn array(self, region: &Region, location: &'static Location<'static>) -> Array<T, Ix1> {
        ArraySource::array(&self[..], region, location)
    }
}

impl<T: Element> ArraySource<T, Ix1> for Vec<T> {
    fn array(self, region: &Region, location: &'static Location<'static>) -> Array<T, Ix1> {
        ArraySource::array(&self[..], region, location)
    }
}

macro_rules! arrays {
    ($([$($generic:tt)*] $parameter:ty: $element:ty, $dimension:ty;)*) => {$(
        impl<$($generic)*, X: ArraySource<$element, $dimension>> Input<$parameter> for X {
            fn capture(
                self,
                region: &Region,
                location: &'static Location<'static>,
            ) -> Array<$element, $dimension> {
                self.array(region, location)
            }
        }
    )*};
}

arrays! {
    [T: Element, S: RawData<Elem = T>, D: Dimension] ArrayBase<S, D>: T, D;
    [T: Element, D: Dimension] Array<T, D>: T, D;
    [T: Element] [T]: T, Ix1;
    [T: Element] Vec<T>: T, Ix1;
}

/// Implements the parameter traits for plain values, which the body gets unchanged.
macro_rules! plain {
    ($($type:ty),*) => {$(
        impl Parameter for $type {
            type Body = Self;
        }

        impl Input<$type> for $type {
            fn capture(self, _region: &Region, _location: &'static Location<'static>) -> Self {
                self
            }
        }

        impl Input<$type> for &$type {
            fn capture(self, _region: &Region, _location: &'static Location<'static>) -> $type {
                self.clone()
            }
        }

        impl<'m> InputMut<'m, $type> for &'m mut $type {
            fn capture(&self, _region: &Region, _location: &'static Location<'static>) -> $type {
                (**self).clone()
            }

            fn write_back(
                self,
                body: $type,
                _location: &'static Location<'static>,
            ) -> Box<dyn WriteBack + 'm> {
                Box::new(PlainWriteBack { body, target: self })
            }
        }

        impl OnDevice for $type {
            type Pending = PlainValue<Self>;

            fn visit_nodes(_body: &Self, _visit: &mut dyn FnMut(OutputNode)) {}

            fn begin_transfer(body: Self, _region: &Region) -> Result<PlainValue<Self>> {
                Ok(PlainValue(body))
            }
        }
    )*};
}

plain!(
    half::f16,
    half::bf16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    bool,
    char,
    String,
    &'static str,
    ndarray::Axis
);
