//! Attention in one kernel: `softmax(q·kᵀ·scale + mask)·v`, without storing the scores.
//!
//! A block computes a tile of queries. It visits the keys and values tile by tile, and keeps of
//! each query the maximum of the scores so far, the sum of the weights `exp(score − maximum)`, and
//! the weighted sum of the values. Where a tile raises the maximum, both sums are multiplied by the
//! weight of the old maximum (online softmax). The tile after the current one is loaded into
//! registers while the current one is multiplied.
//!
//! A warp computes all scores of its queries, so that only the tiles of keys and values are
//! exchanged between warps. Each thread computes several queries with several keys, and later with
//! several elements of the values, so that most operands of its multiplications are in registers.
//!
//! Every sum has a fixed order, which depends on the shapes alone.

use smallvec::SmallVec;

use super::{
    attention_tiles::{
        CHUNK_BYTES, CHUNKS, COLUMN_THREADS, LINE_BYTES, Swizzle, THREADS, TileLoader, TileSizes,
        TileSource, TileTarget, WARP_LINES, zero,
    },
    body::{KernelBody, KernelParameter, ParameterKey, Reg, RegClass, line},
    passes::GeneratedPasses,
    warp::shuffle,
};
use crate::{
    element::DType,
    fuse::{FusedKernel, Strided},
    graph::{Attention, NodeRef},
};

/// The number of threads of a warp.
const WARP: usize = 32;
/// The number of blocks for which a multiprocessor must have registers. Without this limit, ptxas
/// takes the registers of three blocks, which are too few for a tile of 64 queries.
const BLOCKS_MIN: usize = 2;
/// The distances of the threads that share the scores of a query. The other bit of a thread's
/// number in its warp tells the two groups of a warp apart: with this bit, threads that read the
/// same chunk are neighbours, which takes fewer accesses to shared memory.
const SHARING: [usize; 4] = [1, 4, 8, 16];

/// Registers, a row for each query of a thread.
type Rows = Vec<Vec<Reg>>;

/// Generates the kernel of attention.
pub(super) fn attention(kernel: &FusedKernel, operands: &Attention) -> GeneratedPasses {
    let node = &kernel.root;
    let last = |node: &NodeRef, back: usize| node.shape[node.shape.len() - back];
    let (queries, keys) = (last(&operands.queries, 2), last(&operands.keys, 2));
    let sizes = TileSizes::new(node.dtype, last(&operands.keys, 1), last(node, 1))
        .expect("recording has checked that tiles fit in shared memory");
    let tiles = queries.div_ceil(sizes.tile);
    let batches: usize = node.shape[..node.shape.len() - 2].iter().product();
    let mut body = KernelBody::new(true);
    body.block = THREADS;
    body.blocks_min = Some(BLOCKS_MIN);
    body.name_part("attention");
    let builder = Builder::new(&mut body, kernel, operands, &sizes, (queries, keys, tiles));
    builder.run(&mut body);
    let names = ["attention_queries", "attention_keys", "attention_values"];
    let declare = |(name, bytes): (&str, usize)| {
        format!("\t.shared .align {LINE_BYTES} .b8 {name}[{bytes}];\n")
    };
    let shared: String = names
        .into_iter()
        .zip(sizes.tile_bytes())
        .map(declare)
        .collect();
    GeneratedPasses::one(body.finish(&shared), tiles * batches * THREADS)
}

/// The registers of a thread, and the sizes that the text depends on.
struct Builder<'a> {
    dtype: DType,
    /// The suffix of instructions.
    kind: &'static str,
    sizes: &'a TileSizes,
    is_causal: bool,
    scale: Reg,
    loaders: [TileLoader; 3],
    mask: Option<MaskSource>,
    /// The numbers of keys and queries, of 32 bits.
    keys: Reg,
    queries: Reg,
    /// The first query of the tile, the thread's first query, and the end of the keys that the
    /// tile takes.
    first_query: Reg,
    query: Reg,
    end: Reg,
    /// The number of the thread among those that share a query.
    column: Reg,
    /// The first key of the tile.
    first_key: Reg,
    /// Addresses in shared memory: of the thread's first query, of its first key, of the chunk of
    /// values that it computes, of its first weight, and of its first row of weights.
    query_address: Reg,
    key_address: Reg,
    value_address: Reg,
    weight_address: Reg,
    weight_row: Reg,
    /// The address of the thread's first result.
    output: Reg,
    scores: Rows,
    sums: Rows,
    maxima: Vec<Reg>,
    totals: Vec<Reg>,
}

