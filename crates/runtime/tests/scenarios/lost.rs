//! D3: a faulting kernel loses its whole context. Every waiter gets the error, and nothing else
//! happens.

use millstream::sim::ReportKind;

use crate::scenarios::{outsiders::wait_until, prelude::*, two_devices::on_two};

fn assert_lost<T: std::fmt::Debug>(result: Result<T>) {
    match result {
        Err(Error::DeviceLost { cause, .. }) => {
            assert_eq!(cause.code(), ResultCode::ILLEGAL_ADDRESS)
        }
        other => panic!("not the error of a lost device: {other:?}"),
    }
}

fn assert_only_the_fault_is_reported(gpu: &Gpu) {
    let others: Vec<_> = gpu
        .reports()
        .into_iter()
        .filter(|report| {
            !matches!(
                report.kind,
                ReportKind::KernelFault | ReportKind::OutOfBounds
            )
        })
        .collect();
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn d03_a_kernel_that_faults_fails_every_waiter() {
    for schedule in schedules(3..6) {
        let _watch = Watch::over(format!("{schedule:?}"));
        let gpu = Gpu::new(SimConfig::new().schedule(schedule));
        let device = Device::open_simulated(&gpu, 0).unwrap();
        let [s1, s2] = [device.stream().unwrap(), device.stream().unwrap()];
        let numbers = s1.upload(&[1_u32; N]).unwrap();
        let mut pinned = device.pinned::<u32>(N).unwrap();
        gate_kernel::load(&device).unwrap();
        let hold = gpu.hold(s1.as_raw());
        fault(&s1);
        let event = s1.record().unwrap();
        let mut after = s1.zeros::<u32>(N).unwrap();
        s1.copy(&numbers, &mut after).unwrap();
        s2.copy(&after, &mut pinned).unwrap();
        let downloads: Vec<_> = (0..8).map(|_| s2.download(&after).unwrap()).collect();
        let in_a_scope = thread::spawn({
            let (device, stream) = (device.clone(), device.stream().unwrap());
            let after = stream.upload(&[1_u32; N]).unwrap();
            move || {
                let mut target = [7_u32; N];
                let result = device.scope(|scope| {
                    stream.wait_for(&event)?;
                    scope.download(&stream, &after, &mut target)
                });
                assert_eq!(
                    target, [7; N],
                    "the target of a failed download is unchanged"
                );
                result
            }
        });
        let waiters: Vec<_> = downloads
            .into_iter()
            .enumerate()
            .map(|(at, mut download)| {
                thread::spawn(move || match at % 3 {
                    0 => download.wait(),
                    1 => pollster::block_on(download),
                    _ => loop {
                        if let Some(value) = download.try_take()? {
                            return Ok(value);
                        }
                        thread::yield_now();
                    },
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(5));
        drop(hold);
        for waiter in waiters {
            assert_lost(waiter.join().expect("no waiter panics"));
        }
        assert_lost(in_a_scope.join().expect("no waiter panics"));
        assert_lost(pinned.read().map(drop));
        assert_lost(pinned.write().map(drop));
        assert_lost(s2.synchronize());
        assert_lost::<Buffer<u8>>(s1.upload(&[1]));
        assert_lost(device.stream());
        assert_lost(device.timeline());
        assert_eq!(
            device.lost().map(|cause| cause.code()),
            Some(ResultCode::ILLEGAL_ADDRESS)
        );
        // Dropping the objects in any order reports nothing.
        drop(device);
        drop((after, s1, pinned, numbers, s2));
        assert_only_the_fault_is_reported(&gpu);
    }
}

#[run_by(on_two(schedules(3..6)), |gpu, [one, other]|)]
fn d03_another_device_works_on() {
    let [lost, working] = [&one, &other].map(|device| device.stream().unwrap());
    let kept = working.upload(&[3_u32; N]).unwrap();
    let hold = gpu.hold(working.as_raw());
    let pending = working.download(&kept).unwrap();
    let awaited = thread::spawn(move || pollster::block_on(pending));
    let doomed = lost.upload(&[1_u32; N]).unwrap();
    fault(&lost);
    // The enqueueing call may already return the error.
    assert_lost(lost.download(&doomed).and_then(|download| download.wait()));
    assert!(one.lost().is_some() && other.lost().is_none());
    drop(hold);
    assert_eq!(awaited.join().unwrap().unwrap(), [3; N]);
    drop((doomed, lost, one));
    let mut more = working.zeros::<u32>(N).unwrap();
    working.copy(&kept, &mut more).unwrap();
    working.fill(more.slice_mut(..1), 4).unwrap();
    let value = working.values(&more).unwrap();
    assert_eq!((value[0], &value[1..]), (4, &[3; N - 1][..]));
    drop((kept, more, working, other));
    // Only objects of the lost device may remain, none of the other's.
    wait_until(|| {
        let left = gpu.live_object_counts();
        left.streams + left.events == 0
    });
    assert_only_the_fault_is_reported(gpu);
}
