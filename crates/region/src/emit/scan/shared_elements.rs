//! Elements that a thread keeps in shared memory while its block waits for other blocks.
//!
//! Only the thread that has stored an element loads it, so that no barrier is needed. Neighbouring
//! threads access neighbouring vectors of 16 bytes, or single elements.

use smallvec::SmallVec;

use crate::emit::body::{
    BLOCK, KernelBody, Reg, RegClass, VECTOR_BYTES, line, list, value, vector,
};

pub(crate) struct SharedElements {
    /// The address of the thread's first element in the first vector.
    address: Reg,
    class: RegClass,
    /// The number of neighbours that are stored together.
    lanes: usize,
}

impl SharedElements {
    /// Declares the memory for `items` elements of each thread.
    pub(crate) fn declaration(class: RegClass, items: usize) -> String {
        let bytes = BLOCK * items * Self::bytes_of(class);
        format!("\t.shared .align {VECTOR_BYTES} .b8 kept[{bytes}];\n")
    }

    /// Computes the address of a thread's elements. `lanes` of them are neighbours.
    pub(crate) fn new(body: &mut KernelBody, thread: Reg, class: RegClass, lanes: usize) -> Self {
        let first = value!(body, B64; "mov.u64 kept");
        let each = (lanes * Self::bytes_of(class)).min(VECTOR_BYTES);
        Self {
            address: body.element(first, thread, each),
            class,
            lanes,
        }
    }

    /// Returns the size of an element: predicates are stored as words.
    fn bytes_of(class: RegClass) -> usize {
        match class {
            RegClass::B64 | RegClass::F64 => 8,
            _ => 4,
        }
    }

    /// Returns the type of accesses to vectors, their elements, and the offset of a turn's first.
    fn vector(&self, turn: usize) -> (String, usize, usize) {
        let bytes = Self::bytes_of(self.class);
        let elements = self.lanes.min(VECTOR_BYTES / bytes);
        let kind = format!("{}.{}", vector(elements), self.class.move_type());
        (kind, elements, turn * BLOCK * self.lanes * bytes)
    }

    pub(crate) fn store(&self, body: &mut KernelBody, turn: usize, values: &[Reg]) {
        let (kind, elements, first) = self.vector(turn);
        let words: SmallVec<[Reg; 4]> = values.iter().map(|&value| body.as_word(value)).collect();
        for (number, part) in words.chunks(elements).enumerate() {
            let offset = first + number * BLOCK * VECTOR_BYTES;
            let address = self.address;
            let words = list(part);
            line!(body; "st.shared{kind} [{address}+{offset}], {words};");
        }
    }

    pub(crate) fn load(&self, body: &mut KernelBody, turn: usize) -> Vec<Reg> {
        let (kind, elements, first) = self.vector(turn);
        let class = self.class.word();
        let mut values = Vec::with_capacity(self.lanes);
        for number in 0..self.lanes / elements {
            let part: SmallVec<[Reg; 4]> = (0..elements).map(|_| body.reg(class)).collect();
            let offset = first + number * BLOCK * VECTOR_BYTES;
            let address = self.address;
            let words = list(&part);
            line!(body; "ld.shared{kind} {words}, [{address}+{offset}];");
            values.extend(part);
        }
        if self.class == RegClass::Predicate {
            return values
                .into_iter()
                .map(|word| body.is_not_zero(word))
                .collect();
        }
        values
    }
}
