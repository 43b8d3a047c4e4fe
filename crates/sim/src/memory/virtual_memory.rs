//! Virtual memory management: reserved address ranges, physical memory, and mappings.
//!
//! A mapping is an [`Allocation`] with the description of its physical memory, so that the race
//! checker finds the same bytes at every address where the memory is mapped.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use millstream_driver::ContextHandle;
use millstream_ptx::Site;

use super::{
    AccessError, Allocation, AllocationInfo, DEVICE_BASE, DEVICE_SPAN, GAP, MemoryKind, MemoryMap,
    allocation::{DeviceAccess, Storage},
    backing::Backing,
};

use crate::ReportKind;

/// The granularity of physical memory, reservations and mappings, in bytes.
pub(crate) const GRANULARITY: u64 = 2 << 20;

/// A reserved address range.
#[derive(Debug)]
struct Reservation {
    bytes: u64,
    /// The reserving call, for reports.
    made: String,
    freed: bool,
    /// The memory that was unmapped last, by first address.
    unmapped: BTreeMap<u64, Arc<AllocationInfo>>,
}

/// Physical memory, which lives until its handle is released and it is mapped nowhere.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) device: u32,
    pub(crate) bytes: u64,
    pub(crate) info: Arc<AllocationInfo>,
    backing: Arc<Backing>,
    /// The number of releases until the handle ends.
    references: u64,
    mappings: u64,
}

/// All reservations, by first address, and all physical memory, by handle.
#[derive(Debug, Default)]
pub(crate) struct VirtualMemory {
    reservations: BTreeMap<u64, Reservation>,
    pub(crate) physical: BTreeMap<u64, Physical>,
}

/// The end of a mapping: its memory; whether that is mapped nowhere now; and the memory itself, if
/// its handle was released before.
pub(crate) type Unmapped = (Arc<AllocationInfo>, bool, Option<Physical>);

impl VirtualMemory {
    fn reservation(&self, address: u64) -> Option<(u64, &Reservation)> {
        let (base, found) = self.reservations.range(..=address).next_back()?;
        (address - base < found.bytes).then_some((*base, found))
    }

    /// Returns the physical memory of a handle that is not released.
    pub(crate) fn of_handle(&mut self, handle: u64) -> Result<&mut Physical, String> {
        let found = self.physical.get_mut(&handle);
        let found = found.filter(|physical| physical.references > 0);
        found.ok_or_else(|| format!("{handle:#x} is no handle of physical memory, or was released"))
    }

    /// Removes physical memory that is neither held nor mapped.
    fn take_unused(&mut self, handle: u64) -> Option<Physical> {
        let found = self.physical.get(&handle)?;
        let unused = found.references == 0 && found.mappings == 0;
        unused.then(|| self.physical.remove(&handle)).flatten()
    }
}

impl MemoryMap {
    /// Reserves an address range. Returns `None` if no range of this size is left.
    pub(crate) fn reserve(&mut self, bytes: u64, alignment: u64) -> Option<u64> {
        let next = &mut self.next_address[0];
        let base = next.checked_next_multiple_of(alignment.max(GRANULARITY))?;
        let end = base.checked_add(bytes)?.checked_add(GAP)?;
        // The heap of kernels has the upper half of the device's addresses.
        if end > DEVICE_BASE + DEVICE_SPAN / 2 {
            return None;
        }
        *next = end;
        let mut made = "cuMemAddressReserve".to_owned();
        if let Some(site) = Site::current() {
            made += &format!(", {site}");
        }
        let reservation = Reservation {
            bytes,
            made,
            freed: false,
            unmapped: BTreeMap::new(),
        };
        self.virtual_memory.reservations.insert(base, reservation);
        Some(base)
    }

    /// Ends a reservation, which must have no mapping.
    pub(crate) fn unreserve(&mut self, base: u64, bytes: u64) -> Result<(), String> {
        let found = self.virtual_memory.reservations.get_mut(&base);
        let found = found.filter(|found| found.bytes == bytes && !found.freed);
        let found =
            found.ok_or_else(|| format!("no range of {bytes} bytes is reserved at {base:#x}"))?;
        if let Some((_, mapped)) = self.allocations.range(base..base + bytes).next() {
            return Err(format!("memory is still mapped: {}", mapped.describe()));
        }
        found.freed = true;
        Ok(())
    }

