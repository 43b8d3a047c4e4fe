//! Calls of the functions of fused blocks.
#![allow(
    unsafe_code,
    reason = "calls machine code that this crate has generated"
)]

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use super::loads::{ACCESSES_MAX, BASES_MAX, CREDIT, PAUSE};
use crate::exec::launch::TracedRegion;
use crate::exec::memory::Traffic;
use crate::exec::registers::{FULL, Registers, lanes};
use crate::exec::warp_context::{Counters, WarpContext};
use crate::memory::{AccessBitmap, AccessFlags, SharedBytes};
use crate::ptx::ir::{FusedAccess, FusedBase, FusedBlock, FusedCode, FusedStream};

/// The number of lanes that a function processes at a time.
const CHUNK: usize = 8;

/// The window of an address register for eight lanes: 32 bytes of shared memory that contain the
/// 32-bit value at each lane's address.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Window {
    /// The index of each lane's value.
    lanes: [u32; CHUNK],
    start: *const u8,
}

/// An address of a stream in eight lanes, as the machine code finds it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Probe {
    /// The address of the first lane.
    first: u64,
    /// Not 0 if the others do not follow it.
    stray: u8,
    /// Not 0 if they are not all equal.
    differ: u8,
}

/// The function of a block: see [`block`](super::blocks).
type Function = unsafe extern "sysv64" fn(
    words: *mut u32,
    doubles: *mut u64,
    predicates: *mut u32,
    mask: u32,
    windows: *const Window,
    places: *const Place<'_>,
) -> u32;

/// The probe of a stream: see [`streams`](super::streams).
type ProbeFunction = unsafe extern "sysv64" fn(
    words: *mut u32,
    doubles: *mut u64,
    predicates: *mut u32,
    probes: *mut Probe,
) -> u64;

/// Executes a block for the lanes in `mask`, if it ends before `stop`, and returns its end. If it
/// does not, it has done nothing.
#[inline(always)]
pub(crate) fn run(
    code: &FusedCode,
    index: u32,
    registers: &mut Registers,
    context: &mut WarpContext<'_, '_>,
    mask: u32,
    stop: u32,
) -> Option<u32> {
    let mut block = &code.blocks[index as usize];
    if let Some(stream) = &block.stream {
        // A full warp has no other part that waits.
        if mask == FULL || !stream.whole && block.range.end <= stop {
            // SAFETY: the processor has the features, or there would be no code.
            let ran = unsafe { run_stream(code, block, stream, registers, context, mask) };
            if ran.is_some() {
                return Some(block.range.end);
            }
        }
        block = &code.blocks[stream.otherwise? as usize];
    }
    // Another split that waits inside the block must be joined there.
    (block.range.end <= stop
        && run_block(
            code,
            block,
            registers,
            context.memory,
            mask,
            context.counters,
        ))
    .then_some(block.range.end)
}

/// Executes a block that is no stream. Returns whether it did; else it has done nothing.
#[inline(always)]
pub(super) fn run_block(
    code: &FusedCode,
    block: &FusedBlock,
    registers: &mut Registers,
    shared: &[u8],
    mask: u32,
    counters: &mut Counters,
) -> bool {
    if block.bases.is_empty() {
        execute(code, block, registers, (&[], &[]), mask, counters);
        return true;
    }
    let empty = Window {
        lanes: [0; CHUNK],
        start: shared.as_ptr(),
    };
    let (mut few, mut many);
    let windows: &mut [Window] = if block.bases.len() <= 2 {
        few = [empty; 8];
        &mut few
    } else {
        many = [empty; 4 * BASES_MAX];
        &mut many
    };
    let windows = &mut windows[..4 * block.bases.len()];
    if set_windows(windows, block, registers, shared, mask).is_none() {
        return false;
    }
    execute(code, block, registers, (windows, &[]), mask, counters);
    true
}

/// Executes a stream for the lanes in `mask`. Returns `None`, and has done nothing, if it cannot.
#[target_feature(enable = "avx2,popcnt")]
fn run_stream(
    code: &FusedCode,
    block: &FusedBlock,
    stream: &FusedStream,
    registers: &mut Registers,
    context: &mut WarpContext<'_, '_>,
    mask: u32,
) -> Option<()> {
    let credit = stream.credit.load(Relaxed);
    let ran = match mask {
        _ if credit <= 0 => None,
        FULL => try_stream(code, block, stream, registers, context, FULL),
        mask => try_stream(code, block, stream, registers, context, mask),
    };
    let next = match ran {
        Some(()) => CREDIT,
        None if credit > -PAUSE => credit - 1,
        None => 1,
    };
    if next != credit {
        stream.credit.store(next, Relaxed);
    }
    ran
}

