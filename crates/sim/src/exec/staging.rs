//! Staging between registers and memory: gathers an access's values from bytes, or scatters them to
//! bytes.

use super::access_marking::read_flags;
use super::indices::Indices;
use super::launch::{Region, TracedRegion};
use super::registers::{LANES, Registers, Words, lanes};
use super::warp_access::WarpAccess;
use crate::ptx::ir::Access;

/// The size of the widest access of one lane, in bytes.
pub(super) const LANE_BYTES_MAX: usize = 16;

/// A staging buffer with the bytes of each lane's access, in lane order.
pub(super) type Stage = [u8; LANES * LANE_BYTES_MAX];

/// Loads the values at `indices` of `memory` into the access's registers.
#[inline(always)]
pub(super) fn gather(
    r: &mut Registers,
    access: &Access,
    memory: &[u8],
    indices: &Indices,
    mask: u32,
) {
    for (part, slot) in access.values[..usize::from(access.count)]
        .iter()
        .enumerate()
    {
        if access.width == 8 {
            r.set_double(*slot, mask, &indices.read(memory, part));
            continue;
        }
        let mut loaded: Words = [0; LANES];
        match access.width {
            4 => loaded = indices.read(memory, part),
            2 => {
                let values: [u16; LANES] = indices.read(memory, part);
                for lane in 0..LANES {
                    loaded[lane] = values[lane].into();
                }
            }
            _ => {
                let values: [u8; LANES] = indices.read(memory, part);
                for lane in 0..LANES {
                    loaded[lane] = values[lane].into();
                }
            }
        }
        if access.sign_extend > 0 || access.double {
            extend(r, access, *slot, loaded, mask);
        } else {
            r.set_word(*slot, mask, &loaded);
        }
    }
}

/// Loads the value at `offset`, which all lanes share, into the access's register: the usual load
/// of a parameter.
///
/// Returns `None`, and does nothing, unless the access is an aligned, in-bounds load of one value
/// of the register's width.
#[inline(always)]
pub(super) fn splat(
    r: &mut Registers,
    access: &Access,
    memory: &[u8],
    offset: usize,
    mask: u32,
) -> Option<()> {
    if access.count != 1 || !offset.is_multiple_of(usize::from(access.width)) {
        return None;
    }
    let tail = memory.get(offset..)?;
    match (access.width, access.double) {
        (8, _) => {
            let value = u64::from_le_bytes(*tail.first_chunk()?);
            r.set_double(access.values[0], mask, &[value; LANES]);
        }
        (4, false) => {
            let value = u32::from_le_bytes(*tail.first_chunk()?);
            r.set_word(access.values[0], mask, &[value; LANES]);
        }
        _ => return None,
    }
    Some(())
}

/// Writes values that are narrower than their registers, sign- or zero-extended.
fn extend(r: &mut Registers, access: &Access, slot: u32, mut values: Words, mask: u32) {
    let signed = access.sign_extend > 0;
    if signed {
        let unused = 32 - 8 * u32::from(access.width);
        values = values.map(|value| ((value << unused).cast_signed() >> unused).cast_unsigned());
    }
    if access.double {
        let wide = values.map(|value| {
            if signed {
                i64::from(value.cast_signed()).cast_unsigned()
            } else {
                u64::from(value)
            }
        });
        r.set_double(slot, mask, &wide);
    } else {
        let width_mask = if access.sign_extend == 16 {
            0xffff
        } else {
            u32::MAX
        };
        r.set_word(slot, mask, &values.map(|value| value & width_mask));
    }
}

/// Stores the access's registers to `indices` of `memory`, in lane order, so that the last lane
/// wins if several lanes write the same bytes.
#[inline(always)]
pub(super) fn scatter(
    r: &Registers,
    access: &Access,
    memory: &mut [u8],
    indices: &Indices,
    mask: u32,
) {
    for (part, slot) in access.values[..usize::from(access.count)]
        .iter()
        .enumerate()
    {
        if access.width == 8 {
            let values = r.double(*slot);
            put(memory.as_chunks_mut::<8>().0, indices, part, mask, |lane| {
                values[lane].to_le_bytes()
            });
            continue;
        }
        let values = r.word(*slot);
        match access.width {
            4 => {
                put(memory.as_chunks_mut::<4>().0, indices, part, mask, |lane| {
                    values[lane].to_le_bytes()
                });
            }
            2 => put(memory.as_chunks_mut::<2>().0, indices, part, mask, |lane| {
                (values[lane] as u16).to_le_bytes()
            }),
            _ => put(memory.as_chunks_mut::<1>().0, indices, part, mask, |lane| {
                [values[lane] as u8]
            }),
        }
    }
}