/// The mask in device memory.
struct MaskSource {
    /// The address of the element for the thread's first query and key in the tile.
    next: Reg,
    row_step: Reg,
    column_step: Reg,
}

/// The strides of an operand, as parameters in bytes.
struct OperandSource<'a> {
    node: &'a NodeRef,
    strided: Strided<'a>,
    bytes: usize,
}

impl<'a> OperandSource<'a> {
    fn new(kernel: &'a FusedKernel, node: &'a NodeRef) -> Self {
        Self {
            node,
            strided: kernel.strided(node),
            bytes: node.dtype.bytes(),
        }
    }

    /// Returns the parameter of the stride along an axis, in bytes.
    fn step(&self, body: &mut KernelBody, axis: usize) -> Reg {
        let step = self.strided.strides[axis] as i64 * self.bytes as i64;
        body.index_parameter(ParameterKey::Step(self.node.id, axis), step)
    }

    /// Computes the address of the first element of a batch, given its index along each axis.
    fn first(&self, body: &mut KernelBody, indices: &[(usize, Reg)]) -> Reg {
        let source = self.strided.source;
        let base = body.address(ParameterKey::Input(source.id), || {
            KernelParameter::Input(NodeRef::clone(source))
        });
        let start = (self.strided.offset * self.bytes) as i64;
        let start = body.index_parameter(ParameterKey::Start(self.node.id, 0), start);
        let address = body.reg(RegClass::B64);
        line!(body, "add.s64 {address}, {base}, {start};");
        for &(axis, index) in indices {
            let step = self.step(body, axis);
            line!(body, "mad.lo.s64 {address}, {index}, {step}, {address};");
        }
        address
    }

    /// Returns whether all rows of so many elements consist of aligned chunks.
    fn has_chunks(&self, lanes: usize) -> bool {
        let rank = self.node.shape.len();
        let (others, last) = self.strided.strides.split_at(rank - 1);
        let size = self.node.shape[rank - 1];
        let is_aligned = |&stride: &isize| stride % lanes as isize == 0;
        size % lanes == 0
            && last == [1]
            && self.strided.offset % lanes == 0
            && others.iter().all(is_aligned)
    }
}

