//! Loads and stores of a warp.

use super::fault::FaultKind;
use super::launch::{GlobalMemory, Region, Watched};
use super::place::{Extent, Failure, Pattern, Place, indices};
use super::registers::{FULL, LANES, Registers, lanes};
use super::staging::{LANE_BYTES_MAX, Stage, gather, scatter, splat, staged};
use super::watch::{note, read_touch, write_touch};
use crate::memory::Touch;
use crate::ptx::ir::{Access, AccessSpace, AddressBase, Window};

/// How much global memory was accessed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    pub(super) atomics: u64,
}

/// The memory that a warp can reach.
pub(super) struct Memory<'r, 'm> {
    pub(super) global: &'m dyn GlobalMemory,
    pub(super) shared: &'r mut [u8],
    /// The warp's local memory: `local_bytes` for each lane.
    pub(super) local: &'r mut [u8],
    pub(super) local_bytes: usize,
    pub(super) params: &'r [u8],
    pub(super) traffic: &'r mut Traffic,
}

/// The region that an instruction last accessed: most go on in the same one.
pub(super) type Cached<'m> = Option<Watched<'m>>;

const WINDOWS: [Window; 4] = [Window::Global, Window::Shared, Window::Local, Window::Param];

/// The part of an access to generic addresses that lies in `window`, with addresses relative to it.
pub(super) fn in_window(place: &Place, window: Window) -> Option<Place> {
    let inside = lanes(place.mask).filter(|lane| Window::of(place.addresses[*lane]) == window);
    let mask = inside.fold(0, |mask, lane| mask | 1 << lane);
    let addresses = place
        .addresses
        .map(|address| address.wrapping_sub(window.base()));
    (mask != 0).then_some(Place {
        addresses,
        mask,
        ..*place
    })
}

