//! Random programs over several streams, against plain vectors that do the same in the order of the calls.

use crate::{machine::run, places::on_gpu, rig::everywhere, steps::program};

const STEPS: usize = 60;

#[test]
fn random_programs_give_what_plain_vectors_give() {
    let programs = if on_gpu() { 2000 } else { 200 };
    everywhere(|rig| {
        for seed in 0..programs {
            run(&rig.device, Some(rig), &program(seed, STEPS, true))
                .unwrap_or_else(|error| panic!("program {seed}: {error}"));
        }
    });
}
