//! The kernel cache: cached kernels serve nodes of the same structure, with other constants, arrays
//! and lines, and no nodes of another structure.

use crate::differential::prelude::*;

fn ramp(len: usize, from: usize) -> Array1<f32> {
    (from..).take(len).map(|value| value as f32).collect()
}

#[run_by(everywhere, |device|)]
fn cached_kernels_take_other_constants() -> Outcome {
    let host = ramp(70, 1);
    let x = Array::from_host(device, &host)?;
    for (factor, summand) in [(2.0, 3.0), (3.0, 2.0), (2.0, 2.0), (-1.0, 0.0)] {
        let (mapped, sum) = evaluate(device, |_| {
            (Keep(&x * factor + summand), (&x * factor + summand).sum())
        })?;
        let expected = &host * factor + summand;
        assert_eq!(mapped.to_host()?, expected, "{factor}, {summand}");
        assert_eq!(sum.into_scalar(), expected.sum(), "{factor}, {summand}");
    }
    Ok(())
}

#[run_by(everywhere, |device|)]
fn cached_kernels_take_other_operands() -> Outcome {
    let hosts = [ramp(70, 1), ramp(70, 9)];
    let [x, y] = [
        Array::from_host(device, &hosts[0])?,
        Array::from_host(device, &hosts[1])?,
    ];
    let arrays = [&x, &y];
    for (a, b) in [(0, 1), (1, 0), (0, 0), (1, 1), (0, 1)] {
        let found = (arrays[a] - arrays[b]) * arrays[a];
        assert_eq!(
            found.to_host()?,
            (&hosts[a] - &hosts[b]) * &hosts[a],
            "{a}, {b}"
        );
        // The same nodes in the same order, with the operands of one exchanged.
        let found = (arrays[b] - arrays[a]) * arrays[a];
        assert_eq!(
            found.to_host()?,
            (&hosts[b] - &hosts[a]) * &hosts[a],
            "{b}, {a}"
        );
    }
    Ok(())
}

#[run_by(everywhere, |device|)]
fn cached_kernels_take_other_slices() -> Outcome {
    let host = ramp(70, 1);
    let x = Array::from_host(device, &host)?;
    for start in [0, 3, 3, 50] {
        let part = s![start..start + 20; 3];
        let found = (x.slice(part) * 2.0).to_host()?;
        assert_eq!(found, &host.slice(part) * 2.0, "{start}");
        let mut y = x.clone();
        y.slice_mut(part).assign(&(x.slice(part) + 1.0));
        let mut expected = host.clone();
        expected.slice_mut(part).mapv_inplace(|value| value + 1.0);
        assert_eq!(y.to_host()?, expected, "{start}");
    }
    Ok(())
}

#[run_by(everywhere, |device|)]
fn cached_kernels_distinguish_stored_operands() -> Outcome {
    let host = ramp(70, 1);
    let x = Array::from_host(device, &host)?;
    for is_stored in [false, true, false, true] {
        let half = &x * 0.5;
        if is_stored {
            assert_eq!(half.to_host()?, &host * 0.5);
        }
        let sum = (&half + &x).sum_axis(Axis(0)).item()?;
        assert_eq!(sum, (&host * 1.5).sum());
        assert_eq!((&half + &x).to_host()?, &host * 1.5);
    }
    Ok(())
}

#[run_by(everywhere, |device|)]
fn cached_kernels_distinguish_shapes() -> Outcome {
    for len in [1, 4, 70, 4, 1, 33_000, 70] {
        let host = ramp(len, 0).mapv(|value| value % 16.0);
        let x = Array::from_host(device, &host)?;
        assert_eq!((&x + 1.0).to_host()?, &host + 1.0, "{len}");
        assert_eq!((&x + &x).sum().item()?, 2.0 * host.sum(), "{len}");
    }
    Ok(())
}
