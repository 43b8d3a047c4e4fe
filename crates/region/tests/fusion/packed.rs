//! Packed elements: a mask takes a scan and one kernel that moves the elements, and nothing waits
//! for their number.

use millstream::sim::{Gpu, SimConfig};

use crate::fusion::prelude::*;

const N: usize = 3000;

fn host() -> Array1<f32> {
    Array1::from_shape_fn(N, |at| (at * 37 % 101) as f32 - 50.0)
}

#[run_by(Counted::everywhere, |counted|)]
fn a_mask_takes_a_scan_and_a_kernel_that_moves_elements() {
    let x = counted.array(&host());
    let expected: Array1<f32> = host().into_iter().filter(|x| *x > 0.0).collect();
    let (kept, work) = counted.region(|g| {
        let x = g.array(&x);
        let positive = x.compress(&x.greater(0.0));
        (Keep(positive.to_array(0.0)), Keep(positive.len()))
    });
    // The scan, the elements, those of the whole capacity, and the length.
    assert_eq!(work.kernels, 4);
    assert_eq!(kept.1.item().unwrap(), expected.len() as i64);
    let (found, work) = counted.work(|_| x.compress(&x.greater(0.0)).to_host().unwrap());
    assert_eq!((found, work.kernels), (expected.clone(), 3));
    // The reduction computes the functions and the mask of the length.
    let (sum, work) = counted.region(|g| {
        let x = g.array(&x);
        (x.compress(&x.greater(0.0)) * 2.0 + 1.0).sum()
    });
    assert_eq!((sum[()], work.kernels), ((expected * 2.0 + 1.0).sum(), 3));
    // The kernel of the taken rows takes them from the places of the indices.
    let (taken, work) = counted.region(|g| {
        let x = g.array(&x);
        x.take(&x.greater(0.0).flatnonzero()).sum()
    });
    assert_eq!(
        (taken[()], work.kernels),
        (x.relu().sum().item().unwrap(), 3)
    );
}

/// No call waits for the device, and nothing is downloaded, until the host asks.
#[test]
fn w02_masks_wait_for_nothing() {
    // This device runs nothing until the host waits for it.
    let gpu = Gpu::new(SimConfig::new().schedule(Schedule::Lazy));
    let device = Device::open_simulated(&gpu, 0).unwrap();
    let x = Array::from_host(&device, &host()).unwrap();
    let before = gpu.kernel_stats().blocks;
    let mut packed = x.compress(&x.not_equal(0.0));
    for least in [-40.0, -30.0, -20.0] {
        packed = packed.compress(&packed.greater(least)) + 1.0;
        let prepared = packed.len().record().unwrap();
        drop(prepared);
    }
    let index = packed.cast::<i64>().abs();
    let taken = x.take(&index);
    drop(taken.len().record().unwrap());
    assert_eq!(
        gpu.kernel_stats().blocks,
        before,
        "a call has waited for the device"
    );
    let mut expected: Vec<f32> = host().into_iter().filter(|x| *x != 0.0).collect();
    for least in [-40.0, -30.0, -20.0] {
        expected.retain(|x| *x > least);
        expected.iter_mut().for_each(|x| *x += 1.0);
    }
    let of = |x: &f32| host()[x.abs() as usize];
    assert_eq!(
        taken.to_host().unwrap().to_vec(),
        expected.iter().map(of).collect::<Vec<_>>()
    );
    assert_eq!(packed.to_host().unwrap().to_vec(), expected);
}
