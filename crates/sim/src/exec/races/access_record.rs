//! Records of accesses: which of two conflict, and which one may replace an earlier one.
//!
//! # Severities
//!
//! Two racing writes of the same bytes are a note, races of volatile accesses with each other and
//! with atomics are a warning, and every other race is an error. A record may
//! replace an earlier access that it hides only if a later access gets the same severity with
//! either. Therefore a write keeps, for each byte, the epoch of its thread's last access that was
//! not a write of the same value ([`AccessRecord::strict`]). The hidden access of another thread is
//! kept, unless it wrote the same value or no thread can race with it any more. After the first
//! error at a byte, values are no longer compared there.

/// The kind of an access: read or write, plain or strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AccessKind {
    pub(super) write: bool,
    pub(super) read: bool,
    /// True for an atomic, volatile, relaxed, acquire or release access.
    pub(super) strong: bool,
    /// True for a volatile access, unless the model takes volatile accesses for relaxed ones.
    pub(super) volatile: bool,
    /// True if the access is strong only among threads of its block.
    pub(super) block_only: bool,
}

impl AccessKind {
    /// A plain read or write.
    pub(super) fn plain(write: bool) -> Self {
        Self {
            write,
            read: !write,
            strong: false,
            volatile: false,
            block_only: false,
        }
    }

    /// Returns whether two accesses race unless one happens before the other.
    pub(super) fn conflicts(self, other: Self, same_block: bool) -> bool {
        (self.write || other.write)
            && (self.volatile || other.volatile || !self.is_morally_strong(other, same_block))
    }

    /// Returns whether two accesses are strong, and the scope of each includes the thread of the
    /// other.
    pub(super) fn is_morally_strong(self, other: Self, same_block: bool) -> bool {
        self.strong && other.strong && (same_block || !(self.block_only || other.block_only))
    }

    /// Returns whether every later access that races with `earlier`, which happens before this
    /// access, also races with this access, and not less severely.
    ///
    /// An exception: a `.cta` access of this access's block may race with a strong access of
    /// another block, but not with this one.
    pub(super) fn hides(self, earlier: Self, same_block: bool) -> bool {
        let reaches_less = same_block && (self.block_only || !earlier.block_only);
        let weaker = self.weakness() >= earlier.weakness();
        (self.write || !earlier.write) && weaker && (!self.strong || reaches_less)
    }

    /// Returns the rank of the access among those that race with more accesses, or more severely.
    fn weakness(self) -> u8 {
        match (self.strong, self.volatile) {
            (true, false) => 0,
            (true, true) => 1,
            (false, _) => 2,
        }
    }

    /// Returns whether the same writes race with either access.
    pub(super) fn races_like(self, other: Self) -> bool {
        (self.weakness(), self.strong && self.block_only)
            == (other.weakness(), other.strong && other.block_only)
    }

    /// Returns whether the access writes without reading.
    pub(super) fn only_writes(self) -> bool {
        self.write && !self.read
    }
}

/// The sharing of a memory among the blocks of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Each block has its own memory.
    Block,
    /// The blocks share the memory, and the kernel has no means of ordering them.
    Unordered,
    /// The blocks share the memory, and the kernel may order them.
    Ordered,
}

/// A recorded access of lanes of a warp to bytes of one word.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessRecord {
    pub(super) block: u64,
    pub(super) warp: u32,
    pub(super) lanes: u32,
    pub(super) epoch: u32,
    pub(super) pc: u32,
    pub(super) kind: AccessKind,
    /// The accessed bytes of the word, one bit for each.
    pub(super) bytes: u8,
    /// The values written to the bytes; 0 for bytes not accessed, and for reads.
    pub(super) value: [u8; 4],
    /// For each byte, the epoch of the same thread's last earlier access other than a write of the
    /// same value; 0 for none.
    pub(super) strict: [u32; 4],
    /// The bytes with such an earlier access that only threads of other blocks can still race with.
    pub(super) strict_for_others: u8,
}

impl AccessRecord {
    /// Returns whether this record includes `other`: the same access of the same lanes, with no
    /// release between the two. Values are compared at the bytes of `care`.
    #[inline]
    pub(super) fn covers(&self, other: &Self, care: u8) -> bool {
        let lanes = self.lanes & other.lanes == other.lanes;
        let bytes = self.bytes & other.bytes == other.bytes;
        lanes && bytes && self.is_like(other) && self.differing(other) & care == 0
    }

    pub(super) fn is_strong_write(&self) -> bool {
        self.kind.strong && self.kind.write
    }

    /// Returns whether both are accesses of one lane to the same bytes.
    pub(super) fn is_of_same_lane(&self, other: &Self) -> bool {
        (self.block, self.warp, self.lanes, self.bytes)
            == (other.block, other.warp, other.lanes, other.bytes)
            && self.lanes.is_power_of_two()
    }

    /// Returns whether the threads of `earlier`, an earlier access, make this one as well, to the
    /// same bytes and maybe others.
    pub(super) fn follows(&self, earlier: &Self) -> bool {
        (earlier.block, earlier.warp) == (self.block, self.warp)
            && self.lanes & earlier.lanes == earlier.lanes
            && self.bytes & earlier.bytes == earlier.bytes
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.warp, self.epoch, self.block, self.kind)
            == (other.warp, other.epoch, other.block, other.kind)
    }

    /// Returns whether the records differ only in their lanes. Values are compared at the bytes of
    /// `care`.
    pub(super) fn is_same(&self, other: &Self, care: u8) -> bool {
        let alike = self.is_like(other) && (self.pc, self.bytes) == (other.pc, other.bytes);
        let strict = |record: &Self| {
            (
                record.strict_bytes() & care,
                record.strict_for_others & care,
            )
        };
        alike
            && self.differing(other) & care == 0
            && strict(self) == strict(other)
            && each(care).all(|byte| self.strict[byte] == other.strict[byte])
    }

    /// Returns the bytes common to both records whose values differ.
    fn differing(&self, other: &Self) -> u8 {
        let differ = |byte: &usize| self.value[*byte] != other.value[*byte];
        let common = each(self.bytes & other.bytes);
        common
            .filter(differ)
            .fold(0, |bytes, byte| bytes | 1 << byte)
    }

    /// Returns the bytes at which the record replaces an access other than a write of its value.
    pub(super) fn strict_bytes(&self) -> u8 {
        let strict = each(self.bytes).filter(|byte| self.strict[*byte] > 0);
        strict.fold(self.strict_for_others, |bytes, byte| bytes | 1 << byte)
    }

    /// Clears the values of bytes that already have an error.
    pub(super) fn forget(&mut self, errors: u8) {
        for byte in each(errors) {
            (self.value[byte], self.strict[byte]) = (0, 0);
        }
        self.strict_for_others &= !errors;
    }

    /// Returns the bytes of `common` at which a race between the two accesses is an error.
    pub(super) fn errors_with(&self, other: &Self, common: u8) -> u8 {
        if self.kind.only_writes() && other.kind.only_writes() {
            self.differing(other) & common
        } else {
            common
        }
    }
}

/// Iterates over the byte indices of a mask.
pub(super) fn each(bytes: u8) -> impl Iterator<Item = usize> {
    (0..4).filter(move |byte| bytes >> byte & 1 == 1)
}
