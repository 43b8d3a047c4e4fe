//! Loads of tiles into shared memory.

use smallvec::SmallVec;

use crate::{
    element::DType,
    emit::{
        attention::tiles::Swizzle,
        body::{KernelBody, Reg, RegClass, line, list, test, value, vector, zero_literal},
    },
    plan::order::attention::{CHUNK_BYTES, THREADS, TileSizes},
};

/// A matrix in device memory whose rows are the lines of tiles.
pub(crate) struct TileSource {
    /// The address of the first element of the first row.
    pub(crate) first: Reg,
    /// The distance of rows, and of neighbours in a row, in bytes.
    pub(crate) row_step: Reg,
    pub(crate) column_step: Reg,
    /// The number of rows, of 32 bits.
    pub(crate) rows: Reg,
    /// The number of elements in a row.
    pub(crate) size: usize,
    /// True if each chunk is aligned in memory.
    pub(crate) has_chunks: bool,
}

/// The tile in shared memory to which rows are loaded.
pub(crate) struct TileTarget {
    /// The name of the array in shared memory.
    pub(crate) name: &'static str,
    /// The distance of lines in bytes.
    pub(crate) pitch: usize,
    /// The number of chunks in a line to fill: with elements, and behind them with zeros.
    pub(crate) chunks: usize,
    pub(crate) swizzle: Swizzle,
}

/// The part of a thread in loading tiles: one chunk of every n-th line.
pub(crate) struct TileLoader {
    dtype: DType,
    lanes: usize,
    has_chunks: bool,
    target: TileTarget,
    /// The number of lines that a block loads at once.
    lines: usize,
    /// The address of the thread's first chunk of the next tile.
    next: Reg,
    /// The distance in bytes of its lines in memory, and of tiles.
    line_step: Reg,
    tile_step: Reg,
    column_step: Reg,
    /// The number of rows from the thread's first line of the next tile on.
    left: Reg,
    tile: usize,
    /// For each element of the chunk, whether it is within the row; `None` if it always is.
    within: SmallVec<[Option<Reg>; 4]>,
    /// Whether the thread has a chunk, if not all threads have.
    has_part: Option<Reg>,
    /// The address of its first chunk in shared memory.
    shared: Reg,
    loaded: Vec<SmallVec<[Reg; 4]>>,
}

impl TileLoader {
    /// Prepares loads of tiles from a first row on.
    pub(crate) fn new(
        body: &mut KernelBody,
        dtype: DType,
        sizes: &TileSizes,
        (source, target): (&TileSource, TileTarget),
        first_row: Option<Reg>,
        thread: Reg,
    ) -> Self {
        let lanes = sizes.lanes;
        let width = target.chunks.next_power_of_two();
        let lines = THREADS / width;
        let turns = sizes.tile.div_ceil(lines);
        let wide = body.reg(RegClass::B64);
        let chunk = value!(body, B32; "and.b32 {thread}, {}", width - 1);
        let line = value!(body, B32; "shr.u32 {thread}, {}", width.trailing_zeros());

        // The thread has a part if its chunk and its first line are in the tile.
        let mut has_part = None;
        for (is_short, value, end) in [
            (width > target.chunks, chunk, target.chunks),
            (lines > sizes.tile, line, sizes.tile),
        ] {
            if is_short {
                let holds = value!(body, Predicate; "setp.lt.u32 {value}, {end}");
                has_part = Some(match has_part {
                    None => holds,
                    Some(other) => body.both(holds, other),
                });
            }
        }

        // A thread without a part has no rows left.
        let left = value!(body, B32; "sub.s32 {}, {line}", source.rows);
        if let Some(first) = first_row {
            line!(body; "sub.s32 {left}, {left}, {first};");
        }
        if let Some(holds) = has_part {
            line!(body; "selp.b32 {left}, {left}, {}, {holds};", i32::MIN / 2);
        }
        let within = (0..lanes).map(|lane| {
            (target.chunks * lanes > source.size).then(|| {
                let number = value!(body, B32; "mad.lo.u32 {chunk}, {lanes}, {lane}");
                value!(body, Predicate; "setp.lt.u32 {number}, {}", source.size)
            })
        });
        let within = within.collect();

        let [next, line_step, tile_step] = body.regs(RegClass::B64);
        let row = value!(body, B64; "cvt.u64.u32 {line}");
        if let Some(first) = first_row {
            line!(body; "cvt.u64.u32 {wide}, {first};");
            line!(body; "add.s64 {row}, {row}, {wide};");
        }
        line!(body; "mad.lo.s64 {next}, {row}, {}, {};", source.row_step, source.first);
        line!(body; "mul.wide.u32 {wide}, {chunk}, {lanes};");
        line!(body; "mad.lo.s64 {next}, {wide}, {}, {next};", source.column_step);
        line!(body; "mul.lo.s64 {line_step}, {}, {lines};", source.row_step);
        line!(body; "mul.lo.s64 {tile_step}, {}, {};", source.row_step, sizes.tile);

        let [shared, place] = body.regs(RegClass::B32);
        line!(body; "mov.u32 {shared}, {};", target.name);
        line!(body; "mad.lo.u32 {shared}, {line}, {}, {shared};", target.pitch);
        let bits = target.swizzle.bits_of(body, line);
        line!(body; "mul.lo.u32 {place}, {chunk}, {CHUNK_BYTES};");
        line!(body; "xor.b32 {place}, {place}, {bits};");
        line!(body; "add.u32 {shared}, {shared}, {place};");

        let class = RegClass::of(dtype);
        let loaded = (0..turns)
            .map(|_| (0..lanes).map(|_| body.reg(class)).collect())
            .collect();
        Self {
            dtype,
            lanes,
            has_chunks: source.has_chunks,
            target,
            lines,
            next,
            line_step,
            tile_step,
            column_step: source.column_step,
            left,
            tile: sizes.tile,
            within,
            has_part,
            shared,
            loaded,
        }
    }

