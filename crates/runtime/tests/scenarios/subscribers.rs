//! `tracing` subscribers that block, panic or call back: the library logs without holding a lock.

use millstream::{driver::DeviceOrdinal, sim::Fault};
use parking_lot::Mutex;
use tracing::{
    Event, Metadata, Subscriber,
    dispatcher::{Dispatch, with_default},
    span,
};

use crate::scenarios::{
    prelude::*,
    user_code::{NOTICED_WITHIN, call_back, one_at_a_time, with_each_action},
};

/// A subscriber that passes every event of this library to a function.
struct Listening<F>(F);

/// Returns a subscriber that calls a function for every event of this library.
pub(crate) fn listening(listen: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Dispatch {
    Dispatch::new(Listening(listen))
}

impl<F: Fn(&Event<'_>) + 'static> Subscriber for Listening<F> {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        if event.metadata().target().starts_with("millstream") {
            (self.0)(event);
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// Loses a new simulated device by a failure of this driver call.
fn lose_a_device(call: &str) {
    let gpu = Gpu::new(SimConfig::new());
    let device = Device::open_simulated(&gpu, 0).expect("a simulated device opens");
    let stream = device.stream().expect("a stream");
    let fault = Fault::nth(1).of(call);
    gpu.inject(fault.losing(DeviceOrdinal::from_raw(0), ResultCode::ILLEGAL_ADDRESS));
    let answer = stream
        .zeros::<u8>(64)
        .and_then(|array| stream.download(&array)?.wait());
    assert!(
        matches!(answer, Err(Error::DeviceLost { .. })),
        "{call}: {answer:?}"
    );
}

#[run_by(with_each_action, |_, user|)]
fn a_subscriber_blocks_only_log_messages() -> Result<()> {
    let own = Arc::clone(user);
    let dispatch = listening(move |_| own.run());
    // Both calls fail while a stream's lock is held.
    for call in ["cuMemAllocAsync", "cuMemsetD8Async"] {
        with_default(&dispatch, || lose_a_device(call));
    }
    Ok(())
}

#[test]
fn a_subscriber_may_call_the_device_whose_loss_is_logged() {
    let _turn = one_at_a_time();
    for call in ["cuMemAllocAsync", "cuMemsetD8Async", "cuStreamQuery"] {
        let _watch = Watch::over(String::from(call));
        let gpu = Gpu::new(SimConfig::new());
        let device = Device::open_simulated(&gpu, 0).expect("a simulated device opens");
        let stream = device.stream().expect("a stream");
        let (tell, told) = mpsc::channel();
        let one = Mutex::new(Some((device.clone(), device.stream().expect("a stream"))));
        // Calls methods of the lost device in the event of its loss.
        let asking = listening(move |_| {
            if let Some((device, stream)) = one.lock().take() {
                let lost = device.lost();
                let answers = vec![
                    call_back(&device),
                    stream.synchronize(),
                    stream.zeros::<u8>(1).map(drop),
                    lost.map_or(Ok(()), |error| Err(Error::Driver(error))),
                ];
                let _ = tell.send(answers);
            }
        });
        let answer = with_default(&asking, || {
            let fault = Fault::nth(1).of(call);
            gpu.inject(fault.losing(DeviceOrdinal::from_raw(0), ResultCode::ILLEGAL_ADDRESS));
            stream
                .zeros::<u8>(64)
                .and_then(|array| stream.download(&array)?.wait())
        });
        assert!(
            matches!(answer, Err(Error::DeviceLost { .. })),
            "{call}: {answer:?}"
        );
        let answers = told.recv_timeout(NOTICED_WITHIN);
        let answers = answers.unwrap_or_else(|_| panic!("{call}: the subscriber hangs"));
        // Synchronising a stream without work succeeds even on a lost device.
        let [called_back, _, allocated, lost] = &answers[..] else {
            unreachable!("four answers")
        };
        for answer in [called_back, allocated, lost] {
            assert!(answer.is_err(), "{call}: {answers:?}");
        }
    }
}