#[inline(always)]
fn try_stream(
    code: &FusedCode,
    block: &FusedBlock,
    stream: &FusedStream,
    registers: &mut Registers,
    context: &mut WarpContext<'_, '_>,
    mask: u32,
) -> Option<()> {
    let mut probes = [const { MaybeUninit::<Probe>::uninit() }; 4 * ACCESSES_MAX];
    let entry = code.memory[stream.probe..].as_ptr();
    // SAFETY: `Stream::probe` has emitted a function of this type at the entry, and the memory is
    // executable and lives as long as `code`.
    let function = unsafe { std::mem::transmute::<*const u8, ProbeFunction>(entry) };
    let written = &mut probes[..4 * stream.addresses];
    let (words, doubles, predicates) = files(code, registers);
    // SAFETY: as in `execute`; the function writes four probes for each address, and nothing else.
    let found = unsafe { function(words, doubles, predicates, written.as_mut_ptr().cast()) };
    if found as u32 & mask != 0 {
        return None;
    }
    // SAFETY: they have just been written.
    let probes: &[Probe] =
        unsafe { std::slice::from_raw_parts(written.as_ptr().cast(), written.len()) };
    // The probes of other lanes stand for those of eight inactive lanes.
    let any = mask.trailing_zeros() as usize / CHUNK;
    let row = |chunk: usize| if is_active(mask, chunk) { chunk } else { any } * stream.addresses;
    let rows = [row(0), row(1), row(2), row(3)];
    let mut values = [const { MaybeUninit::uninit() }; 4 * ACCESSES_MAX];
    let mut places = [const { MaybeUninit::<Place<'_>>::uninit() }; ACCESSES_MAX];
    let places = &mut places[..stream.accesses.len()];
    let spaces = values.as_chunks_mut().0.iter_mut().zip(places.iter_mut());
    for (access, (values, place)) in stream.accesses.iter().zip(spaces) {
        let cached = [&*context.cached_loads, &*context.cached_stores];
        let cached = &cached[usize::from(access.is_store)][access.index as usize];
        let probe = |chunk: usize| &probes[rows[chunk] + access.address];
        let probes = [probe(0), probe(1), probe(2), probe(3)];
        let stray = if mask == FULL {
            found >> (32 + access.address) & 1 != 0
        } else {
            probes.iter().any(|probe| probe.stray != 0)
        };
        place.write(find_place(access, probes, stray, cached.as_ref(), values)?);
    }
    // SAFETY: as above.
    let places: &[Place<'_>] =
        unsafe { std::slice::from_raw_parts(places.as_ptr().cast(), places.len()) };
    if !are_apart(stream, places, mask) {
        return None;
    }
    let mut buffer;
    let windows: &[Window] = if block.bases.is_empty() {
        &[]
    } else {
        let start = context.memory.as_ptr();
        let lanes = [0; CHUNK];
        buffer = [Window { lanes, start }; 4 * BASES_MAX];
        let windows = &mut buffer[..4 * block.bases.len()];
        set_windows(windows, block, registers, context.memory, mask)?;
        windows
    };
    for (place, access) in places.iter().zip(&stream.accesses) {
        place.note(access, mask, &mut context.counters.traffic);
    }
    execute(
        code,
        block,
        registers,
        (windows, places),
        mask,
        context.counters,
    );
    Some(())
}

/// The places in memory that an access of a stream reaches.
#[repr(C)]
pub(super) struct Place<'m> {
    /// The values of each eight lanes: in memory, or repetitions of the one that is there.
    pointers: [*mut u8; 4],
    /// The offsets in the allocation.
    offsets: [usize; 4],
    /// The addresses of the host around them all.
    span: Range<usize>,
    bitmap: Option<&'m AccessBitmap>,
    /// True if each eight lanes load a single value.
    is_uniform: bool,
    /// True if the values of all lanes follow each other.
    follows: bool,
}

/// The space for repetitions of a value.
type Repeated = MaybeUninit<[u64; CHUNK]>;

/// Finds the places of an access. Returns `None` unless they are in the allocation that it reached
/// last, and aligned.
#[inline(always)]
fn find_place<'m>(
    access: &FusedAccess,
    probes: [&Probe; 4],
    stray: bool,
    cached: Option<&TracedRegion<'m>>,
    values: &mut [Repeated; 4],
) -> Option<Place<'m>> {
    let TracedRegion { region, bitmap } = cached?;
    let differs = || probes.iter().any(|probe| probe.differ != 0);
    if access.is_store && !region.writable || stray && (access.is_store || differs()) {
        return None;
    }
    let size = access.bytes * if stray { 1 } else { CHUNK };
    let offset = access.offset.cast_unsigned();
    let first = probes[0].first;
    let follows = |chunk: usize| probes[chunk].first == first.wrapping_add((chunk * size) as u64);
    if !stray && follows(1) && follows(2) && follows(3) {
        let first = first.wrapping_add(offset);
        let at = first.wrapping_sub(region.base) as usize;
        let start = region.bytes.pointer(at, 4 * size)?;
        let wrong = start.addr() as u64 | region.base | first;
        return (wrong & (access.bytes as u64 - 1) == 0).then(|| Place {
            pointers: [0, 1, 2, 3].map(|chunk| start.wrapping_add(chunk * size)),
            offsets: [0, 1, 2, 3].map(|chunk| at + chunk * size),
            span: start.addr()..start.addr() + 4 * size,
            bitmap: *bitmap,
            is_uniform: false,
            follows: true,
        });
    }
    let base = region.base.wrapping_sub(offset);
    let offsets = probes.map(|probe| probe.first.wrapping_sub(base) as usize);
    let least = offsets.iter().fold(usize::MAX, |least, at| *at.min(&least));
    let greatest = offsets.iter().fold(0, |greatest, at| *at.max(&greatest));
    let last = region.bytes.pointer(greatest, size)?;
    let start = last.wrapping_sub(greatest);
    // The addresses of the device and of the host are multiples if all their parts are.
    let parts = start.addr() as u64 | offset | region.base;
    let wrong = probes.iter().fold(parts, |all, probe| all | probe.first);
    if wrong & (access.bytes as u64 - 1) != 0 {
        return None;
    }
    let mut pointers = offsets.map(|at| start.wrapping_add(at));
    if stray {
        for ((value, pointer), at) in values.iter_mut().zip(&mut pointers).zip(offsets) {
            let repeated = value.write([repeat(access.bytes, &region.bytes, at)?; CHUNK]);
            *pointer = std::ptr::from_mut(repeated).cast();
        }
    }
    Some(Place {
        pointers,
        offsets,
        span: start.addr() + least..last.addr() + size,
        bitmap: *bitmap,
        is_uniform: stray,
        follows: false,
    })
}

