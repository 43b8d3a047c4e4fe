//! Captures of cudarc's streams, which safe code begins and ends at any time.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use cudarc::driver::{CudaStream, sys};
use millstream::UsageErrorKind;
use millstream_cudarc::{
    Error, Result, SharedStream, adopt_slice, lend, with_slice, with_slice_mut,
};

use crate::hand_overs::play::{Gate, N, Outcome, Setup};

fn begin(stream: &CudaStream) -> Outcome {
    let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    Ok(stream.begin_capture(mode)?)
}

/// Ends a capture, and launches its graph. Returns whether there was one.
fn end_and_launch(stream: &SharedStream) -> Outcome<bool> {
    // cudarc keeps errors of its own records in the capture, and would end nothing.
    let _ = stream.cudarc().context().check_err();
    let Ok(graph) = stream
        .cudarc()
        .end_capture(sys::CUgraphInstantiate_flags(0))
    else {
        return Ok(false);
    };
    graph.ok_or("no graph")?.launch()?;
    Ok(true)
}

fn is_captured<T>(result: Result<T>) -> bool {
    let Err(Error::Millstream(millstream::Error::Usage(usage_error))) = result else {
        return false;
    };
    matches!(usage_error.problem(), UsageErrorKind::Captured { .. })
}

fn refused_in_captures() -> Outcome {
    let setup = Setup::new()?;
    let (theirs, ours) = (setup.shared()?, setup.device.stream()?);
    let mut array = ours.upload(&[1.0_f32; N])?;
    let mut slice = theirs.cudarc().clone_htod(&[2.0_f32; N])?;
    let refused = |call: &mut dyn FnMut() -> bool| -> Outcome {
        begin(theirs.cudarc())?;
        assert!(call(), "the call is not refused");
        end_and_launch(&theirs)?;
        Ok(())
    };
    refused(&mut || is_captured(theirs.fill(&mut array, 3.0).map_err(Error::from)))?;
    refused(&mut || is_captured(theirs.download(&array).map_err(Error::from)))?;
    refused(&mut || is_captured(lend(&array, &theirs)))?;
    refused(&mut || {
        let uncalled = |_: millstream::View<'_, f32>| unreachable!("the slice has no order");
        // cudarc's own wait may fail first.
        with_slice(&setup.device, &slice, uncalled).is_err()
    })?;
    let copied = with_slice_mut(&setup.device, &mut slice, |view| ours.copy(&array, view))?;
    copied?;
    assert_eq!(theirs.cudarc().clone_dtoh(&slice)?, [1.0; N]);
    // An operation that the capture of another stream does not concern.
    let other = setup.shared()?;
    begin(other.cudarc())?;
    theirs.fill(&mut array, 4.0)?;
    assert!(end_and_launch(&other)?, "nothing has touched this capture");
    let adopted = adopt_slice(&setup.device, slice)?;
    ours.copy(&array, &mut ours.zeros::<f32>(N)?)?;
    assert_eq!(ours.download(&adopted)?.wait()?, [1.0; N]);
    assert_eq!(ours.download(&array)?.wait()?, [4.0; N]);
    Ok(())
}

fn captured_meanwhile() -> Outcome {
    let setup = Setup::new()?;
    let (theirs, ours) = (setup.shared()?, setup.device.stream()?);
    let mut array = ours.zeros::<f32>(N)?;
    let (over, mut done, mut last) = (AtomicBool::new(false), 0, 0.0);
    thread::scope(|scope| -> Outcome {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // The other thread's calls leave their errors in the context.
                let begun = begin(theirs.cudarc()).is_ok();
                thread::yield_now();
                let _ = begun && end_and_launch(&theirs).is_ok();
                thread::sleep(Duration::from_micros(200));
            }
        });
        // At least 200 rounds, and until a fill was in time.
        for round in 0..20_000_u16 {
            if round >= 200 && done > 0 {
                break;
            }
            let value = f32::from(round + 1);
            let filled = theirs.fill(&mut array, value);
            let is_done = filled.is_ok();
            assert!(is_done || is_captured(filled.map_err(Error::from)));
            done += usize::from(is_done);
            let found = ours.download(&array)?.wait()?;
            let expected = if is_done { value } else { last };
            assert!(found == [expected; N], "{} after {expected}", found[0]);
            last = found[0];
        }
        over.store(true, Ordering::Relaxed);
        Ok(())
    })?;
    assert!(done > 0, "no fill was in time");
    Ok(())
}

fn captured_while_borrowed() -> Outcome {
    let setup = Setup::new()?;
    let (theirs, gated, ours) = (setup.shared()?, setup.shared()?, setup.device.stream()?);
    let mut slice = theirs.cudarc().alloc_zeros::<f32>(N)?;
    let gate = Gate::close(gated.cudarc())?;
    ours.wait_for(&gated.record()?)?;
    let opener = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        drop(gate);
    });
    let lent = with_slice_mut(&setup.device, &mut slice, |mut view| -> Outcome {
        ours.fill(&mut view, 5.0)?;
        begin(theirs.cudarc())
    });
    assert!(
        is_captured(lent),
        "the slice's stream cannot wait for the fill"
    );
    assert!(
        ours.is_idle()?,
        "the fill is over when the slice can be used"
    );
    assert!(!end_and_launch(&theirs)?);
    opener.join().expect("the gate opens");
    assert_eq!(theirs.cudarc().clone_dtoh(&slice)?, [5.0; N]);
    Ok(())
}

scenarios! {
    no_operation_becomes_part_of_a_capture_of_cudarc: refused_in_captures;
    captures_that_another_thread_begins_never_take_up_an_operation: captured_meanwhile;
    a_borrowed_slice_is_in_use_no_more_when_its_stream_was_captured_meanwhile:
        captured_while_borrowed;
}
