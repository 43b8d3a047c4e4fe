//! A map of bounded size that forgets the entries that were not used for the longest time.

use std::{borrow::Borrow, hash::Hash};

use rustc_hash::FxHashMap;

/// A map that forgets the least recently used half of its entries when it is full.
pub(crate) struct RecentMap<K, V> {
    /// The values, each with the number of its last use.
    entries: FxHashMap<K, (V, u64)>,
    uses: u64,
    capacity: usize,
}

impl<K: Eq + Hash, V: Clone> RecentMap<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: FxHashMap::default(),
            uses: 0,
            capacity,
        }
    }

    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.uses += 1;
        let (value, last_use) = self.entries.get_mut(key)?;
        *last_use = self.uses;
        Some(value.clone())
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.entries.len() >= self.capacity {
            let mut last_uses: Vec<u64> = self.entries.values().map(|entry| entry.1).collect();
            let middle = last_uses.len() / 2;
            let (_, &mut oldest_kept, _) = last_uses.select_nth_unstable(middle);
            self.entries.retain(|_, entry| entry.1 >= oldest_kept);
        }
        self.uses += 1;
        self.entries.insert(key, (value, self.uses));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_in_use_stay_when_others_are_forgotten() {
        let mut map = RecentMap::new(8);
        for key in 0..100 {
            map.insert(key, key * 2);
            assert_eq!(map.get(&0), Some(0));
            assert!(map.entries.len() <= 8);
        }
        assert_eq!((map.get(&99), map.get(&50)), (Some(198), None));
    }
}
