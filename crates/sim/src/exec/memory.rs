//! Loads and stores of a warp.

use super::access_marking::{note, read_flags, write_flags};
use super::fault::KernelFaultKind;
use super::indices::{Indices, WindowLayout};
use super::launch::{GlobalMemory, Region, TracedRegion};
use super::registers::{FULL, LANES, Registers, lanes};
use super::staging::{
    LANE_BYTES_MAX, Stage, gather, load_apart, load_lane, scatter, splat, store_lane,
};
use super::warp_access::{AddressPattern, LaneFault, WarpAccess, in_window};
use crate::memory::AccessFlags;
use crate::ptx::ir::{Access, AccessSpace, AddressBase, Window};

/// Counters of a launch's global memory accesses.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    pub(super) atomics: u64,
}

pub(super) struct WarpMemory<'r, 'm> {
    pub(super) global: &'m dyn GlobalMemory,
    pub(super) shared: &'r mut [u8],
    /// The warp's local memory: `local_bytes` per lane.
    pub(super) local: &'r mut [u8],
    pub(super) local_bytes: usize,
    pub(super) params: &'r [u8],
    pub(super) traffic: &'r mut Traffic,
}

/// The region that an instruction accessed last. Most instructions access the same region
/// repeatedly.
pub(super) type CachedRegion<'m> = Option<TracedRegion<'m>>;

const WINDOWS: [Window; 4] = [Window::Global, Window::Shared, Window::Local, Window::Param];

