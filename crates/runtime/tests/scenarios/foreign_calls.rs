//! Foreign calls whose closure calls Millstream.

use millstream::{
    Error, Result, UsageErrorKind,
    kernel::{self, Argument, DriverStream},
};

use crate::{harness::once, user_code::call_back};

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
            stream.download(&array)?.wait()?,
            [0; 64],
            "the array is unchanged after the foreign call"
        );
        Ok(())
    });
}
