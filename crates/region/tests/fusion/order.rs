//! Kernels of sorts: one for short rows, and one for each byte of an element of long rows; and
//! their replays as graphs.

use crate::fusion::prelude::*;

#[test]
fn sorts_take_the_promised_numbers_of_kernels() {
    Counted::somewhere(|counted| {
        let kernels = |shape, body: &dyn Fn(&Array<f32, Ix2>)| {
            let x = counted.array(&matrix(shape));
            counted.work(|_| body(&x)).1.kernels
        };
        let sort = |x: &Array<f32, Ix2>| drop(x.sort_axis(Axis(1)).to_host().unwrap());
        let argsort = |x: &Array<f32, Ix2>| drop(x.argsort_axis(Axis(1)).to_host().unwrap());
        assert_eq!(
            [kernels((9, 2048), &sort), kernels((9, 2048), &argsort)],
            [1; 2]
        );
        assert_eq!(
            [kernels((2, 2049), &sort), kernels((2, 2049), &argsort)],
            [5; 2]
        );
        // Columns are stored as rows before, a function is computed after.
        let columns = |x: &Array<f32, Ix2>| drop((x.sort_axis(Axis(0)) * 2.0).to_host().unwrap());
        assert_eq!(kernels((9, 20), &columns), 3);
        // One row of many elements is selected from in two parts, and from what these leave.
        let greatest = |x: &Array<f32, Ix2>| drop(x.topk(3, Axis(1)).1.to_host().unwrap());
        assert_eq!(kernels((9, 4000), &greatest), 1);
        assert_eq!(kernels((1, 17_000), &greatest), 2);
        let quartiles = |x: &Array<f32, Ix2>| {
            let quantile = |q| x.quantile_axis(q, Axis(1));
            drop((quantile(0.25) + quantile(0.75)).to_host().unwrap());
        };
        assert_eq!(kernels((9, 100), &quartiles), 2);
    });
}

/// From the third call on, the region is a graph, unless tests beside this one make the plan
/// forgotten. Its replays find the counts of tiles zero again.
#[test]
fn sorts_are_replayed_as_graphs() {
    Counted::somewhere(|counted| {
        for call in 0..60 {
            if counted.calls.count("graph_launch") >= 3 {
                return;
            }
            let host = matrix((2, 9000)) * (call as f32 - 2.0);
            let (x, mut expected) = (counted.array(&host), host.clone());
            for mut row in expected.rows_mut() {
                let row = row.as_slice_mut().unwrap();
                row.sort_by(|one, other| one.partial_cmp(other).unwrap());
            }
            let (sorted, again, (greatest, _)) = counted.result(|g| {
                let x = g.array(&x);
                let again = x.gather(Axis(1), &x.argsort_axis(Axis(1)));
                (x.sort_axis(Axis(1)), again, x.topk(20, Axis(1)))
            });
            assert_eq!(sorted, expected, "call {call}");
            assert_eq!(again, expected, "call {call}");
            assert_eq!(greatest, expected.slice(s![.., -20..;-1]), "call {call}");
        }
        panic!("the region is not replayed");
    });
}