impl<'a> Builder<'a> {
    /// Computes the thread's part and the addresses that do not change.
    fn new(
        body: &mut KernelBody,
        kernel: &FusedKernel,
        operands: &Attention,
        sizes: &'a TileSizes,
        (queries, keys, tiles): (usize, usize, usize),
    ) -> Self {
        let node = &kernel.root;
        let (dtype, rank) = (node.dtype, node.shape.len());
        let kind = RegClass::of(dtype).move_type();
        let [thread, lane, block] = [(); 3].map(|()| body.reg(RegClass::B32));
        line!(body, "mov.u32 {thread}, %tid.x;");
        line!(body, "mov.u32 {block}, %ctaid.x;");
        line!(body, "and.b32 {lane}, {thread}, {};", WARP - 1);
        let narrow = |body: &mut KernelBody, name, value: usize| {
            let wide = body.index_parameter(ParameterKey::Named(name), value as i64);
            let reg = body.reg(RegClass::B32);
            line!(body, "cvt.u32.u64 {reg}, {wide};");
            reg
        };
        let queries = narrow(body, "queries", queries);
        let keys = narrow(body, "keys", keys);
        let tiles = narrow(body, "tiles", tiles);

        // The tile, and the batch with its index along each axis.
        let [batch, first_query, rest] = [(); 3].map(|()| body.reg(RegClass::B32));
        line!(body, "div.u32 {batch}, {block}, {tiles};");
        line!(body, "mul.lo.u32 {rest}, {batch}, {tiles};");
        line!(body, "sub.u32 {rest}, {block}, {rest};");
        if operands.is_causal {
            // Later tiles take longer, so they begin first.
            line!(body, "sub.u32 {rest}, {tiles}, {rest};");
            line!(body, "sub.u32 {rest}, {rest}, 1;");
        }
        line!(body, "mul.lo.u32 {first_query}, {rest}, {};", sizes.tile);
        let output_batch = body.reg(RegClass::B64);
        line!(body, "cvt.u64.u32 {output_batch}, {batch};");
        let mut indices: SmallVec<[(usize, Reg); 4]> = SmallVec::new();
        let long = (0..rank - 2).filter(|&axis| node.shape[axis] != 1);
        let long: SmallVec<[usize; 4]> = long.collect();
        for (number, &axis) in long.iter().enumerate().rev() {
            let index = body.reg(RegClass::B64);
            if number == 0 {
                line!(body, "cvt.u64.u32 {index}, {batch};");
            } else {
                let length = body
                    .index_parameter(ParameterKey::Length(node.id, axis), node.shape[axis] as i64);
                let [short, outer, own] = [(); 3].map(|()| body.reg(RegClass::B32));
                line!(body, "cvt.u32.u64 {short}, {length};");
                line!(body, "div.u32 {outer}, {batch}, {short};");
                line!(body, "mul.lo.u32 {own}, {outer}, {short};");
                line!(body, "sub.u32 {own}, {batch}, {own};");
                line!(body, "cvt.u64.u32 {index}, {own};");
                line!(body, "mov.b32 {batch}, {outer};");
            }
            indices.push((axis, index));
        }

        // The thread's queries are every second one from its first, its keys every sixteenth.
        let [column, low, group, own_row, query] = [(); 5].map(|()| body.reg(RegClass::B32));
        line!(body, "and.b32 {column}, {lane}, 1;");
        line!(body, "shr.u32 {low}, {lane}, 2;");
        line!(body, "shl.b32 {low}, {low}, 1;");
        line!(body, "or.b32 {column}, {column}, {low};");
        line!(body, "shr.u32 {group}, {lane}, 1;");
        line!(body, "and.b32 {group}, {group}, 1;");
        line!(
            body,
            "shr.u32 {own_row}, {thread}, {};",
            WARP.trailing_zeros()
        );
        line!(
            body,
            "mad.lo.u32 {own_row}, {own_row}, {}, {group};",
            WARP_LINES * sizes.rows()
        );
        line!(body, "add.u32 {query}, {first_query}, {own_row};");

        let end = body.reg(RegClass::B32);
        line!(body, "mov.b32 {end}, {keys};");
        if operands.is_causal {
            line!(body, "add.u32 {end}, {first_query}, {};", sizes.tile);
            line!(body, "min.u32 {end}, {end}, {keys};");
        }

        let first_key = body.reg(RegClass::B32);
        line!(body, "mov.u32 {first_key}, 0;");
        let chunks = [
            sizes.key_chunks(),
            sizes.key_chunks(),
            sizes.value_pitch() / CHUNK_BYTES,
        ];
        let pitches = [sizes.key_pitch(), sizes.key_pitch(), sizes.value_pitch()];
        let names = ["attention_queries", "attention_keys", "attention_values"];
        let swizzles = [Swizzle::Halves, Swizzle::Eighths, Swizzle::None];
        let nodes = [&operands.queries, &operands.keys, &operands.values];
        let loaders = std::array::from_fn(|number| {
            let operand = OperandSource::new(kernel, nodes[number]);
            let source = TileSource {
                first: operand.first(body, &indices),
                row_step: operand.step(body, rank - 2),
                column_step: operand.step(body, rank - 1),
                rows: if number == 0 { queries } else { keys },
                size: nodes[number].shape[rank - 1],
                has_chunks: operand.has_chunks(sizes.lanes),
            };
            let target = TileTarget {
                name: names[number],
                pitch: pitches[number],
                chunks: chunks[number],
                swizzle: swizzles[number],
            };
            let first_row = (number == 0).then_some(first_query);
            TileLoader::new(body, dtype, sizes, (&source, target), first_row, thread)
        });

        let mask = operands.mask.as_ref().map(|node| {
            let operand = OperandSource::new(kernel, node);
            let first = operand.first(body, &indices);
            let (row_step, column_step) =
                (operand.step(body, rank - 2), operand.step(body, rank - 1));
            let [next, wide] = [(); 2].map(|()| body.reg(RegClass::B64));
            line!(body, "cvt.u64.u32 {wide}, {query};");
            line!(body, "mad.lo.s64 {next}, {wide}, {row_step}, {first};");
            line!(body, "cvt.u64.u32 {wide}, {column};");
            line!(body, "mad.lo.s64 {next}, {wide}, {column_step}, {next};");
            MaskSource {
                next,
                row_step,
                column_step,
            }
        });

        // Addresses in shared memory.
        let shared = |body: &mut KernelBody, name: &str, number: Reg, step: usize| {
            let address = body.reg(RegClass::B32);
            line!(body, "mov.u32 {address}, {name};");
            line!(body, "mad.lo.u32 {address}, {number}, {step}, {address};");
            address
        };
        let halves = Swizzle::Halves.bits_of(body, group);
        let eighths = Swizzle::Eighths.bits_of(body, column);
        let query_address = shared(body, names[0], own_row, sizes.key_pitch());
        line!(body, "xor.b32 {query_address}, {query_address}, {halves};");
        let key_address = shared(body, names[1], column, sizes.key_pitch());
        line!(body, "xor.b32 {key_address}, {key_address}, {eighths};");
        let value_address = shared(body, names[2], column, sizes.neighbours * sizes.bytes);
        let weight_row = shared(body, names[1], own_row, sizes.weight_pitch());
        line!(body, "xor.b32 {weight_row}, {weight_row}, {halves};");
        let [weight_address, place] = [(); 2].map(|()| body.reg(RegClass::B32));
        line!(body, "mul.lo.u32 {place}, {column}, {};", sizes.bytes);
        line!(body, "xor.b32 {weight_address}, {weight_row}, {place};");

        let scale = body.scalar(ParameterKey::Named("scale"), operands.scale);
        let output = body.address(ParameterKey::Output(0), || KernelParameter::Output(0));
        let [row, address] = [(); 2].map(|()| body.reg(RegClass::B64));
        let (row_bytes, column_bytes) = (
            sizes.value_size * sizes.bytes,
            sizes.neighbours * sizes.bytes,
        );
        let wide = body.reg(RegClass::B64);
        line!(body, "cvt.u64.u32 {row}, {queries};");
        line!(body, "cvt.u64.u32 {wide}, {query};");
        line!(body, "mad.lo.s64 {row}, {output_batch}, {row}, {wide};");
        line!(body, "mad.lo.s64 {address}, {row}, {row_bytes}, {output};");
        line!(body, "mul.wide.u32 {row}, {column}, {column_bytes};");
        line!(body, "add.s64 {address}, {address}, {row};");

        let class = RegClass::of(dtype);
        let mut rows = |columns: usize| -> Rows {
            let row = |_| (0..columns).map(|_| body.reg(class)).collect();
            (0..sizes.rows()).map(row).collect()
        };
        let (scores, sums) = (rows(sizes.columns()), rows(sizes.neighbours * sizes.groups));
        let [maxima, totals] = [rows(1), rows(1)].map(|rows| rows.concat());
        Self {
            dtype,
            kind,
            sizes,
            is_causal: operands.is_causal,
            scale,
            loaders,
            mask,
            keys,
            queries,
            first_query,
            query,
            end,
            column,
            first_key,
            query_address,
            key_address,
            value_address,
            weight_address,
            weight_row,
            output: address,
            scores,
            sums,
            maxima,
            totals,
        }
    }

