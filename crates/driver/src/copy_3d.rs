//! Parameters of a three-dimensional copy.

use crate::{ArrayHandle, Copy2d, DevicePtr, Memory2d, Side2d};

/// A three-dimensional copy (`CUDA_MEMCPY3D`): `depth` layers of `height` rows of `width_bytes`.
///
/// ```
/// use millstream_driver::{Copy3d, DevicePtr, Side3d, Memory3d};
/// let side = |address| Side3d {
///     memory: Memory3d::Device(DevicePtr::from_raw(address)),
///     origin: [0, 0, 1],
///     pitch_bytes: 16,
///     height: 8,
/// };
/// let copy = Copy3d { source: side(0x1000), target: side(0x2000), size: [16, 8, 4] };
/// assert!(!copy.is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy3d {
    /// The side that is read.
    pub source: Side3d,
    /// The side that is written.
    pub target: Side3d,
    /// The width in bytes, the number of rows of a layer, and the number of layers.
    pub size: [usize; 3],
}

impl Copy3d {
    /// Returns whether the copy has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.size.contains(&0)
    }

    /// Returns copies of rows that have the same effect, given the linear memory behind arrays:
    /// one if the layers of both sides follow each other like their rows, else one for each layer.
    /// `None` if a side leaves the address space, or its layers overlap.
    #[must_use]
    pub fn copies(&self, linear: impl Fn(ArrayHandle) -> Option<Side3d>) -> Option<Vec<Copy2d>> {
        let [width_bytes, height, depth] = self.size;
        let place = |side: &Side3d| {
            let below = match side.memory {
                Memory3d::Array(array) => linear(array)?,
                _ => *side,
            };
            let [x, y, z] = side.origin;
            if depth > 1 && below.height < y.checked_add(height)? {
                return None;
            }
            let layer = below.pitch_bytes.checked_mul(below.height)?;
            let start = z.checked_mul(layer)?;
            let start = start.checked_add(y.checked_mul(below.pitch_bytes)?)?;
            let start = start.checked_add(x)?;
            // The last layer must be in the address space, too.
            start.checked_add(layer.checked_mul(depth)?)?;
            Some((below, start, layer))
        };
        let (source, target) = (place(&self.source)?, place(&self.target)?);
        if self.is_empty() {
            return Some(Vec::new());
        }
        let is_dense = |(below, _, layer): &(Side3d, usize, usize)| {
            below.pitch_bytes.checked_mul(height) == Some(*layer)
        };
        let (layers, height) = if depth == 1 || is_dense(&source) && is_dense(&target) {
            (1, height.checked_mul(depth)?)
        } else {
            (depth, height)
        };
        let side = |(below, start, layer): (Side3d, usize, usize), index: usize| {
            let offset = start + index * layer;
            Some(Side2d {
                memory: match below.memory {
                    Memory3d::Device(first) => Memory2d::Device(first.offset(offset as u64)),
                    Memory3d::Host(first) => Memory2d::Host(first.wrapping_add(offset)),
                    Memory3d::Array(_) => return None,
                },
                pitch_bytes: below.pitch_bytes,
            })
        };
        (0..layers)
            .map(|layer| {
                Some(Copy2d {
                    source: side(source, layer)?,
                    target: side(target, layer)?,
                    width_bytes,
                    height,
                })
            })
            .collect()
    }
}

/// One side of a [`Copy3d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side3d {
    /// The memory.
    pub memory: Memory3d,
    /// The first byte of a row, row of a layer, and layer that are copied.
    pub origin: [usize; 3],
    /// The distance between the starts of rows in bytes; unused for an array.
    pub pitch_bytes: usize,
    /// The distance between the starts of layers in rows; unused for an array.
    pub height: usize,
}

/// The kind of memory on one side of a [`Copy3d`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory3d {
    /// Device or managed memory, from its first byte.
    Device(DevicePtr),
    /// Host memory, page-locked or not, from its first byte.
    Host(*mut u8),
    /// An array.
    Array(ArrayHandle),
}

impl From<Memory2d> for Memory3d {
    fn from(memory: Memory2d) -> Self {
        match memory {
            Memory2d::Device(first) => Self::Device(first),
            Memory2d::Host(first) => Self::Host(first),
        }
    }
}
