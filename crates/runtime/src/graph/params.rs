//! The arguments of a kernel in a graph, in which the addresses of operands can change.

use std::{ffi::c_void, ptr};

use bytemuck::Pod;

use super::operand::{Address, Operand};

/// The number of parameters up to which a kernel is passed to the driver without an allocation.
const INLINE: usize = 16;

const WORD: usize = size_of::<u64>();

#[derive(Clone, Debug, Default)]
pub(super) struct Params {
    /// The values. Each begins at a word of its own. An address is the recorded one until
    /// [`resolve`](Self::resolve) replaces it.
    words: Vec<u64>,
    places: Vec<ParamPlace>,
    /// The addresses of operands, each behind the number of its word.
    addresses: Vec<(usize, Address)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ParamPlace {
    first_word: usize,
    bytes: usize,
    /// True if it is an operand, or contains the address of one.
    is_operand: bool,
}

impl Params {
    /// Adds a parameter with this value, in which these words are addresses. An operand without
    /// one is a surface.
    pub(super) fn push(
        &mut self,
        value: &[u8],
        is_operand: bool,
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
            is_operand: is_operand || self.addresses.len() > known,
        });
    }

    #[inline]
    fn write(&mut self, first_word: usize, value: &[u8]) {
        let words = bytemuck::cast_slice_mut(&mut self.words[first_word..]);
        words[..value.len()].copy_from_slice(value);
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn bytes(&self, param: usize) -> Option<usize> {
        self.places.get(param).map(|place| place.bytes)
    }

    /// Returns whether a parameter is an operand, or contains the address of one.
    pub(super) fn is_operand(&self, param: usize) -> bool {
        self.places[param].is_operand
    }

    /// Replaces the value of a parameter by one of the same size, without addresses.
    #[inline]
    pub(super) fn set<T: Pod>(&mut self, param: usize, value: &T) {
        let place = self.places[param];
        debug_assert_eq!(size_of::<T>(), place.bytes, "the size of the parameter");
        self.write(place.first_word, bytemuck::bytes_of(value));
    }

    /// Returns the addresses of operands, each behind the number of its word.
    pub(super) fn addresses(&self) -> &[(usize, Address)] {
        &self.addresses
    }

    pub(super) fn addresses_mut(&mut self) -> impl Iterator<Item = &mut Address> {
        self.addresses.iter_mut().map(|(_, address)| address)
    }

    /// Returns the values, with an address for each array.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the number of each parameter's first word.
    pub(super) fn first_words(&self) -> impl Iterator<Item = usize> + '_ {
        self.places.iter().map(|place| place.first_word)
    }

    pub(super) fn resolve(&mut self, operands: &[Operand]) {
        for &(word, address) in &self.addresses {
            self.words[word] = address.resolve(operands).as_raw();
        }
    }

    /// Returns whether the values have the addresses of these operands.
    pub(super) fn are_resolved(&self, operands: &[Operand]) -> bool {
        let is_resolved = |&(word, address): &(usize, Address)| {
            self.words[word] == address.resolve(operands).as_raw()
        };
        self.addresses.iter().all(is_resolved)
    }

    #[inline]
    pub(super) fn with_pointers<R>(&self, body: impl FnOnce(&[*const c_void]) -> R) -> R {
        let first = self.words.as_ptr();
        let pointer = |place: &ParamPlace| first.wrapping_add(place.first_word).cast();
        let count = self.places.len();
        if count > INLINE {
            let pointers: Vec<_> = self.places.iter().map(pointer).collect();
            return body(&pointers);
        }
        let mut pointers = [ptr::null(); INLINE];
        for (to, place) in pointers.iter_mut().zip(&self.places) {
            *to = pointer(place);
        }
        body(&pointers[..count])
    }

    pub(super) fn equals(&self, other: &Self) -> bool {
        self.places == other.places && self.words == other.words
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use millstream_driver::DevicePtr;

    use super::*;
    use crate::{Device, graph::operand::OperandMemory, memory::Allocation};

    #[test]
    fn each_parameter_begins_at_a_word_and_addresses_are_those_of_the_operands() {
        let stream = Device::simulated().and_then(|device| device.stream());
        let array = stream.and_then(|stream| stream.zeros::<u8>(64));
        let memory = array.expect("an array").shared_memory();
        let operand = |address| {
            let memory = OperandMemory::Outside(Allocation::recorded(Arc::clone(&memory)));
            Operand::new(DevicePtr::from_raw(address), 64, memory)
        };
        let operands = [operand(1000), operand(2000)];
        let at = |operand, offset| Address { operand, offset };
        let mut params = Params::default();
        params.push(&[7; 3], false, []);
        params.push(&[0; 16], false, [(1, at(1, 8))]);
        params.push(&[9; 8], true, []);
        assert!(!params.are_resolved(&operands));
        params.resolve(&operands);
        let mut two = Params {
            addresses: vec![(2, at(0, 1008))],
            ..params.clone()
        };
        assert_eq!(params.first_words().collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!(
            [0, 1, 2, 3].map(|param| params.bytes(param)),
            [Some(3), Some(16), Some(8), None]
        );
        assert_eq!(
            [0, 1, 2].map(|param| params.is_operand(param)),
            [false, true, true]
        );
        assert!(params.are_resolved(&operands) && two.are_resolved(&operands));
        assert_eq!(params.words()[..3], [0x07_0707, 0, 2008]);
        assert!(params.equals(&two));
        params.set(0, &[8_u8; 3]);
        assert_eq!(params.words()[0], 0x08_0808);
        assert!(!params.equals(&two));
        two.resolve(&[operand(1001), operand(2000)]);
        assert_eq!(two.words()[2], 2009);
        params.with_pointers(|pointers| {
            let words = [0, 1, 3].map(|word| std::ptr::from_ref(&params.words()[word]).cast());
            assert_eq!(pointers, words);
        });
    }
}
