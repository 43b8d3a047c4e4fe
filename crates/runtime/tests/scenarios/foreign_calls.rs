//! Foreign calls whose closure calls Millstream, and foreign calls in graphs.

use millstream::kernel::{self, Argument, DriverStream};
use millstream_testkit::outsiders::wait_until;

use crate::scenarios::{prelude::*, user_code::call_back};

#[run_by(once, |harness|)]
fn calls_into_the_library_from_a_foreign_call_are_rejected_without_hanging() -> Result<()> {
    let device = &harness.device;
    let (stream, other) = (harness.stream(), harness.stream());
    let mut array = stream.zeros::<u8>(64)?;
    let spare = stream.upload(&[1_u8; 64])?;
    let early = stream.record()?;
    let mut answers: Vec<Result<()>> = Vec::new();
    let mut borrowed = [0_u8; 64];
    let call = |_: DriverStream<'_>| {
        for stream in [&stream, &other] {
            answers.push(stream.zeros::<u8>(4).map(drop));
            answers.push(stream.upload(&[1_u8]).map(drop));
            answers.push(stream.download(&spare).map(drop));
            answers.push(stream.record().map(drop));
            answers.push(stream.wait_for(&early));
            answers.push(device.scope(|scope| scope.download(stream, &spare, &mut borrowed)));
        }
        answers.push(device.stream().map(drop));
        answers.push(call_back(device));
        let waited = device.closed().wait_timeout(CLOSED_WITHIN);
        assert_is!(problem(waited), UsageErrorKind::InCallback);
        // Destructors neither fail nor hang.
        drop(spare);
        Ok(())
    };
    // SAFETY: the call enqueues nothing.
    #[allow(unsafe_code, reason = "declares that a closure enqueues nothing")]
    let called = unsafe {
        kernel::enqueue(
            "foreign",
            &stream,
            &[Argument::write(&mut &mut array)],
            std::panic::Location::caller(),
            call,
        )
    };
    called?;
    for answer in &answers {
        let is_refused = matches!(
            answer,
            Err(Error::Usage(usage_error))
                if *usage_error.problem() == UsageErrorKind::InForeignCall
        );
        assert!(is_refused, "{answers:?}");
    }
    assert_eq!(
        stream.values(&array)?,
        [0; 64],
        "the array is unchanged after the foreign call"
    );
    Ok(())
}

#[run_by(scenario_on, |harness, [stream, other]|)]
#[allow(unsafe_code, reason = "makes calls that stay within their operands")]
fn g14_a_call_of_another_library_is_captured_with_its_workspace() -> Result<()> {
    let mut x = stream.zeros::<u32>(N)?;
    let mut y = stream.zeros::<u32>(N)?;
    let mut graph = harness.record("library", |r| {
        let recorded = r.stream()?;
        recorded.fill(&mut x, 1)?;
        let mut workspace = recorded.zeros::<u32>(9)?;
        let operands = [write(x.slice_mut(..9)), write(&mut workspace)];
        let library = |call: ForeignCall<'_>| {
            let (driver, context, stream) = (call.driver(), call.context(), call.stream());
            let (target, workspace) = (call.address(0), call.address(1));
            let five = FillPattern::U32(5);
            // SAFETY: the second operand has nine elements.
            unsafe { driver.memset_async(context, workspace, five, 9, stream) }?;
            // SAFETY: both operands have 36 bytes.
            unsafe { driver.copy_device_to_device_async(context, target, workspace, 36, stream) }
        };
        // SAFETY: the call uses its operands alone, on the given stream.
        unsafe { recorded.foreign("library", operands, library) }?;
        recorded.copy(&x, &mut y)
    })?;
    let mut expected = vec![1; N];
    expected[..9].fill(5);
    for stepwise in [false, false, true] {
        other.fill(&mut y, 0)?;
        if stepwise {
            graph.replay_stepwise(&stream)?;
        } else {
            graph.replay(&stream)?;
        }
        assert_eq!(other.values(&y)?, expected);
    }
    let mut z = stream.zeros::<u32>(N)?;
    let fixed = problem(graph.swap(&x, &z));
    assert!(fixed.to_string().contains("`update` records"), "{fixed}");
    assert!(
        graph.instance().is_err(),
        "the address of the workspace is fixed"
    );
    graph.swap(&y, &mut z)?;
    graph.replay(&stream)?;
    assert_eq!(stream.values(&z)?, expected);
    Ok(())
}

