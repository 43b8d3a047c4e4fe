//! The transformer: weights, memory for decoding, and one step.

use anyhow::{Result, ensure};
use millstream::{Buffer, Device, LaunchConfig, Stream};

use super::kernels::decode::{self, Kernels};

/// The threads of a block of kernels with a thread for each element, and of products.
const BLOCK: usize = 128;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) width: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) hidden: usize,
    pub(crate) vocabulary: usize,
    pub(crate) context: usize,
}

impl Shape {
    fn head(&self) -> usize {
        self.width / self.heads
    }

    pub(crate) fn weights(&self) -> usize {
        let layer = 4 * self.width * self.width + 3 * self.hidden * self.width + 2 * self.width;
        self.layers * layer + self.vocabulary * self.width + self.width
    }

    pub(crate) fn launches(&self) -> usize {
        4 + 9 * self.layers
    }
}

struct Layer {
    before_attention: Buffer<f32>,
    qkv: Buffer<f32>,
    projection: Buffer<f32>,
    before_hidden: Buffer<f32>,
    up: Buffer<f32>,
    down: Buffer<f32>,
}

pub(crate) struct Model {
    pub(crate) shape: Shape,
    kernels: Kernels,
    /// The embeddings, and the matrix that gives the logits.
    table: Buffer<f32>,
    layers: Vec<Layer>,
    last: Buffer<f32>,
    /// Cosine and sine for each position and pair of elements of a head.
    turns: Buffer<f32>,
}

pub(crate) struct Decoding {
    /// The token and its position.
    state: Buffer<u32>,
    tokens: Buffer<u32>,
    logits: Buffer<f32>,
    /// Keys and values of all tokens so far, for each layer.
    caches: Vec<[Buffer<f32>; 2]>,
    x: Buffer<f32>,
    scores: Buffer<f32>,
}

/// The token from which each decoding begins.
const FIRST: u32 = 1;

impl Model {
    pub(crate) fn random(device: &Device, stream: &Stream, shape: Shape) -> Result<Self> {
        let Shape { width, hidden, .. } = shape;
        ensure!(
            width % (2 * shape.heads) == 0,
            "a head has an even number of elements"
        );
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut matrix = |rows: usize, columns: usize| {
            let scale = 1.0 / (columns as f32).sqrt();
            let values: Vec<f32> = (0..rows * columns).map(|_| scale * random.next()).collect();
            stream.upload(&values)
        };
        let table = matrix(shape.vocabulary, width)?;
        let ones = || stream.upload(&vec![1.0_f32; width]);
        let mut layers = Vec::new();
        for _ in 0..shape.layers {
            layers.push(Layer {
                before_attention: ones()?,
                qkv: matrix(3 * width, width)?,
                projection: matrix(width, width)?,
                before_hidden: ones()?,
                up: matrix(2 * hidden, width)?,
                down: matrix(width, hidden)?,
            });
        }
        Ok(Self {
            shape,
            kernels: decode::load(device)?,
            table,
            layers,
            last: ones()?,
            turns: stream.upload(&turns(&shape))?,
        })
    }

    pub(crate) fn begin(&self, stream: &Stream) -> Result<Decoding> {
        let Shape {
            width,
            vocabulary,
            context,
            heads,
            ..
        } = self.shape;
        let floats = |len| stream.zeros::<f32>(len);
        let cache = |_| Ok([floats(context * width)?, floats(context * width)?]);
        Ok(Decoding {
            state: stream.upload(&[FIRST, 0])?,
            tokens: stream.zeros(context)?,
            logits: floats(vocabulary)?,
            caches: (0..self.shape.layers)
                .map(cache)
                .collect::<Result<_, millstream::Error>>()?,
            x: floats(width)?,
            scores: floats(heads * context)?,
        })
    }

