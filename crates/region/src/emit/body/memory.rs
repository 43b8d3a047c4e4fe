//! Loads and stores of elements.

use smallvec::SmallVec;

use crate::{
    element::DType,
    emit::body::{
        half,
        kernel::{KernelBody, Reg, RegClass, line, value},
    },
};

/// The maximum size of a vector load or store in bytes.
pub(crate) const VECTOR_BYTES: usize = 16;

/// The registers of neighbouring elements.
pub(crate) type Registers = SmallVec<[Reg; 4]>;

/// Returns the type suffix of loads and stores of an element.
fn in_memory(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::I32 | DType::U32 => "b32",
        DType::I64 | DType::U64 => "b64",
        DType::I8 => "s8",
        DType::I16 => "s16",
        DType::F16 | DType::Bf16 | DType::U16 => "u16",
        DType::U8 | DType::Bool => "u8",
    }
}

/// Returns the vector suffix of a load or store of this many elements.
pub(crate) fn vector(lanes: usize) -> &'static str {
    match lanes {
        1 => "",
        2 => ".v2",
        4 => ".v4",
        _ => unreachable!("vectors have 1, 2 or 4 elements"),
    }
}

/// Formats registers as the operand of a load or store.
pub(crate) fn list(lanes: &[Reg]) -> String {
    let names: Vec<_> = lanes.iter().map(Reg::to_string).collect();
    match lanes {
        [_] => names.concat(),
        _ => format!("{{{}}}", names.join(", ")),
    }
}

impl KernelBody {
    /// Loads neighbouring elements. The address must be aligned to their total size.
    pub(crate) fn load(&mut self, dtype: DType, address: Reg, lanes: usize) -> Registers {
        let stored = match dtype.is_half() {
            true => RegClass::B16,
            false => RegClass::of(dtype).word(),
        };
        let loaded: Registers = (0..lanes).map(|_| self.reg(stored)).collect();
        for (number, part) in loaded.chunks(VECTOR_BYTES / dtype.bytes()).enumerate() {
            let (vector, kind) = (vector(part.len()), in_memory(dtype));
            let offset = number * VECTOR_BYTES;
            line!(self; "ld.global{vector}.{kind} {}, [{address}+{offset}];", list(part));
        }
        let element = |loaded| match dtype {
            DType::Bool => self.is_not_zero(loaded),
            _ if dtype.is_half() => half::word_of(self, loaded),
            _ => loaded,
        };
        loaded.into_iter().map(element).collect()
    }

    /// Loads an element of an array, given the array's address and the element's index.
    pub(crate) fn load_at(&mut self, dtype: DType, base: Reg, index: Reg) -> Reg {
        let address = self.element(base, index, dtype.bytes());
        self.load(dtype, address, 1)[0]
    }

    /// Stores neighbouring elements. The address must be aligned to their total size.
    pub(crate) fn store(&mut self, dtype: DType, address: Reg, lanes: &[Reg]) {
        let halves: Option<Registers> = match dtype.is_half() {
            true => (lanes.iter().map(|lane| self.halves.get(lane).copied())).collect(),
            false => None,
        };
        let lanes = match halves {
            Some(halves) => halves,
            None => lanes.iter().map(|&lane| self.as_word(lane)).collect(),
        };
        for (number, part) in lanes.chunks(VECTOR_BYTES / dtype.bytes()).enumerate() {
            let (vector, kind) = (vector(part.len()), in_memory(dtype));
            let offset = number * VECTOR_BYTES;
            line!(self; "st.global{vector}.{kind} [{address}+{offset}], {};", list(part));
        }
    }

    /// Stores neighbours of an output, from the linear index `number` on.
    pub(crate) fn store_output(
        &mut self,
        (output, dtype): (usize, DType),
        number: Reg,
        elements: &[Reg],
    ) {
        let base = self.output(output);
        let address = self.element(base, number, dtype.bytes());
        self.store(dtype, address, elements);
    }

    /// Compares a word with 0, giving a predicate that is true if it differs.
    pub(crate) fn is_not_zero(&mut self, word: Reg) -> Reg {
        value!(self, Predicate; "setp.ne.u32 {word}, 0")
    }

    /// Converts a predicate to a word, 1 or 0; other registers are returned as they are.
    pub(crate) fn as_word(&mut self, reg: Reg) -> Reg {
        if reg.class != RegClass::Predicate {
            return reg;
        }
        value!(self, B32; "selp.u32 1, 0, {reg}")
    }
}