    /// Emits the loop over the tiles of keys, and the results.
    fn run(&self, body: &mut KernelBody) {
        let [queries, keys, values] = &self.loaders;
        queries.load(body);
        queries.store(body);
        let zero = zero(self.dtype);
        for reg in self.sums.iter().flatten().chain(&self.totals) {
            line!(body, "mov.{} {reg}, {zero};", self.kind);
        }
        for reg in &self.maxima {
            line!(body, "mov.{} {reg}, {};", self.kind, self.least());
        }
        keys.load(body);
        values.load(body);
        body.label("TILE");
        // All warps have read the weights and the values of the tile before.
        line!(body, "bar.sync 0;");
        keys.store(body);
        values.store(body);
        line!(body, "bar.sync 0;");
        self.multiply_keys(body);
        self.adjust_scores(body);
        // All warps have read the keys, which the weights replace.
        line!(body, "bar.sync 0;");
        self.weigh(body);
        // Only threads of the same warp read the weights of a query.
        line!(body, "bar.warp.sync 0xffffffff;");
        keys.load(body);
        values.load(body);
        self.multiply_values(body);
        let goes_on = body.reg(RegClass::Predicate);
        line!(
            body,
            "add.u32 {0}, {0}, {1};",
            self.first_key,
            self.sizes.tile
        );
        line!(
            body,
            "setp.lt.u32 {goes_on}, {}, {};",
            self.first_key,
            self.end
        );
        line!(body, "@{goes_on} bra TILE;");
        self.store(body);
    }

