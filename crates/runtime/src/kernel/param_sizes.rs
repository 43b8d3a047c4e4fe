//! The sizes of kernels' parameters, for recordings, which copy the arguments of launches.

use std::sync::Arc;

use millstream_driver::FunctionHandle;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::{
    ParamKind,
    matching::{PACKED_BYTES, Slices},
};

/// The sizes in bytes of the parameters of the kernels that are loaded on a device. All signatures
/// of a kernel agree in them.
#[derive(Debug, Default)]
pub(super) struct ParamSizes(pub(super) Mutex<FxHashMap<FunctionHandle, Arc<[usize]>>>);

impl ParamSizes {
    pub(super) fn note(&self, function: FunctionHandle, kinds: &[ParamKind], slices: Slices) {
        let is_packed = slices == Slices::Packed;
        let each = kinds.iter().enumerate();
        let sizes = each.filter_map(|(at, kind)| match (kind, kinds.get(at + 1)) {
            (ParamKind::Len, _) if is_packed => None,
            (_, Some(ParamKind::Len)) if is_packed => Some(PACKED_BYTES),
            _ => Some(kind.layout().0),
        });
        self.0.lock().insert(function, sizes.collect());
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
        let sizes = ParamSizes::default();
        for (function, slices, expected) in [
            (1, Slices::Packed, &[16, 2, 8][..]),
            (2, Slices::Apart, &[8, 8, 2, 8]),
        ] {
            let function = FunctionHandle::from_raw(function);
            sizes.note(function, &kinds, slices);
            assert_eq!(*sizes.0.lock()[&function], *expected);
        }
    }
}
