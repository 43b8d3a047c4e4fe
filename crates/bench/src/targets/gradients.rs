//! T18: the share of the all-reduce of gradients that lies under kernels, in a region on two GPUs
//! that adds its gradients in buckets.

use std::ops::Range;

use anyhow::ensure;
use millstream::{OperationKind, timeline::TimedOperation};
use millstream_region::{Mesh, Replicated, Sharded, Split, region};
use ndarray::Array2;

use crate::targets::prelude::*;

/// The number of buckets in which the gradients are added.
const BUCKETS: usize = 8;
/// The number of recorded steps, after one that is not recorded.
const STEPS: usize = 9;

const TIMED: SampleSize = SampleSize::of(12, 1);

type Rows = Sharded<Array2<f32>, 0>;
/// Eight of a type.
type Eight<T> = (T, T, T, T, T, T, T, T);

/// The number of rows on each device, and of inputs and outputs of a layer.
#[derive(Clone, Copy)]
struct Size {
    rows: usize,
    inputs: usize,
    outputs: usize,
}

const SIZE: Size = Size {
    rows: 8192,
    inputs: 8192,
    outputs: 4096,
};

/// Returns the gradient of a layer's weights, in buckets of inputs.
#[region(mesh)]
fn gradients(
    x: &Sharded<Array2<f32>, 0>,
    error: &Sharded<Array2<f32>, 0>,
) -> Eight<Replicated<Array2<f32>>> {
    let inputs = x.ncols() / BUCKETS;
    let bucket = |number: usize| {
        let part = x.slice(s![.., number * inputs..(number + 1) * inputs]);
        part.t().dot(error).all_reduce("data")
    };
    let [a, b, c, d, e, f, g, h] = [0, 1, 2, 3, 4, 5, 6, 7].map(bucket);
    (a, b, c, d, e, f, g, h)
}

/// Returns each device's summand of the gradient as its part, in buckets of inputs.
#[region(mesh)]
fn summands(x: &Rows, error: &Rows) -> Eight<Rows> {
    let inputs = x.ncols() / BUCKETS;
    let bucket = |number: usize| {
        let part = x.slice(s![.., number * inputs..(number + 1) * inputs]);
        part.t().dot(error)
    };
    let [a, b, c, d, e, f, g, h] = [0, 1, 2, 3, 4, 5, 6, 7].map(bucket);
    (a, b, c, d, e, f, g, h)
}

/// Returns references to the eight values.
fn each<T>(eight: &Eight<T>) -> [&T; BUCKETS] {
    let (a, b, c, d, e, f, g, h) = eight;
    [a, b, c, d, e, f, g, h]
}

pub(crate) fn measure(harness: &Harness) -> Result<Vec<Row>> {
    let what = "all-reduce of gradients under kernels, two GPUs";
    if harness.raw.driver().device_count()? < 2 {
        return Ok(vec![Row::absent("T18", what, "needs two GPUs")]);
    }
    let second = Device::open(Select::Cuda(1)).context("cannot open the second GPU")?;
    let devices = [harness.device.clone(), second];
    let share = measured(devices.clone(), SIZE, STEPS)?;
    let row = Row::judged("T18", what, "share", share, Goal::AtLeast(0.7));
    let by_events = row.with_note("by events, the median of both devices and of all steps");
    let hidden = hidden(harness, &devices)?;
    let row = Row::judged("T18", what, "share", hidden, Goal::None);
    let note = "by times: 1 - (products with all-reduce - products alone) / all-reduce alone";
    Ok(vec![by_events, row.with_note(note)])
}

/// Returns the share of the exchange that does not lengthen a step.
fn hidden(harness: &Harness, devices: &[Device; 2]) -> Result<f64> {
    let mesh = Mesh::new(devices.to_vec(), [("data", 2)])?;
    let (x, error) = operands(&mesh, SIZE)?;
    let whole = Variant::complete(|| {
        let sums = gradients(&mesh, &x, &error)?;
        let copies = each(&sums).map(Replicated::copies);
        finish(devices, copies)
    });
    let products = Variant::complete(|| {
        let summands = summands(&mesh, &x, &error)?;
        let parts = each(&summands).map(Sharded::parts);
        finish(devices, parts)
    });
    let summands = summands(&mesh, &x, &error)?;
    finish(devices, each(&summands).map(Sharded::parts))?;
    let exchange = Variant::complete(|| {
        let buckets = each(&summands).into_iter();
        let sums: Vec<Replicated<Array2<f32>>> = buckets
            .map(|bucket| mesh.region(|g| g.local(bucket).all_reduce("data")))
            .collect::<Result<_, _>>()?;
        finish(devices, sums.iter().map(Replicated::copies))
    });
    let [whole, products, exchange] = medians(harness, TIMED, [whole, products, exchange])?;
    Ok(1.0 - (whole - products) / exchange)
}

