//! Concurrent threads, and threads that end.

use std::{cell::RefCell, sync::Mutex};

use millstream::Timeline;

use crate::scenarios::{outsiders::are_adopted, prelude::*};

const N: usize = 64;

/// The stream of a thread: its own, or one of an outsider, who enqueues on it too.
struct ThreadStream(Option<Arc<Outsider>>);

impl ThreadStream {
    /// Creates the stream of a scenario's thread, called on the thread that runs the scenario.
    /// Every second is an outsider's if streams are adopted.
    fn new(gpu: &Gpu, number: usize) -> Self {
        let adopts = are_adopted() && number.is_multiple_of(2);
        Self(adopts.then(|| Outsider::new(Some(gpu), 0)))
    }

    /// Returns the stream, called on its thread.
    fn open(&self, device: &Device) -> Result<Stream> {
        match &self.0 {
            Some(outsider) => Ok(outsider.adopt(device)),
            None => device.thread_stream(),
        }
    }

    /// Lets the owner enqueue work of its own.
    fn work(&self) {
        if let Some(outsider) = &self.0 {
            outsider.work();
        }
    }
}

fn setup(schedule: Schedule) -> (Gpu, Device) {
    let gpu = Gpu::new(SimConfig::new().schedule(schedule));
    let device = Device::open_simulated(&gpu, 0).expect("the device opens");
    (gpu, device)
}

#[test]
fn a10_launch_and_copy_alternate_from_two_threads() {
    alternate(Schedule::Timed, 10_000);
}

/// Under every kind of schedule, with streams as the thread's scenarios have them.
pub(crate) fn a10_launch_and_copy_alternate_under_every_schedule() {
    for schedule in schedules(1..6) {
        alternate(schedule, 500);
    }
}

#[test]
#[ignore = "a minute long; cargo test -- --ignored a10"]
fn a10_launch_and_copy_alternate_a_million_times() {
    for seed in 0..50 {
        alternate(Schedule::Random(seed), 10_000);
    }
}

/// Makes this many launches on one thread and as many copies on another.
fn alternate(schedule: Schedule, rounds: usize) {
    let _watch = Watch::over(format!("a10 {schedule:?}"));
    let (gpu, device) = setup(schedule);
    let kernels = sums::load(&device).unwrap();
    let home = device.stream().unwrap();
    let zeros = || home.zeros::<f32>(N).unwrap();
    let ones = home.upload(&[1.0_f32; N]).unwrap();
    let shared = Mutex::new((zeros(), zeros()));
    let [launching, copying] = [0, 1].map(|number| ThreadStream::new(&gpu, number));
    thread::scope(|scope| {
        let launches = || -> Result<()> {
            let stream = launching.open(&device)?;
            for _ in 0..rounds {
                launching.work();
                let mut arrays = shared.lock().unwrap();
                let (sum, next) = &mut *arrays;
                kernels.vecadd(&stream, N, &*sum, &ones, next, N as u64)?;
            }
            Ok(())
        };
        let copies = || -> Result<()> {
            let stream = copying.open(&device)?;
            for _ in 0..rounds {
                let mut arrays = shared.lock().unwrap();
                let (sum, next) = &mut *arrays;
                stream.copy(&*next, sum)?;
            }
            Ok(())
        };
        let both = [scope.spawn(launches), scope.spawn(copies)];
        for thread in both {
            thread.join().unwrap().unwrap();
        }
    });
    let (sum, next) = shared.into_inner().unwrap();
    let (sum, next) = (home.download(&sum).unwrap(), home.download(&next).unwrap());
    let (sum, next) = (sum.wait().unwrap(), next.wait().unwrap());
    assert!(sum.iter().all(|&value| value == sum[0]) && next.iter().all(|&value| value == next[0]));
    assert!(
        next[0] == sum[0] || next[0] == sum[0] + 1.0,
        "{} {}",
        sum[0],
        next[0]
    );
    assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
}

#[test]
fn a11_threads_name_the_same_arrays_in_both_orders() {
    for schedule in [Schedule::Timed, Schedule::Eager, Schedule::Random(5)] {
        both_orders(schedule, 300);
    }
}