impl<'m> WarpMemory<'_, 'm> {
    /// Returns the region that contains `bytes` bytes from `address`, and the offset of the address
    /// in it.
    #[inline(always)]
    pub(super) fn region(
        &self,
        cached: &mut CachedRegion<'m>,
        address: u64,
        bytes: usize,
    ) -> Option<(TracedRegion<'m>, usize)> {
        if let Some(found) = cached {
            let offset = address.wrapping_sub(found.region.base);
            let len = found.region.bytes.len() as u64;
            if offset < len && len - offset >= bytes as u64 {
                return Some((*found, offset as usize));
            }
        }
        self.find_region(cached, address, bytes)
    }

    #[cold]
    fn find_region(
        &self,
        cached: &mut CachedRegion<'m>,
        address: u64,
        bytes: usize,
    ) -> Option<(TracedRegion<'m>, usize)> {
        let found = self.global.traced_region(address)?;
        let offset = usize::try_from(address.checked_sub(found.region.base)?).ok()?;
        if offset.checked_add(bytes)? > found.region.bytes.len() {
            return None;
        }
        *cached = Some(found);
        Some((found, offset))
    }

    /// Returns the region and offset that a lane writes, and marks the write in the access bitmap,
    /// unless the address is that in `marked`.
    #[inline(always)]
    pub(super) fn writable(
        &self,
        cached: &mut CachedRegion<'m>,
        warp_access: &WarpAccess,
        lane: usize,
        flags: AccessFlags,
        marked: &mut Option<u64>,
    ) -> Result<(Region<'m>, usize), LaneFault> {
        let address = warp_access.addresses[lane];
        let found = self.region(cached, address, warp_access.bytes);
        let (TracedRegion { region, bitmap }, offset) =
            found.ok_or_else(|| warp_access.out_of_bounds(lane))?;
        if !region.writable {
            return Err((lane, KernelFaultKind::ReadOnly { address }));
        }
        if let Some(bitmap) = bitmap.filter(|_| marked.replace(address) != Some(address)) {
            bitmap.note(flags, offset, warp_access.bytes);
        }
        Ok((region, offset))
    }

    #[inline(always)]
    pub(super) fn load(
        &mut self,
        r: &mut Registers,
        access: &Access,
        cached: &mut CachedRegion<'m>,
        mask: u32,
    ) -> Result<(), LaneFault> {
        match access.space {
            AccessSpace::Is(Window::Global) => {
                let warp_access = WarpAccess::new(r, access.address, mask, access.bytes(), false);
                self.load_global(r, access, cached, &warp_access)
            }
            AccessSpace::Is(window) => {
                let layout = self.layout(window);
                if window == Window::Param && access.address.base == AddressBase::None {
                    let offset = usize::try_from(access.address.offset).unwrap_or(usize::MAX);
                    if splat(r, access, self.params, offset, mask).is_some() {
                        return Ok(());
                    }
                }
                match Indices::in_window(r, access, mask, layout) {
                    Some(indices) => gather(r, access, self.bytes(window), &indices, mask),
                    None => {
                        let warp_access =
                            WarpAccess::new(r, access.address, mask, access.bytes(), false);
                        return Err(self.fault(window, &warp_access));
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
        cached: &mut CachedRegion<'m>,
        mask: u32,
    ) -> Result<(), LaneFault> {
        let all = WarpAccess::new(r, access.address, mask, access.bytes(), false);
        for window in WINDOWS {
            let Some(warp_access) = in_window(&all, window) else {
                continue;
            };
            if window == Window::Global {
                self.load_global(r, access, cached, &warp_access)?;
                continue;
            }
            let indices = Indices::of(&warp_access, access, self.layout(window));
            let indices = indices.ok_or_else(|| self.fault(window, &warp_access))?;
            gather(r, access, self.bytes(window), &indices, warp_access.mask);
        }
        Ok(())
    }

    #[inline(always)]
    fn load_global(
        &mut self,
        r: &mut Registers,
        access: &Access,
        cached: &mut CachedRegion<'m>,
        warp_access: &WarpAccess,
    ) -> Result<(), LaneFault> {
        let bytes = warp_access.bytes;
        self.traffic.read_bytes += u64::from(warp_access.mask.count_ones()) * bytes as u64;
        let first = warp_access.first();
        let start = warp_access.addresses[first];
        let pattern = warp_access.pattern();
        if pattern != AddressPattern::Scattered && start & (bytes as u64 - 1) == 0 {
            let span = if pattern == AddressPattern::Uniform {
                first..first + 1
            } else {
                warp_access.span()
            };
            let total = span.len() * bytes;
            if let Some((found, offset)) = self.region(cached, start, total) {
                let region = found.region;
                note(&found, offset, read_flags(access), warp_access, pattern);
                if bytes == 4 && access.width == 4 && !access.double {
                    let mut values = [0; LANES];
                    if region
                        .bytes
                        .load_run_u32(offset, &mut values[span.clone()])
                        .is_some()
                    {
                        if pattern == AddressPattern::Uniform {
                            values = [values[first]; LANES];
                        }
                        r.set_word(access.values[0], warp_access.mask, &values);
                        return Ok(());
                    }
                }
                let mut stage: Stage = [0; LANES * LANE_BYTES_MAX];
                let (at, stride) = if pattern == AddressPattern::Uniform {
                    (0, 0)
                } else {
                    (first * bytes, bytes)
                };
                if region
                    .bytes
                    .copy_to(offset, &mut stage[at..][..total])
                    .is_some()
                {
                    gather(
                        r,
                        access,
                        &stage,
                        &Indices::staged(access, stride),
                        warp_access.mask,
                    );
                    return Ok(());
                }
            }
        }
        self.load_scattered(r, access, cached, warp_access)
    }

    fn load_scattered(
        &mut self,
        r: &mut Registers,
        access: &Access,
        cached: &mut CachedRegion<'m>,
        warp_access: &WarpAccess,
    ) -> Result<(), LaneFault> {
        warp_access.check_alignment()?;
        if (access.width, access.count, access.double) == (4, 1, false)
            && self.load_runs(r, access, cached, warp_access).is_some()
        {
            return Ok(());
        }
        let bytes = warp_access.bytes;
        let narrow = access.count == 1 && bytes < 4;
        if narrow && load_apart(r, access, *cached, warp_access).is_some() {
            return Ok(());
        }
        let mut stage: Stage = [0; LANES * LANE_BYTES_MAX];
        for lane in lanes(warp_access.mask) {
            let found = self.region(cached, warp_access.addresses[lane], bytes);
            let (TracedRegion { region, bitmap }, offset) =
                found.ok_or_else(|| warp_access.out_of_bounds(lane))?;
            if let Some(bitmap) = bitmap {
                bitmap.note(read_flags(access), offset, bytes);
            }
            let target = &mut stage[lane * bytes..][..bytes];
            load_lane(&region, offset, access, target)
                .ok_or_else(|| warp_access.out_of_bounds(lane))?;
        }
        gather(
            r,
            access,
            &stage,
            &Indices::staged(access, bytes),
            warp_access.mask,
        );
        Ok(())
    }

    #[inline(always)]
    pub(super) fn store(
        &mut self,
        r: &Registers,
        access: &Access,
        cached: &mut CachedRegion<'m>,
        mask: u32,
    ) -> Result<(), LaneFault> {
        match access.space {
            AccessSpace::Is(Window::Global) => {
                let warp_access = WarpAccess::new(r, access.address, mask, access.bytes(), true);
                self.store_global(r, access, cached, &warp_access)
            }
            AccessSpace::Is(window) => {
                let layout = self.layout(window);
                match Indices::in_window(r, access, mask, layout) {
                    Some(indices) => scatter(r, access, self.bytes_mut(window), &indices, mask),
                    None => {
                        let warp_access =
                            WarpAccess::new(r, access.address, mask, access.bytes(), true);
                        return Err(self.fault(window, &warp_access));
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
        cached: &mut CachedRegion<'m>,
        mask: u32,
    ) -> Result<(), LaneFault> {
        let all = WarpAccess::new(r, access.address, mask, access.bytes(), true);
        for window in WINDOWS {
            let Some(warp_access) = in_window(&all, window) else {
                continue;
            };
            if window == Window::Global {
                self.store_global(r, access, cached, &warp_access)?;
                continue;
            }
            if window == Window::Param {
                return Err(self.fault(window, &warp_access));
            }
            let indices = Indices::of(&warp_access, access, self.layout(window));
            let indices = indices.ok_or_else(|| self.fault(window, &warp_access))?;
            scatter(
                r,
                access,
                self.bytes_mut(window),
                &indices,
                warp_access.mask,
            );
        }
        Ok(())
    }

    #[inline(always)]
    fn store_global(
        &mut self,
        r: &Registers,
        access: &Access,
        cached: &mut CachedRegion<'m>,
        warp_access: &WarpAccess,
    ) -> Result<(), LaneFault> {
        let bytes = warp_access.bytes;
        self.traffic.written_bytes += u64::from(warp_access.mask.count_ones()) * bytes as u64;
        let first = warp_access.first();
        let start = warp_access.addresses[first];
        let aligned = start & (bytes as u64 - 1) == 0;
        if aligned
            && warp_access.is_gapless()
            && warp_access.pattern() == AddressPattern::Consecutive
        {
            let span = warp_access.span();
            let total = span.len() * bytes;
            if let Some((found, offset)) = self.region(cached, start, total)
                && found.region.writable
            {
                let region = found.region;
                note(
                    &found,
                    offset,
                    write_flags(access),
                    warp_access,
                    AddressPattern::Consecutive,
                );
                if bytes == 4 && access.width == 4 {
                    let values = r.word(access.values[0]);
                    if region.bytes.store_run_u32(offset, &values[span]).is_some() {
                        return Ok(());
                    }
                } else {
                    let mut stage: Stage = [0; LANES * LANE_BYTES_MAX];
                    scatter(r, access, &mut stage, &Indices::staged(access, bytes), FULL);
                    if region
                        .bytes
                        .copy_from(offset, &stage[first * bytes..][..total])
                        .is_some()
                    {
                        return Ok(());
                    }
                }
            }
        }
        self.store_scattered(r, access, cached, warp_access)
    }

    fn store_scattered(
        &mut self,
        r: &Registers,
        access: &Access,
        cached: &mut CachedRegion<'m>,
        warp_access: &WarpAccess,
    ) -> Result<(), LaneFault> {
        warp_access.check_alignment()?;
        if (access.width, access.count) == (4, 1)
            && self.store_runs(r, access, cached, warp_access).is_some()
        {
            return Ok(());
        }
        let bytes = warp_access.bytes;
        let mut stage: Stage = [0; LANES * LANE_BYTES_MAX];
        scatter(r, access, &mut stage, &Indices::staged(access, bytes), FULL);
        for lane in lanes(warp_access.mask) {
            let (region, offset) =
                self.writable(cached, warp_access, lane, write_flags(access), &mut None)?;
            let source = &stage[lane * bytes..][..bytes];
            store_lane(&region, offset, access, source)
                .ok_or_else(|| warp_access.out_of_bounds(lane))?;
        }
        Ok(())
    }

    /// Returns the layout of a per-block or per-thread memory window.
    #[inline(always)]
    fn layout(&self, window: Window) -> WindowLayout {
        match window {
            Window::Local => WindowLayout {
                bytes: self.local_bytes,
                stride: self.local_bytes,
            },
            window => WindowLayout {
                bytes: self.bytes(window).len(),
                stride: 0,
            },
        }
    }

    /// Returns the bytes of a per-block window, or the local memory of all lanes.
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

    /// Returns the fault of the first lane whose address is misaligned or outside the window.
    #[cold]
    fn fault(&self, window: Window, warp_access: &WarpAccess) -> LaneFault {
        if let Err(failure) = warp_access.check_alignment() {
            return failure;
        }
        let end = (self.layout(window).bytes + 1).saturating_sub(warp_access.bytes) as u64;
        let outside = lanes(warp_access.mask).find(|lane| warp_access.addresses[*lane] >= end);
        let lane = outside.unwrap_or(warp_access.first());
        (lane, self.outside(window, warp_access, lane))
    }

    /// Returns the fault kind of a lane whose address lies outside a memory window.
    #[cold]
    pub(super) fn outside(
        &self,
        window: Window,
        warp_access: &WarpAccess,
        lane: usize,
    ) -> KernelFaultKind {
        let (offset, bytes, write) = (
            warp_access.addresses[lane],
            warp_access.bytes as u32,
            warp_access.write,
        );
        match window {
            Window::Shared => KernelFaultKind::SharedOutOfBounds {
                offset,
                bytes,
                size: self.shared.len() as u32,
                write,
            },
            Window::Local => KernelFaultKind::LocalOutOfBounds {
                offset,
                bytes,
                size: self.local_bytes as u32,
                write,
            },
            Window::Param if write => KernelFaultKind::ReadOnly {
                address: offset.wrapping_add(Window::PARAM),
            },
            Window::Param => KernelFaultKind::ParamOutOfBounds { offset, bytes },
            Window::Global => KernelFaultKind::OutOfBounds {
                address: offset,
                bytes,
                write,
            },
        }
    }
}
