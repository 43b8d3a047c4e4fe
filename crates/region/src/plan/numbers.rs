//! Numbers of nodes by their identifiers.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The number of identifiers, up to the greatest of the requested nodes, that are looked up without
/// hashing. A region usually creates its nodes in a row, so they are among these; inputs may be
/// much older.
const NEAR: usize = 128;

/// The number of other identifiers up to which a lookup tries each: a region usually has few
/// inputs.
const FEW: usize = 8;

/// The entry of an identifier without a number.
const NONE: u32 = u32::MAX;

/// A map from the identifiers of nodes to numbers.
pub(crate) struct Numbers {
    /// The least identifier in `near`.
    first: u64,
    near: Vec<u32>,
    /// The first identifiers out of its range.
    few: SmallVec<[(u64, u32); FEW]>,
    /// All others.
    far: FxHashMap<u64, u32>,
}

impl Numbers {
    /// Creates an empty map for nodes with identifiers up to `last`, which may be exceeded.
    pub(crate) fn up_to(last: u64) -> Self {
        Self {
            first: (last + 1).saturating_sub(NEAR as u64),
            near: vec![NONE; NEAR],
            few: SmallVec::new(),
            far: FxHashMap::default(),
        }
    }

    /// Returns the position of an identifier in `near`, if it is in its range.
    fn position(&self, id: u64) -> Option<usize> {
        let position = id.checked_sub(self.first)? as usize;
        (position < NEAR).then_some(position)
    }

    /// Sets the number of an identifier. Returns whether it had none.
    pub(crate) fn insert(&mut self, id: u64, number: u32) -> bool {
        debug_assert_ne!(number, NONE, "the number of a node");
        match self.position(id) {
            Some(position) => std::mem::replace(&mut self.near[position], number) == NONE,
            None => {
                if let Some((_, known)) = self.few.iter_mut().find(|(few, _)| *few == id) {
                    *known = number;
                    return false;
                }
                if self.few.len() < FEW {
                    self.few.push((id, number));
                    return true;
                }
                self.far.insert(id, number).is_none()
            }
        }
    }

    pub(crate) fn get(&self, id: u64) -> Option<u32> {
        if let Some(position) = self.position(id) {
            return Some(self.near[position]).filter(|&number| number != NONE);
        }
        let few = self.few.iter().find(|(few, _)| *few == id);
        few.map(|few| few.1).or_else(|| self.far.get(&id).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_near_and_far_have_numbers() {
        let last = 1000;
        let mut numbers = Numbers::up_to(last);
        let near = last + 1 - NEAR as u64;
        let ids: Vec<u64> = (0..12).chain([near - 1, near, last, 5000]).collect();
        for (number, &id) in (0..).zip(&ids) {
            assert_eq!(numbers.get(id), None);
            assert!(numbers.insert(id, number));
            assert!(!numbers.insert(id, number));
        }
        for (number, &id) in (0..).zip(&ids) {
            assert_eq!(numbers.get(id), Some(number));
        }
        assert_eq!(numbers.get(last - 1), None);
    }
}
