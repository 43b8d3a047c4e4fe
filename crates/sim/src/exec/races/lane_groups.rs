//! The lanes of a warp's access that access the same bytes.

use crate::exec::registers::{LANES, lanes};
use crate::exec::warp_access::WarpAccess;

/// The number of slots in which a lane looks for an earlier one with its address; a power of two.
const SLOTS: usize = 64;

/// The active lanes of a warp's access in groups: the lanes of a group access the same bytes.
///
/// Lanes with one address may be in several groups if lanes with other addresses are between them.
pub(super) struct LaneGroups {
    firsts: u32,
    /// The lanes of each group, by its first lane.
    groups: [u32; LANES],
}

impl LaneGroups {
    pub(super) fn single(warp_access: &WarpAccess) -> Self {
        let mut groups = [0; LANES];
        for (lane, group) in groups.iter_mut().enumerate() {
            *group = 1 << lane;
        }
        Self {
            firsts: warp_access.mask,
            groups,
        }
    }

    /// Groups the lanes by their addresses. Lanes for which `alike` is false stay apart.
    #[inline]
    pub(super) fn by_address(
        warp_access: &WarpAccess,
        alike: impl Fn(usize, usize) -> bool,
    ) -> Self {
        let WarpAccess {
            addresses, bytes, ..
        } = warp_access;
        let shift = bytes.trailing_zeros();
        // The first lane of the last group in each slot.
        let mut slots = [LANES as u8; SLOTS];
        let (mut firsts, mut groups) = (0, [0; LANES]);
        for lane in lanes(warp_access.mask) {
            let slot = &mut slots[(addresses[lane] >> shift) as usize % SLOTS];
            let first = usize::from(*slot);
            let joins = first < LANES && addresses[first] == addresses[lane] && alike(first, lane);
            if joins {
                groups[first] |= 1 << lane;
            } else {
                *slot = lane as u8;
                firsts |= 1 << lane;
                groups[lane] = 1 << lane;
            }
        }
        Self { firsts, groups }
    }

    /// Iterates over the groups: the first lane and all lanes of each.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, u32)> {
        lanes(self.firsts).map(|first| (first, self.groups[first]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn groups_have_each_active_lane_once_and_lanes_with_equal_addresses(
            mask: u32,
            words in proptest::array::uniform32(0u64..100),
            values in proptest::array::uniform32(0u8..2),
        ) {
            let addresses = words.map(|word| word * 4);
            let warp_access = WarpAccess { addresses, mask, bytes: 4, write: false };
            let alike = |one: usize, other: usize| values[one] == values[other];
            let mut seen = 0;
            for (first, group) in LaneGroups::by_address(&warp_access, alike).iter() {
                prop_assert_eq!(group.trailing_zeros() as usize, first);
                prop_assert_eq!(seen & group, 0);
                seen |= group;
                for lane in lanes(group) {
                    prop_assert_eq!(addresses[lane], addresses[first]);
                    prop_assert_eq!(values[lane], values[first]);
                }
            }
            prop_assert_eq!(seen, mask);
        }
    }

    #[test]
    fn lanes_far_apart_share_a_group() {
        let mut addresses = [0; LANES];
        for (lane, address) in addresses.iter_mut().enumerate() {
            *address = (lane as u64 % 16) * 4;
        }
        let warp_access = WarpAccess {
            addresses,
            mask: u32::MAX,
            bytes: 4,
            write: false,
        };
        let groups = LaneGroups::by_address(&warp_access, |_, _| true);
        let expected = (0..16).map(|lane| (lane, 0x1_0001 << lane));
        assert!(groups.iter().eq(expected));
        let single = LaneGroups::single(&warp_access);
        assert!(single.iter().eq((0..32).map(|lane| (lane, 1 << lane))));
    }
}
