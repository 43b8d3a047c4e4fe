//! The scenarios. Both libraries use the driver that the loader finds.

#![allow(unsafe_code, reason = "launches kernels through cudarc")]

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

use cudarc::driver::{CudaContext, CudaStream, LaunchConfig, PushKernelArg as _};
use millstream::{
    GraphRecorder, UsageErrorKind, ViewMut,
    driver::{ContextHandle, Driver as _, StreamHandle, cuda::Cuda},
    interop::{ForeignCall, read, write},
};
use millstream_cudarc::{
    Error as HandOverError, SharedStream, adopt_slice, device_of, foreign, lend, lend_mut,
    return_slice, with_slice, with_slice_mut,
};

use crate::hand_overs::{
    interposed::waits,
    play::{Gate, N, Outcome, Play, Setup},
};

fn there_and_back() -> Outcome {
    let setup = Setup::new()?;
    let theirs = setup.shared()?;
    let ours = setup.device.stream()?;
    let gate = Gate::close(theirs.cudarc())?;
    let zeros = theirs.cudarc().alloc_zeros::<f32>(N)?;
    let mut array = adopt_slice(&setup.device, zeros)?;
    ours.fill(array.slice_mut(..N / 2), 1.0)?;
    let filled = ours.record()?;
    assert!(
        !filled.is_complete()?,
        "the array is used before cudarc made it"
    );
    let mut sum = ours.zeros::<f32>(N)?;
    let (source, mut target) = (lend(&array, &theirs)?, lend_mut(&mut sum, &theirs)?);
    setup.double(theirs.cudarc(), &source.view(), &mut target.view_mut())?;
    drop((source, target));
    let found = ours.download(&sum)?;
    let slice = return_slice(&setup.device, array)?;
    drop(gate);
    let mut expected = vec![2.0; N / 2];
    expected.resize(N, 0.0);
    assert_eq!(found.wait()?, expected);
    let back = theirs.cudarc().clone_dtoh(&slice)?;
    assert_eq!(back[N / 2 - 1..=N / 2], [1.0, 0.0]);
    Ok(())
}

/// Shows that waits of both libraries are counted, if they are.
fn assert_counted(stream: &CudaStream) -> Outcome {
    let Some(before) = waits() else {
        return Ok(());
    };
    stream.synchronize()?;
    assert_eq!(waits(), Some(before + 1), "a wait of cudarc");
    let context = ContextHandle::from_raw(stream.context().cu_ctx().expose_provenance());
    let raw = StreamHandle::from_raw(stream.cu_stream().expose_provenance());
    // SAFETY: context and stream are alive.
    unsafe { Cuda::load()?.stream_synchronize(context, raw) }?;
    assert_eq!(waits(), Some(before + 2), "a wait of Millstream's driver");
    Ok(())
}

/// Hand-overs in bursts behind a gate: one that waited for the device would never end. A burst fits
/// into the queues of a GPU. Where waits are counted, there is none either.
fn random_hand_overs() -> Outcome {
    const STEPS: usize = 16;
    let mut play = Play::new(3)?;
    assert_counted(play.theirs[0].cudarc())?;
    let mut burst = 0;
    while play.hand_overs < 10_000 {
        let closed = play.theirs[burst % 2].cudarc();
        let gate = Gate::close(closed)?;
        let behind = closed.record_event(None)?;
        let before = waits();
        for step in 0..STEPS {
            play.step((step + 1) as f32)?;
        }
        assert_eq!(waits(), before, "a hand-over waited on the host");
        assert!(!behind.try_is_complete()?, "the gate was not closed");
        drop(gate);
        if burst % 64 == 0 {
            play.check()?;
        }
        burst += 1;
    }
    play.check()
}

/// cudarc frees memory on its stream and allocates it again there while our copy is pending.
fn freed_behind_uses() -> Outcome {
    let setup = Setup::new()?;
    let theirs = setup.shared()?;
    let (ours, second) = (setup.device.stream()?, setup.shared()?);
    let mut copy = ours.zeros::<f32>(N)?;
    let zeros = theirs.cudarc().alloc_zeros::<f32>(N)?;
    let mut array = adopt_slice(&setup.device, zeros)?;
    ours.fill(&mut array, 1.0)?;
    // Our stream is behind cudarc's second one.
    let gate = Gate::close(second.cudarc())?;
    drop(lend_mut(&mut copy, &second)?);
    ours.copy(&array, &mut copy)?;
    drop(array);
    let next = theirs.cudarc().clone_htod(&[2.0_f32; N])?;
    drop(gate);
    assert_eq!(ours.download(&copy)?.wait()?, [1.0; N]);
    assert_eq!(theirs.cudarc().clone_dtoh(&next)?, [2.0; N]);
    Ok(())
}

