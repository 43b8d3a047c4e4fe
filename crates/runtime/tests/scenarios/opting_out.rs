//! Scenario A14: an access that opts out of ordering.
//!
//! The kernel declares that it writes a whole array but writes only its first half, as a caller may
//! know beyond the signature. Accesses to the other half need not wait for it.

#![allow(unsafe_code, reason = "opts accesses out of ordering")]

use crate::scenarios::prelude::*;

/// Makes an array of 2 N zeros that both streams have used, with nothing pending.
fn shared_zeros(first: &Stream, second: &Stream) -> Result<Buffer<f32>> {
    let array = first.zeros::<f32>(2 * N)?;
    second.values(&array)?;
    Ok(array)
}

#[run_by(counted_on, |harness, calls, [s1, s2, s3]|)]
fn a14_an_access_that_opts_out_waits_for_nothing() -> Result<()> {
    let kernels = sums::load(&harness.device)?;
    let ones = s1.upload(&[1.0_f32; N])?;
    let mut array = shared_zeros(&s1, &s2)?;
    s2.synchronize()?;
    let gate = harness.gate(&s1);
    kernels.vecadd(&s1, N, &ones, &ones, &mut array, N as u64)?;
    calls.forget();
    // SAFETY: the kernel writes only the first half, and all other uses are complete.
    let read = s2.download(unsafe { array.unordered() }.slice(N..))?;
    harness.assert_count(calls, "stream_wait_event", 0);
    assert_eq!(
        calls.count("event_record"),
        1,
        "the use is registered like any other"
    );
    assert_eq!(read.wait()?, [0.0; N], "read while the gate is closed");
    // SAFETY: the kernel uses only the first half, and the read of the second is complete.
    s3.fill(unsafe { array.unordered_mut() }.slice_mut(N..), 5.0)?;
    let mut view = array.view_mut();
    // SAFETY: as above, and the fill precedes this on the same stream.
    let read = s3.download(unsafe { view.reborrow().unordered_mut() }.slice(N..))?;
    // SAFETY: as above.
    let again = s3.download(unsafe { view.slice(N..).unordered() })?;
    // SAFETY: as above.
    let and_again = s3.download(unsafe { view.unordered() }.slice(N..))?;
    harness.assert_count(calls, "stream_wait_event", 0);
    for read in [read, again, and_again] {
        assert_eq!(read.wait()?, [5.0; N], "written while the gate is closed");
    }
    assert_eq!(
        harness.opened(gate, s2.download(&array)?),
        [[2.0; N], [5.0; N]].concat()
    );
    Ok(())
}

#[run_by(counted_on, |harness, calls, [s1, s2, s3]|)]
pub(crate) fn a14_later_accesses_wait_for_one_that_opted_out() -> Result<()> {
    let mut array = shared_zeros(&s1, &s2)?;
    let gate = harness.gate(&s2);
    // SAFETY: all earlier uses are complete.
    let held = s2.download(unsafe { array.unordered() })?;
    calls.forget();
    s3.fill(&mut array, 1.0)?;
    harness.assert_count(calls, "stream_wait_event", 1);
    let written = s3.download(&array)?;
    harness.open_pending(gate, &written);
    assert_eq!(held.wait()?, [0.0; 2 * N], "the read saw a later write");
    assert_eq!(written.wait()?, [1.0; 2 * N]);

    let gate = harness.gate(&s2);
    // SAFETY: all earlier uses are complete.
    s2.fill(unsafe { array.unordered_mut() }, 2.0)?;
    assert_eq!(harness.opened(gate, s3.download(&array)?), [2.0; 2 * N]);
    Ok(())
}

#[run_by(counted_on, |harness, _, [s1, s2, s3]|)]
pub(crate) fn a14_the_memory_is_freed_after_an_access_that_opted_out() -> Result<()> {
    let array = shared_zeros(&s1, &s2)?;
    let gate = harness.gate(&s2);
    // SAFETY: all earlier uses are complete.
    let held = s2.download(unsafe { array.unordered() })?;
    drop(array);
    let mut same_size = s3.zeros::<f32>(2 * N)?;
    s3.fill(&mut same_size, 9.0)?;
    let other = s3.download(&same_size)?;
    gate.open();
    assert_eq!(other.wait()?, [9.0; 2 * N]);
    assert_eq!(
        held.wait()?,
        [0.0; 2 * N],
        "the memory was used again too early"
    );
    Ok(())
}