    /// Returns the mappings of memory that is also mapped at a lower address, with the lowest.
    pub(crate) fn aliases(&self) -> Vec<(Range<u64>, u64)> {
        let mut all = self.virtual_memory.physical.values();
        if !all.any(|physical| physical.mappings > 1) {
            return Vec::new();
        }
        let mut firsts = BTreeMap::new();
        let mapped = self
            .allocations
            .values()
            .filter(|it| it.kind == MemoryKind::Mapped);
        mapped
            .filter_map(|it| {
                let first = *firsts.entry(it.info.number).or_insert(it.base);
                (first != it.base).then(|| (it.base..it.end(), first))
            })
            .collect()
    }

    /// Creates physical memory, and returns its handle; `None` if the host is out of memory.
    pub(crate) fn add_physical(&mut self, device: u32, bytes: usize) -> Option<u64> {
        let backing = Arc::new(self.fresh(bytes, 16, self.poison_max_bytes[0])?);
        let info = self.next_info(MemoryKind::Mapped, device, bytes, None);
        let handle = info.number;
        let physical = Physical {
            device,
            bytes: bytes as u64,
            info,
            backing,
            references: 1,
            mappings: 0,
        };
        self.virtual_memory.physical.insert(handle, physical);
        Some(handle)
    }

    /// Releases a handle. Returns the memory if it is mapped nowhere.
    pub(crate) fn release(&mut self, handle: u64) -> Result<Option<Physical>, String> {
        self.virtual_memory.of_handle(handle)?.references -= 1;
        Ok(self.virtual_memory.take_unused(handle))
    }

    /// Returns the handle of the memory that is mapped at the address, which then needs one release
    /// more.
    pub(crate) fn retain(&mut self, address: u64) -> Result<u64, String> {
        let mapped = self.mapping(address);
        let mapped = mapped.ok_or_else(|| format!("no memory is mapped at {address:#x}"))?;
        let handle = mapped.info.number;
        if let Some(physical) = self.virtual_memory.physical.get_mut(&handle) {
            physical.references += 1;
        }
        Ok(handle)
    }

    /// Returns the bytes of physical memory.
    pub(crate) fn physical_bytes(&mut self, handle: u64) -> Result<u64, String> {
        Ok(self.virtual_memory.of_handle(handle)?.bytes)
    }

    /// Maps all `bytes` of physical memory. No device has access yet.
    pub(crate) fn map(&mut self, base: u64, bytes: u64, handle: u64) -> Result<(), String> {
        let reserved = self.virtual_memory.reservation(base);
        let reserved =
            reserved.filter(|(start, found)| !found.freed && bytes <= start + found.bytes - base);
        if reserved.is_none() {
            return Err(format!(
                "{bytes} bytes at {base:#x} are not in a reserved range"
            ));
        }
        let end = base + bytes;
        let other = self.allocations.range(..end).next_back();
        if let Some((_, other)) = other.filter(|(_, other)| other.end() > base) {
            return Err(format!("memory is mapped there: {}", other.describe()));
        }
        let VirtualMemory {
            reservations,
            physical,
        } = &mut self.virtual_memory;
        if let Some((_, reservation)) = reservations.range_mut(..=base).next_back() {
            reservation
                .unmapped
                .retain(|from, info| from + info.bytes <= base || *from >= end);
        }
        if let Some(physical) = physical.get_mut(&handle) {
            physical.mappings += 1;
            let storage = Storage::Mapped(Arc::clone(&physical.backing), DeviceAccess::default());
            let mapping = Allocation::new(
                (MemoryKind::Mapped, Arc::clone(&physical.info)),
                ContextHandle::from_raw(0),
                physical.device,
                base,
                bytes as usize,
                storage,
            );
            self.insert(mapping);
        }
        Ok(())
    }

    /// Ends the mappings in a range, which may also have parts without one.
    pub(crate) fn unmap(&mut self, range: Range<u64>) -> Result<Vec<Unmapped>, String> {
        let bases = self.mappings_of(range, true)?;
        let unmapped = bases.into_iter().filter_map(|base| {
            let mapping = self.allocations.remove(&base)?;
            let info = mapping.info;
            let VirtualMemory {
                reservations,
                physical,
            } = &mut self.virtual_memory;
            let (_, reservation) = reservations.range_mut(..=base).next_back()?;
            reservation.unmapped.insert(base, Arc::clone(&info));
            let found = physical.get_mut(&info.number)?;
            found.mappings -= 1;
            let last = found.mappings == 0;
            let gone = self.virtual_memory.take_unused(info.number);
            Some((info, last, gone))
        });
        Ok(unmapped.collect())
    }

