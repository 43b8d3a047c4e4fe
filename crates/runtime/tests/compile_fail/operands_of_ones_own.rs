//! User types cannot implement the operand traits, which would let them name untracked memory.

use millstream::{ReadOperand, WriteOperand, array::CopySource};

struct Mine;

impl ReadOperand<u8> for Mine { //~ E0046 E0277
    fn len(&self) -> usize {
        1
    }
}

impl WriteOperand<u8> for Mine {} //~ E0277

impl CopySource<u8> for Mine {} //~ E0046 E0277

fn main() {}
