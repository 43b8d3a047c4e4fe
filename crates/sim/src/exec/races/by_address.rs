//! A value for each of some memory locations, by their addresses, or for each of some pages, by
//! their numbers.

use std::collections::BTreeMap;

/// The values of locations of at most 16 bytes. Threads often access one location in turn, so that
/// the last one is found without a search.
#[derive(Debug, Default)]
pub(super) struct ByAddress<T> {
    values: Vec<T>,
    indices: BTreeMap<u64, usize>,
    /// The address and index of the location used last.
    last: Option<(u64, usize)>,
}

impl<T: Default> ByAddress<T> {
    #[inline]
    fn find(&mut self, address: u64) -> Option<usize> {
        match self.last {
            Some((last, index)) if last == address => Some(index),
            _ => {
                let index = *self.indices.get(&address)?;
                self.last = Some((address, index));
                Some(index)
            }
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, address: u64) -> Option<&mut T> {
        let index = self.find(address)?;
        self.values.get_mut(index)
    }

    #[inline]
    pub(super) fn get_or_default(&mut self, address: u64) -> &mut T {
        let index = self.find(address).unwrap_or_else(|| {
            let index = self.values.len();
            self.values.push(T::default());
            self.indices.insert(address, index);
            self.last = Some((address, index));
            index
        });
        &mut self.values[index]
    }

    /// Calls `each` with the address and value of each location that may include one of the bytes
    /// from `address`.
    pub(super) fn each_near(
        &mut self,
        address: u64,
        bytes: u64,
        mut each: impl FnMut(u64, &mut T),
    ) {
        if self.values.is_empty() {
            return;
        }
        let near = address.saturating_sub(15)..address.saturating_add(bytes);
        for (start, index) in self.indices.range(near) {
            each(*start, &mut self.values[*index]);
        }
    }
}