    /// Sets whether a device may read and write the mappings in a range.
    pub(crate) fn set_access(
        &mut self,
        range: Range<u64>,
        device: u32,
        [reads, writes]: [bool; 2],
    ) -> Result<(), String> {
        for base in self.mappings_of(range, false)? {
            let mapping = self.allocations.get_mut(&base);
            if let Some(Storage::Mapped(_, access)) = mapping.map(|mapping| &mut mapping.storage) {
                access.read = access.read & !(1 << device) | u64::from(reads) << device;
                access.write = access.write & !(1 << device) | u64::from(writes) << device;
            }
        }
        Ok(())
    }

    /// Returns the mappings that a range consists of, perhaps with gaps.
    fn mappings_of(&self, range: Range<u64>, gaps: bool) -> Result<Vec<u64>, String> {
        let (mut at, mut bases) = (range.start, Vec::new());
        while at < range.end {
            match self.mapping(at) {
                Some(mapping) if mapping.base == at => {
                    bases.push(at);
                    at = mapping.end();
                }
                None if gaps => {
                    let next = self.allocations.range(at + 1..).next();
                    at = next.map_or(range.end, |(base, _)| range.end.min(*base));
                }
                _ => return Err(format!("no mapping begins at {at:#x}")),
            }
        }
        if bases.is_empty() {
            return Err(format!("nothing is mapped from {:#x} on", range.start));
        }
        if at > range.end {
            return Err(format!(
                "the range ends at {:#x}, within a mapping",
                range.end
            ));
        }
        Ok(bases)
    }

    /// Returns the mapping that contains the address.
    pub(crate) fn mapping(&self, address: u64) -> Option<&Allocation> {
        let found = self.around(address)?;
        (found.kind == MemoryKind::Mapped).then_some(found)
    }

    /// Checks that the device may write the memory at an address, if it is mapped.
    pub(crate) fn check_writable(&self, address: u64, device: u32) -> Result<(), AccessError> {
        match self.mapping(address) {
            Some(mapping) if !mapping.is_writable_by(device) => Err(AccessError {
                kind: ReportKind::OutOfBounds,
                what: format!("bytes at {address:#x}"),
                problem: format!(
                    "are mapped without write access for device {device}: {}",
                    mapping.describe()
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Returns the first address of an allocation, or of the reserved range that it is mapped in.
    pub(crate) fn start_of(&self, allocation: &Allocation) -> u64 {
        let reservation = self.virtual_memory.reservation(allocation.base);
        reservation.map_or(allocation.base, |(start, _)| start)
    }

    /// Says where an access lies that no allocation contains, as the predicate of a sentence, and
    /// returns the nearest allocation.
    pub(crate) fn whereabouts(&self, address: u64, bytes: u64) -> (String, Option<&Allocation>) {
        let nearest = self.nearest_allocation(address, bytes);
        let across = nearest.is_across();
        let reserved = self.virtual_memory.reservation(address);
        let Some((start, reservation)) = reserved.filter(|_| !across) else {
            return (nearest.describe(), nearest.nearest());
        };
        let range = format!(
            "the range of {} bytes reserved at {start:#x} ({})",
            reservation.bytes, reservation.made
        );
        let before = reservation.unmapped.range(..=address).next_back();
        let before = before.filter(|(base, info)| address - *base < info.bytes);
        let text = match before {
            _ if reservation.freed => format!("lie in {range}, which was freed"),
            Some((_, info)) => {
                format!(
                    "were unmapped: they lay in {}, mapped into {range}",
                    info.describe()
                )
            }
            None => format!("lie where nothing is mapped in {range}"),
        };
        (text, None)
    }
}

impl Allocation {
    /// Returns the devices that may use a mapping; `None` for other memory.
    pub(crate) fn access(&self) -> Option<DeviceAccess> {
        match &self.storage {
            Storage::Mapped(_, access) => Some(*access),
            _ => None,
        }
    }

    /// Returns whether kernels and copies of the device may write the memory.
    pub(crate) fn is_writable_by(&self, device: u32) -> bool {
        let mapped = self.access();
        self.kind != MemoryKind::Constant
            && mapped.is_none_or(|access| access.write >> device & 1 == 1)
    }
}
