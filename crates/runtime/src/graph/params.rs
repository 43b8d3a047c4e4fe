//! The arguments of a kernel in a graph, in which the addresses of operands can change.

use std::{ffi::c_void, ptr};

use super::node::{Address, Operand};

/// The number of parameters, and of words, up to which a kernel is passed to the driver without an
/// allocation.
const INLINE: usize = 16;

/// The bytes of a word.
const WORD: usize = size_of::<u64>();

/// The arguments of a kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Params {
    /// The values, each from a word of its own on. An address is that of the recording.
    words: Vec<u64>,
    places: Vec<ParamPlace>,
    /// The addresses of operands, each behind the number of its word.
    addresses: Vec<(usize, Address)>,
}

/// The place of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ParamPlace {
    first_word: usize,
    bytes: usize,
    /// True if it contains the address of an operand.
    has_address: bool,
}

impl Params {
    /// Adds a parameter with this value, in which these words are addresses.
    pub(super) fn push(
        &mut self,
        value: &[u8],
        addresses: impl IntoIterator<Item = (usize, Address)>,
    ) {
        let first_word = self.words.len();
        let (bytes, known) = (value.len(), self.addresses.len());
        self.words.resize(first_word + bytes.div_ceil(WORD), 0);
        self.write(first_word, value);
        let addresses = addresses.into_iter();
        self.addresses
            .extend(addresses.map(|(word, address)| (first_word + word, address)));
        self.places.push(ParamPlace {
            first_word,
            bytes,
            has_address: self.addresses.len() > known,
        });
    }

    fn write(&mut self, first_word: usize, value: &[u8]) {
        let words = bytemuck::cast_slice_mut(&mut self.words[first_word..]);
        words[..value.len()].copy_from_slice(value);
    }

    /// Returns the number of parameters.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the size of a parameter in bytes.
    pub(super) fn bytes(&self, param: usize) -> Option<usize> {
        self.places.get(param).map(|place| place.bytes)
    }

    /// Returns whether a parameter contains the address of an operand.
    pub(super) fn has_address(&self, param: usize) -> bool {
        self.places[param].has_address
    }

    /// Replaces the value of a parameter by one of the same size, without addresses.
    pub(super) fn set(&mut self, param: usize, value: &[u8]) {
        let place = self.places[param];
        debug_assert_eq!(value.len(), place.bytes, "the size of the parameter");
        self.write(place.first_word, value);
    }

    /// Returns the addresses of operands, each behind the number of its word.
    pub(super) fn addresses(&self) -> &[(usize, Address)] {
        &self.addresses
    }

    pub(super) fn addresses_mut(&mut self) -> impl Iterator<Item = &mut Address> {
        self.addresses.iter_mut().map(|(_, address)| address)
    }

    /// Returns the values, which for an array are the address in the recording.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the number of each parameter's first word.
    pub(super) fn first_words(&self) -> impl Iterator<Item = usize> + '_ {
        self.places.iter().map(|place| place.first_word)
    }

    /// Calls `body` with a pointer to each value, with the addresses of operands.
    pub(super) fn with_pointers<R>(
        &self,
        operands: &[Operand],
        body: impl FnOnce(&[*const c_void]) -> R,
    ) -> R {
        let (words, params) = (self.words.len(), self.places.len());
        if words <= INLINE && params <= INLINE {
            let (mut values, mut pointers) = ([0; INLINE], [ptr::null(); INLINE]);
            self.resolve(operands, &mut values[..words]);
            self.point(&values[..words], &mut pointers[..params]);
            return body(&pointers[..params]);
        }
        let (values, mut pointers) = (self.resolved(operands), vec![ptr::null(); params]);
        self.point(&values, &mut pointers);
        body(&pointers)
    }

    /// Sets a pointer to each value.
    fn point(&self, values: &[u64], pointers: &mut [*const c_void]) {
        for (pointer, place) in pointers.iter_mut().zip(&self.places) {
            *pointer = values[place.first_word..].as_ptr().cast();
        }
    }

    /// Returns whether the values are the same, with the addresses of operands.
    pub(super) fn equals(&self, operands: &[Operand], other: &Self, others: &[Operand]) -> bool {
        self.places == other.places && self.resolved(operands) == other.resolved(others)
    }

    fn resolved(&self, operands: &[Operand]) -> Vec<u64> {
        let mut values = vec![0; self.words.len()];
        self.resolve(operands, &mut values);
        values
    }

    /// Sets the values, with the addresses of operands.
    fn resolve(&self, operands: &[Operand], values: &mut [u64]) {
        values.copy_from_slice(&self.words);
        for &(word, address) in &self.addresses {
            values[word] = address.resolve(operands).as_raw();
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream_driver::DevicePtr;

    use super::*;
    use crate::graph::node::OperandMemory;

    #[test]
    fn each_parameter_begins_at_a_word_and_addresses_are_those_of_the_operands() {
        let operand = |address| Operand {
            pointer: DevicePtr::from_raw(address),
            bytes: 64,
            memory: OperandMemory::Body { constant: false },
        };
        let operands = [operand(1000), operand(2000)];
        let at = |operand, offset| Address { operand, offset };
        let mut params = Params::default();
        params.push(&[7; 3], []);
        params.push(&[0; 16], [(1, at(1, 8))]);
        params.push(&[9; 8], []);
        let two = Params {
            addresses: vec![(2, at(0, 1008))],
            ..params.clone()
        };
        assert_eq!(params.first_words().collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(
            [0, 1, 2, 3].map(|param| params.bytes(param)),
            [Some(3), Some(16), Some(8), None]
        );
        assert_eq!(
            [0, 1, 2].map(|param| params.has_address(param)),
            [false, true, false]
        );
        assert_eq!(params.resolved(&operands)[..3], [0x07_0707, 0, 2008]);
        assert!(params.equals(&operands, &two, &operands));
        params.set(0, &[8; 3]);
        assert_eq!(params.resolved(&operands)[0], 0x08_0808);
        assert!(!params.equals(&operands, &two, &operands));
    }
}
