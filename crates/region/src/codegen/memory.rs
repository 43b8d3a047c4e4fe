//! Elements between memory and registers.

use smallvec::SmallVec;

use super::body::{KernelBody, Reg, RegClass, line};
use crate::element::DType;

/// Bytes of a load or a store at most.
pub(super) const VECTOR_BYTES: usize = 16;

/// Neighbouring elements in registers.
pub(super) type Registers = SmallVec<[Reg; 4]>;

/// The type of an element in memory, as loads and stores name it.
fn in_memory(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::I32 => "b32",
        DType::I64 => "b64",
        DType::U8 | DType::Bool => "u8",
    }
}

/// How many neighbours are named in one load or store.
fn vector(lanes: usize) -> &'static str {
    match lanes {
        1 => "",
        2 => ".v2",
        4 => ".v4",
        _ => unreachable!("vectors have 1, 2 or 4 elements"),
    }
}

/// The registers, as loads and stores list them.
fn list(lanes: &[Reg]) -> String {
    let names: Vec<_> = lanes.iter().map(Reg::to_string).collect();
    match lanes {
        [_] => names.concat(),
        _ => format!("{{{}}}", names.join(", ")),
    }
}

impl KernelBody {
    /// Loads neighbouring elements. The address is a multiple of what they have in bytes.
    pub(super) fn load(&mut self, dtype: DType, address: Reg, lanes: usize) -> Registers {
        let stored = match RegClass::of(dtype) {
            RegClass::Predicate => RegClass::B32,
            class => class,
        };
        let loaded: Registers = (0..lanes).map(|_| self.reg(stored)).collect();
        for (number, part) in loaded.chunks(VECTOR_BYTES / dtype.bytes()).enumerate() {
            let (vector, kind) = (vector(part.len()), in_memory(dtype));
            let offset = number * VECTOR_BYTES;
            line!(
                self,
                "ld.global{vector}.{kind} {}, [{address}+{offset}];",
                list(part)
            );
        }
        if dtype != DType::Bool {
            return loaded;
        }
        loaded
            .into_iter()
            .map(|byte| self.is_not_zero(byte))
            .collect()
    }

    /// Stores neighbouring elements. The address is a multiple of what they have in bytes.
    pub(super) fn store(&mut self, dtype: DType, address: Reg, lanes: &[Reg]) {
        let lanes: Registers = lanes.iter().map(|&lane| self.as_word(lane)).collect();
        let (vector, kind) = (vector(lanes.len()), in_memory(dtype));
        line!(
            self,
            "st.global{vector}.{kind} [{address}], {};",
            list(&lanes)
        );
    }

    /// Whether a word is not 0.
    pub(super) fn is_not_zero(&mut self, word: Reg) -> Reg {
        let truth = self.reg(RegClass::Predicate);
        line!(self, "setp.ne.u32 {truth}, {word}, 0;");
        truth
    }

    /// What can be stored: of a predicate, 1 or 0.
    pub(super) fn as_word(&mut self, reg: Reg) -> Reg {
        if reg.class != RegClass::Predicate {
            return reg;
        }
        let word = self.reg(RegClass::B32);
        line!(self, "selp.u32 {word}, 1, 0, {reg};");
        word
    }
}