fn refused() -> Outcome {
    let setup = Setup::new()?;
    let default = setup.context.default_stream();
    for stream in [&default, &setup.context.per_thread_stream()] {
        let error = SharedStream::new(&setup.device, stream).expect_err("a default stream");
        assert!(
            matches!(
                &error,
                HandOverError::Millstream(millstream::Error::Usage(usage_error))
                    if matches!(usage_error.problem(), UsageErrorKind::DefaultStream { .. })
            ),
            "{error}"
        );
    }
    let slice = default.alloc_zeros::<f32>(N)?;
    let refused = adopt_slice(&setup.device, slice);
    assert!(refused.is_err(), "{refused:?}");
    let own = setup.device.stream()?.zeros::<f32>(N)?;
    let refused = return_slice(&setup.device, own);
    assert!(
        matches!(refused, Err(HandOverError::NotASlice)),
        "{refused:?}"
    );
    let other = CudaContext::new_non_primary(0, 0)?;
    let refused = device_of(&other);
    assert!(
        matches!(refused, Err(HandOverError::OtherContext { .. })),
        "{refused:?}"
    );
    let refused = SharedStream::new(&setup.device, &other.new_stream()?);
    assert!(
        matches!(refused, Err(HandOverError::OtherContext { .. })),
        "{refused:?}"
    );
    Ok(())
}

fn foreign_calls() -> Outcome {
    let setup = Setup::new()?;
    let (gated, ours) = (setup.shared()?, setup.device.stream()?);
    let mut source = ours.upload(&[3.0_f32; N])?;
    let mut target = ours.zeros::<f32>(N)?;
    let gate = Gate::close(gated.cudarc())?;
    gated.fill(&mut source, 4.0)?;
    let count = N as u64;
    let call = |stream: &Arc<CudaStream>, call: ForeignCall<'_>| {
        let (source, target) = (call.address(0).as_raw(), call.address(1).as_raw());
        let mut launch = stream.launch_builder(&setup.add);
        launch.arg(&source).arg(&source).arg(&target).arg(&count);
        // SAFETY: the kernel has these parameters, and the operands this length.
        unsafe { launch.launch(LaunchConfig::for_num_elems(N as u32)) }.map(drop)
    };
    let (place, operands) = ((&ours, &setup.context), [read(&source), write(&mut target)]);
    // SAFETY: the call launches one kernel on the given stream, which reads the first operand and
    // writes the second.
    unsafe { foreign("vecadd", place, operands, call) }?;
    let done = ours.record()?;
    assert!(!done.is_complete()?, "the kernel did not wait for the fill");
    drop(gate);
    assert_eq!(ours.download(&target)?.wait()?, [8.0; N]);
    Ok(())
}

/// A graph that kept the slice would write it behind cudarc's back, also after its drop.
fn borrowed_for_a_graph() -> Outcome {
    let setup = Setup::new()?;
    let (theirs, ours) = (setup.shared()?, setup.device.stream()?);
    let source = ours.upload(&[3.0_f32; N])?;
    let mut target = ours.zeros::<f32>(N)?;
    let mut slice = theirs.cudarc().alloc_zeros::<f32>(N)?;
    let refused = |result: millstream::Result<()>| {
        let Err(millstream::Error::Usage(usage_error)) = result else {
            panic!("a graph keeps a borrowed slice")
        };
        let problem = usage_error.problem();
        assert!(
            matches!(problem, UsageErrorKind::LentForScope { .. }),
            "{problem}"
        );
    };
    let copy = |r: &GraphRecorder, target: ViewMut<'_, f32>| r.stream()?.copy(&source, target);
    let mut graph = setup
        .device
        .record("copy", |r| copy(r, target.view_mut()))?;
    with_slice_mut(&setup.device, &mut slice, |mut borrowed| {
        let recorded = setup
            .device
            .record("kept", |r| copy(r, borrowed.reborrow()));
        // A forgotten graph would keep the memory for ever.
        refused(recorded.map(std::mem::forget));
        refused(graph.swap(&target, &mut borrowed));
        refused(graph.update(|r| copy(r, borrowed)));
    })?;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        with_slice(&setup.device, &slice, |borrowed| {
            refused(graph.swap(&source, borrowed.clone()));
            ours.copy(borrowed, &mut target).expect("a copy");
            // Unlike `panic!`, without a word on the standard error, where reports are looked for.
            resume_unwind(Box::new("a mistake of the body"))
        })
    }));
    assert!(panicked.is_err());
    graph.replay(&ours)?;
    assert_eq!(theirs.cudarc().clone_dtoh(&slice)?, [0.0; N]);
    assert_eq!(ours.download(&target)?.wait()?, [3.0; N]);
    Ok(())
}

scenarios! {
    i05_a_slice_goes_to_our_stream_then_to_a_kernel_of_cudarc_and_back: there_and_back;
    i05_ten_thousand_random_hand_overs_are_right_and_never_wait_on_the_host: random_hand_overs;
    i04_a_dropped_slice_is_freed_behind_our_uses: freed_behind_uses;
    i07_default_streams_and_other_contexts_are_refused: refused;
    a_call_of_cudarc_on_our_stream_is_ordered_by_its_operands: foreign_calls;
    a_borrowed_slice_never_becomes_an_operand_of_a_graph: borrowed_for_a_graph;
}
