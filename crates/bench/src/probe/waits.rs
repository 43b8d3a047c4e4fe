//! How soon threads notice things: each other, the time, and the end of a kernel.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::{
    rig::Rig,
    timing::{Contender, Effort, median, medians},
};

const EFFORT: Effort = Effort {
    rounds: 400,
    batch: 1,
};
const ELEMENTS: u64 = 256;
const BYTES: usize = ELEMENTS as usize * size_of::<f32>();

/// Prints how long sleeps really take, and how long it takes to wake another thread and be woken back.
pub(crate) fn print_host(quick: bool) {
    let rounds = if quick { 20 } else { 200 };
    for asked_us in [1, 10, 50, 100, 1000] {
        let asked = Duration::from_micros(asked_us);
        let samples = (0..rounds).map(|_| {
            let began = Instant::now();
            thread::sleep(asked);
            began.elapsed().as_nanos() as f64
        });
        println!(
            "sleep of {asked_us} us: {:.1} us",
            median(samples.collect()) / 1e3
        );
    }
    println!(
        "wake another thread and be woken back: {:.1} us",
        round_trip_ns(rounds) / 1e3
    );
}

/// Half of it is what waking one thread costs.
fn round_trip_ns(rounds: usize) -> f64 {
    let turn = Arc::new(AtomicBool::new(false));
    let stop = Arc::new(AtomicBool::new(false));
    let (caller, its_turn, its_stop) = (thread::current(), Arc::clone(&turn), Arc::clone(&stop));
    let other = thread::spawn(move || {
        while !its_stop.load(Ordering::Acquire) {
            if its_turn.swap(false, Ordering::AcqRel) {
                caller.unpark();
            }
            thread::park();
        }
    });
    let samples = (0..rounds).map(|_| {
        // So that the other thread sleeps when it is woken.
        thread::sleep(Duration::from_micros(200));
        let began = Instant::now();
        turn.store(true, Ordering::Release);
        other.thread().unpark();
        while turn.load(Ordering::Acquire) {
            thread::park();
        }
        began.elapsed().as_nanos() as f64
    });
    let trip = median(samples.collect());
    stop.store(true, Ordering::Release);
    other.thread().unpark();
    other.join().expect("it does not panic");
    trip
}

/// Prints the time from the launch of a short kernel until each way of waiting has noticed its end.
pub(crate) fn print(rig: &Rig) -> Result<()> {
    let raw = &rig.raw;
    let (kernel, stream, event) = (raw.vecadd()?, raw.stream()?, raw.event()?);
    let operands = [raw.memory(BYTES)?, raw.memory(BYTES)?, raw.memory(BYTES)?];
    let launch = || stream.vecadd(kernel, operands.each_ref(), ELEMENTS);
    let show = |what: &str, wait: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let work = Contender::complete(|| {
            launch()?;
            wait()
        });
        let [ns] = medians(rig, EFFORT, [work])?;
        println!("launch, then {what}: {:.1} us", ns / 1e3);
        Ok(())
    };
    show("spin on a query of the stream", &mut || {
        while !stream.is_idle()? {}
        Ok(())
    })?;
    show("record, spin on a query of the event", &mut || {
        stream.record(&event)?;
        while !event.is_complete()? {}
        Ok(())
    })?;
    show("synchronize the stream", &mut || stream.synchronize())?;
    show("record, synchronize the event", &mut || {
        stream.record(&event)?;
        event.synchronize()
    })?;
    for pause_us in [1, 5, 20] {
        let pause = Duration::from_micros(pause_us);
        show(&format!("sleeps of {pause_us} us between queries"), &mut || {
            while !stream.is_idle()? {
                thread::sleep(pause);
            }
            Ok(())
        })?;
    }
    show("a host function that wakes this thread", &mut || {
        let (caller, done) = (thread::current(), Arc::new(AtomicBool::new(false)));
        let its_done = Arc::clone(&done);
        stream.on_host(Box::new(move || {
            its_done.store(true, Ordering::Release);
            caller.unpark();
        }))?;
        while !done.load(Ordering::Acquire) {
            thread::park();
        }
        Ok(())
    })
}
