//! Invalid indices: the error names the line of the operation, and no memory outside the operands
//! is accessed.

use millstream_region::{Array, Error, Region, RegionExt, UsageErrorKind};
use ndarray::{Axis, Ix1, array};

use crate::{
    Outcome,
    configurations::{configurations, everywhere},
};

type Test = (&'static str, fn() -> Outcome);

pub(crate) const TESTS: &[Test] = &[
    (
        "invalid_indices_are_reported_with_their_line",
        invalid_indices_are_reported_with_their_line,
    ),
    (
        "errors_of_invalid_indices_propagate",
        errors_of_invalid_indices_propagate,
    ),
    (
        "invalid_host_indices_are_rejected",
        invalid_host_indices_are_rejected,
    ),
    (
        "every_index_of_an_empty_axis_is_invalid",
        every_index_of_an_empty_axis_is_invalid,
    ),
];

/// Checks that an error propagates to computations that use the elements.
fn errors_of_invalid_indices_propagate() -> Outcome {
    let is_wrong = |error: Option<Error>| matches!(error, Some(Error::Usage(_)));
    everywhere(|device| {
        let x = Array::from_host(device, &array![1.0_f32, 2.0])?;
        let y = Array::from_host(device, &array![5.0_f32])?;
        let index = Array::from_host(device, &array![7_i64])?;
        let chosen = x.select(Axis(0), &index);
        assert!(is_wrong(chosen.to_host().err()));
        // The elements of `chosen` are stored by now; the sum does not check indices itself.
        let sum = &y + &chosen;
        assert!(is_wrong(sum.to_host().err()));
        assert!(is_wrong((&sum * 2.0).to_host().err()));
        assert!(is_wrong(
            device.region(|g| g.array(&sum) * 2.0)?.wait().err()
        ));
        assert_eq!((&y + &y).to_host()?, array![10.0]);
        Ok(())
    })
}

type Body = fn(&Region, &Array<f32, Ix1>, &Array<i32, Ix1>) -> Array<f32, Ix1>;

/// Operations that read indices, each with its line.
const BODIES: [(u32, Body); 6] = [
    // The first two have equal structures, and use the elements on another line.
    (line!() + 1, |_, x, index| {
        let chosen = x.select(Axis(0), index);
        chosen + 1.0
    }),
    (line!() + 1, |_, x, index| {
        let chosen = x.select(Axis(0), index);
        chosen + 2.0
    }),
    (line!(), |_, x, index| x.select(Axis(0), index)),
    (line!(), |_, x, index| x.gather(Axis(0), index)),
    (line!(), |_, x, index| x.scatter(Axis(0), index, &x.sum())),
    (line!() + 1, |_, x, index| {
        x.scatter_add(Axis(0), index, &x.sum())
    }),
];

fn invalid_indices_are_reported_with_their_line() -> Outcome {
    let x = array![1.0_f32, 2.0, 3.0, 4.0];
    for wrong in [4, -1, i32::MAX, i32::MIN] {
        for (line, body) in BODIES {
            for configuration in configurations() {
                let device = configuration.open()?;
                let index = array![0, wrong, 1];
                let pending = device.region(|g| body(g, &g.array(&x), &g.array(&index)))?;
                match pending.wait() {
                    Err(Error::Usage(usage_error)) => {
                        let problem = UsageErrorKind::Index { axis: 0, length: 4 };
                        assert_eq!(*usage_error.problem(), problem, "{usage_error}");
                        assert_eq!(usage_error.location().line(), line, "{usage_error}");
                    }
                    other => {
                        return Err(format!("{wrong} on {}: {other:?}", configuration.name).into());
                    }
                }
                drop(device);
                configuration.is_clean()?;
            }
        }
    }
    Ok(())
}

fn invalid_host_indices_are_rejected() -> Outcome {
    let device = configurations()[0].open()?;
    let x = array![1.0_f32, 2.0];
    let result = device.region(|g| g.array(&x).select(Axis(0), &[0, 2]));
    assert!(matches!(result, Err(Error::Usage(_))), "{result:?}");
    Ok(())
}

fn every_index_of_an_empty_axis_is_invalid() -> Outcome {
    let device = configurations()[0].open()?;
    let result = device.region(|g| {
        let (x, index) = (g.zeros::<f32, _>((0, 3)), g.zeros::<i64, _>(2));
        x.select(Axis(0), &index)
    });
    assert!(matches!(result, Err(Error::Usage(_))), "{result:?}");
    let result = device.region(|g| {
        let (x, index) = (g.zeros::<f32, _>((3, 0)), g.zeros::<i64, _>(2));
        x.select(Axis(0), &index)
    });
    assert_eq!(result?.wait()?.shape(), [2, 0]);
    Ok(())
}
