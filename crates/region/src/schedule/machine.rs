//! The sizes of a machine, and the thresholds of schedules.
//!
//! None of these numbers decides a bit, except the compute capability, which does of products of
//! 16-bit floats. The file behind a number is a page in `docs/measurements`; where there is none,
//! the number was not measured by itself.

use millstream::Device;
use parking_lot::Mutex;

use crate::product::capability;

/// The sizes of a device on which schedules depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Machine {
    pub(crate) multiprocessors: u32,
    /// The number of registers of a multiprocessor.
    pub(crate) registers: u32,
    /// The size of a multiprocessor's shared memory in bytes.
    pub(crate) shared_bytes: u32,
    /// The size of the L2 cache in bytes.
    pub(crate) l2_bytes: u32,
    /// The compute capability: 90 for 9.0.
    pub(crate) capability: u32,
}

/// The number of threads that do the work of a block of 256, which computes a row in several parts,
/// and the number of parts. Four parts: 0.95 and 0.98 of a copy's throughput, two: 0.92 and 0.94
/// (2026-11-26-h200-regions.md, rows of 1,023).
pub(crate) const ROW_PARTS: usize = 4;
/// The maximum number of elements of arrays that such a thread has in registers. Not measured.
pub(crate) const ROW_PARTS_ELEMENTS_MAX: usize = 16;
/// The number of neighbours that a thread of a row that does not fit in registers has in flight, in
/// groups: 0.61, with four and eight groups 0.48 and 0.51 (2026-11-24-h200-attention-and-rows.md).
const LONG_ROW_GROUPS: usize = 2;
/// The maximum numbers of arrays and nodes of a kernel with several groups in flight. Not measured.
const LONG_ROW_INPUTS_MAX: usize = 2;
const LONG_ROW_NODES_MAX: usize = 16;
/// The number of blocks of a multiprocessor that compute such rows. Not measured.
const LONG_ROW_BLOCKS: usize = 4;
/// The maximum length of the rows of a reduction that a warp computes each. Not measured.
pub(crate) const WARP_ROW_LENGTH_MAX: usize = 1 << 11;
/// The number of results of a warp that read an array together. Of the nearest of 2,000 points to
/// each of 20,000, two and four take 46 µs, one 64 and eight 55; blocks of several results gain
/// nothing (2026-11-28-nested-reductions.md).
pub(crate) const RESULTS_OF_WARP: usize = 2;
/// The maximum number of elements to which blocks add in shared memory. The sums take at most 32
/// KiB; a block of every device has 48 KiB. Not measured.
pub(crate) const SCATTER_ELEMENTS_MAX: usize = 4096;
/// The minimum numbers of values of such a block, and for each of its sums. Not measured.
pub(crate) const SCATTER_VALUES_MIN: usize = 2048;
pub(crate) const SCATTER_VALUES_PER_SUM: usize = 16;
/// The number of blocks of a multiprocessor for which a thread of attention must leave registers.
/// Without it, ptxas takes those of three blocks, which are too few for a tile of 64 queries
/// (151 µs; 2026-11-24-h200-attention-and-rows.md).
pub(crate) const ATTENTION_BLOCKS: usize = 2;

/// The number of elements of a tile of transposed arrays along both axes, which a warp reads or
/// writes at once.
pub(crate) const TILE: usize = 32;
/// The maximum number of transposed arrays of a kernel. Each takes shared memory.
pub(crate) const TRANSPOSED_MAX: usize = 4;
/// The numbers of loads in flight per thread: of values that are added in shared memory, and of
/// columns that are scanned. Not measured.
pub(crate) const SCATTER_LOADS: usize = 4;
pub(crate) const COLUMN_LOADS: usize = 8;
/// The maximum numbers of partial results in flight per thread where a thread combines those of a
/// result, and of their components. Not measured.
pub(crate) const PARTIALS_AT_ONCE: usize = 8;
pub(crate) const COMPONENTS_AT_ONCE: usize = 2 * PARTIALS_AT_ONCE;
/// The maximum number of turns whose groups of neighbours are scanned while the totals of other
/// tiles are on their way: their results take two registers each, or four.
pub(crate) const SCANNED_EARLY_MAX: usize = 8;

impl Machine {
    /// An NVIDIA H200, and the simulated device. The sizes are those that the driver reports.
    pub(crate) const H200: Self = Self {
        multiprocessors: 132,
        registers: 64 << 10,
        shared_bytes: 228 << 10,
        l2_bytes: 60 << 20,
        capability: 90,
    };
    #[cfg(test)]
    pub(crate) const H100: Self = Self {
        l2_bytes: 50 << 20,
        ..Self::H200
    };
    /// An NVIDIA A100 SXM with 40 GB.
    #[cfg(test)]
    pub(crate) const A100: Self = Self {
        multiprocessors: 108,
        capability: 80,
        shared_bytes: 164 << 10,
        l2_bytes: 40 << 20,
        ..Self::H200
    };
    #[cfg(test)]
    pub(crate) const L4: Self = Self {
        multiprocessors: 58,
        capability: 89,
        shared_bytes: 100 << 10,
        l2_bytes: 48 << 20,
        ..Self::H200
    };

