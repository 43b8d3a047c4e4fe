//! Operands of fetches from textures, and of accesses to surfaces.

use super::Slot;

/// The rule for an access outside of a surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// The kernel fails.
    Trap,
    /// The nearest place inside is accessed.
    Clamp,
    /// Loads return zeros, and stores do nothing.
    Zero,
}

/// A property of a texture or a surface that a kernel asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageQuery {
    /// The width, height or depth.
    Size(u8),
    Layers,
    DataType,
    Order,
    Normalized,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageOp {
    /// Reads a texel or interpolates between texels.
    Fetch {
        /// True if the coordinates are integers, and not floating-point numbers.
        integer: bool,
    },
    /// Reads this component of the four texels that a linear filter would use.
    Gather(u8),
    Query(ImageQuery),
    /// Computes the address of this number of bytes of a surface, for the access that follows, and
    /// whether there is anything to access.
    Place(u8, Boundary),
}

/// An instruction on a texture or a surface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImageAccess {
    pub(crate) f: ImageOp,
    /// True for a surface, false for a texture.
    pub(crate) surface: bool,
    /// The number of dimensions without layers: 1, 2 or 3. 0 for a query.
    pub(crate) dimensions: u8,
    pub(crate) layered: bool,
    pub(crate) handle: Slot,
    /// The coordinates in each dimension, and last the layer.
    pub(crate) coordinates: [Slot; 4],
    /// The 32-bit results: four of a fetch or a gather, one of a query.
    pub(crate) results: [Slot; 4],
    /// The 64-bit address of [`ImageOp::Place`].
    pub(crate) address: Slot,
    /// The predicate of [`ImageOp::Place`]. It keeps its value for threads outside of the surface.
    pub(crate) inside: Slot,
}

impl ImageAccess {
    /// Returns the slots of the 32-bit results.
    pub(crate) fn results(&self) -> &[Slot] {
        match self.f {
            ImageOp::Fetch { .. } | ImageOp::Gather(_) => &self.results,
            ImageOp::Query(_) => &self.results[..1],
            ImageOp::Place(..) => &[],
        }
    }
}
