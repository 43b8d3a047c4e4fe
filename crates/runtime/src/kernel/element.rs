//! Declared element types of kernels' array parameters, which a simulated device compares with the
//! PTX.

use std::any::{TypeId, type_name};

use bytemuck::Pod;
use millstream_driver::FloatOperand;

use super::{Function, matching::Slices};
use crate::array::{Texel, Texels};

/// The elements of an operand of a kernel: plain old data, or texels.
#[doc(hidden)]
pub trait Elements: 'static {}

impl<T: Pod> Elements for T {}
impl<T: Texel> Elements for Texels<T> {}

/// A declared array parameter.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Array {
    /// The index of the parameter, from 0.
    pub param: usize,
    /// The name of the parameter.
    pub name: &'static str,
    /// The element type: an instance of [`element`].
    pub element: fn() -> Element,
}

/// The type of an array's elements.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Element {
    name: &'static str,
    /// The size in bytes, if it is a floating-point type.
    float_bytes: Option<usize>,
}

/// Returns the [`Element`] of a type.
#[doc(hidden)]
#[must_use]
pub fn element<T: 'static>() -> Element {
    let path = type_name::<T>();
    let name = path.rsplit("::").next().unwrap_or(path);
    let (id, bytes) = (TypeId::of::<T>(), size_of::<T>());
    // Half-precision types are defined by other crates, so they are recognised by name.
    let is_half = matches!(name, "f16" | "bf16") && bytes == 2;
    let is_float = is_half || [TypeId::of::<f32>(), TypeId::of::<f64>()].contains(&id);
    Element {
        name,
        float_bytes: is_float.then_some(bytes),
    }
}

/// Reports the floating-point arrays of each kernel to a simulated device. Does nothing on a GPU.
#[doc(hidden)]
pub fn declare_arrays(functions: &[Function], arrays: &[&[Array]]) {
    for (function, arrays) in functions.iter().zip(arrays) {
        if !function.device.is_simulated {
            return;
        }
        let is_packed = function.entry_point.slices == Slices::Packed;
        let floats = arrays.iter().enumerate().filter_map(|(before, array)| {
            let Element { name, float_bytes } = (array.element)();
            Some(FloatOperand {
                // The lengths of the arrays before it are no parameters of their own.
                param: array.param - if is_packed { before } else { 0 },
                name: array.name,
                element: name,
                element_bytes: float_bytes?,
            })
        });
        let floats: Vec<_> = floats.collect();
        let handle = function.entry_point.handle;
        function.device.driver.note_float_operands(handle, &floats);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_distinguished_from_other_types_of_equal_size() {
        #[allow(
            non_camel_case_types,
            dead_code,
            reason = "the name that other crates use"
        )]
        struct bf16(u16);
        #[allow(dead_code, reason = "only its type is used")]
        struct Wrapped(f32);
        let bytes = [
            element::<f32>(),
            element::<f64>(),
            element::<bf16>(),
            element::<u32>(),
            element::<[f32; 2]>(),
            element::<Wrapped>(),
        ]
        .map(|element| element.float_bytes);
        assert_eq!(bytes, [Some(4), Some(8), Some(2), None, None, None]);
        assert_eq!(element::<bf16>().name, "bf16");
    }
}
