//! Foreign calls whose closure calls Millstream, and foreign calls in graphs.

use millstream::kernel::{self, Argument, DriverStream};

use crate::scenarios::{prelude::*, user_code::call_back};

#[test]
fn calls_into_the_library_from_a_foreign_call_are_rejected_without_hanging() {
    once(|harness| {
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
    });
}

#[test]
#[allow(unsafe_code, reason = "makes calls that stay within their operands")]
fn g14_a_call_of_another_library_is_captured_with_its_workspace() {
    scenario(|harness| {
        let [stream, other] = harness.streams();
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
                unsafe {
                    driver.copy_device_to_device_async(context, target, workspace, 36, stream)
                }
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
    });
}

#[test]
#[allow(unsafe_code, reason = "makes calls that enqueue nothing")]
fn g14_a_call_that_fails_in_a_recording_is_none_of_its_operations() {
    scenario(|harness| {
        let stream = harness.stream();
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
    });
}
