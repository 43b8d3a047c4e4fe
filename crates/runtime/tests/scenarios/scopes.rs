//! Scenarios B: borrowed host slices, copied in scopes.

#![allow(unsafe_code, reason = "launches a kernel that faults")]

use millstream::Scope;

use crate::scenarios::prelude::*;

/// The time for which a gate stays closed after the body of its scope has ended.
const A_WHILE: Duration = Duration::from_millis(3);

/// Runs `scope`, whose body sends its gate and drops the sender at its end; another thread opens
/// the gate a while later. Returns the result and whether the gate was open when `scope` returned.
fn gated<R>(scope: impl FnOnce(mpsc::Sender<Gate>) -> R) -> (R, bool) {
    let opened = AtomicBool::new(false);
    thread::scope(|threads| {
        let (sender, receiver) = mpsc::channel();
        let opened = &opened;
        threads.spawn(move || {
            let gate: Gate = receiver.recv().expect("the body hands over a gate");
            assert!(
                receiver.recv().is_err(),
                "the body must send exactly one gate"
            );
            thread::sleep(A_WHILE);
            opened.store(true, Ordering::SeqCst);
            gate.open();
        });
        let result = scope(sender);
        (result, opened.load(Ordering::SeqCst))
    })
}

#[run_by(scenario, |harness|)]
fn b07_forgetting_everything_is_sound() -> Result<()> {
    harness.leaks();
    let [s1, s2] = harness.streams();
    let mut a = s1.upload(&vec![1_u32; N])?;
    let (source, mut target) = (vec![2_u32; N / 2], vec![0_u32; N]);
    let mut pinned = harness.device.pinned_from(&vec![7_u32; N])?;
    let in_flight = harness.device.pinned::<u32>(N)?;
    let gate = harness.gate(&s1);
    let (result, waited) = gated(|body| {
        harness.device.scope(|scope: &Scope<'_>| {
            let body = body;
            body.send(gate).unwrap();
            scope.upload(&s1, &source, a.slice_mut(..N / 2))?;
            scope.download(&s1, &a, &mut target)?;
            let mut never_awaited = Box::pin(s1.download(&a)?);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let polled = never_awaited.as_mut().poll(&mut context);
            assert!(polled.is_pending() || !harness.gates_hold());
            mem::forget(never_awaited);
            mem::forget(s2.download(&a)?);
            mem::forget(pinned.write()?);
            let mut copied = s1.zeros::<u32>(N)?;
            s1.copy(&in_flight, &mut copied)?;
            mem::forget((copied, in_flight));
            #[expect(
                forgetting_references,
                reason = "a scope is only available by reference"
            )]
            mem::forget(scope);
            Ok(())
        })
    });
    result?;
    assert!(waited || !harness.gates_hold());
    assert_eq!(target[..N / 2], [2; N / 2]);
    assert_eq!(target[N / 2..], [1; N / 2]);
    s2.copy(&pinned, &mut a)?;
    mem::forget((s1, s2));
    let stream = harness.stream();
    harness
        .device
        .scope(|scope| scope.download(&stream, &a, &mut target))?;
    assert_eq!(target, [7; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn b14_a_scope_left_by_return_waits_first() -> Result<()> {
    let mut a = s1.upload(&vec![1_u32; N])?;
    let (mut first, mut second) = (vec![0; N], vec![0; N]);
    let gate = harness.gate(&s1);
    let (result, waited) = gated(|body| {
        harness.device.scope(|scope| {
            let body = body;
            body.send(gate).unwrap();
            scope.download(&s1, &a, &mut first)?;
            s2.fill(&mut a, 2)?;
            scope.download(&s2, &a, &mut second)?;
            Ok("the body's value")
        })
    });
    assert_eq!(result?, "the body's value");
    assert!(waited || !harness.gates_hold());
    assert_eq!((first, second), (vec![1; N], vec![2; N]));
    Ok(())
}

#[run_by(scenario_on, |harness, [s1]|)]
fn b14_a_scope_left_by_an_error_waits_first() -> Result<()> {
    let mut a = s1.upload(&vec![1_u32; N])?;
    let (source, mut target) = (vec![2; N], vec![0; N]);
    let gate = harness.gate(&s1);
    let (result, waited) = gated(|body| {
        harness.device.scope(|scope| {
            let body = body;
            body.send(gate).unwrap();
            scope.download(&s1, &a, &mut target)?;
            scope.upload(&s1, &source, a.slice_mut(1..))
        })
    });
    assert_is!(problem(result), UsageErrorKind::Length { .. });
    assert!(waited || !harness.gates_hold());
    assert_eq!(target, [1; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1]|)]
fn b14_a_scope_left_by_a_panic_waits_first() -> Result<()> {
    let mut a = s1.upload(&vec![1_u32; N])?;
    let (source, mut target) = (vec![2_u32; N], vec![0; N]);
    let gate = harness.gate(&s1);
    let (panic, waited) = gated(|body| {
        catch_unwind(AssertUnwindSafe(|| {
            harness.device.scope(|scope| {
                let body = body;
                body.send(gate).unwrap();
                scope.download(&s1, &a, &mut target)?;
                scope.upload(&s1, &source, &mut a)?;
                // `resume_unwind` skips the panic hook, which would print a message under every
                // schedule.
                std::panic::resume_unwind(Box::new("out"));
                #[expect(unreachable_code, reason = "the type of the body's value")]
                Ok(())
            })
        }))
    });
    assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"out"));
    assert!(waited || !harness.gates_hold());
    assert_eq!(target, [1; N]);
    assert_eq!(s1.values(&a)?, [2; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn b14_a_scope_that_only_uploads_waits_for_the_last() -> Result<()> {
    let mut a = s1.zeros::<u32>(N)?;
    let mut b = s2.zeros::<u32>(N)?;
    let source = vec![2; N];
    let (result, waited) = gated(|body| {
        harness.device.scope(|scope| {
            let body = body;
            scope.upload(&s1, &source, &mut a)?;
            scope.upload(&s2, &source, &mut b)?;
            body.send(harness.gate(&s1)).unwrap();
            scope.upload(&s1, &source, &mut a)
        })
    });
    result?;
    assert!(waited || !harness.gates_hold());
    assert_eq!(s2.values(&a)?, [2; N]);
    assert_eq!(s1.values(&b)?, [2; N]);
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn b14_later_work_of_a_stream_is_not_waited_for() -> Result<()> {
    let mut a = s1.upload(&vec![1_u32; N])?;
    let (source, mut target) = (vec![2_u32; N], vec![0; N]);
    let (first, second) = harness.device.scope(|scope| {
        scope.download(&s1, &a, &mut target)?;
        scope.upload(&s1, &source, &mut a)?;
        let later = harness.gate(&s1);
        // The pending work of other streams is not waited for either.
        Ok((later, harness.gate(&s2)))
    })?;
    assert_eq!(target, [1; N]);
    let behind = s1.download(&a)?;
    harness.open_pending(first, &behind);
    second.open();
    assert_eq!(behind.wait()?, [2; N]);
    Ok(())
}

#[test]
fn b09_copies_on_one_array_in_one_scope_cost_no_wait_and_no_event() {
    let run = |harness: &Harness, calls: &Calls| -> Result<()> {
        let stream = harness.stream();
        let mut a = stream.zeros::<u32>(N)?;
        let source = vec![3_u32; N];
        let (mut first, mut second, mut third) = (vec![0; N], vec![0; N], vec![0; N / 2]);
        let gate = harness.gate(&stream);
        calls.forget();
        let (result, _) = gated(|body| {
            harness.device.scope(|scope| {
                let body = body;
                body.send(gate).unwrap();
                scope.download(&stream, &a, &mut first)?;
                scope.upload(&stream, &source[..N / 2], a.slice_mut(N / 2..))?;
                scope.download(&stream, &a, &mut second)?;
                scope.upload(&stream, &source, &mut a)?;
                scope.download(&stream, a.slice(..N / 2), &mut third)
            })
        });
        result?;
        assert_eq!(first, [0; N]);
        assert_eq!(
            (&second[..N / 2], &second[N / 2..]),
            (&[0; N / 2][..], &[3; N / 2][..])
        );
        assert_eq!(third, [3; N / 2]);
        for call in ["event_create", "event_record", "stream_wait_event"] {
            assert_eq!(calls.count(call), 0, "{call}: {:?}", calls.counts());
        }
        Ok(())
    };
    everywhere_counted(|harness, calls| run(harness, calls).unwrap());
}

#[run_by(scenario_on, |harness, [stream]|)]
fn b15_empty_slices_and_odd_parts_in_a_scope() -> Result<()> {
    let mut a = stream.upload(&[1_u8, 2, 3, 4, 5])?;
    let mut target = [0_u8; 7];
    harness.device.scope(|scope| {
        let (none, rest) = target.split_at_mut(0);
        let (one, rest) = rest.split_at_mut(1);
        scope.upload(&stream, &[], a.slice_mut(2..2))?;
        scope.download(&stream, a.slice(5..), none)?;
        scope.download(&stream, a.slice(4..), one)?;
        scope.upload(&stream, &[9], a.slice_mut(3..4))?;
        scope.download(&stream, a.slice(1..4), &mut rest[3..])
    })?;
    assert_eq!(target, [5, 0, 0, 0, 2, 3, 9]);
    Ok(())
}

/// Runs on the simulated device only: a lost GPU would stay lost for the process's other tests.
#[test]
fn d03_a_scope_on_a_lost_device_ends_with_the_error() -> Result<()> {
    let gpu = millstream::sim::Gpu::new(SimConfig::new());
    let device = Device::open_simulated(&gpu, 0)?;
    let stream = device.stream()?;
    let kernels = gate_kernel::load(&device)?;
    let mut a = stream.upload(&vec![1_u32; N])?;
    let (source, mut target) = (vec![2_u32; N], vec![8_u32; N]);
    let hold = gpu.hold(stream.as_raw());
    let ended = device.scope(|scope| {
        // SAFETY: the simulated device checks every access and rejects this one.
        unsafe { kernels.gate(&stream, LaunchConfig::new([1, 1, 1], [1, 1, 1]), 8) }?;
        scope.download(&stream, &a, &mut target)?;
        scope.upload(&stream, &source, &mut a)?;
        drop(hold);
        Ok(())
    });
    assert_is!(ended, Err(Error::DeviceLost { .. }));
    assert_eq!(
        target, [8; N],
        "a failed download must not write its target"
    );
    assert_lost(device.scope(|scope| scope.download(&stream, &a, &mut target)));
    Ok(())
}

#[test]
fn b13_a_stream_of_another_device_in_a_scope_is_an_error() -> Result<()> {
    let (here, there) = (Device::simulated()?, Device::simulated()?);
    let stream = there.stream()?;
    let a = stream.upload(&[1_u8, 2, 3])?;
    let mut target = [0_u8; 3];
    let ended = here.scope(|scope| scope.download(&stream, &a, &mut target));
    assert_is!(problem(ended), UsageErrorKind::OtherDevice { .. });
    assert_eq!(target, [0; 3]);
    Ok(())
}
