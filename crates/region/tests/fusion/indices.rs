//! Bounds checks of indices in device memory: no call waits for them while results stay on the
//! device.

use millstream::sim::{Gpu, SimConfig};

use crate::fusion::prelude::*;

#[test]
fn a_gather_that_stays_on_the_device_waits_for_nothing() {
    // This device runs nothing until the host waits for it.
    let gpu = Gpu::new(SimConfig::new().schedule(Schedule::Lazy));
    let device = Device::open_simulated(&gpu, 0).unwrap();
    let x = Array::from_host(&device, &Array1::<f32>::ones(1000)).unwrap();
    let index = Array1::from_shape_fn(1000, |at| 999 - at as i64);
    let index = Array::from_host(&device, &index).unwrap();
    let before = gpu.kernel_stats().blocks;
    let mut y = x.clone();
    for _ in 0..10 {
        let pending = device.region(|g| Keep(g.array(&y).gather(Axis(0), &g.array(&index)) + 1.0));
        y = pending.unwrap().wait().unwrap();
    }
    assert_eq!(
        gpu.kernel_stats().blocks,
        before,
        "a call has waited for the device"
    );
    assert_eq!(y.to_host().unwrap(), Array1::from_elem(1000, 11.0));
    assert!(gpu.kernel_stats().blocks > before);
}

#[run_by(Counted::everywhere, |counted|)]
fn a_gather_takes_one_kernel_and_no_transfer() {
    let x = counted.array(&Array1::<f32>::ones(1000));
    let index = counted.array(&Array1::<i64>::zeros(1000));
    let (_, work) = counted.work(|device| {
        let pending = device.region(|g| Keep(g.array(&x).gather(Axis(0), &g.array(&index))));
        let gathered = pending.unwrap().wait().unwrap();
        for call in ["copy_host_to_device_async", "copy_device_to_host_async"] {
            assert_eq!(counted.calls.count(call), 0, "{call}");
        }
        gathered.to_host().unwrap()
    });
    // No index raises the flag.
    let gathered = Work::of(1, 12_000, 4000);
    assert_eq!(work, gathered);
}

#[run_by(Counted::everywhere, |counted|)]
fn a_long_loop_of_gathers_forgets_the_checks_that_have_passed() {
    let index = counted.array(&Array1::<i64>::zeros(10));
    let mut y = counted.array(&Array1::<f32>::ones(10));
    let downloads = || counted.calls.count("copy_device_to_host_async");
    for _ in 0..200 {
        y = counted.result(|g| Keep(g.array(&y).gather(Axis(0), &g.array(&index))));
    }
    let meanwhile = downloads();
    assert!((100..400).contains(&meanwhile), "{meanwhile}");
    drop(y.to_host().unwrap());
    // The elements, and the flags of the last regions.
    let last = downloads() - meanwhile;
    assert!(last <= 65, "{last}");
}
