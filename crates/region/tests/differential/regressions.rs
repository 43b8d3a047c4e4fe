//! Failures that random programs have found, reduced to minimal programs.

use crate::differential::prelude::*;

/// Checks a view below a reshape. In a kernel whose nodes share linear indices, it was lowered with
/// indices of the reshaped array.
#[run_by(everywhere, |device|)]
fn a_reshaped_view_keeps_its_elements() -> Outcome {
    let x = array![false, false, true, true, true];
    let column = evaluate(device, |g| {
        g.array(&x)
            .insert_axis(Axis(0))
            .into_shape_with_order((5, 1))
    })?;
    assert_eq!(column, x.clone().insert_axis(Axis(1)));
    Ok(())
}

/// Checks a view of a reduction. The kernel computed the reduction twice, because a view of its
/// only element has another position.
#[run_by(everywhere, |device|)]
fn a_view_of_a_reduced_element_is_not_reduced_again() -> Outcome {
    let x = array![3.0_f32, 4.0];
    let length = evaluate(device, |g| {
        let x = g.array(&x);
        (&x * &x).sum().broadcast((1, 1)).sqrt()
    })?;
    assert_eq!(length, array![[5.0]]);
    Ok(())
}
