//! Scenarios K5 to K8: modules that are given at run time, their variables, and launch attributes.

#![allow(unsafe_code, reason = "launches kernels")]

use millstream::{Module, signature};

use crate::scenarios::prelude::*;

/// Two kernels that use variables. `scale(x, n)`: multiplies by the constant `factor` and adds
/// `offsets[i % 4]`. `tally(x, n)`: adds the numbers below `n` to the variable `total`.
pub(crate) const VARIABLES: &str = include_str!("variables.ptx");

fn load(device: &Device) -> Module {
    let module = device.module(Ptx::text("variables.ptx", VARIABLES));
    module.expect("the module loads")
}

#[run_by(once, |harness|)]
fn k05_ptx_of_a_text_and_of_a_file_is_loaded_and_checked() -> Result<()> {
    let folder = std::env::temp_dir();
    let path = folder.join(format!("millstream-given-{}.ptx", std::process::id()));
    std::fs::write(&path, VARIABLES).expect("a file is written");
    let from_file = Ptx::file(&path);
    std::fs::remove_file(&path).expect("a file is removed");
    for ptx in [Ptx::text("variables.ptx", VARIABLES), from_file?] {
        let module = harness.device.module(ptx)?;
        assert_eq!(module.kernels(), ["scale", "tally"]);
        let scale = module.function::<signature!(&mut [f32], u32)>("scale")?;
        let stream = harness.stream();
        let mut x = stream.upload(&[1.0_f32, 2.0])?;
        // SAFETY: the kernel accesses 2 elements.
        unsafe { scale.launch(&stream, (1, 32), (&mut x, 2)) }?;
        assert_eq!(stream.values(&x)?, [1.0, 2.0]);
        let wrong = module.function::<signature!(&mut [f32], u64)>("scale");
        assert!(matches!(problem(wrong), UsageErrorKind::Signature { .. }));
    }
    let missing = Ptx::file("/millstream/no/such/file.ptx").expect_err("there is none");
    assert_says(&missing, "/millstream/no/such/file.ptx");
    Ok(())
}

#[run_by(once, |harness|)]
fn k05_ptx_that_is_wrong_or_too_new_is_a_typed_error() -> Result<()> {
    let load = |text: &str| harness.device.module(Ptx::text("wrong.ptx", text));
    assert_is!(
        problem(load("no PTX")),
        UsageErrorKind::Ptx { detail }
            if detail.contains("line 1") && detail.contains("`wrong.ptx`")
    );
    let newer = VARIABLES.replace(".version 7.0", ".version 99.0");
    assert_is!(
        problem(load(&newer)),
        UsageErrorKind::PtxVersion { detail } if detail.contains("99.0")
    );
    // Everything is usable afterwards.
    load(VARIABLES).map(drop)
}

#[run_by(once, |harness|)]
fn k05_machine_code_is_refused_where_only_ptx_runs() -> Result<()> {
    // The head of an ELF file without any content.
    let image = b"\x7fELF\x02\x01\x01\0";
    if on_gpu() {
        // SAFETY: text is refused before the driver reads it.
        let refused = unsafe { harness.device.module_from_binary("text", b"no binary") };
        assert!(matches!(problem(refused), UsageErrorKind::Ptx { .. }));
        return Ok(());
    }
    // SAFETY: the simulated device reads no machine code.
    let refused = unsafe { harness.device.module_from_binary("k.cubin", image) };
    assert_is!(
        problem(refused),
        UsageErrorKind::Unsupported { detail }
            if detail.contains("`k.cubin` is machine code")
    );
    Ok(())
}

#[run_by(scenario, |harness|)]
fn k07_variables_are_read_and_written_by_name_in_the_order_of_conflicts() -> Result<()> {
    let module = load(&harness.device);
    let scale = module.function::<signature!(&mut [f32], u32)>("scale")?;
    let tally = module.function::<signature!(u32)>("tally")?;
    let mut factor = module.global::<f32>("factor")?;
    let mut offsets = module.global::<f32>("offsets")?;
    let mut total = module.global::<u32>("total")?;
    assert_eq!((factor.len(), offsets.len(), total.len()), (1, 4, 1));
    let [host, first, second, reader] = harness.streams();
    assert_eq!(host.values(&factor)?, [1.0], "the initial value");
    assert_eq!(host.values(&total)?, [0]);
    let mut x = first.upload(&[1.0_f32, 2.0, 3.0, 4.0, 5.0])?;
    let mut y = second.upload(&[1.0_f32; 5])?;

    let gate = harness.gate(&host);
    host.fill(&mut factor, 10.0)?;
    host.copy(&host.upload(&[0.5_f32, 0.25, 0.0, 0.0])?, &mut offsets)?;
    // SAFETY: the kernel accesses 5 elements.
    unsafe { scale.launch(&first, (1, 32), (&mut x, 5)) }?;
    // SAFETY: as above.
    unsafe { scale.launch(&second, (1, 32), (&mut y, 5)) }?;
    let scaled = first.download(&x)?;
    harness.assert_pending(&scaled);
    // A later write of the host waits for the kernels that read.
    reader.fill(&mut factor, 0.0)?;
    reader.fill(&mut total, 100)?;
    // SAFETY: the kernel accesses only the variable.
    unsafe { tally.launch(&first, (1, 32), (5,)) }?;
    // SAFETY: as above.
    unsafe { tally.launch(&second, (1, 32), (3,)) }?;
    let counted = reader.download(&total)?;
    gate.open();
    assert_eq!(scaled.wait()?, [10.5, 20.25, 30.0, 40.0, 50.5]);
    assert_eq!(second.values(&y)?, [10.5, 10.25, 10.0, 10.0, 10.5]);
    assert_eq!(counted.wait()?, [113]);
    assert_eq!(host.values(factor.slice(..))?, [0.0]);
    Ok(())
}

