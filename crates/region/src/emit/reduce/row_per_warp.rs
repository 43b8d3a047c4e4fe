//! Reductions of many contiguous rows of moderate length, with one warp for each: it does the work
//! of one warp of a block after another, with an accumulator for each. The bits are those of a
//! block.

use crate::emit::{
    body::{BLOCK, Kernel, KernelBody, Reg, RowThread, WARP, WARPS, index, jump, line},
    lower::Lowering,
    reduce::reduction::{Accumulators, ReductionGenerator},
};

impl ReductionGenerator<'_> {
    /// Generates a kernel with a warp per result, which gives the bits of a block per result.
    pub(crate) fn row_per_warp(&self) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let own = RowThread::new(&mut body, self.reductions[0].node, WARP);
        let accumulators = self.accumulate_warps(&mut body, own);
        for (number, reduced) in self.reductions.iter().enumerate() {
            let reducer = reduced.reducer;
            for of_warp in &accumulators {
                reducer.combine_lanes(&mut body, &of_warp[number], WARP);
            }
            for of_warp in &accumulators[1..] {
                reducer.combine(&mut body, &accumulators[0][number], &of_warp[number]);
            }
        }
        own.first_only(&mut body, "DONE");
        self.store_results(&mut body, &accumulators[0], own.row);
        body.label("DONE");
        self.finish(body, "")
    }

    fn accumulate_warps(&self, body: &mut KernelBody, own: RowThread) -> Vec<Accumulators> {
        let accumulators: Vec<Accumulators> = (0..WARPS).map(|_| self.identities(body)).collect();
        let places = self.places(body, &[own.row]);
        let lanes = self.rows.lanes;
        let length = self.groups(body);
        let (at, beyond) = (body.index_reg(), body.predicate());
        line!(body; "mov.b# {at}, {};", own.thread);
        for (warp, of_warp) in accumulators.iter().enumerate() {
            let first = index!(body; "add.s# {at}, {}", warp * WARP);
            line!(body; "mul.lo.s# {first}, {first}, {lanes};");
            self.begin_at(body, of_warp, first);
        }
        let known = self.before_loop(body, &places, at);

        // All warps have elements.
        body.label("LOOP");
        let numbers: Vec<Reg> = (0..WARPS)
            .map(|warp| index!(body; "add.s# {at}, {}", warp * WARP))
            .collect();
        let last = numbers[WARPS - 1];
        jump!(body, beyond; "REST" if "ge.u# {last}, {length}");
        let mut first_words = None;
        let mut lowering = self.lowering(body, &known);
        let mut elements = Vec::with_capacity(WARPS);
        let neighbours = self.neighbours(&mut lowering, &places[0], &numbers, lanes);
        for neighbours in &neighbours {
            elements.push(self.elements(&mut lowering, neighbours, &mut first_words));
        }
        for (elements, of_warp) in elements.iter().zip(&accumulators) {
            self.combine_elements(body, of_warp, elements);
        }
        line!(body; "add.s# {at}, {at}, {BLOCK};");
        line!(body; "bra LOOP;");

        // The last elements, which not all warps have.
        body.label("REST");
        let words = body.name_parts();
        for (number, of_warp) in numbers.iter().zip(&accumulators) {
            jump!(body, beyond; "LEFT" if "ge.u# {number}, {length}");
            let mut lowering = self.lowering(body, &known);
            for neighbours in self.neighbours(&mut lowering, &places[0], &[*number], lanes) {
                let elements = self.elements(&mut lowering, &neighbours, &mut None);
                self.combine_elements(lowering.body, of_warp, &elements);
            }
        }
        body.label("LEFT");
        body.truncate_name(words);
        accumulators
    }
}
