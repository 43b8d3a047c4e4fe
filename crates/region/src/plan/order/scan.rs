//! The tiles and segments of scans.

use crate::{expr::NodeRef, plan::order::split::ROW_THREADS};

/// The number of elements up to which a row or a column is scanned one element after another.
const PER_THREAD_MAX: usize = 64;
/// The same number where there are many rows, and the number of rows that counts as many.
const PER_THREAD_MANY_ROWS_MAX: usize = 512;
const ROWS_MANY: usize = 1 << 14;
/// The number of columns from which on each is scanned so, however tall they are: eight elements of
/// 4 bytes for each of them are as much as a large device needs in flight.
const COLUMNS_MANY: usize = 1 << 17;
/// The number of neighbours that are combined first.
pub(crate) const LANES: usize = 4;
/// The minimum number of elements of a segment where several blocks scan a row.
const SEGMENT: usize = 4096;
/// The approximate number of blocks of a grid where several blocks share a row.
const BLOCKS_MAX: usize = 1 << 10;
/// The size in bytes of the elements of a tile that a thread combines, and their maximum number.
const ITEMS_BYTES: usize = 128;
const ITEMS_MAX: usize = 32;
/// The numbers of threads of a warp, and of warps of a tile.
const WARP: usize = 32;
const WARPS: usize = ROW_THREADS / WARP;

/// The order in which a scan combines the elements of a row or a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ScanOrder {
    /// One element of a row after another.
    Row,
    /// One tile of a row after another.
    RowOfTiles,
    /// Tiles of a row with `items` elements of each thread. Their totals are combined in groups.
    SharedRow { items: usize },
    /// One element of a column after another.
    Column,
    /// Tiles of columns, a power of two, with `items` elements of each thread. Their totals are
    /// combined in groups.
    Columns { width: usize, items: usize },
}

impl ScanOrder {
    /// Returns the order of a scan along an axis of a node, which has at least one element.
    pub(crate) fn of(node: &NodeRef, source: &NodeRef, axis: usize) -> Self {
        let count = node.shape[axis];
        let columns: usize = node.shape[axis + 1..].iter().product();
        let rows = node.elements / count;
        let items_max = (ITEMS_BYTES / source.dtype.bytes()).min(ITEMS_MAX);
        if columns > 1 {
            if count <= PER_THREAD_MAX || rows >= COLUMNS_MANY {
                return Self::Column;
            }
            let width = columns.next_power_of_two().min(WARP);
            let rows_at_once = WARPS * (WARP / width);
            let items = count.div_ceil(rows_at_once).next_power_of_two();
            return Self::Columns {
                width,
                items: items.min(items_max),
            };
        }
        if count <= PER_THREAD_MAX || (count <= PER_THREAD_MANY_ROWS_MAX && rows >= ROWS_MANY) {
            return Self::Row;
        }
        let segments = count.div_ceil(SEGMENT).min(BLOCKS_MAX.div_ceil(rows));
        if segments <= 1 {
            return Self::RowOfTiles;
        }
        Self::SharedRow { items: items_max }
    }
}
