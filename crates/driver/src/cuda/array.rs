//! The arrays that a device can have.

use super::api::{self, ArrayDescriptor};

/// The largest arrays without layers of each dimension, then of 1-D and 2-D layers, of devices of
/// compute capability 7.5 and later.
const SIZES_MAX: [[usize; 3]; 5] = [
    [131_072, 0, 0],
    [131_072, 65_536, 0],
    [16_384, 16_384, 16_384],
    [32_768, 0, 2048],
    [32_768, 32_768, 2048],
];
/// The maximum width of a 1-D array for surfaces, and of each side of one for `tld4`.
const SPECIAL_WIDTH_MAX: usize = 32_768;

impl ArrayDescriptor {
    /// Returns why a device can have no array of this shape, except for its format.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let [layered, surface, gather] = [
            api::ARRAY3D_LAYERED,
            api::ARRAY3D_SURFACE_LDST,
            api::ARRAY3D_TEXTURE_GATHER,
        ]
        .map(|flag| self.flags & flag != 0);
        let size = [self.width, self.height, self.depth];
        let kind = match (layered, self.height, self.depth) {
            (true, _, 0) => return Some("an array without layers".into()),
            (true, 0, _) => 3,
            (true, ..) => 4,
            (false, 0, 0) => 0,
            (false, _, 0) => 1,
            (false, 0, _) => return Some("an array of depth without height".into()),
            (false, ..) => 2,
        };
        if gather && kind != 1 {
            return Some("an array for `tld4` that is not 2-D".into());
        }
        let mut max = SIZES_MAX[kind];
        if gather || surface && kind == 0 {
            max = max.map(|max| max.min(SPECIAL_WIDTH_MAX));
        }
        let fits = |max: [usize; 3]| size.iter().zip(max).all(|(size, max)| *size <= max);
        // 3-D arrays may have another shape, too.
        if size[0] == 0 || !(fits(max) || kind == 2 && fits([8192, 8192, 32_768])) {
            return Some(format!(
                "an array of {size:?} texels; the maximum is {max:?}"
            ));
        }
        None
    }
}
