//! Kernels with more dynamic shared memory than a kernel may use without opting in.

#![allow(unsafe_code, reason = "declares the kernels that it launches")]

use crate::scenarios::prelude::*;

/// The shared memory available to every block without opting in, in bytes.
const USUAL_BYTES: u32 = 48 << 10;

/// Two kernels. `reverse(out, in, n)`: one block copies `n` words in reverse order through dynamic
/// shared memory. `last(out, n)`: one thread stores 7 through the last of `n` words, and 5 through
/// the kernel's static 4 KiB.
const PTX: &str = include_str!("shared_memory.ptx");

millstream::kernels! {
    // SAFETY: the kernels access what is described above, and the clauses bound shared memory by
    // the launch configuration.
    unsafe mod shared from PTX {
        safe fn reverse(out: &mut [u32], input: &[u32], n: u32)
            requires out.len() >= n, input.len() >= n, grid.shared_bytes >= 4 * n,
                grid.blocks.x * grid.blocks.y * grid.blocks.z == 1,
                grid.block.y * grid.block.z == 1;
        /// Stores 7 through the last of `n` words, and 5 through the kernel's static shared memory.
        safe fn last(out: &mut [u32], n: u32)
            requires n > 0, out.len() >= 2, grid.shared_bytes >= 4 * n,
                grid.blocks.x * grid.blocks.y * grid.blocks.z == 1,
                grid.block.x * grid.block.y * grid.block.z == 1;
    }
}

/// Returns the configuration of one block with this much dynamic shared memory.
fn block(threads: u32, bytes: u32) -> LaunchConfig {
    LaunchConfig::new([1; 3], [threads, 1, 1]).with_shared_bytes(bytes)
}

/// Returns the largest amount of shared memory that a kernel can opt in to, in bytes.
fn most_bytes(device: &Device) -> u32 {
    device.properties().unwrap().shared_bytes_per_block_max
}

#[run_by(scenario, |harness|)]
fn k06_a_kernel_can_use_all_of_the_devices_shared_memory() -> Result<()> {
    let (stream, kernels) = (harness.stream(), shared::load(&harness.device)?);
    let most = most_bytes(&harness.device);
    assert!(most > USUAL_BYTES, "{most}");
    for bytes in [
        1024,
        USUAL_BYTES,
        USUAL_BYTES + 4,
        100_000,
        most / 4 * 4,
        2048,
    ] {
        let n = bytes / 4;
        let words: Vec<u32> = (0..n).map(|at| at.wrapping_mul(2_654_435_761)).collect();
        let input = stream.upload(&words)?;
        let mut out = stream.zeros::<u32>(words.len())?;
        kernels.reverse(&stream, block(256, bytes), &mut out, &input, n)?;
        let reversed: Vec<u32> = words.iter().rev().copied().collect();
        assert_eq!(stream.values(&out)?, reversed, "{bytes} bytes");
    }
    let mut out = stream.zeros::<u32>(2)?;
    for bytes in [
        USUAL_BYTES - 4096,
        USUAL_BYTES - 4096 + 4,
        USUAL_BYTES,
        most - 4096,
    ] {
        stream.fill(&mut out, 0)?;
        kernels.last(&stream, block(1, bytes), &mut out, bytes / 4)?;
        assert_eq!(stream.values(&out)?, [7, 5], "{bytes} bytes");
    }
    Ok(())
}

#[run_by(everywhere_counted, |harness, calls|)]
fn k06_more_shared_memory_than_the_device_has_is_an_error_with_the_limit() {
    let (stream, kernels) = (harness.stream(), shared::load(&harness.device).unwrap());
    let most = most_bytes(&harness.device);
    let mut out = stream.zeros::<u32>(2).unwrap();
    calls.forget();
    for asked in [most + 1, u32::MAX] {
        let input = &[][..0];
        let input = stream.upload::<u32>(input).unwrap();
        calls.forget();
        let refused = problem(kernels.reverse(&stream, block(1, asked), &mut out, &input, 0));
        let detail = format!(
            "{asked} bytes of dynamic shared memory per block exceed this device's limit of \
             {most} \
             bytes"
        );
        assert_eq!(refused, UsageErrorKind::LaunchConfig { detail });
    }
    let refused = problem(kernels.last(&stream, block(1, most - 4095), &mut out, 1));
    let detail = format!(
        "{} bytes of dynamic shared memory per block exceed this device's limit of {} bytes, \
         besides the \
         kernel's own 4096 bytes",
        most - 4095,
        most - 4096
    );
    assert_eq!(refused, UsageErrorKind::LaunchConfig { detail });
    calls.assert_none();
}

#[run_by(everywhere_counted, |harness, calls|)]
fn a_kernel_opts_in_to_more_shared_memory_once_and_only_if_needed() {
    let [s1, s2] = harness.streams();
    let (kernels, again) = (
        shared::load(&harness.device).unwrap(),
        shared::load(&harness.device).unwrap(),
    );
    let mut out = s1.zeros::<u32>(2).unwrap();
    let opted = || calls.count("function_set_attribute");
    calls.forget();
    kernels
        .last(&s1, block(1, USUAL_BYTES - 4096), &mut out, 1)
        .unwrap();
    assert_eq!(opted(), 0);
    for (stream, kernels, bytes) in [
        (&s1, &kernels, USUAL_BYTES),
        (&s2, &kernels, 60_000),
        (&s2, &again, 70_000),
    ] {
        kernels
            .last(stream, block(1, bytes), &mut out, bytes / 4)
            .unwrap();
        assert_eq!(opted(), 1);
    }
    kernels.last(&s2, block(1, 16), &mut out, 4).unwrap();
    assert_eq!((opted(), calls.count("launch_kernel")), (1, 5));
    assert_eq!(s1.values(&out).unwrap(), [7, 5]);
}

#[run_by(everywhere_counted, |harness, calls|)]
fn a_failure_to_opt_in_is_returned_and_nothing_is_enqueued() {
    let stream = harness.stream();
    let kernels = shared::load(&harness.device).unwrap();
    let mut out = stream.zeros::<u32>(2).unwrap();
    let failure = DriverError::new("cuFuncSetAttribute", ResultCode::UNKNOWN);
    let told = failure.clone();
    calls.fail(move |call| (call == "function_set_attribute").then(|| told.clone()));
    calls.forget();
    let refused = kernels.last(&stream, block(1, 60_000), &mut out, 9);
    assert!(matches!(refused, Err(Error::Driver(error)) if error == failure));
    calls.assert_none();
    kernels
        .last(&stream, block(1, 40_000), &mut out, 9)
        .unwrap();
    calls.fail_no_more();
    kernels
        .last(&stream, block(1, 60_000), &mut out, 9)
        .unwrap();
    assert_eq!(calls.count("launch_kernel"), 2);
    assert_eq!(stream.values(&out).unwrap(), [7, 5]);
}
