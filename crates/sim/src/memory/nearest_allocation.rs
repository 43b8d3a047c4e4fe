//! The nearest allocation to an out-of-bounds access, and the distance to it.

use super::{Allocation, DEVICE_BASE, DEVICE_SPAN, MemoryMap, NULL_PAGE_BYTES};

/// The maximum distance to a nearby allocation in another address space. Within a device's memory
/// there is no limit.
const NEAR_BYTES: u64 = 1 << 20;

/// The position of an out-of-bounds access relative to the nearest allocation.
pub(crate) enum NearestAllocation<'m> {
    /// After the allocation; the number of bytes from its end to the access.
    Behind(&'m Allocation, u64),
    /// Before the allocation; the number of bytes from the access to its start.
    InFront(&'m Allocation, u64),
    /// Across the allocation's end; the number of accessed bytes after the end.
    Across(&'m Allocation, u64),
    /// In the null page.
    Null,
    /// Not near any allocation.
    Far,
}

impl<'m> NearestAllocation<'m> {
    pub(crate) fn nearest(&self) -> Option<&'m Allocation> {
        match self {
            Self::Behind(found, _) | Self::InFront(found, _) | Self::Across(found, _) => {
                Some(found)
            }
            Self::Null | Self::Far => None,
        }
    }

    pub(super) fn is_across(&self) -> bool {
        matches!(self, Self::Across(..))
    }

    /// Returns the position in words up to the allocation, such as `lie 4 bytes behind the end of`.
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
    /// Returns the position of an access relative to the nearest allocation, live or freed.
    pub(crate) fn nearest_allocation(&self, address: u64, bytes: u64) -> NearestAllocation<'_> {
        if address < NULL_PAGE_BYTES {
            return NearestAllocation::Null;
        }
        let near = |allocation: &&Allocation, distance: u64| {
            let same_device = space(address).is_some_and(|own| space(allocation.base) == Some(own));
            same_device || distance <= NEAR_BYTES
        };
        let below = self.below(address);
        if let Some(around) = below.filter(|allocation| address < allocation.end()) {
            return NearestAllocation::Across(around, bytes.saturating_sub(around.end() - address));
        }
        let behind = below.map(|allocation| (allocation, address - allocation.end()));
        let behind = behind.filter(|(allocation, distance)| near(allocation, *distance));
        let above = self.allocations.range(address..).next();
        let front = above.map(|(base, allocation)| (allocation, base - address));
        let front = front.filter(|(allocation, distance)| near(allocation, *distance));
        match (behind, front) {
            (Some((_, behind)), Some((allocation, front))) if front < behind => {
                NearestAllocation::InFront(allocation, front)
            }
            (Some((allocation, distance)), _) => NearestAllocation::Behind(allocation, distance),
            (None, Some((allocation, distance))) => {
                NearestAllocation::InFront(allocation, distance)
            }
            (None, None) => NearestAllocation::Far,
        }
    }
}

/// Returns the device whose address range contains the address; `None` for a host address.
fn space(address: u64) -> Option<u64> {
    Some(address.checked_sub(DEVICE_BASE)? / DEVICE_SPAN)
}
