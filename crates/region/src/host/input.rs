//! Parameters of region functions and the arguments that callers may pass for them.

use ndarray::{ArrayBase, ArrayView1, Data, Dimension, Ix1, RawData};

use crate::{
    Array, Region,
    element::{CompositeKind, Element, ListItem},
    error::{Line, Result, UsageError, UsageErrorKind},
    host::{
        files::{TensorReader, TensorWriter},
        on_device::OnDevice,
        output::{OutputNode, PlainValue},
        write_back::{InputMut, PlainWriteBack, WriteBack},
    },
};

/// A parameter type of region functions. Host arrays, slices and vectors become device arrays in
/// the body; numbers and other plain values are unchanged.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a region function",
    note = "parameters are ndarray's arrays of numbers or `bool`, slices and `Vec`s of those, \
            arrays on the device, plain values, structs that derive \
            `millstream_region::OnDevice`, and slices, `Vec`s, `Option`s, tuples and `[_; N]` of \
            those"
)]
pub trait Parameter {
    /// The parameter's type in the body.
    type Body;
}

/// A type that callers may pass for a parameter of type `P`. For an array parameter, that is a host
/// array or a device array, owned or borrowed.
///
/// Host arrays are copied before the call returns; device arrays are not copied.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a parameter of type `{P}`",
    note = "an array argument has the same element type and number of axes, \
            on the host or on the device"
)]
pub trait Input<P: Parameter + ?Sized> {
    /// Captures the argument as the body's value.
    #[doc(hidden)]
    fn capture(self, region: &Region, line: Line) -> P::Body;
}

impl<T: Element, S: RawData<Elem = T>, D: Dimension> Parameter for ArrayBase<S, D> {
    type Body = Array<T, D>;
}

impl<T: Element, D: Dimension> Parameter for Array<T, D> {
    type Body = Self;
}

/// A source of array elements, on the host or on the device.
pub trait ArraySource<T, D>: private::Sealed {
    /// Returns the array in a region, uploading host elements.
    #[doc(hidden)]
    fn array(self, region: &Region, line: Line) -> Array<T, D>;
}

mod private {
    pub trait Sealed {}
    impl<T, D> Sealed for &crate::Array<T, D> {}
    impl<T, D> Sealed for crate::Array<T, D> {}
    impl<T, D> Sealed for &&crate::Array<T, D> {}
}

macro_rules! on_host {
    ($([$($generic:tt)*] $source:ty, $dimension:ty, |$this:ident| $view:expr;)*) => {$(
        impl<T: Element, $($generic)*> private::Sealed for $source {}

        impl<T: Element, $($generic)*> ArraySource<T, $dimension> for $source {
            fn array(self, region: &Region, line: Line) -> Array<T, $dimension> {
                let $this = self;
                region.upload(&$view, line)
            }
        }
    )*};
}

on_host! {
    [S: Data<Elem = T>, D: Dimension] &ArrayBase<S, D>, D, |array| array.view();
    [S: Data<Elem = T>, D: Dimension] ArrayBase<S, D>, D, |array| array.view();
    [S: Data<Elem = T>, D: Dimension] &&ArrayBase<S, D>, D, |array| array.view();
    [] &[T], Ix1, |elements| ArrayView1::from(elements);
    [const N: usize] &[T; N], Ix1, |elements| ArrayView1::from(elements);
    [] &Vec<T>, Ix1, |elements| ArrayView1::from(elements);
    [] Vec<T>, Ix1, |elements| ArrayView1::from(&elements);
}

impl<T: Element, D: Dimension> ArraySource<T, D> for &Array<T, D> {
    fn array(self, region: &Region, line: Line) -> Array<T, D> {
        let session = region.session();
        if *self.device() == session.device {
            return self.in_session(session);
        }
        let problem = UsageErrorKind::other_device(&session.device, self.device());
        let usage_error = UsageError::new("region", problem, line);
        Array::failed_with(session, self.shape(), usage_error, line)
    }
}

impl<T: Element, D: Dimension> ArraySource<T, D> for &&Array<T, D> {
    fn array(self, region: &Region, line: Line) -> Array<T, D> {
        ArraySource::array(*self, region, line)
    }
}

impl<T: Element, D: Dimension> ArraySource<T, D> for Array<T, D> {
    fn array(self, region: &Region, line: Line) -> Array<T, D> {
        ArraySource::array(&self, region, line)
    }
}

macro_rules! arrays {
    ($([$($generic:tt)*] $parameter:ty: $element:ty, $dimension:ty;)*) => {$(
        impl<$($generic)*, X: ArraySource<$element, $dimension>> Input<$parameter> for X {
            fn capture(self, region: &Region, line: Line) -> Array<$element, $dimension> {
                self.array(region, line)
            }
        }
    )*};
}

arrays! {
    [T: Element, S: RawData<Elem = T>, D: Dimension] ArrayBase<S, D>: T, D;
    [T: Element, D: Dimension] Array<T, D>: T, D;
}

/// Implements the parameter traits for plain values, which the body gets unchanged.
macro_rules! plain {
    ($($form:ident: $($type:ty),*;)*) => { $($(plain!(@one $form, $type);)*)* };
    (@one $form:ident, $type:ty) => {
        plain!(@composite $form, $type);

        impl Parameter for $type {
            type Body = Self;
        }

        impl Input<$type> for $type {
            fn capture(self, _region: &Region, _line: Line) -> Self {
                self
            }
        }

        impl Input<$type> for &$type {
            fn capture(self, _region: &Region, _line: Line) -> $type {
                self.clone()
            }
        }

        impl<'m> InputMut<'m, $type> for &'m mut $type {
            fn capture(&self, _region: &Region, _line: Line) -> $type {
                (**self).clone()
            }

            fn write_back(self, body: $type, _line: Line) -> Box<dyn WriteBack + 'm> {
                Box::new(PlainWriteBack { body, target: self })
            }
        }

        impl OnDevice for $type {
            type Pending = PlainValue<Self>;

            fn visit_nodes(_body: &Self, _visit: &mut dyn FnMut(OutputNode)) {}

            fn begin_transfer(body: Self, _region: &Region) -> Result<PlainValue<Self>> {
                Ok(PlainValue(body))
            }

            plain!(@in_files $form, $type);
        }
    };
    (@composite element, $type:ty) => {};
    (@composite $form:ident, $type:ty) => {
        impl ListItem for $type {
            type Kind = CompositeKind;
        }
    };
    (@in_files other, $type:ty) => {};
    (@in_files element, $type:ty) => {
        fn read(reader: &TensorReader<'_>, name: &str) -> Result<Self> {
            reader.number(name)
        }

        fn write(body: &Self, writer: &mut TensorWriter<'_>, name: &str) -> Result<()> {
            writer.number(name, *body);
            Ok(())
        }
    };
    (@in_files size, $type:ty) => {
        fn read(reader: &TensorReader<'_>, name: &str) -> Result<Self> {
            reader.size(name)
        }

        fn write(body: &Self, writer: &mut TensorWriter<'_>, name: &str) -> Result<()> {
            writer.number(name, *body as u64);
            Ok(())
        }
    };
}

/// Calls a macro with the plain types of all kinds of regions, by their form in files.
macro_rules! plain_types {
    ($call:ident) => {
        $call! {
            element: f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool;
            size: usize;
            other: isize, char, String, &'static str, ndarray::Axis;
        }
    };
}

pub(crate) use plain_types;

plain_types!(plain);
plain! {
    element: half::f16, half::bf16;
    other: i128, u128;
}