impl<'m> Memory<'_, 'm> {
    /// The region that contains `bytes` from `address`, and the offset there.
    #[inline(always)]
    pub(super) fn region(
        &self,
        cached: &mut Cached<'m>,
        address: u64,
        bytes: usize,
    ) -> Option<(Watched<'m>, usize)> {
        if let Some(found) = cached {
            let offset = address.wrapping_sub(found.region.base);
            let len = found.region.cells.len() as u64;
            if offset < len && len - offset >= bytes as u64 {
                return Some((*found, offset as usize));
            }
        }
        self.find_region(cached, address, bytes)
    }

    #[cold]
    fn find_region(
        &self,
        cached: &mut Cached<'m>,
        address: u64,
        bytes: usize,
    ) -> Option<(Watched<'m>, usize)> {
        let found = self.global.watched(address)?;
        let offset = usize::try_from(address.checked_sub(found.region.base)?).ok()?;
        if offset.checked_add(bytes)? > found.region.cells.len() {
            return None;
        }
        *cached = Some(found);
        Some((found, offset))
    }

    /// The region that one lane of an access may write, where it then does so.
    pub(super) fn writable(
        &self,
        cached: &mut Cached<'m>,
        place: &Place,
        lane: usize,
        touch: Touch,
    ) -> Result<(Region<'m>, usize), Failure> {
        let found = self.region(cached, place.addresses[lane], place.bytes);
        let (Watched { region, marks }, offset) = found.ok_or_else(|| place.out_of_bounds(lane))?;
        if !region.writable {
            return Err((
                lane,
                FaultKind::ReadOnly {
                    address: place.addresses[lane],
                },
            ));
        }
        if let Some(marks) = marks {
            marks.note(touch, offset, place.bytes);
        }
        Ok((region, offset))
    }

    #[inline(always)]
    pub(super) fn load(
        &mut self,
        r: &mut Registers,
        access: &Access,
        cached: &mut Cached<'m>,
        mask: u32,
    ) -> Result<(), Failure> {
        match access.space {
            AccessSpace::Is(Window::Global) => {
                let place = Place::new(r, access.address, mask, access.bytes(), false);
                self.load_global(r, access, cached, &place)
            }
            AccessSpace::Is(window) => {
                let extent = self.extent(window);
                let unit_shift = access.width.trailing_zeros();
                if window == Window::Param && access.address.base == AddressBase::None {
                    let offset = usize::try_from(access.address.offset).unwrap_or(usize::MAX);
                    if splat(r, access, self.params, offset, mask).is_some() {
                        return Ok(());
                    }
                }
                match indices(r, access.address, mask, access.bytes(), extent, unit_shift) {
                    Some(indices) => gather(r, access, self.bytes(window), &indices, mask),
                    None => {
                        let place = Place::new(r, access.address, mask, access.bytes(), false);
                        return Err(self.fault(window, &place));
                    }
                }
                Ok(())
            }
            AccessSpace::Generic => self.load_generic(r, access, cached, mask),
        }
    }

    fn load_generic(
        &mut self,
        r: &mut Registers,
        access: &Access,
        cached: &mut Cached<'m>,
        mask: u32,
    ) -> Result<(), Failure> {
        let all = Place::new(r, access.address, mask, access.bytes(), false);
        for window in WINDOWS {
            let Some(place) = in_window(&all, window) else {
                continue;
            };
            if window == Window::Global {
                self.load_global(r, access, cached, &place)?;
                continue;
            }
            let indices = place.indices(self.extent(window), access.width.trailing_zeros());
            let indices = indices.ok_or_else(|| self.fault(window, &place))?;
            gather(r, access, self.bytes(window), &indices, place.mask);
        }
        Ok(())
    }

    #[inline(always)]
    fn load_global(
        &mut self,
        r: &mut Registers,
        access: &Access,
        cached: &mut Cached<'m>,
        place: &Place,
    ) -> Result<(), Failure> {
        let bytes = place.bytes;
        self.traffic.read_bytes += u64::from(place.mask.count_ones()) * bytes as u64;
        let first = place.first();
        let start = place.addresses[first];
        let pattern = place.pattern();
        if pattern != Pattern::Scattered && start & (bytes as u64 - 1) == 0 {
            let span = if pattern == Pattern::Uniform {
                first..first + 1
            } else {
                place.span()
            };
            let total = span.len() * bytes;
            if let Some((found, offset)) = self.region(cached, start, total) {
                let region = found.region;
                note(&found, offset, read_touch(access), place, pattern);
                if bytes == 4 && access.width == 4 && !access.double {
                    let mut values = [0; LANES];
                    if region
                        .cells
                        .load_run_u32(offset, &mut values[span])
                        .is_some()
                    {
                        if pattern == Pattern::Uniform {
                            values = [values[first]; LANES];
                        }
                        r.set_word(access.values[0], place.mask, &values);
                        return Ok(());
                    }
                }
                let mut stage: Stage = [0; LANES * LANE_BYTES_MAX];
                let (at, stride) = if pattern == Pattern::Uniform {
                    (0, 0)
                } else {
                    (first * bytes, bytes)
                };
                if region
                    .cells
                    .copy_to(offset, &mut stage[at..][..total])
                    .is_some()
                {
                    gather(r, access, &stage, &staged(access, stride), place.mask);
                    return Ok(());
                }
            }
        }
        self.load_scattered(r, access, cached, place)
    }

    fn load_scattered(
        &mut self,
        r: &mut Registers,
        access: &Access,
        cached: &mut Cached<'m>,
        place: &Place,
    ) -> Result<(), Failure> {
        place.check_alignment()?;
        if access.width == 4 && access.count == 1 && !access.double {
            return self.load_runs(r, access, cached, place);
        }
        let bytes = place.bytes;
        let mut stage: Stage = [0; LANES * LANE_BYTES_MAX];
        for lane in lanes(place.mask) {
            let found = self.region(cached, place.addresses[lane], bytes);
            let (Watched { region, marks }, offset) =
                found.ok_or_else(|| place.out_of_bounds(lane))?;
            if let Some(marks) = marks {
                marks.note(read_touch(access), offset, bytes);
            }
            let target = &mut stage[lane * bytes..][..bytes];
            load_lane(&region, offset, access, target).ok_or_else(|| place.out_of_bounds(lane))?;
        }
        gather(r, access, &stage, &staged(access, bytes), place.mask);
        Ok(())
    }

    #[inline(always)]
    pub(super) fn store(
        &mut self,
        r: &Registers,
        access: &Access,
        cached: &mut Cached<'m>,
        mask: u32,
    ) -> Result<(), Failure> {
        match access.space {
            AccessSpace::Is(Window::Global) => {
                let place = Place::new(r, access.address, mask, access.bytes(), true);
                self.store_global(r, access, cached, &place)
            }
            AccessSpace::Is(window) => {
                let extent = self.extent(window);
                let unit_shift = access.width.trailing_zeros();
                match indices(r, access.address, mask, access.bytes(), extent, unit_shift) {
                    Some(indices) => scatter(r, access, self.bytes_mut(window), &indices, mask),
                    None => {
                        let place = Place::new(r, access.address, mask, access.bytes(), true);
                        return Err(self.fault(window, &place));
                    }
                }
                Ok(())
            }
            AccessSpace::Generic => self.store_generic(r, access, cached, mask),
        }
    }

    fn store_generic(
        &mut self,
        r: &Registers,
        access: &Access,
        cached: &mut Cached<'m>,
        mask: u32,
    ) -> Result<(), Failure> {
        let all = Place::new(r, access.address, mask, access.bytes(), true);
        for window in WINDOWS {
            let Some(place) = in_window(&all, window) else {
                continue;
            };
            if window == Window::Global {
                self.store_global(r, access, cached, &place)?;
                continue;
            }
            if window == Window::Param {
                return Err(self.fault(window, &place));
            }
            let indices = place.indices(self.extent(window), access.width.trailing_zeros());
            let indices = indices.ok_or_else(|| self.fault(window, &place))?;
            scatter(r, access, self.bytes_mut(window), &indices, place.mask);
        }
        Ok(())
    }

    #[inline(always)]
    fn store_global(
        &mut self,
        r: &Registers,
        access: &Access,
        cached: &mut Cached<'m>,
        place: &Place,
    ) -> Result<(), Failure> {
        let bytes = place.bytes;
        self.traffic.written_bytes += u64::from(place.mask.count_ones()) * bytes as u64;
        let first = place.first();
        let start = place.addresses[first];
        let aligned = start & (bytes as u64 - 1) == 0;
        if aligned && place.is_gapless() && place.pattern() == Pattern::Consecutive {
            let span = place.span();
            let total = span.len() * bytes;
            if let Some((found, offset)) = self.region(cached, start, total)
                && found.region.writable
            {
                let region = found.region;
                note(
                    &found,
                    offset,
                    write_touch(access),
                    place,
                    Pattern::Consecutive,
                );
                if bytes == 4 && access.width == 4 {
                    let values = r.word(access.values[0]);
                    if region.cells.store_run_u32(offset, &values[span]).is_some() {
                        return Ok(());
                    }
                } else {
                    let mut stage: Stage = [0; LANES * LANE_BYTES_MAX];
                    scatter(r, access, &mut stage, &staged(access, bytes), FULL);
                    if region
                        .cells
                        .copy_from(offset, &stage[first * bytes..][..total])
                        .is_some()
                    {
                        return Ok(());
                    }
                }
            }
        }
        self.store_scattered(r, access, cached, place)
    }

    fn store_scattered(
        &mut self,
        r: &Registers,
        access: &Access,
        cached: &mut Cached<'m>,
        place: &Place,
    ) -> Result<(), Failure> {
        place.check_alignment()?;
        if access.width == 4 && access.count == 1 {
            return self.store_runs(r, access, cached, place);
        }
        let bytes = place.bytes;
        let mut stage: Stage = [0; LANES * LANE_BYTES_MAX];
        scatter(r, access, &mut stage, &staged(access, bytes), FULL);
        for lane in lanes(place.mask) {
            let (region, offset) = self.writable(cached, place, lane, write_touch(access))?;
            let source = &stage[lane * bytes..][..bytes];
            store_lane(&region, offset, access, source).ok_or_else(|| place.out_of_bounds(lane))?;
        }
        Ok(())
    }

    /// What a lane can reach of a memory of the block or the thread.
    #[inline(always)]
    fn extent(&self, window: Window) -> Extent {
        match window {
            Window::Local => Extent {
                bytes: self.local_bytes,
                stride: self.local_bytes,
            },
            window => Extent {
                bytes: self.bytes(window).len(),
                stride: 0,
            },
        }
    }

    /// A memory of the block, or of all lanes' threads.
    #[inline(always)]
    fn bytes(&self, window: Window) -> &[u8] {
        match window {
            Window::Shared => self.shared,
            Window::Local => self.local,
            Window::Param => self.params,
            Window::Global => &[],
        }
    }

    #[inline(always)]
    pub(super) fn bytes_mut(&mut self, window: Window) -> &mut [u8] {
        match window {
            Window::Shared => self.shared,
            Window::Local => self.local,
            Window::Param | Window::Global => &mut [],
        }
    }

    /// The fault of the first lane that reaches outside of a memory of the block or the thread, or
    /// is not aligned.
    #[cold]
    fn fault(&self, window: Window, place: &Place) -> Failure {
        if let Err(failure) = place.check_alignment() {
            return failure;
        }
        let end = (self.extent(window).bytes + 1).saturating_sub(place.bytes) as u64;
        let outside = lanes(place.mask).find(|lane| place.addresses[*lane] >= end);
        let lane = outside.unwrap_or(place.first());
        (lane, self.outside(window, place, lane))
    }

    /// What is wrong with a lane that reaches outside of a window of the block or the thread.
    #[cold]
    pub(super) fn outside(&self, window: Window, place: &Place, lane: usize) -> FaultKind {
        let (offset, bytes, write) = (place.addresses[lane], place.bytes as u32, place.write);
        match window {
            Window::Shared => FaultKind::SharedOutOfBounds {
                offset,
                bytes,
                size: self.shared.len() as u32,
                write,
            },
            Window::Local => FaultKind::LocalOutOfBounds {
                offset,
                bytes,
                size: self.local_bytes as u32,
                write,
            },
            Window::Param if write => FaultKind::ReadOnly {
                address: offset.wrapping_add(Window::PARAM),
            },
            Window::Param => FaultKind::ParamOutOfBounds { offset, bytes },
            Window::Global => FaultKind::OutOfBounds {
                address: offset,
                bytes,
                write,
            },
        }
    }
}