#[run_by(once, |harness|)]
fn k07_a_wrong_name_or_type_of_a_variable_is_a_typed_error() -> Result<()> {
    let module = load(&harness.device);
    let UsageErrorKind::NoVariable {
        variable,
        variables,
    } = problem(module.global::<f32>("factr"))
    else {
        panic!("another error");
    };
    assert_eq!(
        (variable.as_str(), variables[0].as_str()),
        ("factr", "factor")
    );
    assert!(variables.contains(&"total".to_owned()), "{variables:?}");
    let problem = problem(module.global::<[u32; 3]>("offsets"));
    assert_is!(
        problem,
        UsageErrorKind::Variable {
            bytes: 16,
            element_bytes: 12,
            ..
        }
    );
    Ok(())
}

#[run_by(once, |harness|)]
fn k07_each_load_of_a_module_has_variables_of_its_own() -> Result<()> {
    let stream = harness.stream();
    let (one, other) = (load(&harness.device), load(&harness.device));
    stream.fill(&mut one.global::<u32>("total")?, 7)?;
    let other = other.global::<u32>("total")?;
    assert_eq!(stream.values(&other)?, [0]);
    // Two handles of one variable are one array.
    let (mut first, second) = (one.global::<u32>("total")?, one.global::<u32>("total")?);
    drop(one);
    let refused = stream.copy(&second, &mut first);
    assert!(matches!(problem(refused), UsageErrorKind::Overlap { .. }));
    assert_eq!(
        stream.values(&first)?,
        [7],
        "the variable outlives its module"
    );
    Ok(())
}

/// A kernel that stores `in[i]` of the last of `n` words of dynamic shared memory in `out`.
const SHARED: &str = include_str!("last.ptx");

/// `exchange(slots, arrived, out, n)`: block b of one thread stores b in its slot, waits until all
/// `n` blocks have arrived, and stores its neighbour's slot in `out`.
const EXCHANGE: &str = include_str!("exchange.ptx");

#[run_by(once, |harness|)]
fn k08_blocks_of_a_cooperative_grid_wait_for_each_other() -> Result<()> {
    let module = harness.device.module(Ptx::text("exchange.ptx", EXCHANGE))?;
    let exchange =
        module.function::<signature!(&mut [u32], &mut [u32], &mut [u32], u32)>("exchange")?;
    let stream = harness.stream();
    let most = exchange.resident_blocks(1, 0)?;
    let multiprocessors = u64::from(harness.device.properties()?.multiprocessors);
    assert!(most >= multiprocessors, "{most} blocks of one thread");

    let n = 48;
    let mut slots = stream.zeros::<u32>(n)?;
    let (mut arrived, mut out) = (stream.zeros::<u32>(1)?, stream.zeros::<u32>(n)?);
    let grid = LaunchConfig::new([n as u32, 1, 1], [1, 1, 1]).cooperative();
    let arguments = (&mut slots, &mut arrived, &mut out, n as u32);
    // SAFETY: each of the blocks accesses its own elements, and after all have arrived its
    // neighbour's slot.
    unsafe { exchange.launch(&stream, grid, arguments) }?;
    let neighbours: Vec<u32> = (0..n as u32).map(|block| (block + 1) % n as u32).collect();
    assert_eq!(stream.values(&out)?, neighbours);

    let too_large = u32::try_from(most + 1).expect("fits");
    let grid = LaunchConfig::new([too_large, 1, 1], [1, 1, 1]).cooperative();
    let arguments = (&mut slots, &mut arrived, &mut out, too_large);
    // SAFETY: nothing is launched.
    let refused = unsafe { exchange.launch(&stream, grid, arguments) };
    let UsageErrorKind::LaunchConfig { detail } = problem(refused) else {
        panic!("another error");
    };
    let expected =
        format!("a cooperative grid of {too_large} blocks exceeds the {most} blocks of 1 threads");
    assert!(detail.starts_with(&expected), "{detail}");
    Ok(())
}

