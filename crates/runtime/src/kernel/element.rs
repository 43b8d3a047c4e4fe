//! Declared element types of kernels' arrays, which a simulated device compares with the PTX.

use std::any::{TypeId, type_name};

use millstream_driver::FloatOperand;

use super::Function;

/// A declared array parameter.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Array {
    /// Its place, from 0.
    pub param: usize,
    /// Its name.
    pub name: &'static str,
    /// Its element type: an instance of [`element`].
    pub element: fn() -> Element,
}

/// An element's type.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Element {
    name: &'static str,
    /// Its size, if it is a floating-point type.
    float_bytes: Option<usize>,
}

/// The [`Element`] of a type.
#[doc(hidden)]
#[must_use]
pub fn element<T: 'static>() -> Element {
    let path = type_name::<T>();
    let name = path.rsplit("::").next().unwrap_or(path);
    let (id, bytes) = (TypeId::of::<T>(), size_of::<T>());
    // Other crates have types of half precision.
    let is_half = matches!(name, "f16" | "bf16") && bytes == 2;
    let is_float = is_half || [TypeId::of::<f32>(), TypeId::of::<f64>()].contains(&id);
    Element {
        name,
        float_bytes: is_float.then_some(bytes),
    }
}

/// Declares the floating-point arrays of each kernel to a simulated device. Does nothing on a GPU.
#[doc(hidden)]
pub fn declare_arrays(functions: &[Function], arrays: &[&[Array]]) {
    for (function, arrays) in functions.iter().zip(arrays) {
        if !function.device.is_simulated {
            return;
        }
        let floats = arrays.iter().filter_map(|array| {
            let Element { name, float_bytes } = (array.element)();
            Some(FloatOperand {
                param: array.param,
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
    fn floats_are_told_from_everything_else_of_their_size() {
        #[allow(non_camel_case_types, dead_code, reason = "as other crates call it")]
        struct bf16(u16);
        #[allow(dead_code, reason = "only its type counts")]
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
