//! Out-of-bounds accesses: the nearest allocation and the distance to it.

use super::{Allocation, DEVICE_BASE, DEVICE_SPAN, MemoryMap, NULL_PAGE_BYTES};

/// Limit of the distance to an allocation of other memory. Within a device's memory there is none.
const NEAR_BYTES: u64 = 1 << 20;

/// The position of an out-of-bounds access relative to the nearest allocation.
pub(crate) enum NearestAllocation<'m> {
    /// Bytes from the allocation's end to the first of the access.
    Behind(&'m Allocation, u64),
    /// Bytes from the first of the access to the allocation's.
    InFront(&'m Allocation, u64),
    /// The access begins in the allocation; so many bytes of it lie behind the end.
    Across(&'m Allocation, u64),
    /// The access is close to address 0.
    Null,
    /// There is no allocation near.
    Far,
}

impl<'m> NearestAllocation<'m> {
    /// The nearest allocation.
    pub(crate) fn nearest(&self) -> Option<&'m Allocation> {
        match self {
            Self::Behind(found, _) | Self::InFront(found, _) | Self::Across(found, _) => {
                Some(found)
            }
            Self::Null | Self::Far => None,
        }
    }

    /// The position in words, up to the allocation: `lie 4 bytes behind the end of`.
    pub(crate) fn describe(&self) -> String {
        let away = |count: u64, from: &str| match count {
            0 => format!("lie right {from}"),
            1 => format!("lie 1 byte {from}"),
            _ => format!("lie {count} bytes {from}"),
        };
        match self {
            Self::Behind(_, distance) => away(*distance, "behind the end of"),
            Self::InFront(_, distance) => away(*distance, "in front of"),
            Self::Across(_, 1) => "reach 1 byte beyond the end of".into(),
            Self::Across(_, beyond) => format!("reach {beyond} bytes beyond the end of"),
            Self::Null => "lie next to the null pointer".into(),
            Self::Far => "lie in no memory that the device reaches".into(),
        }
    }
}

impl MemoryMap {
    /// The position of an access relative to the nearest allocation, live or dead.
    pub(crate) fn nearest_allocation(&self, address: u64, bytes: u64) -> NearestAllocation<'_> {
        if address < NULL_PAGE_BYTES {
            return NearestAllocation::Null;
        }
        let near = |found: &&Allocation, distance: u64| {
            let same_device = space(address).is_some_and(|own| space(found.base) == Some(own));
            same_device || distance <= NEAR_BYTES
        };
        let below = self.below(address);
        if let Some(around) = below.filter(|found| address < found.end()) {
            return NearestAllocation::Across(around, bytes.saturating_sub(around.end() - address));
        }
        let behind = below.map(|found| (found, address - found.end()));
        let behind = behind.filter(|(found, distance)| near(found, *distance));
        let above = self.allocations.range(address..).next();
        let front = above.map(|(base, found)| (found, base - address));
        let front = front.filter(|(found, distance)| near(found, *distance));
        match (behind, front) {
            (Some((_, behind)), Some((found, front))) if front < behind => {
                NearestAllocation::InFront(found, front)
            }
            (Some((found, distance)), _) => NearestAllocation::Behind(found, distance),
            (None, Some((found, distance))) => NearestAllocation::InFront(found, distance),
            (None, None) => NearestAllocation::Far,
        }
    }
}

/// The device whose memory an address belongs to; `None` for the host's.
fn space(address: u64) -> Option<u64> {
    Some(address.checked_sub(DEVICE_BASE)? / DEVICE_SPAN)
}