/// Loads a value, and repeats it in 64 bits.
fn repeat(width: usize, bytes: &SharedBytes<'_>, at: usize) -> Option<u64> {
    Some(match width {
        1 => u64::from(bytes.load_u8(at)?) * 0x0101_0101_0101_0101,
        2 => u64::from(bytes.load_u16(at)?) * 0x0001_0001_0001_0001,
        4 => u64::from(bytes.load_u32(at)?) * 0x0000_0001_0000_0001,
        _ => bytes.load_u64(at)?,
    })
}

/// Returns whether no lanes access what a lane of other eight lanes stores: each store and each
/// other access are apart, or each lane accesses the same value by both.
#[inline(always)]
fn are_apart(stream: &FusedStream, places: &[Place<'_>], mask: u32) -> bool {
    let stores = stream.accesses.iter().zip(places);
    stores
        .filter(|(access, _)| access.is_store)
        .all(|(access, store)| {
            let mut end = 0;
            let mut ascends = |chunk: usize| {
                let start = store.offsets[chunk];
                start >= std::mem::replace(&mut end, start + CHUNK * access.bytes)
            };
            let mut active = (0..4).filter(|chunk| is_active(mask, *chunk));
            let others = stream.accesses.iter().zip(places);
            (store.follows || active.all(&mut ascends))
                && others.into_iter().all(|(other, place)| {
                    place.span.start >= store.span.end
                        || store.span.start >= place.span.end
                        || place.pointers == store.pointers && other.bytes == access.bytes
                })
        })
}

/// Returns whether some of eight lanes are active.
#[inline(always)]
fn is_active(mask: u32, chunk: usize) -> bool {
    mask >> (CHUNK * chunk) & 0xff != 0
}

impl Place<'_> {
    /// Marks and counts the access, as if its lanes accessed the bytes.
    #[inline(always)]
    fn note(&self, access: &FusedAccess, mask: u32, traffic: &mut Traffic) {
        let bytes = u64::from(mask.count_ones()) * access.bytes as u64;
        let flags = if access.is_store {
            traffic.written_bytes += bytes;
            AccessFlags::WRITE
        } else {
            traffic.read_bytes += bytes;
            AccessFlags::READ
        };
        let Some(bitmap) = self.bitmap else {
            return;
        };
        if mask == FULL && self.follows {
            return bitmap.note(flags, self.offsets[0], 4 * CHUNK * access.bytes);
        }
        if mask != FULL && !self.is_uniform {
            let offset = |lane| self.offsets[lane / CHUNK] + lane % CHUNK * access.bytes;
            return bitmap.note_values(flags, lanes(mask).map(offset), access.bytes);
        }
        let size = access.bytes * if self.is_uniform { 1 } else { CHUNK };
        let (mut start, mut bytes) = (self.offsets[0], size);
        for offset in &self.offsets[1..] {
            if *offset != start + bytes {
                bitmap.note(flags, start, bytes);
                (start, bytes) = (*offset, 0);
            }
            bytes += size;
        }
        bitmap.note(flags, start, bytes);
    }
}

