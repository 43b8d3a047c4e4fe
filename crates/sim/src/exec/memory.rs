//! Loads, stores and atomics of a warp.

use super::atomic::{apply_double, apply_word};
use super::fault::FaultKind;
use super::launch::{GlobalMemory, Region};
use super::registers::{Doubles, FULL, LANES, Registers, Words, lanes};
use crate::ptx::code::{Access, AccessSpace, Address, AddressBase, Atomic, AtomicOp, Window};

/// Bytes of the widest access of one lane.
const LANE_BYTES_MAX: usize = 16;

/// What the lanes of a warp bring to memory or take from it.
type Stage = [u8; LANES * LANE_BYTES_MAX];

/// An access that failed: which lane, and how.
pub(super) type Failure = (usize, FaultKind);

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
pub(super) type Cached<'m> = Option<Region<'m>>;

/// Where the lanes of an access begin.
struct Place {
    addresses: Doubles,
    mask: u32,
    /// Bytes of one lane's access, a power of two.
    bytes: usize,
    write: bool,
}

/// How the lanes' addresses lie to each other.
enum Pattern {
    /// All the same.
    Uniform,
    /// One behind the other, in the order of lanes.
    Consecutive,
    Scattered,
}

impl Place {
    #[inline(always)]
    fn new(r: &Registers, address: Address, mask: u32, bytes: usize, write: bool) -> Result<Self, Failure> {
        let offset = address.offset.cast_unsigned();
        let mut addresses = [offset; LANES];
        match address.base {
            AddressBase::None => {}
            AddressBase::Double(slot) => {
                let base = r.double(slot);
                for lane in 0..LANES {
                    addresses[lane] = base[lane].wrapping_add(offset);
                }
            }
            AddressBase::Word(slot) => {
                let base = r.word(slot);
                for lane in 0..LANES {
                    addresses[lane] = u64::from(base[lane]).wrapping_add(offset);
                }
            }
        }
        let place = Self {
            addresses,
            mask,
            bytes,
            write,
        };
        place.check_alignment()?;
        Ok(place)
    }

    #[inline(always)]
    fn check_alignment(&self) -> Result<(), Failure> {
        let low_bits = self.bytes as u64 - 1;
        let mut wrong = 0;
        for lane in 0..LANES {
            wrong |= if self.addresses[lane] & low_bits != 0 {
                1 << lane
            } else {
                0
            };
        }
        match lanes(wrong & self.mask).next() {
            None => Ok(()),
            Some(lane) => Err((
                lane,
                FaultKind::Misaligned {
                    address: self.addresses[lane],
                    bytes: self.bytes as u32,
                    write: self.write,
                },
            )),
        }
    }

    #[inline(always)]
    fn first(&self) -> usize {
        self.mask.trailing_zeros() as usize & 31
    }

    #[inline(always)]
    fn pattern(&self) -> Pattern {
        let first = self.first();
        let start = self.addresses[first];
        let origin = start.wrapping_sub((first * self.bytes) as u64);
        let (mut differ, mut stray) = (0, 0);
        for lane in 0..LANES {
            let address = self.addresses[lane];
            differ |= if address == start { 0 } else { 1u32 << lane };
            stray |= if address == origin.wrapping_add((lane * self.bytes) as u64) {
                0
            } else {
                1u32 << lane
            };
        }
        if stray & self.mask == 0 {
            Pattern::Consecutive
        } else if differ & self.mask == 0 {
            Pattern::Uniform
        } else {
            Pattern::Scattered
        }
    }

    /// The lanes from the first to the last that takes part.
    #[inline(always)]
    fn span(&self) -> std::ops::Range<usize> {
        self.first()..LANES - self.mask.leading_zeros() as usize
    }

    fn out_of_bounds(&self, lane: usize) -> Failure {
        let (address, bytes, write) = (self.addresses[lane], self.bytes as u32, self.write);
        (
            lane,
            FaultKind::OutOfBounds {
                address,
                bytes,
                write,
            },
        )
    }
}