    /// Loads the elements of the next tile into registers, and zeros behind rows and their ends.
    pub(crate) fn load(&self, body: &mut KernelBody) {
        let kind = RegClass::of(self.dtype).move_type();
        let address = value!(body, B64; "mov.b64 {}", self.next);
        for (turn, registers) in self.loaded.iter().enumerate() {
            if turn > 0 {
                line!(body; "add.s64 {address}, {address}, {};", self.line_step);
            }
            let has_row = test!(body; "gt.s32 {}, {}", self.left, turn * self.lines);
            for reg in registers {
                line!(body; "mov.{kind} {reg}, {};", zero_literal(self.dtype));
            }
            if self.has_chunks {
                let holds = self.within[0].map_or(has_row, |within| body.both(has_row, within));
                let (vector, list) = (vector(self.lanes), list(registers));
                line!(body; "@{holds} ld.global{vector}.{kind} {list}, [{address}];");
                continue;
            }
            let element = value!(body, B64; "mov.b64 {address}");
            for (lane, (reg, within)) in registers.iter().zip(&self.within).enumerate() {
                if lane > 0 {
                    line!(body; "add.s64 {element}, {element}, {};", self.column_step);
                }
                let holds = within.map_or(has_row, |within| body.both(has_row, within));
                line!(body; "@{holds} ld.global.{kind} {reg}, [{element}];");
            }
        }
        line!(body; "add.s64 {0}, {0}, {1};", self.next, self.tile_step);
        line!(body; "sub.s32 {0}, {0}, {1};", self.left, self.tile);
    }

    /// Stores the loaded elements in shared memory.
    pub(crate) fn store(&self, body: &mut KernelBody) {
        let kind = RegClass::of(self.dtype).move_type();
        let guard = self
            .has_part
            .map_or(String::new(), |holds| format!("@{holds} "));
        for (turn, registers) in self.loaded.iter().enumerate() {
            let line = turn * self.lines;
            let bits = self.target.swizzle.bits(line);
            let address = if bits == 0 {
                self.shared
            } else {
                value!(body, B32; "xor.b32 {}, {bits}", self.shared)
            };
            let (vector, list, offset) = (
                vector(self.lanes),
                list(registers),
                line * self.target.pitch,
            );
            line!(body; "{guard}st.shared{vector}.{kind} [{address}+{offset}], {list};");
        }
    }
}