/// Returns the starts of the register files, which are large enough for the code.
#[inline(always)]
fn files(code: &FusedCode, registers: &mut Registers) -> (*mut u32, *mut u64, *mut u32) {
    let [words, doubles, predicates] = registers.sizes();
    assert!(words >= code.files[0] && doubles >= code.files[1] && predicates >= code.files[2]);
    registers.pointers()
}

/// Calls the function of a block, whose windows are set for all chunks with active lanes.
#[inline(always)]
fn execute(
    code: &FusedCode,
    block: &FusedBlock,
    registers: &mut Registers,
    (windows, places): (&[Window], &[Place<'_>]),
    mask: u32,
    counters: &mut Counters,
) {
    assert!(windows.len() == 4 * block.bases.len());
    let accesses = block.stream.as_ref().map_or(0, |of| of.accesses.len());
    assert!(places.len() == accesses);
    let entry = code.memory[block.entry..].as_ptr();
    // SAFETY: `blocks::fuse` has emitted a function of this type at the entry, and the memory is
    // executable and lives as long as `code`.
    let function = unsafe { std::mem::transmute::<*const u8, Function>(entry) };
    let (words, doubles, predicates) = files(code, registers);
    // SAFETY: the processor has the features, or there would be no code. The function accesses the
    // slots of the block's operations, which are below `files` and so within the register files,
    // the windows, which lie in shared memory, and the places, which lie in allocations that live,
    // or are values of the caller. Other threads may access the allocations at the same time: the
    // processor accesses each aligned value as a whole.
    let guarded = unsafe {
        function(
            words,
            doubles,
            predicates,
            mask,
            windows.as_ptr(),
            places.as_ptr(),
        )
    };
    counters.warp += u64::from(block.counted);
    counters.thread += u64::from(block.unguarded * mask.count_ones() + guarded);
}

/// Finds the windows of a block's loads, in the order in which the function reads them. Returns
/// `None` if an active lane may load from elsewhere.
fn set_windows(
    windows: &mut [Window],
    block: &FusedBlock,
    registers: &Registers,
    shared: &[u8],
    mask: u32,
) -> Option<()> {
    let count = block.bases.len();
    for (number, base) in block.bases.iter().enumerate() {
        // The last place of a window of which all 32 bytes are in shared memory.
        let end = (shared.len() as u64).checked_sub(32 + u64::from(base.last))? & !3;
        for chunk in 0..4 {
            let active = (mask >> (CHUNK * chunk)) as u8;
            if active == 0 {
                continue;
            }
            let addresses = addresses(registers, *base, chunk);
            windows[chunk * count + number] = window(addresses, active, end, shared)?;
        }
    }
    Some(())
}

/// Returns the addresses of eight lanes.
#[inline(always)]
fn addresses(registers: &Registers, base: FusedBase, chunk: usize) -> [u64; CHUNK] {
    let lane = |lane: usize| chunk * CHUNK + lane;
    if base.double {
        let register = registers.double(base.slot);
        std::array::from_fn(|at| register[lane(at)])
    } else {
        let register = registers.word(base.slot);
        std::array::from_fn(|at| u64::from(register[lane(at)]))
    }
}

/// Returns the window that contains the addresses of the active lanes, which starts at `end` at
/// most.
#[inline(always)]
fn window(mut addresses: [u64; CHUNK], active: u8, end: u64, shared: &[u8]) -> Option<Window> {
    if active != u8::MAX {
        let any = addresses[active.trailing_zeros() as usize];
        for lane in 0..CHUNK {
            if active >> lane & 1 == 0 {
                addresses[lane] = any;
            }
        }
    }
    let least = addresses.into_iter().fold(end, u64::min);
    let mut outside = 0;
    let mut lanes = [0; CHUNK];
    for lane in 0..CHUNK {
        let distance = addresses[lane] - least;
        outside |= u64::from(distance >= 32) | addresses[lane] & 3;
        lanes[lane] = (distance >> 2) as u32;
    }
    (outside == 0).then(|| Window {
        lanes,
        start: shared[least as usize..].as_ptr(),
    })
}