    /// Returns the literal of negative infinity.
    fn least(&self) -> &'static str {
        match self.dtype {
            DType::F64 => "0dfff0000000000000",
            _ => "0fff800000",
        }
    }

    /// Emits a loop over so many groups of eight chunks, which is unrolled if there is only one,
    /// and the chunks behind them. The addresses advance with each group by these numbers of bytes.
    fn over_chunks(
        &self,
        body: &mut KernelBody,
        label: &str,
        chunks: usize,
        addresses: &[(Reg, usize)],
        mut instructions: impl FnMut(&mut KernelBody, usize, &[Reg]),
    ) {
        let current: SmallVec<[Reg; 4]> = addresses
            .iter()
            .map(|(first, _)| {
                let reg = body.reg(RegClass::B32);
                line!(body, "mov.b32 {reg}, {first};");
                reg
            })
            .collect();
        let advance = |body: &mut KernelBody| {
            for (reg, (_, step)) in current.iter().zip(addresses) {
                line!(body, "add.u32 {reg}, {reg}, {step};");
            }
        };
        let (groups, rest) = (chunks / CHUNKS, chunks % CHUNKS);
        if groups > 0 {
            let (count, goes_on) = (body.reg(RegClass::B32), body.reg(RegClass::Predicate));
            if groups > 1 {
                line!(body, "mov.u32 {count}, {groups};");
                body.label(label);
            }
            for chunk in 0..CHUNKS {
                instructions(body, chunk, &current);
            }
            if groups > 1 || rest > 0 {
                advance(body);
            }
            if groups > 1 {
                line!(body, "sub.u32 {count}, {count}, 1;");
                line!(body, "setp.ne.u32 {goes_on}, {count}, 0;");
                line!(body, "@{goes_on} bra {label};");
            }
        }
        for chunk in 0..rest {
            instructions(body, chunk, &current);
        }
    }

    /// Loads a chunk from shared memory.
    fn chunk(&self, body: &mut KernelBody, address: Reg, offset: usize, lanes: usize) -> Vec<Reg> {
        let class = RegClass::of(self.dtype);
        let chunk: Vec<Reg> = (0..lanes).map(|_| body.reg(class)).collect();
        let list: Vec<_> = chunk.iter().map(Reg::to_string).collect();
        match lanes {
            1 => line!(
                body,
                "ld.shared.{} {}, [{address}+{offset}];",
                self.kind,
                chunk[0]
            ),
            _ => line!(
                body,
                "ld.shared.v{lanes}.{} {{{}}}, [{address}+{offset}];",
                self.kind,
                list.join(", ")
            ),
        }
        chunk
    }

    /// Loads a chunk of each of the thread's rows, whose lines alternate in halves.
    fn row_chunks(&self, body: &mut KernelBody, first: Reg, chunk: usize, pitch: usize) -> Rows {
        let half = CHUNKS / 2;
        let address = if chunk < half {
            first
        } else {
            let other = body.reg(RegClass::B32);
            line!(body, "xor.b32 {other}, {first}, {};", LINE_BYTES / 2);
            other
        };
        let row = |row| {
            let offset = row * WARP_LINES * pitch + chunk % half * CHUNK_BYTES;
            self.chunk(body, address, offset, self.sizes.lanes)
        };
        (0..self.sizes.rows()).map(row).collect()
    }

    /// Computes the products of the thread's queries and keys.
    fn multiply_keys(&self, body: &mut KernelBody) {
        let (sizes, kind) = (self.sizes, self.kind);
        for reg in self.scores.iter().flatten() {
            line!(body, "mov.{kind} {reg}, {};", zero(self.dtype));
        }
        let addresses = [
            (self.query_address, LINE_BYTES),
            (self.key_address, LINE_BYTES),
        ];
        self.over_chunks(
            body,
            "SCORES",
            sizes.key_chunks(),
            &addresses,
            |body, chunk, current| {
                let address = body.reg(RegClass::B32);
                line!(
                    body,
                    "xor.b32 {address}, {}, {};",
                    current[1],
                    chunk * CHUNK_BYTES
                );
                let keys: Rows = (0..sizes.columns())
                    .map(|column| {
                        let offset = column * COLUMN_THREADS * sizes.key_pitch();
                        self.chunk(body, address, offset, sizes.lanes)
                    })
                    .collect();
                let queries = self.row_chunks(body, current[0], chunk, sizes.key_pitch());
                for lane in 0..sizes.lanes {
                    for (scores, query) in self.scores.iter().zip(&queries) {
                        for (score, key) in scores.iter().zip(&keys) {
                            line!(
                                body,
                                "fma.rn.{kind} {score}, {}, {}, {score};",
                                query[lane],
                                key[lane]
                            );
                        }
                    }
                }
            },
        );
    }

    /// Scales the scores, adds the mask, and gives the least score to keys that do not take part.
    fn adjust_scores(&self, body: &mut KernelBody) {
        let (sizes, kind) = (self.sizes, self.kind);
        for score in self.scores.iter().flatten() {
            line!(body, "mul.rn.{kind} {score}, {score}, {};", self.scale);
        }
        if let Some(mask) = &self.mask {
            self.add_mask(body, mask);
        }
        let (last, is_whole) = (body.reg(RegClass::B32), body.reg(RegClass::Predicate));
        line!(
            body,
            "add.u32 {last}, {}, {};",
            self.first_key,
            sizes.tile - 1
        );
        line!(body, "setp.lt.u32 {is_whole}, {last}, {};", self.keys);
        if self.is_causal {
            let is_before = body.reg(RegClass::Predicate);
            line!(
                body,
                "setp.le.u32 {is_before}, {last}, {};",
                self.first_query
            );
            line!(body, "and.pred {is_whole}, {is_whole}, {is_before};");
        }
        line!(body, "@{is_whole} bra ADJUSTED;");
        for column in 0..sizes.columns() {
            let (key, is_beyond) = (self.key(body, column), body.reg(RegClass::Predicate));
            line!(body, "setp.ge.u32 {is_beyond}, {key}, {};", self.keys);
            for (row, scores) in self.scores.iter().enumerate() {
                let score = scores[column];
                let mut excluded = is_beyond;
                if self.is_causal {
                    let query = self.row(body, row);
                    excluded = body.reg(RegClass::Predicate);
                    line!(body, "setp.gt.u32 {excluded}, {key}, {query};");
                    line!(body, "or.pred {excluded}, {excluded}, {is_beyond};");
                }
                line!(body, "@{excluded} mov.{kind} {score}, {};", self.least());
            }
        }
        body.label("ADJUSTED");
    }

    /// Adds the mask to the scores of queries and keys that there are.
    fn add_mask(&self, body: &mut KernelBody, mask: &MaskSource) {
        let (sizes, kind) = (self.sizes, self.kind);
        let has_keys: Vec<Reg> = (0..sizes.columns())
            .map(|column| {
                let (key, holds) = (self.key(body, column), body.reg(RegClass::Predicate));
                line!(body, "setp.lt.u32 {holds}, {key}, {};", self.keys);
                holds
            })
            .collect();
        let [address, row_step, column_step] = [(); 3].map(|()| body.reg(RegClass::B64));
        line!(
            body,
            "mul.lo.s64 {column_step}, {}, {COLUMN_THREADS};",
            mask.column_step
        );
        line!(
            body,
            "mul.lo.s64 {row_step}, {}, {WARP_LINES};",
            mask.row_step
        );
        line!(body, "mov.b64 {address}, {};", mask.next);
        for (row, scores) in self.scores.iter().enumerate() {
            if row > 0 {
                line!(body, "add.s64 {address}, {address}, {row_step};");
            }
            let (query, has_query) = (self.row(body, row), body.reg(RegClass::Predicate));
            line!(body, "setp.lt.u32 {has_query}, {query}, {};", self.queries);
            let element = body.reg(RegClass::B64);
            line!(body, "mov.b64 {element}, {address};");
            for (column, (score, has_key)) in scores.iter().zip(&has_keys).enumerate() {
                if column > 0 {
                    line!(body, "add.s64 {element}, {element}, {column_step};");
                }
                let (holds, added) = (
                    body.reg(RegClass::Predicate),
                    body.reg(RegClass::of(self.dtype)),
                );
                line!(body, "and.pred {holds}, {has_query}, {has_key};");
                line!(body, "mov.{kind} {added}, {};", zero(self.dtype));
                line!(body, "@{holds} ld.global.{kind} {added}, [{element}];");
                line!(body, "add.rn.{kind} {score}, {score}, {added};");
            }
        }
        let step = body.reg(RegClass::B64);
        line!(
            body,
            "mul.lo.s64 {step}, {}, {};",
            mask.column_step,
            sizes.tile
        );
        line!(body, "add.s64 {0}, {0}, {step};", mask.next);
    }

    /// Computes the number of one of the thread's keys.
    fn key(&self, body: &mut KernelBody, column: usize) -> Reg {
        let key = body.reg(RegClass::B32);
        line!(body, "add.u32 {key}, {}, {};", self.first_key, self.column);
        line!(body, "add.u32 {key}, {key}, {};", column * COLUMN_THREADS);
        key
    }

    /// Computes the number of one of the thread's queries.
    fn row(&self, body: &mut KernelBody, row: usize) -> Reg {
        let query = body.reg(RegClass::B32);
        line!(
            body,
            "add.u32 {query}, {}, {};",
            self.query,
            row * WARP_LINES
        );
        query
    }

    /// Computes the weights of the scores, stores them, and rescales the sums so far.
    fn weigh(&self, body: &mut KernelBody) {
        let (kind, class) = (self.kind, RegClass::of(self.dtype));
        let exp = match self.dtype {
            DType::F64 => "ms_exp_f64",
            _ => "ms_exp_f32",
        };
        let other_half = body.reg(RegClass::B32);
        line!(
            body,
            "xor.b32 {other_half}, {}, {};",
            self.weight_address,
            LINE_BYTES / 2
        );
        for (row, scores) in self.scores.iter().enumerate() {
            let (maximum, total) = (self.maxima[row], self.totals[row]);
            let new = body.reg(class);
            line!(body, "mov.{kind} {new}, {};", scores[0]);
            for score in &scores[1..] {
                line!(body, "max.{kind} {new}, {new}, {score};");
            }
            for distance in SHARING {
                let other = shuffle(body, new, ("bfly", distance), WARP);
                line!(body, "max.{kind} {new}, {new}, {other};");
            }
            line!(body, "max.{kind} {new}, {new}, {maximum};");
            // As long as all scores are negative infinity, the weights are 0 instead of NaN.
            let (is_least, base) = (body.reg(RegClass::Predicate), body.reg(class));
            line!(body, "setp.eq.{kind} {is_least}, {new}, {};", self.least());
            line!(
                body,
                "selp.{kind} {base}, {}, {new}, {is_least};",
                zero(self.dtype)
            );
            let power = |body: &mut KernelBody, score: Reg| {
                let (difference, power) = (body.reg(class), body.reg(class));
                line!(body, "sub.rn.{kind} {difference}, {score}, {base};");
                body.inline(exp, power, difference);
                power
            };
            let rescaling = power(body, maximum);
            line!(body, "mov.{kind} {maximum}, {new};");
            line!(body, "mul.rn.{kind} {total}, {total}, {rescaling};");
            for (column, &score) in scores.iter().enumerate() {
                let weight = power(body, score);
                line!(body, "add.rn.{kind} {total}, {total}, {weight};");
                let offset = column * COLUMN_THREADS * self.sizes.bytes;
                let half = offset & (LINE_BYTES / 2);
                let address = if half == 0 {
                    self.weight_address
                } else {
                    other_half
                };
                let offset = row * WARP_LINES * self.sizes.weight_pitch() + offset - half;
                line!(body, "st.shared.{kind} [{address}+{offset}], {weight};");
            }
            for sum in &self.sums[row] {
                line!(body, "mul.rn.{kind} {sum}, {sum}, {rescaling};");
            }
        }
    }

    /// Adds the products of the weights and the values.
    fn multiply_values(&self, body: &mut KernelBody) {
        let (sizes, kind) = (self.sizes, self.kind);
        let pitch = sizes.value_pitch();
        let addresses = [
            (self.weight_row, LINE_BYTES),
            (self.value_address, CHUNKS * sizes.lanes * pitch),
        ];
        let group_bytes = COLUMN_THREADS * sizes.neighbours * sizes.bytes;
        self.over_chunks(
            body,
            "VALUES",
            sizes.tile / sizes.lanes,
            &addresses,
            |body, chunk, current| {
                let values: Rows = (0..sizes.lanes)
                    .map(|lane| {
                        let line = (chunk * sizes.lanes + lane) * pitch;
                        let groups = (0..sizes.groups).map(|group| {
                            let offset = line + group * group_bytes;
                            self.chunk(body, current[1], offset, sizes.neighbours)
                        });
                        groups.collect::<Vec<_>>().concat()
                    })
                    .collect();
                let weights = self.row_chunks(body, current[0], chunk, sizes.weight_pitch());
                for (lane, values) in values.iter().enumerate() {
                    for (sums, weights) in self.sums.iter().zip(&weights) {
                        for (sum, value) in sums.iter().zip(values) {
                            let weight = weights[lane];
                            line!(body, "fma.rn.{kind} {sum}, {weight}, {value}, {sum};");
                        }
                    }
                }
            },
        );
    }

    /// Divides the sums by the totals of the weights, and stores them.
    fn store(&self, body: &mut KernelBody) {
        let (sizes, kind) = (self.sizes, self.kind);
        let (row_bytes, group) = (
            sizes.value_size * sizes.bytes,
            COLUMN_THREADS * sizes.neighbours,
        );
        let has_vectors = sizes.value_size % sizes.neighbours == 0;
        let first = body.reg(RegClass::B32);
        line!(
            body,
            "mul.lo.u32 {first}, {}, {};",
            self.column,
            sizes.neighbours
        );
        for (row, (sums, total)) in self.sums.iter().zip(&self.totals).enumerate() {
            for distance in SHARING {
                let other = shuffle(body, *total, ("bfly", distance), WARP);
                line!(body, "add.rn.{kind} {total}, {total}, {other};");
            }
            for sum in sums {
                line!(body, "div.rn.{kind} {sum}, {sum}, {total};");
            }
            let (query, has_query) = (self.row(body, row), body.reg(RegClass::Predicate));
            line!(body, "setp.lt.u32 {has_query}, {query}, {};", self.queries);
            for (number, sum) in sums.iter().enumerate() {
                let element = number / sizes.neighbours * group + number % sizes.neighbours;
                let offset = row * WARP_LINES * row_bytes + element * sizes.bytes;
                if has_vectors && number % sizes.neighbours > 0 {
                    continue;
                }
                let (place, holds) = (body.reg(RegClass::B32), body.reg(RegClass::Predicate));
                line!(body, "add.u32 {place}, {first}, {element};");
                line!(body, "setp.lt.u32 {holds}, {place}, {};", sizes.value_size);
                line!(body, "and.pred {holds}, {holds}, {has_query};");
                let at_once = if has_vectors { sizes.neighbours } else { 1 };
                let vector = if at_once > 1 {
                    format!(".v{at_once}")
                } else {
                    String::new()
                };
                let list: Vec<_> = sums[number..number + at_once]
                    .iter()
                    .map(Reg::to_string)
                    .collect();
                let list = match at_once {
                    1 => sum.to_string(),
                    _ => format!("{{{}}}", list.join(", ")),
                };
                line!(
                    body,
                    "@{holds} st.global{vector}.{kind} [{}+{offset}], {list};",
                    self.output
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::Array3;

    use crate::{Array, codegen::generate, fuse::only_kernel};

    /// Returns the text of the kernel for so many elements of a key and of a value, where keys are
    /// every so manyth element of a row.
    fn text(sizes: (usize, usize), step: usize) -> String {
        let device = Device::simulated().unwrap();
        let array = |size| Array::from_host(&device, &Array3::<f32>::zeros((2, 3, size))).unwrap();
        let (q, k, v) = (array(sizes.0), array(sizes.0 * step), array(sizes.1));
        let k = k.slice(ndarray::s![.., .., ..;step as isize]);
        let result = q.attention(&k, &v, 1.0);
        generate(&only_kernel(result.node())).passes[0]
            .kernel
            .ptx
            .to_string()
    }

    #[test]
    fn aligned_chunks_are_loaded_at_once() {
        let loads = |text: &str| {
            let vectors = text.matches("ld.global.v4.f32").count();
            (vectors, text.matches("ld.global.f32").count())
        };
        // Eight chunks of a thread: of queries, and twice of keys and of values.
        assert_eq!(loads(&text((64, 64), 1)), (5 * 8, 0));
        let (vectors, others) = loads(&text((64, 64), 2));
        assert_eq!((vectors, others), (3 * 8, 2 * 8 * 4));
        assert_eq!(loads(&text((6, 64), 1)).1, 3 * 4);
    }
}
