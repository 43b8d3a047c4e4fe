//! Usage errors, which name the operation and the user's line, and extreme arguments that are
//! valid.

use millstream_region::{Error, OnDevice, Result, UsageError, UsageErrorKind, region, stack};

use crate::differential::{configurations::configurations, prelude::*};

/// An operation, and a body that uses it wrongly with a 3 × 4 matrix.
type WrongUse = (
    &'static str,
    fn(&Region, Array<f32, Ix2>) -> Array<f32, IxDyn>,
);

/// The line of the first entry; each entry has its own line.
const FIRST: u32 = line!() + 3;
#[rustfmt::skip]
const WRONG_USES: &[WrongUse] = &[
    ("slice", |_, x| x.slice(s![..9, ..]).into_dyn()),
    ("slice_axis", |_, x| x.slice_axis(Axis(0), Slice::from(5..)).into_dyn()),
    ("index_axis", |_, x| x.index_axis(Axis(1), 4).into_dyn()),
    ("index_axis", |_, x| x.index_axis(Axis(2), 0).into_dyn()),
    ("row", |_, x| x.row(3).into_dyn()),
    ("column", |_, x| x.column(usize::MAX).into_dyn()),
    ("inverted_axis", |_, x| x.inverted_axis(Axis(2)).into_dyn()),
    ("split_at", |_, x| x.split_at(Axis(0), 4).0.into_dyn()),
    ("split_at", |_, x| x.split_at(Axis(0), usize::MAX).1.into_dyn()),
    ("split_at", |_, x| x.split_at(Axis(9), 0).1.into_dyn()),
    ("axis_iter", |_, x| { assert_eq!(x.axis_iter(Axis(2)).len(), 0); x.into_dyn() }),
    ("outer_iter", |_, x| { assert_eq!(x.sum().into_dyn().outer_iter().len(), 0); x.into_dyn() }),
    ("insert_axis", |_, x| x.insert_axis(Axis(3)).into_dyn()),
    ("insert_axis", |_, x| x.insert_axis(Axis(usize::MAX)).into_dyn()),
    ("permuted_axes", |_, x| x.permuted_axes([0, 0]).into_dyn()),
    ("permuted_axes", |_, x| x.into_dyn().permuted_axes(IxDyn(&[0, 1, 7]))),
    ("permuted_axes", |_, x| x.into_dyn().permuted_axes(IxDyn(&[0, 1, 1]))),
    ("permuted_axes", |_, x| x.into_dyn().permuted_axes(IxDyn(&[0]))),
    ("swapped_axes", |_, x| x.swapped_axes(0, usize::MAX).into_dyn()),
    ("broadcast", |_, x| x.broadcast((4, 4)).into_dyn()),
    ("broadcast", |_, x| x.broadcast(IxDyn(&[1; 7])).into_dyn()),
    ("into_shape_with_order", |_, x| x.into_shape_with_order((usize::MAX, 3)).into_dyn()),
    ("slice_mut", |_, mut x| { x.slice_mut(s![.., 7..9]).fill(0.0); x.into_dyn() }),
    ("row_mut", |_, mut x| { x.row_mut(3).fill(0.0); x.into_dyn() }),
    ("column_mut", |_, mut x| { x.column_mut(4).fill(0.0); x.into_dyn() }),
    ("index_axis_mut", |_, mut x| { x.index_axis_mut(Axis(2), 0).fill(0.0); x.into_dyn() }),
    ("add", |g, mut x| { x.row_mut(0).add_assign(&g.ones::<f32, _>(3)); x.into_dyn() }),
    ("mul_assign", |g, mut x| { let mut row = x.row_mut(0); row *= g.eye::<f32>(4); x.into_dyn() }),
    ("assign", |g, mut x| { x.row_mut(0).assign(&g.ones::<f32, _>(3)); x.into_dyn() }),
    ("add", |g, x| (x + g.ones::<f32, _>(3)).into_dyn()),
    ("add_assign", |g, mut x| { x += g.ones::<f32, _>(3); x.into_dyn() }),
    ("where_cond", |g, x| x.less(0.0).where_cond(g.ones::<f32, _>(3), 1.0).into_dyn()),
    ("clamp", |_, x| x.clamp(1.0, f32::NAN).into_dyn()),
    ("sum_axis", |_, x| x.sum_axis(Axis(2)).into_dyn()),
    ("mean_axis", |_, x| x.mean_axis(Axis(2)).into_dyn()),
    ("mean_keepdims", |_, x| x.mean_keepdims(&[Axis(0), Axis(5)]).into_dyn()),
    ("var_axis", |_, x| x.var_axis(Axis(2), 0.0).into_dyn()),
    ("min", |_, x| x.slice(s![..0, ..]).min().into_dyn()),
    ("argmax_axis", |_, x| x.slice(s![..0, ..]).argmax_axis(Axis(0)).cast().into_dyn()),
    ("cumsum", |_, x| x.cumsum(Axis(usize::MAX)).into_dyn()),
    ("diff", |_, x| x.diff(1, Axis(2)).into_dyn()),
    ("dot", |_, x| x.dot(&x).into_dyn()),
    ("matmul", |_, x| x.matmul(&x).into_dyn()),
    ("gather", |g, x| x.gather(Axis(2), &g.zeros::<i64, _>((1, 1))).into_dyn()),
    ("select", |_, x| x.select(Axis(0), &[3]).into_dyn()),
    ("scatter", |g, x| x.scatter(Axis(0), &g.zeros::<i32, _>((1, 5)), &x).into_dyn()),
    ("arange", |g, _| g.arange(0.0_f32, 1.0, 0.0).into_dyn()),
    ("arange", |g, _| g.arange(0.0_f32, f32::NAN, 1.0).into_dyn()),
    ("arange", |g, _| g.arange(i64::MIN, i64::MAX, 1).cast().into_dyn()),
    ("linspace", |g, _| g.linspace(0.0_f32, 1.0, usize::MAX).into_dyn()),
    ("eye", |g, _| g.eye::<f32>(usize::MAX).into_dyn()),
    ("uniform", |g, _| g.uniform::<f32, _>(IxDyn(&[2; 7]), 1)),
    ("from_elem", |g, _| g.ones::<f32, _>((usize::MAX, 2, 0)).into_dyn()),
];