#[inline(always)]
fn put<const N: usize>(
    memory: &mut [[u8; N]],
    indices: &Indices,
    part: usize,
    mask: u32,
    value: impl Fn(usize) -> [u8; N],
) {
    for lane in 0..LANES {
        if mask & (1 << lane) != 0
            && let Some(target) = memory.get_mut(indices.first(lane) + part)
        {
            *target = value(lane);
        }
    }
}

/// Loads values of at most 32 bits, each from a place of its own in the region that was accessed
/// last. Returns `None`, and does nothing, unless they all lie there.
pub(super) fn load_apart(
    r: &mut Registers,
    access: &Access,
    cached: Option<TracedRegion<'_>>,
    warp_access: &WarpAccess,
) -> Option<()> {
    let TracedRegion { region, bitmap } = cached?;
    let bytes = warp_access.bytes;
    let end = (region.bytes.len() as u64).checked_sub(bytes as u64)?;
    // Registered memory may begin anywhere; then a value is not within a word of the bitmap.
    if !region.base.is_multiple_of(bytes as u64) {
        return None;
    }
    let mut outside = 0;
    for lane in 0..LANES {
        let offset = warp_access.addresses[lane].wrapping_sub(region.base);
        outside |= if offset > end { 1u32 << lane } else { 0 };
    }
    if outside & warp_access.mask != 0 {
        return None;
    }
    let active = || lanes(warp_access.mask);
    let offset = |lane: usize| (warp_access.addresses[lane] - region.base) as usize;
    if let Some(bitmap) = bitmap {
        bitmap.note_values(read_flags(access), active().map(offset), bytes);
    }
    let mut values = [0; LANES];
    match bytes {
        1 => {
            for lane in active() {
                values[lane] = region.bytes.load_u8(offset(lane))?.into();
            }
        }
        2 => {
            for lane in active() {
                values[lane] = region.bytes.load_u16(offset(lane))?.into();
            }
        }
        _ => {
            for lane in active() {
                values[lane] = region.bytes.load_u32(offset(lane))?;
            }
        }
    }
    if access.sign_extend > 0 || access.double {
        extend(r, access, access.values[0], values, warp_access.mask);
    } else {
        r.set_word(access.values[0], warp_access.mask, &values);
    }
    Some(())
}

/// Loads one lane's values into `target`, each value as a single access.
#[inline(always)]
pub(super) fn load_lane(
    region: &Region<'_>,
    offset: usize,
    access: &Access,
    target: &mut [u8],
) -> Option<()> {
    let width = usize::from(access.width);
    for (part, target) in target.chunks_exact_mut(width).enumerate() {
        let at = offset + part * width;
        match width {
            1 => target.copy_from_slice(&region.bytes.load_u8(at)?.to_le_bytes()),
            2 => target.copy_from_slice(&region.bytes.load_u16(at)?.to_le_bytes()),
            4 => target.copy_from_slice(&region.bytes.load_u32(at)?.to_le_bytes()),
            _ => target.copy_from_slice(&region.bytes.load_u64(at)?.to_le_bytes()),
        }
    }
    Some(())
}

/// Stores one lane's values from `source`, each value as a single access.
#[inline(always)]
pub(super) fn store_lane(
    region: &Region<'_>,
    offset: usize,
    access: &Access,
    source: &[u8],
) -> Option<()> {
    let width = usize::from(access.width);
    for (part, source) in source.chunks_exact(width).enumerate() {
        let at = offset + part * width;
        match width {
            1 => region.bytes.store_u8(at, source[0])?,
            2 => region
                .bytes
                .store_u16(at, u16::from_le_bytes(*source.first_chunk()?))?,
            4 => region
                .bytes
                .store_u32(at, u32::from_le_bytes(*source.first_chunk()?))?,
            _ => region
                .bytes
                .store_u64(at, u64::from_le_bytes(*source.first_chunk()?))?,
        }
    }
    Some(())
}
