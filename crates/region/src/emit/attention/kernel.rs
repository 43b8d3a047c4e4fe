//! The kernel of attention, and its loop over the tiles of keys.

use crate::{
    element::DType,
    emit::{
        attention::{loader::TileLoader, tiles::WARP_LINES},
        body::{KernelBody, Reg, jump, line, min_literal, value, zero_literal},
        passes::GeneratedPasses,
    },
    expr::{NodeRef, Op},
    plan::{
        FusedKernel,
        order::attention::{COLUMN_THREADS, LINE_BYTES, THREADS, TileSizes},
    },
    schedule::machine::ATTENTION_BLOCKS,
};

/// The distances of the threads that share the scores of a query. The other bit of a thread's
/// number in its warp tells the two groups of a warp apart: with this bit, threads that read the
/// same chunk are neighbours, which takes fewer accesses to shared memory.
pub(crate) const SHARING: [usize; 4] = [1, 4, 8, 16];

/// The names of the tiles in shared memory.
pub(crate) const NAMES: [&str; 3] = ["attention_queries", "attention_keys", "attention_values"];

/// Registers, a row for each query of a thread.
pub(crate) type Rows = Vec<Vec<Reg>>;

pub(crate) fn attention(kernel: &FusedKernel) -> GeneratedPasses {
    let node = &kernel.root;
    let Some(Op::Attention(operands)) = kernel.op(node) else {
        unreachable!("the root is attention");
    };
    let last = |node: &NodeRef, back: usize| node.shape[node.shape.len() - back];
    let (queries, keys) = (last(&operands.queries, 2), last(&operands.keys, 2));
    let sizes = TileSizes::new(node.dtype, last(&operands.keys, 1), last(node, 1))
        .expect("recording has checked the sizes");
    let tiles = queries.div_ceil(sizes.tile);
    let batches: usize = node.shape[..node.shape.len() - 2].iter().product();
    let mut body = KernelBody::new(true);
    body.block = THREADS;
    body.blocks_min = Some(ATTENTION_BLOCKS);
    body.name_part("attention");
    let builder = AttentionKernel::new(&mut body, kernel, operands, &sizes, (queries, keys, tiles));
    builder.run(&mut body);
    let declare = |(name, bytes): (&str, usize)| {
        format!("\t.shared .align {LINE_BYTES} .b8 {name}[{bytes}];\n")
    };
    let shared: String = NAMES
        .into_iter()
        .zip(sizes.tile_bytes())
        .map(declare)
        .collect();
    GeneratedPasses::one(body.finish(&shared), tiles * batches * THREADS)
}

/// The registers of a thread, and the sizes that the text depends on.
pub(crate) struct AttentionKernel<'a> {
    pub(crate) dtype: DType,
    /// The suffix of instructions.
    pub(crate) kind: &'static str,
    pub(crate) sizes: &'a TileSizes,
    pub(crate) is_causal: bool,
    pub(crate) scale: Reg,
    pub(crate) loaders: [TileLoader; 3],
    pub(crate) mask: Option<MaskSource>,
    /// The numbers of keys and queries, of 32 bits.
    pub(crate) keys: Reg,
    pub(crate) queries: Reg,
    /// The tile's first query, the thread's first query, and the end of the tile's keys.
    pub(crate) first_query: Reg,
    pub(crate) query: Reg,
    pub(crate) end: Reg,
    /// The number of the thread among those that share a query.
    pub(crate) column: Reg,
    /// The first key of the tile.
    pub(crate) first_key: Reg,
    /// Addresses in shared memory: the thread's first query and key, its chunk of values, its first
    /// weight, and its first row of weights.
    pub(crate) query_address: Reg,
    pub(crate) key_address: Reg,
    pub(crate) value_address: Reg,
    pub(crate) weight_address: Reg,
    pub(crate) weight_row: Reg,
    /// The address of the thread's first result.
    pub(crate) output: Reg,
    pub(crate) scores: Rows,
    pub(crate) sums: Rows,
    pub(crate) maxima: Vec<Reg>,
    pub(crate) totals: Vec<Reg>,
}

/// The mask in device memory.
pub(crate) struct MaskSource {
    /// The address of the element for the thread's first query and key in the tile.
    pub(crate) next: Reg,
    pub(crate) row_step: Reg,
    pub(crate) column_step: Reg,
}

impl AttentionKernel<'_> {
    /// Emits the loop over the tiles of keys, and the results.
    fn run(&self, body: &mut KernelBody) {
        let [queries, keys, values] = &self.loaders;
        queries.load(body);
        queries.store(body);
        let zero = zero_literal(self.dtype);
        for reg in self.sums.iter().flatten().chain(&self.totals) {
            line!(body; "mov.{} {reg}, {zero};", self.kind);
        }
        for reg in &self.maxima {
            line!(body; "mov.{} {reg}, {};", self.kind, min_literal(self.dtype));
        }
        keys.load(body);
        values.load(body);
        body.label("TILE");
        // All warps have read the weights and the values of the tile before.
        line!(body; "bar.sync 0;");
        keys.store(body);
        values.store(body);
        line!(body; "bar.sync 0;");
        self.multiply_keys(body);
        self.adjust_scores(body);
        // All warps have read the keys, which the weights replace.
        line!(body; "bar.sync 0;");
        self.weigh(body);
        // Only threads of the same warp read the weights of a query.
        line!(body; "bar.warp.sync 0xffffffff;");
        keys.load(body);
        values.load(body);
        self.multiply_values(body);
        line!(body; "add.u32 {0}, {0}, {1};", self.first_key, self.sizes.tile);
        jump!(body; "TILE" if "lt.u32 {}, {}", self.first_key, self.end);
        self.store(body);
    }

    /// Computes the number of one of the thread's keys.
    pub(crate) fn key(&self, body: &mut KernelBody, column: usize) -> Reg {
        let key = value!(body, B32; "add.u32 {}, {}", self.first_key, self.column);
        line!(body; "add.u32 {key}, {key}, {};", column * COLUMN_THREADS);
        key
    }

    /// Computes the number of one of the thread's queries.
    pub(crate) fn row(&self, body: &mut KernelBody, row: usize) -> Reg {
        value!(body, B32; "add.u32 {}, {}", self.query, row * WARP_LINES)
    }
}

#[cfg(test)]
mod tests {
    use millstream::Device;
    use ndarray::Array3;

    use crate::{Array, plan::only_kernel, run::texts::generate};

    /// Returns the text of the kernel for keys and values of these lengths. `step` is the
    /// distance between the elements of a key in memory.
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
