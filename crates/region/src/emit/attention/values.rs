//! The weighted sums of the values.

use crate::{
    emit::{
        attention::{
            kernel::{AttentionKernel, Rows, SHARING},
            tiles::WARP_LINES,
        },
        body::{KernelBody, Reg, WARP, line, shuffle, value},
    },
    plan::order::attention::{CHUNKS, COLUMN_THREADS, LINE_BYTES},
};

impl AttentionKernel<'_> {
    /// Adds the products of the weights and the values.
    pub(crate) fn multiply_values(&self, body: &mut KernelBody) {
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
                            line!(body; "fma.rn.{kind} {sum}, {weight}, {value}, {sum};");
                        }
                    }
                }
            },
        );
    }

    /// Divides the sums by the totals of the weights, and stores them.
    pub(crate) fn store(&self, body: &mut KernelBody) {
        let (sizes, kind) = (self.sizes, self.kind);
        let (row_bytes, group) = (
            sizes.value_size * sizes.bytes,
            COLUMN_THREADS * sizes.neighbours,
        );
        let has_vectors = sizes.value_size % sizes.neighbours == 0;
        let first = value!(body, B32; "mul.lo.u32 {}, {}", self.column, sizes.neighbours);
        for (row, (sums, total)) in self.sums.iter().zip(&self.totals).enumerate() {
            for distance in SHARING {
                let other = shuffle(body, *total, ("bfly", distance), WARP);
                line!(body; "add.rn.{kind} {total}, {total}, {other};");
            }
            for sum in sums {
                line!(body; "div.rn.{kind} {sum}, {sum}, {total};");
            }
            let (query, has_query) = (self.row(body, row), body.predicate());
            line!(body; "setp.lt.u32 {has_query}, {query}, {};", self.queries);
            for (number, sum) in sums.iter().enumerate() {
                let element = number / sizes.neighbours * group + number % sizes.neighbours;
                let offset = row * WARP_LINES * row_bytes + element * sizes.bytes;
                if has_vectors && number % sizes.neighbours > 0 {
                    continue;
                }
                let place = value!(body, B32; "add.u32 {first}, {element}");
                let holds = value!(body, Predicate; "setp.lt.u32 {place}, {}", sizes.value_size);
                line!(body; "and.pred {holds}, {holds}, {has_query};");
                let at_once = if has_vectors { sizes.neighbours } else { 1 };
                let (vector, list) = match at_once {
                    1 => (String::new(), sum.to_string()),
                    _ => {
                        let list = sums[number..number + at_once].iter().map(Reg::to_string);
                        let list = list.collect::<Vec<_>>().join(", ");
                        (format!(".v{at_once}"), format!("{{{list}}}"))
                    }
                };
                line!(body; "@{holds} st.global{vector}.{kind} [{}+{offset}], {list};",
                    self.output);
            }
        }
    }
}