    /// Enqueues the decoding of the next token: the same operations for every token, on whatever
    /// stream, eager or recorded. `running` is set as long as there are fewer than `count` tokens.
    pub(crate) fn step(
        &self,
        stream: &Stream,
        decoding: &mut Decoding,
        running: &mut Buffer<u32>,
        count: usize,
    ) -> millstream::Result<()> {
        let shape = &self.shape;
        let [width, head, hidden, vocabulary, context] = [
            shape.width,
            shape.head(),
            shape.hidden,
            shape.vocabulary,
            shape.context,
        ];
        let [w, h, v, c] = [width, hidden, vocabulary, context].map(|size| size as u32);
        let kernels = &self.kernels;
        let (state, x) = (&mut decoding.state, &mut decoding.x);
        let one_warp = LaunchConfig::new([1, 1, 1], [32, 1, 1]);
        // Memory of the graph if this is recorded, and of the device's cache otherwise.
        let mut normal = stream.zeros::<f32>(width)?;
        let mut qkv = stream.zeros::<f32>(3 * width)?;
        let mut attended = stream.zeros::<f32>(width)?;
        let mut both = stream.zeros::<f32>(2 * hidden)?;
        let mut active = stream.zeros::<f32>(hidden)?;
        let product = |matrix: &Buffer<f32>, x: &Buffer<f32>, out: &mut Buffer<f32>, size, add| {
            let [rows, columns]: [usize; 2] = size;
            let size = (rows as u32, columns as u32);
            kernels.product(stream, warps(rows), matrix, x, out, size.0, size.1, add)
        };
        kernels.embed(stream, each(width), &self.table, &*state, &mut *x, v, w)?;
        for (layer, [keys, values]) in self.layers.iter().zip(&mut decoding.caches) {
            let before = &layer.before_attention;
            kernels.normalise(stream, one_warp, &*x, before, &mut normal, w)?;
            product(&layer.qkv, &normal, &mut qkv, [3 * width, width], 0)?;
            kernels.rotate(
                stream,
                each(width / 2),
                &mut qkv,
                &self.turns,
                &*state,
                &mut *keys,
                &mut *values,
                w,
                head as u32,
                c,
            )?;
            kernels.attend(
                stream,
                LaunchConfig::new([shape.heads as u32, 1, 1], [32, 1, 1]),
                &qkv,
                &*keys,
                &*values,
                &*state,
                &mut decoding.scores,
                &mut attended,
                w,
                head as u32,
                c,
            )?;
            product(&layer.projection, &attended, &mut *x, [width, width], 1)?;
            let before = &layer.before_hidden;
            kernels.normalise(stream, one_warp, &*x, before, &mut normal, w)?;
            product(&layer.up, &normal, &mut both, [2 * hidden, width], 0)?;
            kernels.activate(stream, each(hidden), &both, &mut active, h)?;
            product(&layer.down, &active, &mut *x, [width, hidden], 1)?;
        }
        kernels.normalise(stream, one_warp, &*x, &self.last, &mut normal, w)?;
        let logits = &mut decoding.logits;
        product(&self.table, &normal, &mut *logits, [vocabulary, width], 0)?;
        kernels.choose(
            stream,
            one_warp,
            &*logits,
            state,
            &mut decoding.tokens,
            running,
            v,
            count as u32,
        )
    }
}

impl Decoding {
    /// Goes back to the first token.
    pub(crate) fn rewind(
        &mut self,
        stream: &Stream,
        running: &mut Buffer<u32>,
    ) -> millstream::Result<()> {
        stream.upload_into(&[FIRST, 0], &mut self.state)?;
        stream.fill(running, 1)?;
        stream.fill(&mut self.tokens, 0)?;
        stream.fill(&mut self.logits, 0.0)
    }

    /// Waits for the first tokens and the logits of the last.
    pub(crate) fn results(&self, stream: &Stream, count: usize) -> Result<(Vec<u32>, Vec<u32>)> {
        let tokens = stream.download(self.tokens.slice(..count))?;
        let logits = stream.download(&self.logits)?.wait()?;
        let bits = logits.into_iter().map(f32::to_bits).collect();
        Ok((tokens.wait()?, bits))
    }
}

fn each(elements: usize) -> LaunchConfig {
    let blocks = elements.div_ceil(BLOCK) as u32;
    LaunchConfig::new([blocks, 1, 1], [BLOCK as u32, 1, 1])
}

fn warps(rows: usize) -> LaunchConfig {
    each(32 * rows)
}

/// Returns cosines and sines of the rotary position embedding.
fn turns(shape: &Shape) -> Vec<f32> {
    let head = shape.head();
    let angle = |position: usize, pair: usize| {
        position as f32 * 10_000_f32.powf(-((2 * pair) as f32) / head as f32)
    };
    let pairs = |position| (0..head / 2).map(move |pair| (position, pair));
    (0..shape.context)
        .flat_map(pairs)
        .flat_map(|(position, pair)| {
            let angle = angle(position, pair);
            [angle.cos(), angle.sin()]
        })
        .collect()
}

/// Random numbers, the same in every run.
struct Random(u64);

impl Random {
    /// Returns a number from −1 to 1.
    fn next(&mut self) -> f32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}
