//! Scenarios K7 to K9 with modules that are declared by `kernels!`: their variables, the occupancy
//! of their kernels, and the kernels of the example in Rust.

#![allow(unsafe_code, reason = "declares kernels")]

use crate::scenarios::{given_modules::VARIABLES, prelude::*};

/// Two kernels of one thread. `bump()` adds 1 to the variable `count`, with a load and a store.
/// `look_up(out, i)` stores element `i` of the variable `squares`.
const COUNTER: &str = include_str!("counter.ptx");

millstream::kernels! {
    // SAFETY: the signatures are those of the kernels. The threads of a block in one dimension
    // access their own element, and the variables as the text says.
    unsafe mod variables from VARIABLES {
        static factor: f32;
        static offsets: [f32];
        static total: u32;

        safe fn scale(x: &mut [f32], n: u32)
            requires x.len() >= n, grid.blocks.x * grid.blocks.y * grid.blocks.z == 1,
                grid.block.y * grid.block.z == 1;
        safe fn tally(n: u32)
            requires grid.blocks.x * grid.blocks.y * grid.blocks.z == 1,
                grid.block.y * grid.block.z == 1;
    }

    // SAFETY: as above, for one thread.
    unsafe mod counter from COUNTER {
        /// The number of calls of `bump`.
        static count: u32;
        #[kernel(name = "squares")]
        static table: [u32];

        safe fn bump() requires grid.blocks.x * grid.block.x == 1;
        safe fn look_up(out: &mut [u32], i: u32)
            requires !out.is_empty(), i < 4, grid.blocks.x * grid.block.x == 1;
    }

    // SAFETY: nothing is launched.
    unsafe mod misnamed from COUNTER {
        static counts: u32;
    }

    // SAFETY: nothing is launched.
    unsafe mod single from COUNTER {
        static squares: u32;
    }

    // SAFETY: nothing is launched.
    unsafe mod too_wide from COUNTER {
        static count: [u64];
    }
}

#[run_by(scenario, |harness|)]
fn k07_variables_of_declared_modules_are_read_and_written_in_the_order_of_conflicts() -> Result<()>
{
    let kernels = variables::load(&harness.device)?;
    let again = variables::load(&harness.device)?;
    let [host, first, second, reader] = harness.streams();
    let (mut factor, mut offsets) = (kernels.factor(), kernels.offsets());
    let total = again.total();
    assert_eq!((factor.len(), offsets.len(), total.len()), (1, 4, 1));
    assert_eq!(host.values(&factor)?, [1.0], "the initial value");
    let mut x = first.upload(&[1.0_f32, 2.0, 3.0, 4.0, 5.0])?;
    let before = reader.values(&total)?[0];

    let gate = harness.gate(&host);
    host.fill(&mut factor, 10.0)?;
    host.copy(&host.upload(&[0.5_f32, 0.25, 0.0, 0.0])?, &mut offsets)?;
    kernels.scale(&first, (1, 32), &mut x, 5)?;
    let scaled = first.download(&x)?;
    harness.assert_pending(&scaled);
    // A later write of the host waits for the kernel that reads.
    reader.fill(&mut factor, 1.0)?;
    gate.open();
    assert_eq!(scaled.wait()?, [10.5, 20.25, 30.0, 40.0, 50.5]);
    kernels.tally(&first, (1, 32), 5)?;
    again.tally(&second, (1, 32), 3)?;
    assert_eq!(reader.values(&total)?, [before + 13]);
    Ok(())
}

#[run_by(scenario_on, |harness, [first, second]|)]
fn k07_a_variable_keeps_its_order_when_all_its_handles_were_dropped() -> Result<()> {
    let kernels = counter::load(&harness.device)?;
    let before = first.values(kernels.count())?[0];
    let gate = harness.gate(&first);
    kernels.bump(&first, (1, 1))?;
    drop(kernels);
    let kernels = counter::load(&harness.device)?;
    kernels.bump(&second, (1, 1))?;
    assert_eq!(
        harness.opened(gate, second.download(kernels.count())?),
        [before + 2]
    );
    Ok(())
}

#[run_by(once, |harness|)]
fn k07_kernels_that_only_look_up_in_a_table_run_at_the_same_time() -> Result<()> {
    let kernels = counter::load(&harness.device)?;
    let [first, second] = harness.streams();
    let (mut x, mut y) = (first.zeros::<u32>(1)?, second.zeros::<u32>(1)?);
    let gate = harness.gate(&first);
    kernels.look_up(&first, (1, 1), &mut x, 2)?;
    kernels.look_up(&second, (1, 1), &mut y, 3)?;
    assert_eq!(second.values(&y)?, [9], "beside the waiting kernel");
    assert_eq!(harness.opened(gate, first.download(&x)?), [4]);
    assert_eq!(first.values(kernels.table())?, [0, 1, 4, 9]);
    Ok(())
}

#[run_by(once, |harness|)]
fn k07_a_declared_variable_that_is_not_the_modules_is_a_typed_error() -> Result<()> {
    let refused = problem(misnamed::load(&harness.device));
    let UsageErrorKind::NoVariable {
        variable,
        variables,
    } = refused
    else {
        panic!("another error: {refused}");
    };
    assert_eq!(
        (variable.as_str(), &variables[..]),
        ("counts", &["count".to_owned(), "squares".to_owned()][..])
    );
    let UsageErrorKind::Signature { detail } = problem(single::load(&harness.device)) else {
        panic!("another error");
    };
    let expected = "the variable `squares` is declared as one element of 4 bytes, and has 16";
    assert!(detail.starts_with(expected), "{detail}");
    let refused = problem(too_wide::load(&harness.device));
    assert_is!(refused, UsageErrorKind::Variable { bytes: 4, .. });
    Ok(())
}

#[run_by(once, |harness|)]
fn k08_declared_kernels_have_an_occupancy() -> Result<()> {
    let kernels = variables::load(&harness.device)?;
    let occupancy = kernels.scale_occupancy();
    let multiprocessors = u64::from(harness.device.properties()?.multiprocessors);
    let full = occupancy.resident_blocks(occupancy.threads_max(), 0)?;
    assert!(full >= multiprocessors, "{full}");
    assert!(occupancy.resident_blocks(32, 0)? > full);
    let suggested = occupancy.suggested_block(0)?;
    assert!(
        suggested.threads >= 32 && suggested.threads <= occupancy.threads_max(),
        "{suggested:?}"
    );
    // A kernel that uses variables has the limits of any other.
    let mut x = harness.stream().zeros::<f32>(1)?;
    let too_many = occupancy.threads_max() + 1;
    let refused = kernels.scale(&harness.stream(), (1, too_many), &mut x, 1);
    assert_is!(
        problem(refused),
        UsageErrorKind::LaunchConfig { detail } if detail.contains(&too_many.to_string())
    );
    kernels.scale(&harness.stream(), (1, occupancy.threads_max()), &mut x, 1)
}
