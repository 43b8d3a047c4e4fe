//! The size of cooperative launches.

use millstream_driver::LaunchDims;

use crate::rules::prelude::*;

/// The largest number of threads of a launch here.
const THREADS_MAX: u32 = 1 << 20;

fn dims(grid: u32, block: u32) -> LaunchDims {
    crate::harness::dims([grid, 1, 1], [block, 1, 1])
}

#[run_by(by_default, |sim|)]
fn r58_a_cooperative_launch_that_is_not_resident_together_is_refused() {
    let device = DeviceOrdinal::from_raw(0);
    let attribute = |attribute| sim.gpu.device_attribute(device, attribute).unwrap() as u32;
    assert_eq!(attribute(DeviceAttribute::COOPERATIVE_LAUNCH), 1);
    let multiprocessors = attribute(DeviceAttribute::MULTIPROCESSOR_COUNT);
    let (stream, array) = (
        sim.stream(),
        sim.mem_alloc(THREADS_MAX as usize * 4).unwrap(),
    );
    let kernel = sim.kernel(include_str!("../races/within/grid.ptx"), "reverse_grid");
    let args = [Arg::Pointer(array), Arg::Pointer(array)];
    let launch = |dims: LaunchDims| sim.launch_cooperative(kernel, &dims, stream, &args);
    let with_shared = |grid| LaunchDims {
        shared_bytes: 48 << 10,
        ..dims(grid, 32)
    };
    for (largest, one_more) in [
        (
            dims(2 * multiprocessors, 1024),
            dims(2 * multiprocessors + 1, 1024),
        ),
        (
            dims(32 * multiprocessors, 64),
            dims(32 * multiprocessors + 1, 1),
        ),
        (
            with_shared(4 * multiprocessors),
            with_shared(4 * multiprocessors + 1),
        ),
    ] {
        launch(largest).unwrap();
        launch(one_more).fails(ResultCode::COOPERATIVE_LAUNCH_TOO_LARGE);
        sim.assert_reported(
            ReportKind::BadLaunch,
            &["cooperative launch", "at the same time"],
        );
    }
    // What no launch may have is refused as in any other.
    launch(dims(1, 1025)).fails(ResultCode::INVALID_VALUE);
    sim.launch_shaped(kernel, &dims(1 << 20, 1), stream, &args)
        .unwrap();
}