/// Under every kind of schedule, with streams as the thread's scenarios have them.
pub(crate) fn a11_threads_name_the_same_arrays_under_every_schedule() {
    for schedule in schedules(1..6) {
        both_orders(schedule, 40);
    }
}

#[test]
#[ignore = "a minute long; cargo test -- --ignored a11"]
fn a11_threads_name_the_same_arrays_in_both_orders_for_a_minute() {
    let started = Instant::now();
    for seed in 0.. {
        both_orders(Schedule::Random(seed), 300);
        if started.elapsed() >= Duration::from_secs(60) {
            break;
        }
    }
}

/// Launches kernels from several threads that read the same two arrays in either order and write a
/// third in turns.
fn both_orders(schedule: Schedule, rounds: usize) {
    const THREADS: usize = 8;
    let _watch = Watch::over(format!("a11 {schedule:?}"));
    let (gpu, device) = setup(schedule);
    let kernels = sums::load(&device).unwrap();
    let home = device.stream().unwrap();
    let ones = home.upload(&[1.0_f32; N]).unwrap();
    let twos = home.upload(&[2.0_f32; N]).unwrap();
    let common = Mutex::new(home.zeros::<f32>(N).unwrap());
    let streams: Vec<_> = (0..THREADS)
        .map(|number| ThreadStream::new(&gpu, number))
        .collect();
    thread::scope(|scope| {
        for (number, thread_stream) in streams.iter().enumerate() {
            let (kernels, device, ones, twos, common) = (&kernels, &device, &ones, &twos, &common);
            scope.spawn(move || {
                let stream = thread_stream.open(device).unwrap();
                let other = device.stream().unwrap();
                let mut own = stream.zeros::<f32>(N).unwrap();
                for _ in 0..rounds {
                    thread_stream.work();
                    let (a, b) = if number % 2 == 0 {
                        (ones, twos)
                    } else {
                        (twos, ones)
                    };
                    kernels
                        .vecadd(&stream, N, a, b, &mut own, N as u64)
                        .unwrap();
                    let mut made = other.zeros::<f32>(N).unwrap();
                    {
                        let mut common = common.lock().unwrap();
                        kernels
                            .vecadd(&stream, N, &*common, ones, &mut made, N as u64)
                            .unwrap();
                        other.copy(&made, &mut *common).unwrap();
                    }
                    assert_eq!(stream.values(&own).unwrap(), [3.0; N]);
                }
            });
        }
    });
    let common = home.values(common.into_inner().unwrap()).unwrap();
    assert_eq!(common, [(THREADS * rounds) as f32; N]);
    assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
}

/// A value that uses the thread's stream in its destructor, while thread-local variables are
/// destroyed.
struct AtTheEnd(Device);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        let stream = self.0.thread_stream().expect("a stream");
        let buffer = stream.upload(&[4_u8]).expect("an upload");
        assert_eq!(stream.values(&buffer).unwrap(), [4]);
    }
}

thread_local! {
    static LAST: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
}

#[test]
fn a_thread_that_ends_may_still_use_the_device() {
    let (gpu, device) = setup(Schedule::Timed);
    for first in [true, false] {
        let device = device.clone();
        // The order of destruction of two thread-local variables depends on which was used first.
        let ended = thread::spawn(move || {
            let keep = || LAST.set(Some(AtTheEnd(device.clone())));
            if first {
                keep();
            }
            device.thread_stream().unwrap();
            if !first {
                keep();
            }
        });
        ended.join().unwrap();
    }
    assert!(gpu.reports().is_empty(), "{:#?}", gpu.reports());
}

#[test]
fn a_timeline_finishes_under_every_schedule() {
    for schedule in schedules(1..3) {
        let (_gpu, device) = setup(schedule);
        let timeline = device.timeline().unwrap();
        let stream = device.stream().unwrap();
        let other = device.stream().unwrap();
        let buffer = stream.upload(&[1_u8; 64]).unwrap();
        drop(other.download(&buffer).unwrap());
        let trace = Timeline::finish(timeline).unwrap();
        assert_eq!(trace.operations.len(), 3, "{schedule:?}");
    }
}
