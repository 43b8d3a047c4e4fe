//! The scores of a tile of queries and keys, and their weights.

use crate::{
    element::DType,
    emit::{
        attention::{
            kernel::{AttentionKernel, MaskSource, Rows, SHARING},
            tiles::WARP_LINES,
        },
        body::{
            KernelBody, Reg, RegClass, WARP, line, min_literal, shuffle, test, value, zero_literal,
        },
    },
    plan::order::attention::{CHUNK_BYTES, COLUMN_THREADS, LINE_BYTES},
};

impl AttentionKernel<'_> {
    /// Computes the products of the thread's queries and keys.
    pub(crate) fn multiply_keys(&self, body: &mut KernelBody) {
        let (sizes, kind) = (self.sizes, self.kind);
        for reg in self.scores.iter().flatten() {
            line!(body; "mov.{kind} {reg}, {};", zero_literal(self.dtype));
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
                let address = value!(body, B32; "xor.b32 {}, {}", current[1], chunk * CHUNK_BYTES);
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
                            line!(body; "fma.rn.{kind} {score}, {}, {}, {score};",
                                query[lane], key[lane]);
                        }
                    }
                }
            },
        );
    }

    /// Scales the scores, adds the mask, and gives the least score to keys that do not take part.
    pub(crate) fn adjust_scores(&self, body: &mut KernelBody) {
        let (sizes, kind) = (self.sizes, self.kind);
        for score in self.scores.iter().flatten() {
            line!(body; "mul.rn.{kind} {score}, {score}, {};", self.scale);
        }
        if let Some(mask) = &self.mask {
            self.add_mask(body, mask);
        }
        let last = value!(body, B32; "add.u32 {}, {}", self.first_key, sizes.tile - 1);
        let is_whole = value!(body, Predicate; "setp.lt.u32 {last}, {}", self.keys);
        if self.is_causal {
            let is_before = value!(body, Predicate; "setp.le.u32 {last}, {}", self.first_query);
            line!(body; "and.pred {is_whole}, {is_whole}, {is_before};");
        }
        line!(body; "@{is_whole} bra ADJUSTED;");
        for column in 0..sizes.columns() {
            let key = self.key(body, column);
            let is_beyond = test!(body; "ge.u32 {key}, {}", self.keys);
            for (row, scores) in self.scores.iter().enumerate() {
                let score = scores[column];
                let mut excluded = is_beyond;
                if self.is_causal {
                    let query = self.row(body, row);
                    excluded = test!(body; "gt.u32 {key}, {query}");
                    line!(body; "or.pred {excluded}, {excluded}, {is_beyond};");
                }
                line!(body; "@{excluded} mov.{kind} {score}, {};", min_literal(self.dtype));
            }
        }
        body.label("ADJUSTED");
    }

    /// Adds the mask to the scores of queries and keys that there are.
    fn add_mask(&self, body: &mut KernelBody, mask: &MaskSource) {
        let (sizes, kind) = (self.sizes, self.kind);
        let has_keys: Vec<Reg> = (0..sizes.columns())
            .map(|column| {
                let key = self.key(body, column);
                test!(body; "lt.u32 {key}, {}", self.keys)
            })
            .collect();
        let [address, row_step, column_step] = body.regs(RegClass::B64);
        line!(body; "mul.lo.s64 {column_step}, {}, {COLUMN_THREADS};", mask.column_step);
        line!(body; "mul.lo.s64 {row_step}, {}, {WARP_LINES};", mask.row_step);
        line!(body; "mov.b64 {address}, {};", mask.next);
        for (row, scores) in self.scores.iter().enumerate() {
            if row > 0 {
                line!(body; "add.s64 {address}, {address}, {row_step};");
            }
            let (query, has_query) = (self.row(body, row), body.predicate());
            line!(body; "setp.lt.u32 {has_query}, {query}, {};", self.queries);
            let element = value!(body, B64; "mov.b64 {address}");
            for (column, (score, has_key)) in scores.iter().zip(&has_keys).enumerate() {
                if column > 0 {
                    line!(body; "add.s64 {element}, {element}, {column_step};");
                }
                let (holds, added) = (body.predicate(), body.reg(RegClass::of(self.dtype)));
                line!(body; "and.pred {holds}, {has_query}, {has_key};");
                line!(body; "mov.{kind} {added}, {};", zero_literal(self.dtype));
                line!(body; "@{holds} ld.global.{kind} {added}, [{element}];");
                line!(body; "add.rn.{kind} {score}, {score}, {added};");
            }
        }
        let step = value!(body, B64; "mul.lo.s64 {}, {}", mask.column_step, sizes.tile);
        line!(body; "add.s64 {0}, {0}, {step};", mask.next);
    }

    /// Computes the weights of the scores, stores them, and rescales the sums so far.
    pub(crate) fn weigh(&self, body: &mut KernelBody) {
        let (kind, class) = (self.kind, RegClass::of(self.dtype));
        let exp = match self.dtype {
            DType::F64 => "ms_exp_f64",
            _ => "ms_exp_f32",
        };
        let other_half = value!(body, B32; "xor.b32 {}, {}", self.weight_address, LINE_BYTES / 2);
        for (row, scores) in self.scores.iter().enumerate() {
            let (maximum, total) = (self.maxima[row], self.totals[row]);
            let new = body.reg(class);
            line!(body; "mov.{kind} {new}, {};", scores[0]);
            for score in &scores[1..] {
                line!(body; "max.{kind} {new}, {new}, {score};");
            }
            for distance in SHARING {
                let other = shuffle(body, new, ("bfly", distance), WARP);
                line!(body; "max.{kind} {new}, {new}, {other};");
            }
            line!(body; "max.{kind} {new}, {new}, {maximum};");
            // As long as all scores are negative infinity, the weights are 0 instead of NaN.
            let (is_least, base) = (body.predicate(), body.reg(class));
            line!(body; "setp.eq.{kind} {is_least}, {new}, {};", min_literal(self.dtype));
            line!(body; "selp.{kind} {base}, {}, {new}, {is_least};", zero_literal(self.dtype));
            let power = |body: &mut KernelBody, score: Reg| {
                let [difference, power] = body.regs(class);
                line!(body; "sub.rn.{kind} {difference}, {score}, {base};");
                body.call(exp, power, &[difference]);
                power
            };
            let rescaling = power(body, maximum);
            line!(body; "mov.{kind} {maximum}, {new};");
            line!(body; "mul.rn.{kind} {total}, {total}, {rescaling};");
            for (column, &score) in scores.iter().enumerate() {
                let weight = power(body, score);
                line!(body; "add.rn.{kind} {total}, {total}, {weight};");
                let offset = column * COLUMN_THREADS * self.sizes.bytes;
                let half = offset & (LINE_BYTES / 2);
                let address = if half == 0 {
                    self.weight_address
                } else {
                    other_half
                };
                let offset = row * WARP_LINES * self.sizes.weight_pitch() + offset - half;
                line!(body; "st.shared.{kind} [{address}+{offset}], {weight};");
            }
            for sum in &self.sums[row] {
                line!(body; "mul.rn.{kind} {sum}, {sum}, {rescaling};");
            }
        }
    }
}
