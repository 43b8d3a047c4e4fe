//! The part of a thread in attention, and the addresses that do not change.

use smallvec::SmallVec;

use crate::{
    emit::{
        attention::{
            kernel::{AttentionKernel, MaskSource, NAMES, Rows},
            loader::{TileLoader, TileSource, TileTarget},
            tiles::{Swizzle, WARP_LINES},
        },
        body::{KernelBody, ParameterKey, Reg, RegClass, WARP, line, value},
    },
    expr::{Attention, NodeRef},
    plan::{
        FusedKernel, Strided,
        order::attention::{CHUNK_BYTES, TileSizes},
    },
    shape::long_axes,
};

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
        let step = self.strided.strides[axis] * self.bytes as isize;
        body.step(self.node.id, axis, step)
    }

    /// Computes the address of the first element of a batch, given its index along each axis.
    fn first(&self, body: &mut KernelBody, indices: &[(usize, Reg)]) -> Reg {
        let source = self.strided.source;
        let base = body.input(source);
        let start = body.start(self.node.id, 0, self.strided.offset * self.bytes);
        let address = value!(body, B64; "add.s64 {base}, {start}");
        for &(axis, index) in indices {
            let step = self.step(body, axis);
            line!(body; "mad.lo.s64 {address}, {index}, {step}, {address};");
        }
        address
    }

    /// Returns whether rows of this length consist of aligned chunks.
    fn has_chunks(&self, lanes: usize) -> bool {
        let rank = self.node.shape.len();
        let (others, last) = self.strided.strides.split_at(rank - 1);
        let size = self.node.shape[rank - 1];
        let is_aligned = |&stride: &isize| stride % lanes as isize == 0;
        size.is_multiple_of(lanes)
            && last == [1]
            && self.strided.offset.is_multiple_of(lanes)
            && others.iter().all(is_aligned)
    }
}