pub(crate) fn usage_error<T>(result: Result<T>) -> UsageError {
    match result {
        Err(Error::Usage(usage_error)) => usage_error,
        Err(other) => panic!("not a usage error: {other}"),
        Ok(_) => panic!("the region succeeds"),
    }
}

/// Asserts that the use of an operation on this line is an error that names both, with this text.
macro_rules! fails {
    ($device:expr, $name:literal, |$g:ident| $body:expr, $text:expr) => {
        let error =
            crate::differential::usage_errors::usage_error(crate::evaluate($device, |$g| $body));
        let (text, line) = (error.to_string(), line!());
        assert!(text.contains($text), "{text}");
        assert_eq!((error.operation(), error.location().line()), ($name, line));
    };
}

pub(crate) use fails;

#[test]
fn usage_errors_name_the_operation_and_its_line() -> Outcome {
    let device = configurations()[0].open()?;
    for ((operation, body), line) in WRONG_USES.iter().zip(FIRST..) {
        let x = Array2::<f32>::ones((3, 4));
        let usage_error = usage_error(device.region(|g| body(g, g.array(&x))));
        let found = (
            usage_error.operation(),
            usage_error.location().file(),
            usage_error.location().line(),
        );
        assert_eq!(found, (*operation, file!(), line), "{usage_error}");
    }
    Ok(())
}

#[region]
fn shorten(x: &mut Array1<f32>, y: &mut [f32]) {
    *x = x.slice(s![1..]);
    *y = &*y * 2.0;
}

#[derive(OnDevice)]
struct Pair {
    first: Array1<f32>,
    second: Vec<i32>,
}

#[region]
fn lengthen(pair: &mut Pair) {
    pair.second = concatenate(Axis(0), &[&pair.second, &pair.second])
        .expect("the arrays have compatible shapes");
}

#[run_by(everywhere, |device|)]
fn a_changed_shape_of_a_mut_argument_names_the_call() -> Outcome {
    let (mut x, mut y) = (array![1.0, 2.0], [3.0]);
    let (error_of_x, line) = (usage_error(shorten(device, &mut x, &mut y)), line!());
    let mut view = x.view_mut();
    let line_of_view = line!() + 1;
    let error_of_view = usage_error(shorten(device, view.view_mut(), &mut y));
    let mut pair = Pair {
        first: array![1.0],
        second: vec![1, 2],
    };
    let (error_of_pair, line_of_pair) = (usage_error(lengthen(device, &mut pair)), line!());
    for (usage_error, line, left, right) in [
        (error_of_x, line, 1, 2),
        (error_of_view, line_of_view, 1, 2),
        (error_of_pair, line_of_pair, 4, 2),
    ] {
        let problem = UsageErrorKind::Shapes {
            left: [left][..].into(),
            right: [right][..].into(),
        };
        assert_eq!(*usage_error.problem(), problem);
        assert_eq!(
            (usage_error.location().file(), usage_error.location().line()),
            (file!(), line)
        );
    }
    assert_eq!((x, y), (array![1.0, 2.0], [3.0]));
    assert_eq!((pair.first, pair.second), (array![1.0], vec![1, 2]));
    Ok(())
}