/// Waits until the elements of all buckets have been computed on both devices.
fn finish<'a>(
    devices: &[Device; 2],
    buckets: impl IntoIterator<Item = &'a [Array<f32, Ix2>]>,
) -> Result<()> {
    for arrays in buckets {
        for (device, array) in devices.iter().zip(arrays) {
            device
                .region(|g| g.array(array).slice(s![..1, ..1]))?
                .wait()?;
        }
    }
    Ok(())
}

/// Creates the inputs of the layer and the errors of its outputs, with rows on both devices.
fn operands(mesh: &Mesh, size: Size) -> Result<(Rows, Rows)> {
    let rows = |columns, value: f32| {
        let all = Array2::from_elem((2 * size.rows, columns), value);
        mesh.shard(&all, Split::over("data"))
    };
    Ok((rows(size.inputs, 0.5)?, rows(size.outputs, 0.25)?))
}

/// Returns the median share of all steps on both devices.
fn measured(devices: [Device; 2], size: Size, steps: usize) -> Result<f64> {
    let mesh = Mesh::new(devices.to_vec(), [("data", 2)])?;
    let (x, error) = operands(&mesh, size)?;
    let step = || -> Result<()> {
        let (first, .., last) = gradients(&mesh, &x, &error)?;
        let expected = 2.0 * size.rows as f32 * 0.125;
        for bucket in [first, last] {
            ensure!(
                bucket.to_host()?.iter().all(|&sum| sum == expected),
                "a gradient is wrong"
            );
        }
        Ok(())
    };
    step()?;
    let mut shares = Vec::new();
    for _ in 0..steps {
        let timelines = [devices[0].timeline()?, devices[1].timeline()?];
        step()?;
        for timeline in timelines {
            shares.push(share(&timeline.finish()?.operations)?);
        }
    }
    Ok(median(shares))
}

/// Returns the share of the exchange's time for which a kernel of the region ran on the same
/// device. The exchange is the copies, the reductions of the direct backend, and NCCL's operations.
fn share(operations: &[TimedOperation]) -> Result<f64> {
    let is_exchange = |operation: &TimedOperation| match operation.kind {
        OperationKind::DeviceToDevice | OperationKind::Collective => true,
        OperationKind::Kernel => operation.label.starts_with("fold_"),
        _ => false,
    };
    let spans = |exchange: bool| {
        let operations = operations.iter().filter(move |operation| {
            is_exchange(operation) == exchange
                && (exchange || operation.kind == OperationKind::Kernel)
        });
        union(operations.map(|operation| operation.time_ns.clone()))
    };
    let (collectives, kernels) = (spans(true), spans(false));
    let total = total_ns(&collectives);
    ensure!(total > 0, "the collectives took no time");
    let covered: u64 = collectives
        .iter()
        .flat_map(|collective| kernels.iter().map(|kernel| common_ns(collective, kernel)))
        .sum();
    Ok(covered as f64 / total as f64)
}

fn union(intervals: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut intervals: Vec<_> = intervals.collect();
    intervals.sort_by_key(|interval| interval.start);
    let mut union: Vec<Range<u64>> = Vec::new();
    for interval in intervals {
        match union.last_mut() {
            Some(last) if interval.start <= last.end => last.end = last.end.max(interval.end),
            _ => union.push(interval),
        }
    }
    union
}

fn total_ns(intervals: &[Range<u64>]) -> u64 {
    intervals.iter().map(|one| one.end - one.start).sum()
}

/// Returns the length of the common part of two intervals.
fn common_ns(one: &Range<u64>, other: &Range<u64>) -> u64 {
    let (start, end) = (one.start.max(other.start), one.end.min(other.end));
    end.saturating_sub(start)
}

#[cfg(test)]
mod tests {
    use millstream::sim::{Gpu, SimConfig};

    use super::*;

    #[test]
    fn the_share_is_that_of_the_exchange() {
        let operation = |kind, label, time_ns| TimedOperation::new(label, kind, 1, time_ns);
        let operations = [
            operation(OperationKind::Kernel, "product", 0..50),
            operation(OperationKind::Kernel, "product", 60..100),
            operation(OperationKind::Kernel, "fold_f32_sum", 40..80),
            operation(OperationKind::DeviceToDevice, "copy", 80..120),
            operation(OperationKind::DeviceToHost, "download", 100..120),
        ];
        // From 50 to 60 and from 100 to 120 no kernel runs.
        assert_eq!(share(&operations).unwrap(), 50.0 / 80.0);
        assert!(share(&operations[..2]).is_err());
    }

    #[test]
    fn two_simulated_devices_add_their_gradients_under_kernels() {
        let gpu = Gpu::new(SimConfig::new().devices(2));
        let devices = [0, 1].map(|number| Device::open_simulated(&gpu, number).unwrap());
        let size = Size {
            rows: 512,
            inputs: 32 * BUCKETS,
            outputs: 64,
        };
        // How much lies under kernels depends on when the host's threads run: one busy machine gave
        // 0.06. That nothing ever does would be an edge too many.
        let mut shares = (0..10).map(|_| measured(devices.clone(), size, 1).unwrap());
        assert!(shares.any(|share| (0.1..=1.0).contains(&share)));
    }
}
