//! PTX's fundamental types.

/// A fundamental type of PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are PTX's own")]
pub enum ParamType {
    Pred,
    B8,
    B16,
    B32,
    B64,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
}

pub use ParamType as Type;

impl ParamType {
    const NAMES: [(&'static str, Self); 19] = [
        ("pred", Self::Pred),
        ("b8", Self::B8),
        ("b16", Self::B16),
        ("b32", Self::B32),
        ("b64", Self::B64),
        ("u8", Self::U8),
        ("u16", Self::U16),
        ("u32", Self::U32),
        ("u64", Self::U64),
        ("s8", Self::S8),
        ("s16", Self::S16),
        ("s32", Self::S32),
        ("s64", Self::S64),
        ("f16", Self::F16),
        ("f16x2", Self::F16x2),
        ("bf16", Self::Bf16),
        ("bf16x2", Self::Bf16x2),
        ("f32", Self::F32),
        ("f64", Self::F64),
    ];

    /// Returns the type of that name, given without its dot.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, ty)| *ty)
    }

    /// Returns the name in PTX, without its dot.
    pub fn name(self) -> &'static str {
        Self::NAMES
            .iter()
            .find(|(_, ty)| *ty == self)
            .map_or("?", |(name, _)| name)
    }

    /// Returns the size and natural alignment in bytes; 1 for a predicate, which never lies in
    /// memory.
    pub fn bytes(self) -> usize {
        match self {
            Self::Pred | Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 | Self::F16x2 | Self::Bf16x2 => 4,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 8,
        }
    }

    /// Returns whether this is a signed integer type.
    pub fn is_signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    /// Returns whether this is an integer or an untyped-bits type.
    pub fn is_integer(self) -> bool {
        !self.is_float() && self != Self::Pred
    }

    /// Returns whether this is a type of one floating-point value.
    pub fn is_single_float(self) -> bool {
        self.is_float() && !matches!(self, Self::F16x2 | Self::Bf16x2)
    }

    /// Returns whether this is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16 | Self::F16x2 | Self::Bf16 | Self::Bf16x2 | Self::F32 | Self::F64
        )
    }
}