/// `reverse_grid(x, y)` synchronises its grid by cooperative groups.
const GRID: &str = include_str!("../../../sim/tests/races/within/grid.ptx");

#[run_by(once, |harness|)]
fn k08_cooperative_groups_synchronise_a_grid() -> Result<()> {
    let module = harness.device.module(Ptx::text("grid.ptx", GRID))?;
    let reverse = module.function::<signature!(&mut [u32], &mut [u32])>("reverse_grid")?;
    let stream = harness.stream();
    let [mut x, mut y] = [stream.zeros::<u32>(256)?, stream.zeros::<u32>(256)?];
    let config = LaunchConfig::from((8, 32)).cooperative();
    // SAFETY: each of the 256 threads writes its own element of both arrays, and reads another
    // thread's behind the barrier.
    unsafe { reverse.launch(&stream, config, (&mut x, &mut y)) }?;
    let reversed: Vec<u32> = (0..256).rev().collect();
    assert_eq!(stream.values(&y)?, reversed);
    Ok(())
}

#[run_by(once, |harness|)]
fn k08_occupancy_follows_from_threads_and_shared_memory() -> Result<()> {
    let module = harness.device.module(Ptx::text("shared.ptx", SHARED))?;
    let last = module.function::<signature!(&mut [u32], u32)>("last")?;
    let properties = harness.device.properties()?;
    let multiprocessors = u64::from(properties.multiprocessors);
    let most = properties.shared_bytes_per_block_max;
    // A block with all shared memory is alone on its multiprocessor.
    let alone = if on_gpu() {
        // The driver counts only what the kernel has opted in to.
        let stream = harness.stream();
        let mut out = stream.zeros::<u32>(1)?;
        // SAFETY: one thread accesses the first word, and one element.
        unsafe { last.launch(&stream, (1, 1, most), (&mut out, 1)) }?;
        last.resident_blocks(32, most)?
    } else {
        last.resident_blocks(32, most)?
    };
    assert_eq!(alone, multiprocessors);
    let full = last.resident_blocks(1024, 0)?;
    assert!(
        full >= multiprocessors && full % multiprocessors == 0,
        "{full}"
    );
    assert!(last.resident_blocks(32, 0)? > full);
    let suggested = last.suggested_block(0)?;
    assert!(
        suggested.threads >= 32 && suggested.threads % 32 == 0,
        "{suggested:?}"
    );
    assert!(suggested.threads <= last.threads_max());
    assert!(
        u64::from(suggested.min_blocks) >= multiprocessors,
        "{suggested:?}"
    );
    assert!(
        last.resident_blocks(0, 0).is_err(),
        "a block without threads"
    );
    Ok(())
}

#[run_by(once, |harness|)]
fn k08_clusters_are_refused_by_name_where_there_are_none() -> Result<()> {
    let module = harness.device.module(Ptx::text("exchange.ptx", EXCHANGE))?;
    let exchange =
        module.function::<signature!(&mut [u32], &mut [u32], &mut [u32], u32)>("exchange")?;
    let stream = harness.stream();
    let [mut slots, mut arrived, mut out] = [
        stream.zeros::<u32>(4)?,
        stream.zeros::<u32>(1)?,
        stream.zeros::<u32>(4)?,
    ];
    let mut launch = |config| {
        let arguments = (&mut slots, &mut arrived, &mut out, 4);
        // SAFETY: as in the test of a cooperative grid; four blocks are always resident.
        unsafe { exchange.launch(&stream, config, arguments) }
    };
    let grid = LaunchConfig::new([4, 1, 1], [1, 1, 1]);
    let clusters = launch(grid.with_cluster([2, 1, 1]));
    if on_gpu() {
        clusters?;
        let refused = problem(launch(grid.with_cluster([3, 1, 1])));
        assert_says(&refused, "in x the grid must be a multiple");
    } else {
        let refused = problem(clusters);
        assert!(matches!(refused, UsageErrorKind::Unsupported { .. }));
        assert_says(&refused, "runs no clusters of blocks");
        launch(grid)?;
    }
    assert_eq!(stream.values(&out)?, [1, 2, 3, 0]);
    Ok(())
}

#[run_by(once, |harness|)]
fn k08_a_launch_may_have_a_priority_of_its_own() -> Result<()> {
    let module = load(&harness.device);
    let tally = module.function::<signature!(u32)>("tally")?;
    let stream = harness.stream();
    let config = LaunchConfig::from((1, 32)).with_priority(-1);
    // SAFETY: the kernel accesses only the variable.
    unsafe { tally.launch(&stream, config, (4,)) }?;
    let total = module.global::<u32>("total")?;
    assert_eq!(stream.values(&total)?, [6]);
    Ok(())
}
