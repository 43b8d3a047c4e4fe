//! Scenario A18: an error or a panic between an operation's bookkeeping and its submission.

use crate::scenarios::prelude::*;

/// The driver calls between an operation's bookkeeping and its end.
const CALLS: [&str; 7] = [
    "stream_wait_event",
    "memset_async",
    "copy_device_to_device_async",
    "copy_host_to_device_async",
    "copy_device_to_host_async",
    "launch_kernel",
    "event_record",
];

/// An operation of a stream that may write the first of two arrays and reads the second.
type Verb = fn(&Stream, &sums::Kernels, &mut Buffer<f32>, &Buffer<f32>) -> Result<()>;

const VERBS: [Verb; 5] = [
    |stream, _, target, _| stream.fill(target, 4.0),
    |stream, _, target, source| stream.copy(source, target),
    |stream, _, target, _| stream.upload_into(&[4.0; N], target),
    |stream, _, target, _| stream.download(&*target).map(drop),
    |stream, kernels, target, source| kernels.vecadd(stream, N, source, source, target, N as u64),
];

/// Makes the next `call` fail or panic; the returned flag is set when it has.
fn fail_next(calls: &Calls, call: &'static str, panics: bool) -> Arc<AtomicBool> {
    let failed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&failed);
    calls.fail(move |name| {
        if name != call || seen.swap(true, Ordering::SeqCst) {
            return None;
        }
        if panics {
            // `resume_unwind` skips the panic hook, which would print a message each time.
            std::panic::resume_unwind(Box::new(call));
        }
        Some(DriverError::new(call, ResultCode::INVALID_VALUE))
    });
    failed
}

/// Writes the target on a blocked stream, makes an operation on another stream fail, and reads the
/// target on a third.
fn attempt(
    harness: &Harness,
    calls: &Calls,
    verb: Verb,
    call: &'static str,
    panics: bool,
) -> Result<()> {
    let [writer, failing, reader] = harness.streams();
    let kernels = sums::load(&harness.device)?;
    let mut target = writer.upload(&[1.0_f32; N])?;
    let source = failing.upload(&[2.0_f32; N])?;
    // From here on the target is shared, and every operation on it records a sync point.
    assert_eq!(reader.values(&target)?, [1.0; N]);
    let gate = harness.gate(&writer);
    writer.fill(&mut target, 3.0)?;
    let failed = fail_next(calls, call, panics);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        verb(&failing, &kernels, &mut target, &source)
    }));
    calls.fail_no_more();
    if matches!(outcome, Ok(Ok(()))) && failed.load(Ordering::SeqCst) {
        // The sync point of a submitted operation can be recorded later.
        assert_eq!(
            call, "event_record",
            "the failure of a call other than event_record must be returned"
        );
    }
    assert!(outcome.is_ok() || panics && failed.load(Ordering::SeqCst));

    let value = reader.download(&target)?;
    harness.open_pending(gate, &value);
    let value = value.wait()?;
    assert!(
        [3.0, 4.0, 2.0].contains(&value[0]) && value.iter().all(|&element| element == value[0])
    );
    if failed.load(Ordering::SeqCst) && call != "event_record" {
        assert_eq!(
            value, [3.0; N],
            "an operation that failed in {call} must not have run"
        );
    }
    // No stream waits for an operation that was never submitted.
    for stream in [&failing, &writer, &reader] {
        stream.fill(&mut target, 5.0)?;
        assert_eq!(reader.values(&target)?, [5.0; N]);
        assert_eq!(stream.values(&source)?, [2.0; N]);
    }
    Ok(())
}

#[run_by(everywhere_counted, |harness, calls|)]
pub(crate) fn a18_an_error_or_a_panic_before_submission_leaves_no_phantom_owner() {
    for verb in VERBS {
        for call in CALLS {
            for panics in [false, true] {
                attempt(harness, calls, verb, call, panics).unwrap();
            }
        }
    }
}
