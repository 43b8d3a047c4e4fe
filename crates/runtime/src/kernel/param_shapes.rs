//! The shapes of kernels' parameters, for recordings, which copy the arguments of launches.

use std::sync::Arc;

use millstream_driver::FunctionHandle;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::{ParamKind, matching::Slices, module::ModuleCache};
use crate::context::DeviceState;

/// The size of a slice that is passed as one parameter, as rustc does: its address and its length.
const PACKED_BYTES: usize = 16;

/// The shape of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParamShape {
    /// The size in bytes.
    pub(crate) bytes: usize,
    /// The number of the argument that it begins with; `None` for the length of a slice.
    pub(crate) argument: Option<u16>,
}

/// The shapes of the parameters of the kernels that are loaded on a device.
#[derive(Debug, Default)]
pub(super) struct ParamShapes(Mutex<FxHashMap<FunctionHandle, Arc<[ParamShape]>>>);

impl ParamShapes {
    /// Notes the parameters of a kernel.
    pub(super) fn note(&self, function: FunctionHandle, kinds: &[ParamKind], slices: Slices) {
        let is_packed = slices == Slices::Packed;
        let each = kinds.iter().enumerate();
        let mut arguments = (0..).peekable();
        let shapes = each.filter_map(|(at, kind)| {
            let bytes = match (kind, kinds.get(at + 1)) {
                (ParamKind::Len, _) if is_packed => return None,
                (_, Some(ParamKind::Len)) if is_packed => PACKED_BYTES,
                _ => kind.layout().0,
            };
            Some(ParamShape {
                bytes,
                argument: arguments.next_if(|_| !kind.is_len()),
            })
        });
        self.0.lock().insert(function, shapes.collect());
    }
}

impl ModuleCache {
    /// Returns the shapes of a kernel's parameters, if this library loaded it.
    pub(crate) fn param_shapes(
        device: &DeviceState,
        function: FunctionHandle,
    ) -> Option<Arc<[ParamShape]>> {
        let cache = Self::of(device);
        let noted = cache.param_shapes.0.lock().get(&function).map(Arc::clone);
        if noted.is_some() {
            return noted;
        }
        let shapes = cache.generated.lock().param_shapes(function)?;
        let mut known = cache.param_shapes.0.lock();
        Some(Arc::clone(known.entry(function).or_insert(shapes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_slice_is_one_parameter_of_16_bytes() {
        let slice = ParamKind::Slice { writable: false };
        let scalar = ParamKind::Scalar { size: 2, align: 2 };
        let kinds = [slice, ParamKind::Len, scalar, slice];
        let shape = |bytes, argument| ParamShape { bytes, argument };
        let (number, array) = (shape(2, Some(1)), shape(8, Some(2)));
        let shapes = ParamShapes::default();
        for (function, slices, expected) in [
            (1, Slices::Packed, &[shape(16, Some(0)), number, array][..]),
            (
                2,
                Slices::Apart,
                &[shape(8, Some(0)), shape(8, None), number, array],
            ),
        ] {
            let function = FunctionHandle::from_raw(function);
            shapes.note(function, &kinds, slices);
            assert_eq!(*shapes.0.lock()[&function], *expected);
        }
    }
}