#[test]
fn invalid_joins_are_errors() -> Outcome {
    let none: [&Array<f32, Ix1>; 0] = [];
    for result in [
        concatenate(Axis(0), &none).map(drop),
        stack(Axis(0), &none).map(drop),
    ] {
        assert_eq!(*usage_error(result).problem(), UsageErrorKind::NoArrays);
    }
    let device = configurations()[0].open()?;
    let joined = evaluate(&device, |g| {
        let (x, y) = (g.ones::<f32, _>((2, 3)), g.ones::<f32, _>((2, 2)));
        for (result, line) in [
            (concatenate(Axis(0), &[&x, &y]).map(drop), line!()),
            (concatenate(Axis(2), &[&x]).map(drop), line!()),
            (stack(Axis(0), &[x.view(), y.view()]).map(drop), line!()),
            (stack(Axis(3), &[&x, &x]).map(drop), line!()),
        ] {
            let usage_error = usage_error(result);
            let found = (usage_error.location().file(), usage_error.location().line());
            assert_eq!(found, (file!(), line), "{usage_error}");
        }
        // Handling the errors of `concatenate` and `stack` keeps the region alive.
        concatenate(Axis(1), &[x, y])
    })?;
    assert_eq!(joined, Array2::<f32>::ones((2, 5)));
    Ok(())
}

#[run_by(everywhere, |device|)]
fn differences_of_short_axes_are_empty() -> Outcome {
    let x = array![[1.0_f32, 4.0, 9.0], [1.0, 8.0, 27.0]];
    let (twice, thrice, often, of_none, never) = evaluate(device, |g| {
        let x = g.array(&x);
        (
            x.diff(2, Axis(1)),
            x.diff(3, Axis(1)),
            x.diff(usize::MAX, Axis(0)),
            x.slice(s![.., ..0]).diff(1, Axis(1)),
            x.diff(0, Axis(0)),
        )
    })?;
    assert_eq!(twice, array![[2.0], [12.0]]);
    assert_eq!(
        (thrice.shape(), often.shape(), of_none.shape()),
        (&[2, 0][..], &[0, 3][..], &[2, 0][..])
    );
    assert_eq!(never, x);
    Ok(())
}

/// Slices of slices and of fused operations, with steps beyond every index.
#[test]
fn slices_take_steps_of_any_size() -> Outcome {
    fn check(device: &Device, steps: [isize; 2]) -> Outcome {
        let x = Array1::from_shape_fn(10, |index| index as f32);
        let [first, second] = steps;
        let (again, fused, matrix) = evaluate(device, |g| {
            let x = g.array(&x);
            let part = x.slice(s![2..;first]);
            let again = part.slice(s![..;second]);
            let matrix = x
                .into_shape_with_order((2, 5))
                .slice(s![..;first, ..;second]);
            (
                again.clone(),
                again * 2.0 + 1.0,
                matrix.slice(s![..;second, ..;first]),
            )
        })?;
        let part = x.slice(s![2..;first]);
        let expected = part.slice(s![..;second]).to_owned();
        assert_eq!(
            (&again, &fused),
            (&expected, &(&expected * 2.0 + 1.0)),
            "{steps:?}"
        );
        let whole = x.into_shape_with_order((2, 5))?;
        let part = whole.slice(s![..;first, ..;second]);
        assert_eq!(matrix, part.slice(s![..;second, ..;first]), "{steps:?}");
        Ok(())
    }
    const STEPS: [isize; 7] = [
        1,
        -3,
        9,
        isize::MAX,
        -isize::MAX,
        isize::MAX / 2 + 1,
        1 << 32,
    ];
    let device = configurations()[0].open()?;
    STEPS
        .into_iter()
        .flat_map(|first| STEPS.map(|second| [first, second]))
        .try_for_each(|steps| check(&device, steps))
}