/// Loads one lane's values into `target`, each as a whole.
fn load_lane(region: &Region<'_>, offset: usize, access: &Access, target: &mut [u8]) -> Option<()> {
    let width = usize::from(access.width);
    for (part, target) in target.chunks_exact_mut(width).enumerate() {
        let at = offset + part * width;
        match width {
            1 => target.copy_from_slice(&region.cells.load_u8(at)?.to_le_bytes()),
            2 => target.copy_from_slice(&region.cells.load_u16(at)?.to_le_bytes()),
            4 => target.copy_from_slice(&region.cells.load_u32(at)?.to_le_bytes()),
            _ => target.copy_from_slice(&region.cells.load_u64(at)?.to_le_bytes()),
        }
    }
    Some(())
}

/// Stores one lane's values from `source`, each as a whole.
fn store_lane(region: &Region<'_>, offset: usize, access: &Access, source: &[u8]) -> Option<()> {
    let width = usize::from(access.width);
    for (part, source) in source.chunks_exact(width).enumerate() {
        let at = offset + part * width;
        match width {
            1 => region.cells.store_u8(at, source[0])?,
            2 => region
                .cells
                .store_u16(at, u16::from_le_bytes(*source.first_chunk()?))?,
            4 => region
                .cells
                .store_u32(at, u32::from_le_bytes(*source.first_chunk()?))?,
            _ => region
                .cells
                .store_u64(at, u64::from_le_bytes(*source.first_chunk()?))?,
        }
    }
    Some(())
}