#[run_by(scenario_on, |harness, [stream]|)]
#[allow(unsafe_code, reason = "makes calls that enqueue nothing")]
fn g14_a_call_that_fails_in_a_recording_is_none_of_its_operations() -> Result<()> {
    let mut x = stream.zeros::<u32>(N)?;
    let graph = harness.record("failing", |r| {
        let recorded = r.stream()?;
        // SAFETY: the call enqueues nothing.
        let failed =
            unsafe { recorded.foreign("failing", [write(&mut x)], |_| Err(std::fmt::Error)) };
        assert_is!(failed, Err(Error::ForeignCall { .. }));
        recorded.fill(&mut x, 3)
    })?;
    assert_eq!(graph.figures().nodes, 1);
    graph.replay(&stream)?;
    assert_eq!(stream.values(&x)?, [3; N]);
    Ok(())
}

/// Returns values of many types, most of them with pending work.
fn values_in_use(gpu: &Gpu, device: &Device) -> Result<Vec<Box<dyn std::any::Any>>> {
    let [one, two, three, four] = [(); 4].map(|()| device.stream().unwrap());
    let holds = [&one, &two, &three, &four].map(|stream| gpu.hold(stream.as_raw()));
    let (shared, mut copies) = (three.zeros::<u8>(N)?, [four.zeros(N)?, three.zeros(N)?]);
    // In this order neither copy is behind the other.
    four.copy(&shared, &mut copies[0])?;
    three.copy(&shared, &mut copies[1])?;
    let mut pinned = device.pinned::<u8>(N)?;
    one.copy(&one.zeros(N)?, &mut pinned)?;
    let registered = Pinned::register(device, vec![0_u8; N])?;
    two.copy(&registered, &mut two.zeros(N)?)?;
    let lease = two.zeros::<u8>(N)?.into_lease(&one)?;
    let mut changed = one.zeros::<u8>(N)?;
    let graph = device.record("graph", |r| r.stream()?.fill(&mut changed, 1))?;
    graph.replay(&two)?;
    let outsider = Outsider::new(Some(gpu), 0);
    let (theirs, hold) = (outsider.adopt(device), gpu.hold(outsider.raw));
    let their_array = theirs.zeros::<u8>(N)?;
    two.copy(&their_array, &mut two.zeros(N)?)?;
    let mut values: Vec<Box<dyn std::any::Any>> = vec![
        Box::new((shared, copies)),
        Box::new((pinned, registered, device.managed::<u8>(N)?)),
        Box::new((one.record()?, lease, graph, changed, device.timeline()?)),
        Box::new((theirs, their_array, one, two, three, four)),
    ];
    // An idle device, a busy one and a lost one.
    for ordinal in 1..4 {
        let other = Device::open_simulated(gpu, ordinal)?;
        let stream = other.stream()?;
        let mut pinned = other.pinned::<u8>(N)?;
        stream.copy(&stream.zeros(N)?, &mut pinned)?;
        stream.synchronize()?;
        let hold = (ordinal == 2).then(|| gpu.hold(stream.as_raw()));
        let download = stream.download(&stream.zeros::<u8>(N)?)?;
        match ordinal {
            1 => stream.synchronize()?,
            3 => assert_lost({
                fault(&stream);
                stream.synchronize()
            }),
            _ => {}
        }
        values.push(Box::new((download, pinned, stream, other)));
        values.push(Box::new(hold));
    }
    values.push(Box::new((holds, hold)));
    Ok(values)
}

#[test]
#[allow(unsafe_code, reason = "makes calls that enqueue nothing")]
fn values_dropped_in_a_foreign_call_neither_panic_nor_wait() -> Result<()> {
    for recorded in [false, true] {
        let gpu = Gpu::new(SimConfig::new().devices(4));
        let device = Device::open_simulated(&gpu, 0)?;
        device.set_cache_limit(0);
        let values = values_in_use(&gpu, &device)?;
        let call = |_: DriverStream<'_>| {
            drop(values);
            Ok(())
        };
        let foreign = |stream: &Stream| {
            let caller = std::panic::Location::caller();
            // SAFETY: the call enqueues nothing.
            unsafe { kernel::enqueue("foreign", stream, &[], caller, call) }
        };
        match recorded {
            false => foreign(&device.stream()?)?,
            true => drop(device.record("graph", |r| foreign(&r.stream()?))?),
        }
        drop(device);
        // Page-locked memory and modules of the lost device are left.
        wait_until(|| gpu.live_object_counts().streams == 0);
    }
    Ok(())
}