    /// Returns the machine of a device. The driver is asked once for all devices of one name; while
    /// it fails, schedules are those of an H200.
    pub(crate) fn of(device: &Device) -> Self {
        static KNOWN: Mutex<Vec<(Box<str>, Machine)>> = Mutex::new(Vec::new());
        if device.is_simulated() {
            return Self::H200;
        }
        let mut machines = KNOWN.lock();
        let name = device.name();
        if let Some((_, machine)) = machines.iter().find(|(machines, _)| **machines == *name) {
            return *machine;
        }
        let Ok(properties) = device.properties() else {
            return Self::H200;
        };
        let machine = Self {
            multiprocessors: properties.multiprocessors.max(1),
            registers: properties.registers_per_multiprocessor,
            shared_bytes: properties.shared_bytes_per_multiprocessor,
            l2_bytes: properties.l2_bytes,
            capability: capability(device),
        };
        machines.push((name.into(), machine));
        machine
    }

    pub(crate) fn words(self) -> [u64; 3] {
        let word = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        [
            word(self.multiprocessors, self.registers),
            word(self.shared_bytes, self.l2_bytes),
            self.capability.into(),
        ]
    }

    /// Returns the number that has the proportion of the multiprocessors to those of an H200.
    fn scaled(self, on_h200: usize) -> usize {
        on_h200 * self.multiprocessors as usize / Self::H200.multiprocessors as usize
    }

    /// The minimum number of rows that blocks of fewer threads compute: each multiprocessor then
    /// has several at a time. Measured above it only (2026-11-26-h200-regions.md).
    pub(crate) fn many_rows_min(self) -> usize {
        96 * self.multiprocessors as usize
    }

    /// The number of such blocks of a multiprocessor, for which their threads leave registers, of
    /// 64 threads each: with 24, 0.96 and 0.97 in place of 0.95 and 0.98
    /// (2026-11-26-h200-regions.md).
    pub(crate) fn many_rows_blocks(self) -> usize {
        20 * self.registers as usize / (64 << 10)
    }

    /// The number of blocks that compute long rows of this many bytes, one after another: as many
    /// as keep their rows in three fifths of the L2 cache (36 MiB of an H200), so that each visit
    /// but the first reads from there. The share was not measured.
    pub(crate) fn long_row_blocks(self, row_bytes: usize) -> usize {
        let multiprocessors = self.multiprocessors as usize;
        let in_cache = self.l2_bytes as usize / 5 * 3 / (multiprocessors * row_bytes.max(1));
        multiprocessors * in_cache.clamp(1, LONG_ROW_BLOCKS)
    }

    /// The minimum number of rows of a reduction at which a warp computes each row. Not measured.
    pub(crate) fn warp_rows_min(self) -> usize {
        self.scaled(1 << 13)
    }

    /// The minimum number of results at which a warp has several that read an array together, so
    /// that each multiprocessor has several warps. Not measured.
    pub(crate) fn shared_by_warps_min(self) -> usize {
        self.scaled(1 << 14)
    }

    /// The number of blocks of a multiprocessor for which threads of a scan that share a row leave
    /// registers: as many as fit in shared memory, with 32 KiB each, and at most six. Five were
    /// slower by 6 % (2026-11-25-h100-kernels.md). For totals of several components at most four,
    /// because a thread would spill 31 words.
    pub(crate) fn scan_row_blocks(self, is_pair: bool) -> usize {
        let most = if is_pair { 4 } else { 6 };
        self.tiles_in_shared_memory().min(most)
    }

    /// The same for columns: five are no faster, and six are slower by a third, because they spill
    /// (2026-11-25-h100-kernels.md).
    pub(crate) fn scan_column_blocks(self) -> usize {
        self.tiles_in_shared_memory().min(4)
    }

    fn tiles_in_shared_memory(self) -> usize {
        (self.shared_bytes as usize / (36 << 10)).max(1)
    }

    /// The maximum number of blocks that join arrays: several for each multiprocessor, so that few
    /// copy the addresses. Not measured.
    pub(crate) fn join_blocks_max(self) -> usize {
        self.scaled(1 << 10)
    }

    /// The maximum number of blocks that add in shared memory, several for each multiprocessor. Not
    /// measured.
    pub(crate) fn scatter_blocks_max(self) -> usize {
        self.scaled(512)
    }
}

/// Returns the number of groups of neighbours that a thread of a long row has in flight.
pub(crate) fn long_row_groups(inputs: usize, nodes: usize) -> usize {
    if inputs <= LONG_ROW_INPUTS_MAX && nodes <= LONG_ROW_NODES_MAX {
        LONG_ROW_GROUPS
    } else {
        1
    }
}
