//! Invalid indices: the error names the line of the operation, and no memory outside the operands
//! is accessed.

use millstream_region::{Array, Error, Keep, Region, RegionExt, UsageErrorKind, region};
use ndarray::{Array1, Axis, Ix1, array, s};

use crate::differential::{
    Outcome,
    configurations::{configurations, everywhere},
    evaluate,
};

/// Checks that an error propagates to computations that use the elements.
#[run_by(everywhere, |device|)]
fn errors_of_invalid_indices_propagate() -> Outcome {
    let is_wrong = |error: Option<Error>| matches!(error, Some(Error::Usage(_)));
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
}

/// Checks that a region whose results stay on the device succeeds, and that the error appears where
/// an element is downloaded, however many regions later.
#[run_by(everywhere, |device|)]
fn arrays_on_the_device_carry_the_error_of_an_invalid_index() -> Outcome {
    let x = Array::from_host(device, &array![1.0_f32, 2.0, 3.0])?;
    let right = Array::from_host(device, &array![2_i64, 0, 1])?;
    // More regions than remember their checks without a download.
    for (wrong, regions) in [(None, 100), (Some(3), 1), (Some(-1), 30), (Some(3), 100)] {
        let index = match wrong {
            Some(wrong) => Array::from_host(device, &array![0, wrong, 1])?,
            None => right.clone(),
        };
        let chosen = |x: &Array<f32, Ix1>, index: &Array<i64, Ix1>| {
            device
                .region(|g| Keep(g.array(x).gather(Axis(0), &g.array(index)) + 1.0))?
                .wait()
        };
        let mut y = chosen(&x, &index)?;
        for _ in 1..regions {
            y = chosen(&y, &right)?;
        }
        let line = line!() - 7;
        let other = evaluate(device, |g| g.array(&x) * 2.0)?;
        assert_eq!(other, array![2.0, 4.0, 6.0], "an array without the error");
        let sum = device.region(|g| (g.array(&y) + g.array(&x)).sum())?.wait();
        match (wrong, y.to_host()) {
            (None, Ok(_)) => assert_eq!(sum?[()], 12.0 + 300.0),
            (Some(wrong), Err(Error::Usage(usage_error))) => {
                let problem = UsageErrorKind::Index {
                    index: Some(wrong),
                    axis: 0,
                    length: 3,
                };
                assert_eq!(*usage_error.problem(), problem);
                assert_eq!(usage_error.location().line(), line);
                assert!(matches!(sum, Err(Error::Usage(_))), "{sum:?}");
            }
            (_, other) => return Err(format!("{wrong:?}, {regions}: {other:?}").into()),
        }
    }
    Ok(())
}

/// Replaces its argument, in place where nothing else needs it.
#[region]
fn replaced(x: &mut Array1<f32>, y: &mut Array1<f32>, index: &Array1<i64>) -> Array<f32, Ix1> {
    let mut doubled = &*x * 2.0;
    let sum = x.sum();
    doubled.slice_mut(s![..2]).assign(&sum);
    *x = doubled.scatter(Axis(0), index, &sum);
    *y = y.scatter_add(Axis(0), index, &*x);
    x.gather(Axis(0), index)
}

#[run_by(everywhere, |device|)]
fn an_invalid_index_leaves_arguments_unchanged() -> Outcome {
    let host = array![1.0_f32, 2.0, 3.0];
    for wrong in [-1, 3] {
        let index = array![0, wrong, 1];
        let (mut x, mut y) = (host.clone(), Array::from_host(device, &host)?);
        let found = replaced(device, &mut x, &mut y, &index)?.wait();
        assert!(matches!(found, Err(Error::Usage(_))), "{found:?}");
        assert_eq!((&x, &y.to_host()?), (&host, &host));
        let found = replaced(device, &mut x, &mut y, array![2, 0, 1])?.wait()?;
        assert_eq!(found.to_host()?, array![6.0, 6.0, 6.0]);
        assert_eq!(
            (x, y.to_host()?),
            (array![6.0, 6.0, 6.0], array![7.0, 8.0, 9.0])
        );
    }
    Ok(())
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

#[test]
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
                        let problem = UsageErrorKind::Index {
                            index: Some(i64::from(wrong)),
                            axis: 0,
                            length: 4,
                        };
                        assert_eq!(*usage_error.problem(), problem, "{usage_error}");
                        assert_eq!(usage_error.location().line(), line, "{usage_error}");
                    }
                    other => {
                        return Err(format!("{wrong} on {}: {other:?}", configuration.name).into());
                    }
                }
                configuration.close(device)?;
            }
        }
    }
    Ok(())
}

#[test]
fn invalid_host_indices_are_rejected() -> Outcome {
    let device = configurations()[0].open()?;
    let x = array![1.0_f32, 2.0];
    let result = device.region(|g| g.array(&x).select(Axis(0), &[0, 2]));
    let error = result.err().ok_or("it is out of bounds")?.to_string();
    assert!(
        error.contains("index 2 is out of bounds for axis 0 of length 2"),
        "{error}"
    );
    Ok(())
}

/// Of several invalid indices one is named, the same on every run, also one that a kernel cannot
/// report exactly.
#[test]
fn errors_name_an_invalid_index() -> Outcome {
    let x = array![1.0_f32, 2.0, 3.0];
    let far = 1_i64 << 39;
    for (wrong, named) in [
        (vec![1, -7, 0], "index -7 "),
        (vec![3, 900, 17, -1], "index 900 "),
        (vec![far - 2], "index 549755813886 "),
        (vec![0, far, 5], "an index of 549755813887 or more "),
        (vec![i64::MAX], "an index of 549755813887 or more "),
        (vec![1 - far], "index -549755813887 "),
        (vec![i64::MIN, 0], "an index of -549755813888 or less "),
    ] {
        everywhere(|device| {
            let index = Array1::from(wrong.clone());
            let chosen = device.region(|g| g.array(&x).select(Axis(0), &g.array(&index)))?;
            let error = chosen
                .wait()
                .err()
                .ok_or("it is out of bounds")?
                .to_string();
            assert!(
                error.contains(named) && error.contains("of length 3"),
                "{error}"
            );
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
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
