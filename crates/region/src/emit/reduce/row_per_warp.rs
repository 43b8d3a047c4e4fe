//! Reductions of many contiguous rows of moderate length, with one warp for each, or for several
//! that read an array together: it does the work of one warp of a block after another, with an
//! accumulator for each. The bits are those of a block. Where they do not depend on the order, a
//! thread has one accumulator.

use crate::emit::{
    body::{BLOCK, Kernel, KernelBody, ParameterKey, Reg, WARP, WARPS, index, jump, line, test},
    reduce::reduction::{Accumulators, ReductionGenerator},
};

impl ReductionGenerator<'_> {
    /// Generates a kernel with a warp for so many results, with the bits of a block for each.
    pub(crate) fn results_per_warp(&self, results: usize) -> Kernel {
        let mut body = KernelBody::new(self.analysis.wide);
        let number = body.thread();
        let group = index!(body; "shr.u# {number}, {}", WARP.trailing_zeros());
        let lane = index!(body; "and.b# {number}, {}", WARP - 1);
        let all = body.elements_of(ParameterKey::Named("results"), self.reductions[0].node);
        let last = index!(body; "sub.s# {all}, 1");
        let first = index!(body; "mul.lo.s# {group}, {results}");
        // Those beyond the end are the last result again, and are not stored.
        let (mut numbers, mut beyond) = (body.neighbours(first, results), Vec::new());
        for number in &mut numbers {
            beyond.push(test!(body; "gt.u# {number}, {last}"));
            *number = index!(body; "min.u# {number}, {last}");
        }
        let all = match self
            .reductions
            .iter()
            .all(|reduced| reduced.reducer.is_of_any_order())
        {
            true => {
                let step = body.constant_index(WARP);
                let all = self.accumulate_results(&mut body, &numbers, lane, step);
                all.into_iter()
                    .map(|accumulators| vec![accumulators])
                    .collect()
            }
            false => self.accumulate_warps(&mut body, &numbers, lane),
        };
        for of_warps in &all {
            for (number, reduced) in self.reductions.iter().enumerate() {
                let reducer = reduced.reducer;
                for of_warp in of_warps {
                    reducer.combine_lanes(&mut body, &of_warp[number], WARP);
                }
                for of_warp in &of_warps[1..] {
                    reducer.combine(&mut body, &of_warps[0][number], &of_warp[number]);
                }
            }
        }
        jump!(body; "DONE" if "ne.u# {lane}, 0");
        let words = body.name_parts();
        for ((number, beyond), of_warps) in numbers.iter().zip(beyond).zip(&all) {
            line!(body; "@{beyond} bra DONE;");
            body.truncate_name(words);
            self.store_results(&mut body, &of_warps[0], *number);
        }
        body.label("DONE");
        self.finish(body, "")
    }

    /// Returns the accumulators of each result, one for each warp of a block.
    fn accumulate_warps(
        &self,
        body: &mut KernelBody,
        results: &[Reg],
        lane: Reg,
    ) -> Vec<Vec<Accumulators>> {
        let of_result = |body: &mut KernelBody| (0..WARPS).map(|_| self.identities(body)).collect();
        let all: Vec<Vec<Accumulators>> = results.iter().map(|_| of_result(body)).collect();
        let places = self.places(body, results);
        let lanes = self.rows.lanes;
        let length = self.groups(body);
        let (at, beyond) = (body.index_reg(), body.predicate());
        line!(body; "mov.b# {at}, {lane};");
        for warp in 0..WARPS {
            let first = index!(body; "add.s# {at}, {}", warp * WARP);
            line!(body; "mul.lo.s# {first}, {first}, {lanes};");
            for of_warps in &all {
                self.begin_at(body, &of_warps[warp], first);
            }
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
        for (place, of_warps) in places.iter().zip(&all) {
            let mut elements = Vec::with_capacity(WARPS);
            for neighbours in &self.neighbours(&mut lowering, place, &numbers, lanes) {
                elements.push(self.elements(&mut lowering, neighbours, &mut first_words));
            }
            for (elements, of_warp) in elements.iter().zip(of_warps) {
                self.combine_elements(lowering.body, of_warp, elements);
            }
        }
        line!(body; "add.s# {at}, {at}, {BLOCK};");
        line!(body; "bra LOOP;");

        // The last elements, which not all warps have.
        body.label("REST");
        let words = body.name_parts();
        for (warp, number) in numbers.iter().enumerate() {
            jump!(body, beyond; "LEFT" if "ge.u# {number}, {length}");
            let mut lowering = self.lowering(body, &known);
            for (place, of_warps) in places.iter().zip(&all) {
                for neighbours in self.neighbours(&mut lowering, place, &[*number], lanes) {
                    let elements = self.elements(&mut lowering, &neighbours, &mut None);
                    self.combine_elements(lowering.body, &of_warps[warp], &elements);
                }
            }
        }
        body.label("LEFT");
        body.truncate_name(words);
        all
    }
}