impl<'a> AttentionKernel<'a> {
    /// Computes the thread's part and the addresses that do not change.
    pub(crate) fn new(
        body: &mut KernelBody,
        kernel: &FusedKernel,
        operands: &Attention,
        sizes: &'a TileSizes,
        (queries, keys, tiles): (usize, usize, usize),
    ) -> Self {
        let node = &kernel.root;
        let (dtype, rank) = (node.dtype, node.shape.len());
        let kind = RegClass::of(dtype).move_type();
        let [thread, lane, block] = body.regs(RegClass::B32);
        line!(body; "mov.u32 {thread}, %tid.x;");
        line!(body; "mov.u32 {block}, %ctaid.x;");
        line!(body; "and.b32 {lane}, {thread}, {};", WARP - 1);
        let narrow = |body: &mut KernelBody, name, value: usize| {
            let wide = body.named(name, value);
            value!(body, B32; "cvt.u32.u64 {wide}")
        };
        let queries = narrow(body, "queries", queries);
        let keys = narrow(body, "keys", keys);
        let tiles = narrow(body, "tiles", tiles);

        // The tile, and the batch with its index along each axis.
        let [batch, first_query, rest] = body.regs(RegClass::B32);
        line!(body; "div.u32 {batch}, {block}, {tiles};");
        line!(body; "mul.lo.u32 {rest}, {batch}, {tiles};");
        line!(body; "sub.u32 {rest}, {block}, {rest};");
        if operands.is_causal {
            // Later tiles take longer, so they begin first.
            line!(body; "sub.u32 {rest}, {tiles}, {rest};");
            line!(body; "sub.u32 {rest}, {rest}, 1;");
        }
        line!(body; "mul.lo.u32 {first_query}, {rest}, {};", sizes.tile);
        let output_batch = value!(body, B64; "cvt.u64.u32 {batch}");
        let mut indices: SmallVec<[(usize, Reg); 4]> = SmallVec::new();
        let long = long_axes(&node.shape[..rank - 2]);
        for (number, &axis) in long.iter().enumerate().rev() {
            let index = body.reg(RegClass::B64);
            if number == 0 {
                line!(body; "cvt.u64.u32 {index}, {batch};");
            } else {
                let length = body
                    .index_parameter(ParameterKey::Length(node.id, axis), node.shape[axis] as i64);
                let short = value!(body, B32; "cvt.u32.u64 {length}");
                let outer = value!(body, B32; "div.u32 {batch}, {short}");
                let own = value!(body, B32; "mul.lo.u32 {outer}, {short}");
                line!(body; "sub.u32 {own}, {batch}, {own};");
                line!(body; "cvt.u64.u32 {index}, {own};");
                line!(body; "mov.b32 {batch}, {outer};");
            }
            indices.push((axis, index));
        }

        // The thread's queries are every second one from its first, its keys every sixteenth.
        let column = value!(body, B32; "and.b32 {lane}, 1");
        let low = value!(body, B32; "shr.u32 {lane}, 2");
        line!(body; "shl.b32 {low}, {low}, 1;");
        line!(body; "or.b32 {column}, {column}, {low};");
        let group = value!(body, B32; "shr.u32 {lane}, 1");
        line!(body; "and.b32 {group}, {group}, 1;");
        let own_row = value!(body, B32; "shr.u32 {thread}, {}", WARP.trailing_zeros());
        line!(body; "mad.lo.u32 {own_row}, {own_row}, {}, {group};", WARP_LINES * sizes.rows());
        let query = value!(body, B32; "add.u32 {first_query}, {own_row}");

        let end = value!(body, B32; "mov.b32 {keys}");
        if operands.is_causal {
            line!(body; "add.u32 {end}, {first_query}, {};", sizes.tile);
            line!(body; "min.u32 {end}, {end}, {keys};");
        }

        let first_key = value!(body, B32; "mov.u32 0");
        let chunks = [
            sizes.key_chunks(),
            sizes.key_chunks(),
            sizes.value_pitch() / CHUNK_BYTES,
        ];
        let pitches = [sizes.key_pitch(), sizes.key_pitch(), sizes.value_pitch()];
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
                name: NAMES[number],
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
            let [next, wide] = body.regs(RegClass::B64);
            line!(body; "cvt.u64.u32 {wide}, {query};");
            line!(body; "mad.lo.s64 {next}, {wide}, {row_step}, {first};");
            line!(body; "cvt.u64.u32 {wide}, {column};");
            line!(body; "mad.lo.s64 {next}, {wide}, {column_step}, {next};");
            MaskSource {
                next,
                row_step,
                column_step,
            }
        });

        // Addresses in shared memory.
        let shared = |body: &mut KernelBody, name: &str, number: Reg, step: usize| {
            let address = value!(body, B32; "mov.u32 {name}");
            line!(body; "mad.lo.u32 {address}, {number}, {step}, {address};");
            address
        };
        let halves = Swizzle::Halves.bits_of(body, group);
        let eighths = Swizzle::Eighths.bits_of(body, column);
        let query_address = shared(body, NAMES[0], own_row, sizes.key_pitch());
        line!(body; "xor.b32 {query_address}, {query_address}, {halves};");
        let key_address = shared(body, NAMES[1], column, sizes.key_pitch());
        line!(body; "xor.b32 {key_address}, {key_address}, {eighths};");
        let value_address = shared(body, NAMES[2], column, sizes.neighbours * sizes.bytes);
        let weight_row = shared(body, NAMES[1], own_row, sizes.weight_pitch());
        line!(body; "xor.b32 {weight_row}, {weight_row}, {halves};");
        let [weight_address, place] = body.regs(RegClass::B32);
        line!(body; "mul.lo.u32 {place}, {column}, {};", sizes.bytes);
        line!(body; "xor.b32 {weight_address}, {weight_row}, {place};");

        let scale = body.scalar(ParameterKey::Named("scale"), operands.scale);
        let output = body.output(0);
        let [row, address] = body.regs(RegClass::B64);
        let (row_bytes, column_bytes) = (
            sizes.value_size * sizes.bytes,
            sizes.neighbours * sizes.bytes,
        );
        line!(body; "cvt.u64.u32 {row}, {queries};");
        let wide = value!(body, B64; "cvt.u64.u32 {query}");
        line!(body; "mad.lo.s64 {row}, {output_batch}, {row}, {wide};");
        line!(body; "mad.lo.s64 {address}, {row}, {row_bytes}, {output};");
        line!(body; "mul.wide.u32 {row}, {column}, {column_bytes};");
        line!(body; "add.s64 {address}, {address}, {row};");

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
}
