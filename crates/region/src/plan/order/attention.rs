//! The tiles of attention.
//!
//! A query takes its keys tile by tile, and the weights of a tile are relative to the maximum so
//! far. Both the number of keys of a tile and the elements of a thread therefore decide the order.

use crate::element::DType;

/// The number of threads that share the scores of a query; each warp has two such groups.
pub(crate) const COLUMN_THREADS: usize = 16;
pub(crate) const THREADS: usize = 128;
/// The size of a chunk in bytes, which is that of a vector load.
pub(crate) const CHUNK_BYTES: usize = 16;
/// The number of chunks that a swizzle reorders.
pub(crate) const CHUNKS: usize = 8;
/// The size in bytes of these chunks, which is that of all banks.
pub(crate) const LINE_BYTES: usize = CHUNKS * CHUNK_BYTES;
/// The maximum size of the shared memory of a block in bytes that needs no opt-in.
const SHARED_BYTES: usize = 48 << 10;
/// The maximum size of a key and of a value in bytes. Tiles of larger ones have too few of them to
/// use each often.
const HEAD_BYTES: usize = 1024;
/// The numbers of queries and of keys in a tile, the largest first.
const TILES: [usize; 3] = [64, 32, 16];
/// The number of queries and keys from which on 32-bit numbers of rows would not do.
const ROWS_END: usize = 1 << 30;

/// The sizes of the tiles of attention, in elements if no other unit is stated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TileSizes {
    pub(crate) bytes: usize,
    /// The number of elements in a chunk.
    pub(crate) lanes: usize,
    /// The size of a query and of a key.
    pub(crate) key_size: usize,
    pub(crate) value_size: usize,
    /// The number of queries and of keys in a tile.
    pub(crate) tile: usize,
    /// The number of neighbours in a value that a thread computes.
    pub(crate) neighbours: usize,
    /// The number of such groups of neighbours.
    pub(crate) groups: usize,
}

impl TileSizes {
    /// Returns the sizes for floats of this type, or `None` if keys or values are too large.
    pub(crate) fn new(dtype: DType, key_size: usize, value_size: usize) -> Option<Self> {
        let bytes = dtype.bytes();
        if key_size.max(value_size) > HEAD_BYTES / bytes {
            return None;
        }
        let lanes = CHUNK_BYTES / bytes;
        let of_thread = value_size.div_ceil(COLUMN_THREADS).max(1);
        let neighbours = of_thread.next_power_of_two().min(lanes);
        let sizes = |tile| Self {
            bytes,
            lanes,
            key_size,
            value_size,
            tile,
            neighbours,
            groups: of_thread.div_ceil(neighbours),
        };
        let mut all = TILES.into_iter().map(sizes);
        all.find(|sizes| sizes.shared_bytes() <= SHARED_BYTES)
    }

    /// Returns whether the kernel computes attention for this type and these numbers of queries,
    /// keys and batches.
    pub(crate) fn serve(
        dtype: DType,
        (batches, queries, keys): (usize, usize, usize),
        (key_size, value_size): (usize, usize),
    ) -> bool {
        let has_blocks = |sizes: Self| {
            let blocks = queries.div_ceil(sizes.tile).checked_mul(batches);
            blocks.is_some_and(|blocks| blocks <= i32::MAX as usize)
        };
        key_size > 0
            && queries.max(keys) < ROWS_END
            && Self::new(dtype, key_size, value_size).is_some_and(has_blocks)
    }

    pub(crate) fn key_chunks(&self) -> usize {
        self.key_size.div_ceil(self.lanes)
    }

    /// Returns the distance in bytes of queries and of keys in shared memory.
    pub(crate) fn key_pitch(&self) -> usize {
        (self.key_chunks() * CHUNK_BYTES).next_multiple_of(LINE_BYTES)
    }

    /// Returns the distance in bytes of values in shared memory.
    pub(crate) fn value_pitch(&self) -> usize {
        COLUMN_THREADS * self.neighbours * self.groups * self.bytes
    }

    /// Returns the distance in bytes of the weights of queries in shared memory.
    pub(crate) fn weight_pitch(&self) -> usize {
        (self.tile * self.bytes).max(LINE_BYTES)
    }

    /// Returns the number of queries of a thread.
    pub(crate) fn rows(&self) -> usize {
        self.tile * COLUMN_THREADS / THREADS
    }

    /// Returns the number of keys of a thread.
    pub(crate) fn columns(&self) -> usize {
        self.tile / COLUMN_THREADS
    }

    /// Returns the sizes in bytes of the tiles of queries, of keys and of values. The weights
    /// replace the keys.
    pub(crate) fn tile_bytes(&self) -> [usize; 3] {
        let keys = self.key_pitch().max(self.weight_pitch());
        [self.key_pitch(), keys, self.value_pitch()].map(|pitch| self.tile * pitch)
    }

    fn shared_bytes(&self) -> usize {
        self.tile_bytes().into_iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_heads_of_up_to_1024_bytes_fit_in_shared_memory() {
        for (dtype, most) in [(DType::F32, 256), (DType::F64, 128)] {
            let has_tiles = |(key, value)| TileSizes::new(dtype, key, value).is_some();
            let sizes = (1..=most).flat_map(|one| [(one, most), (most, one), (one, one)]);
            assert!(sizes.into_iter().all(has_tiles));
            assert!(!has_tiles((most + 1, 1)) && !has_tiles((1, most + 1)));
        }
        let tile = |size| TileSizes::new(DType::F32, size, size).map(|sizes| sizes.tile);
        assert_eq!([64, 65, 128, 129].map(tile), [64, 32, 32, 16].map(Some));
    }
}
