//! The element types of programs, and the values their contents are generated from.

/// The element type as which a step treats an array's bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Elem {
    U8,
    U16,
    /// Three bytes: no driver call fills such elements in one operation.
    Rgb,
    F32,
    U64,
    Wide,
}

impl Elem {
    pub(crate) const ALL: [Self; 6] = [
        Self::U8,
        Self::U16,
        Self::Rgb,
        Self::F32,
        Self::U64,
        Self::Wide,
    ];

    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::Rgb => 3,
            Self::F32 => 4,
            Self::U64 => 8,
            Self::Wide => 16,
        }
    }
}

/// Evaluates an expression with a type alias for the type that an [`Elem`] selects.
macro_rules! typed {
    ($elem:expr, $element:ident => $body:expr) => {
        $crate::programs::program::elem::typed!(
            $elem, $element => $body;
            U8: u8, U16: u16, Rgb: [u8; 3], F32: f32, U64: u64, Wide: [u32; 4]
        )
    };
    ($elem:expr, $element:ident => $body:expr; $($name:ident: $type:ty),*) => {
        match $elem {
            $($crate::programs::program::elem::Elem::$name => {
                type $element = $type;
                $body
            })*
        }
    };
}
pub(crate) use typed;

/// Returns the pseudo-random bytes generated from a value.
pub(crate) fn content(value: u32, bytes: usize) -> Vec<u8> {
    let mut state = value.wrapping_mul(0x9e37_79b9) | 1;
    let mut draw = |_| {
        state = state.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
        (state >> 24) as u8
    };
    (0..bytes).map(&mut draw).collect()
}
