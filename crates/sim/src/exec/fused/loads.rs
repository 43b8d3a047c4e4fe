//! The loads from shared memory that a fused block can contain, and the limits of streams.

use crate::ptx::ir::{Access, AccessSpace, AddressBase, FusedBase, Window};

/// The maximum number of address registers of a block's loads.
pub(super) const BASES_MAX: usize = 4;

/// The maximum number of accesses of a stream.
pub(super) const ACCESSES_MAX: usize = 12;

/// How often a stream may be unfit in a row, and how often it is not tried then.
pub(super) const CREDIT: i32 = 16;
pub(super) const PAUSE: i32 = 64;

/// The size of a [`Window`](super::call::Window), and the offset of its address.
pub(super) const WINDOW_BYTES: i32 = 64;
pub(super) const WINDOW_START: i32 = 32;

/// Adds an address register, or a later offset from one. Returns `false` if there are too many.
pub(super) fn add_base(bases: &mut Vec<FusedBase>, base: FusedBase) -> bool {
    let same = |known: &FusedBase| (known.slot, known.double) == (base.slot, base.double);
    if let Some(known) = bases.iter_mut().find(|known| same(known)) {
        known.last = known.last.max(base.last);
    } else if bases.len() < BASES_MAX {
        bases.push(base);
    } else {
        return false;
    }
    true
}

/// Returns the address register and the offset of a load of 32 bits from shared memory that a block
/// can contain; `None` for any other access.
pub(super) fn shared_load(access: &Access) -> Option<(FusedBase, u32)> {
    let offset = u32::try_from(access.address.offset).ok()?;
    let plain = access.space == AccessSpace::Is(Window::Shared)
        && (access.width, access.count) == (4, 1)
        && !access.double
        && access.sign_extend == 0
        && !access.synchronises
        && offset.is_multiple_of(4)
        && offset < 1 << 20;
    let (slot, double) = match access.address.base {
        AddressBase::Word(slot) => (slot, false),
        AddressBase::Double(slot) | AddressBase::Offset(slot) => (slot, true),
        AddressBase::None => return None,
    };
    let base = FusedBase {
        slot,
        double,
        last: offset,
    };
    plain.then_some((base, offset))
}