impl<'m> Memory<'_, 'm> {
    /// The region that contains `bytes` from `address`.
    #[inline(always)]
    fn region(&self, cached: &mut Cached<'m>, address: u64, bytes: usize) -> Option<(Region<'m>, usize)> {
        if let Some(region) = cached {
            let offset = address.wrapping_sub(region.base);
            let len = region.cells.len() as u64;
            if offset < len && len - offset >= bytes as u64 {
                return Some((*region, offset as usize));
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
    ) -> Option<(Region<'m>, usize)> {
        let region = self.global.region(address)?;
        let offset = usize::try_from(address.checked_sub(region.base)?).ok()?;
        if offset.checked_add(bytes)? > region.cells.len() {
            return None;
        }
        *cached = Some(region);
        Some((region, offset))
    }

    #[inline(always)]
    fn writable(
        &self,
        cached: &mut Cached<'m>,
        place: &Place,
        lane: usize,
    ) -> Result<(Region<'m>, usize), Failure> {
        let found = self.region(cached, place.addresses[lane], place.bytes);
        let (region, offset) = found.ok_or_else(|| place.out_of_bounds(lane))?;
        if !region.writable {
            return Err((
                lane,
                FaultKind::ReadOnly {
                    address: place.addresses[lane],
                },
            ));
        }
        Ok((region, offset))
    }

    /// Runs `access` once for each memory space that the lanes' generic addresses lie in, with addresses made relative to it.
    #[inline(always)]
    fn by_window(
        place: Place,
        space: AccessSpace,
        mut access: impl FnMut(&Place, Window) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match space {
            AccessSpace::Is(window) => access(&place, window),
            AccessSpace::Generic => {
                for window in [Window::Global, Window::Shared, Window::Local, Window::Param] {
                    let inside = lanes(place.mask)
                        .filter(|lane| Window::of(place.addresses[*lane]) == window)
                        .fold(0, |mask, lane| mask | 1 << lane);
                    if inside != 0 {
                        let addresses = place.addresses.map(|address| address.wrapping_sub(window.base()));
                        access(
                            &Place {
                                addresses,
                                mask: inside,
                                ..place
                            },
                            window,
                        )?;
                    }
                }
                Ok(())
            }
        }
    }

    #[inline(always)]
    pub(super) fn load(
        &mut self,
        r: &mut Registers,
        access: &Access,
        cached: &mut Cached<'m>,
        mask: u32,
    ) -> Result<(), Failure> {
        let bytes = usize::from(access.width) * usize::from(access.count);
        let place = Place::new(r, access.address, mask, bytes, false)?;
        Self::by_window(place, access.space, |place, window| match window {
            Window::Global => self.load_global(r, access, cached, place),
            Window::Shared => load_from(r, access, self.shared, 0, place)
                .map_err(|lane| (lane, shared_fault(place, lane, self.shared.len()))),
            Window::Local => load_from(r, access, self.local, self.local_bytes, place)
                .map_err(|lane| (lane, local_fault(place, lane, self.local_bytes))),
            Window::Param => load_from(r, access, self.params, 0, place).map_err(|lane| {
                (
                    lane,
                    FaultKind::ParamOutOfBounds {
                        offset: place.addresses[lane],
                        bytes: bytes as u32,
                    },
                )
            }),
        })
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
        let mut stage: Stage = [0; LANES * LANE_BYTES_MAX];
        match place.pattern() {
            Pattern::Consecutive => {
                let span = place.span();
                let total = span.len() * bytes;
                if let Some((region, offset)) = self.region(cached, place.addresses[first], total) {
                    if bytes == 4 && access.width == 4 && !access.double {
                        let mut values = [0; LANES];
                        if region.cells.load_run_u32(offset, &mut values[span]).is_some() {
                            r.set_word(access.values[0], place.mask, &values);
                            return Ok(());
                        }
                    }
                    if region
                        .cells
                        .copy_to(offset, &mut stage[first * bytes..][..total])
                        .is_some()
                    {
                        unstage(r, access, &stage, bytes, place.mask);
                        return Ok(());
                    }
                }
            }
            Pattern::Uniform => {
                let found = self.region(cached, place.addresses[first], bytes);
                let (region, offset) = found.ok_or_else(|| place.out_of_bounds(first))?;
                let loaded = load_lane(&region, offset, access, &mut stage[..LANE_BYTES_MAX]);
                loaded.ok_or_else(|| place.out_of_bounds(first))?;
                unstage(r, access, &stage, 0, place.mask);
                return Ok(());
            }
            Pattern::Scattered => {}
        }
        for lane in lanes(place.mask) {
            let found = self.region(cached, place.addresses[lane], bytes);
            let (region, offset) = found.ok_or_else(|| place.out_of_bounds(lane))?;
            let target = &mut stage[lane * bytes..][..bytes];
            load_lane(&region, offset, access, target).ok_or_else(|| place.out_of_bounds(lane))?;
        }
        unstage(r, access, &stage, bytes, place.mask);
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
        let bytes = usize::from(access.width) * usize::from(access.count);
        let place = Place::new(r, access.address, mask, bytes, true)?;
        Self::by_window(place, access.space, |place, window| match window {
            Window::Global => self.store_global(r, access, cached, place),
            Window::Shared => store_to(r, access, self.shared, 0, place)
                .map_err(|lane| (lane, shared_fault(place, lane, self.shared.len()))),
            Window::Local => store_to(r, access, self.local, self.local_bytes, place)
                .map_err(|lane| (lane, local_fault(place, lane, self.local_bytes))),
            Window::Param => {
                let lane = place.first();
                Err((
                    lane,
                    FaultKind::ReadOnly {
                        address: place.addresses[lane].wrapping_add(Window::PARAM),
                    },
                ))
            }
        })
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
        let span = place.span();
        let gapless = place.mask.count_ones() as usize == span.len();
        let mut stage: Stage = [0; LANES * LANE_BYTES_MAX];
        if gapless && matches!(place.pattern(), Pattern::Consecutive) {
            let total = span.len() * bytes;
            if let Some((region, offset)) = self.region(cached, place.addresses[first], total)
                && region.writable
            {
                if bytes == 4 && access.width == 4 {
                    let values = r.word(access.values[0]);
                    if region.cells.store_run_u32(offset, &values[span]).is_some() {
                        return Ok(());
                    }
                } else {
                    self::stage(r, access, &mut stage);
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
        self::stage(r, access, &mut stage);
        for lane in lanes(place.mask) {
            let (region, offset) = self.writable(cached, place, lane)?;
            let source = &stage[lane * bytes..][..bytes];
            store_lane(&region, offset, access, source).ok_or_else(|| place.out_of_bounds(lane))?;
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn atomic(
        &mut self,
        r: &mut Registers,
        atomic: &Atomic,
        cached: &mut Cached<'m>,
        mask: u32,
    ) -> Result<(), Failure> {
        let place = Place::new(r, atomic.address, mask, atomic.ty.bytes(), true)?;
        Self::by_window(place, atomic.space, |place, window| {
            if place.bytes == 8 {
                self.atomic_double(r, atomic, cached, place, window)
            } else {
                self.atomic_word(r, atomic, cached, place, window)
            }
        })
    }

    fn atomic_word(
        &mut self,
        r: &mut Registers,
        atomic: &Atomic,
        cached: &mut Cached<'m>,
        place: &Place,
        window: Window,
    ) -> Result<(), Failure> {
        let (b, c): (Words, Words) = (*r.word(atomic.b), *r.word(atomic.c));
        let mut old = [0; LANES];
        if window == Window::Global {
            self.traffic.atomics += u64::from(place.mask.count_ones());
            for lane in lanes(place.mask) {
                let (region, offset) = self.writable(cached, place, lane)?;
                let change = |old| apply_word(atomic, old, b[lane], c[lane]);
                let found = region.cells.update_u32(offset, change);
                old[lane] = found.ok_or_else(|| place.out_of_bounds(lane))?;
            }
        } else {
            for lane in lanes(place.mask) {
                let cell = self.block_cell::<4>(place, lane, window)?;
                old[lane] = u32::from_le_bytes(*cell);
                *cell = apply_word(atomic, old[lane], b[lane], c[lane]).to_le_bytes();
            }
        }
        if let Some(d) = atomic.result {
            r.set_word(d, place.mask, &old);
        }
        Ok(())
    }

    fn atomic_double(
        &mut self,
        r: &mut Registers,
        atomic: &Atomic,
        cached: &mut Cached<'m>,
        place: &Place,
        window: Window,
    ) -> Result<(), Failure> {
        let (b, c): (Doubles, Doubles) = (*r.double(atomic.b), *r.double(atomic.c));
        let mut old = [0; LANES];
        if window == Window::Global {
            self.traffic.atomics += u64::from(place.mask.count_ones());
            for lane in lanes(place.mask) {
                let (region, offset) = self.writable(cached, place, lane)?;
                let change = |old| apply_double(atomic, old, b[lane], c[lane]);
                let found = region.cells.update_u64(offset, change);
                old[lane] = found.ok_or_else(|| place.out_of_bounds(lane))?;
            }
        } else {
            for lane in lanes(place.mask) {
                let cell = self.block_cell::<8>(place, lane, window)?;
                old[lane] = u64::from_le_bytes(*cell);
                *cell = apply_double(atomic, old[lane], b[lane], c[lane]).to_le_bytes();
            }
        }
        if let Some(d) = atomic.result {
            r.set_double(d, place.mask, &old);
        }
        Ok(())
    }

    /// The bytes of shared or local memory that a lane's atomic works on.
    fn block_cell<const N: usize>(
        &mut self,
        place: &Place,
        lane: usize,
        window: Window,
    ) -> Result<&mut [u8; N], Failure> {
        let offset = usize::try_from(place.addresses[lane]).unwrap_or(usize::MAX);
        let (memory, fault): (&mut [u8], _) = match window {
            Window::Shared => {
                let fault = shared_fault(place, lane, self.shared.len());
                (&mut *self.shared, fault)
            }
            Window::Local => {
                let own = lane * self.local_bytes..(lane + 1) * self.local_bytes;
                (&mut self.local[own], local_fault(place, lane, self.local_bytes))
            }
            Window::Global | Window::Param => (
                &mut [],
                FaultKind::ReadOnly {
                    address: place.addresses[lane].wrapping_add(Window::PARAM),
                },
            ),
        };
        memory
            .get_mut(offset..)
            .and_then(|tail| tail.first_chunk_mut())
            .ok_or((lane, fault))
    }
}

fn shared_fault(place: &Place, lane: usize, size: usize) -> FaultKind {
    FaultKind::SharedOutOfBounds {
        offset: place.addresses[lane],
        bytes: place.bytes as u32,
        size: size as u32,
        write: place.write,
    }
}

fn local_fault(place: &Place, lane: usize, size: usize) -> FaultKind {
    FaultKind::LocalOutOfBounds {
        offset: place.addresses[lane],
        bytes: place.bytes as u32,
        size: size as u32,
        write: place.write,
    }
}

/// Where each lane's bytes begin in a memory that has `stride` bytes for each lane, or, with a stride of 0, one for all. Lanes that do
/// not take part are sent to 0. The error is the first lane that would reach outside.
#[inline(always)]
fn offsets(place: &Place, memory_bytes: usize, stride: usize) -> Result<[usize; LANES], usize> {
    let limit = if stride == 0 { memory_bytes } else { stride } as u64;
    // The last offset at which an access fits; if none does, every lane fails.
    let last = limit.wrapping_sub(place.bytes as u64);
    let fits = limit >= place.bytes as u64;
    let mut offsets = [0; LANES];
    let mut outside = 0;
    for lane in 0..LANES {
        let offset = place.addresses[lane];
        let active = place.mask & (1 << lane) != 0;
        outside |= if offset > last || !fits { 1u32 << lane } else { 0 };
        offsets[lane] = if active { offset as usize } else { 0 };
    }
    if let Some(lane) = lanes(outside & place.mask).next() {
        return Err(lane);
    }
    if stride > 0 {
        for lane in lanes(place.mask) {
            offsets[lane] += lane * stride;
        }
    }
    Ok(offsets)
}

/// The `N` bytes at `offset`; zeros if they are not there, which `offsets` has ruled out for lanes that take part.
#[inline(always)]
fn bytes_at<const N: usize>(memory: &[u8], offset: usize) -> [u8; N] {
    memory
        .get(offset..)
        .and_then(|tail| tail.first_chunk())
        .copied()
        .unwrap_or([0; N])
}

#[inline(always)]
fn load_from(
    r: &mut Registers,
    access: &Access,
    memory: &[u8],
    stride: usize,
    place: &Place,
) -> Result<(), usize> {
    let offsets = offsets(place, memory.len(), stride)?;
    deposit(r, access, memory, &offsets, place.mask);
    Ok(())
}

/// Distributes staged values, `stride` bytes to a lane.
#[inline(always)]
fn unstage(r: &mut Registers, access: &Access, stage: &Stage, stride: usize, mask: u32) {
    let offsets = std::array::from_fn(|lane| lane * stride);
    deposit(r, access, stage, &offsets, mask);
}

/// Puts the values at `offsets` into the access's registers.
#[inline(always)]
fn deposit(r: &mut Registers, access: &Access, memory: &[u8], offsets: &[usize; LANES], mask: u32) {
    for (index, slot) in access.values[..usize::from(access.count)].iter().enumerate() {
        let shift = index * usize::from(access.width);
        if access.width == 8 {
            let values = offsets.map(|offset| u64::from_le_bytes(bytes_at(memory, offset + shift)));
            r.set_double(*slot, mask, &values);
            continue;
        }
        let mut values: Words = match access.width {
            4 => offsets.map(|offset| u32::from_le_bytes(bytes_at(memory, offset + shift))),
            2 => offsets.map(|offset| u32::from(u16::from_le_bytes(bytes_at(memory, offset + shift)))),
            _ => offsets.map(|offset| u32::from(u8::from_le_bytes(bytes_at(memory, offset + shift)))),
        };
        if access.sign_extend > 0 {
            let unused = 32 - 8 * u32::from(access.width);
            values = values.map(|value| ((value << unused).cast_signed() >> unused).cast_unsigned());
        }
        if access.double {
            let wide = values.map(|value| match access.sign_extend {
                0 => u64::from(value),
                _ => i64::from(value.cast_signed()).cast_unsigned(),
            });
            r.set_double(*slot, mask, &wide);
        } else {
            if access.sign_extend == 16 {
                values = values.map(|value| value & 0xffff);
            }
            r.set_word(*slot, mask, &values);
        }
    }
}

/// Writes every lane's values one behind the other.
#[inline(always)]
fn stage(r: &Registers, access: &Access, stage: &mut Stage) {
    let bytes = usize::from(access.width) * usize::from(access.count);
    collect(r, access, stage, &std::array::from_fn(|lane| lane * bytes), FULL);
}

#[inline(always)]
fn store_to(
    r: &Registers,
    access: &Access,
    memory: &mut [u8],
    stride: usize,
    place: &Place,
) -> Result<(), usize> {
    let offsets = offsets(place, memory.len(), stride)?;
    collect(r, access, memory, &offsets, place.mask);
    Ok(())
}

/// Puts the access's registers to `offsets`.
#[inline(always)]
fn collect(r: &Registers, access: &Access, memory: &mut [u8], offsets: &[usize; LANES], mask: u32) {
    for (index, slot) in access.values[..usize::from(access.count)].iter().enumerate() {
        let shift = index * usize::from(access.width);
        if access.width == 8 {
            let values = r.double(*slot);
            put(memory, offsets, shift, mask, |lane| values[lane].to_le_bytes());
            continue;
        }
        let values = r.word(*slot);
        match access.width {
            4 => put(memory, offsets, shift, mask, |lane| values[lane].to_le_bytes()),
            2 => put(memory, offsets, shift, mask, |lane| {
                (values[lane] as u16).to_le_bytes()
            }),
            _ => put(memory, offsets, shift, mask, |lane| {
                (values[lane] as u8).to_le_bytes()
            }),
        }
    }
}

#[inline(always)]
fn put<const N: usize>(
    memory: &mut [u8],
    offsets: &[usize; LANES],
    shift: usize,
    mask: u32,
    value: impl Fn(usize) -> [u8; N],
) {
    for lane in 0..LANES {
        if mask & (1 << lane) != 0
            && let Some(cell) = memory
                .get_mut(offsets[lane] + shift..)
                .and_then(|tail| tail.first_chunk_mut())
        {
            *cell = value(lane);
        }
    }
}

/// Loads one lane's values into `target`, each as a whole.
#[inline(always)]
fn load_lane(region: &Region<'_>, offset: usize, access: &Access, target: &mut [u8]) -> Option<()> {
    let width = usize::from(access.width);
    for (index, target) in target
        .chunks_exact_mut(width)
        .take(usize::from(access.count))
        .enumerate()
    {
        let at = offset + index * width;
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
#[inline(always)]
fn store_lane(region: &Region<'_>, offset: usize, access: &Access, source: &[u8]) -> Option<()> {
    let width = usize::from(access.width);
    for (index, source) in source.chunks_exact(width).enumerate() {
        let at = offset + index * width;
        match width {
            1 => region
                .cells
                .store_u8(at, u8::from_le_bytes(bytes_at(source, 0)))?,
            2 => region
                .cells
                .store_u16(at, u16::from_le_bytes(bytes_at(source, 0)))?,
            4 => region
                .cells
                .store_u32(at, u32::from_le_bytes(bytes_at(source, 0)))?,
            _ => region
                .cells
                .store_u64(at, u64::from_le_bytes(bytes_at(source, 0)))?,
        }
    }
    Some(())
}

/// Whether an atomic is how threads wait for each other: one that can fail or take something away.
pub(super) fn waits(atomic: &Atomic) -> bool {
    atomic.result.is_some() || atomic.f == AtomicOp::CompareSwap
}
