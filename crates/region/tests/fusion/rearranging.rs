//! Operations that move elements: each is computed in the kernel that uses its result, and is one
//! kernel alone.

use millstream_region::{PadMode, einsum};

use crate::fusion::prelude::*;

type Move = fn(&Array<f32, Ix2>) -> Array<f32, Ix2>;

const MOVES: [(&str, Move); 15] = [
    ("roll", |x| x.roll(3, Axis(1))),
    ("roll of two axes", |x| x.roll(-1, Axis(0)).roll(5, Axis(1))),
    ("pad by a constant", |x| {
        x.pad(&[(1, 2), (3, 1)], PadMode::Constant(7.0))
    }),
    ("pad by edges", |x| x.pad(&[(1, 2), (3, 1)], PadMode::Edge)),
    ("pad by reflection", |x| {
        x.pad(&[(1, 2), (3, 1)], PadMode::Reflect)
    }),
    ("pad by wrapping", |x| {
        x.pad(&[(1, 2), (3, 1)], PadMode::Wrap)
    }),
    ("pad widely", |x| {
        x.pad(&[(90, 0), (0, 99)], PadMode::Reflect)
    }),
    ("pad in cycles", |x| {
        x.pad(&[(0, 90), (99, 0)], PadMode::Wrap)
    }),
    ("tile", |x| x.tile((2, 3))),
    ("repeat", |x| x.repeat(3, Axis(0))),
    ("repeat neighbours", |x| x.repeat(2, Axis(1))),
    ("tril", |x| x.tril(-1)),
    ("triu", |x| x.triu(2)),
    ("windows", |x| {
        x.windows((3, 5)).sum_axis(Axis(3)).sum_axis(Axis(2))
    }),
    ("windows of a row", |x| {
        x.windows((1, 4)).max_axis(Axis(3)).index_axis(Axis(2), 0)
    }),
];

#[run_by(Counted::somewhere, |counted|)]
fn moved_elements_are_computed_where_they_are_used() {
    let x = counted.array(&matrix((30, 40)));
    for (name, of) in MOVES {
        let (moved, work) = counted.work(|_| of(&x).to_host().unwrap());
        assert_eq!(work.kernels, 1, "{name}");
        let (scaled, work) = counted.work(|_| (of(&(&x + 1.0)) * 2.0 - 1.0).to_host().unwrap());
        assert_eq!(work.kernels, 1, "{name} between functions");
        assert_eq!(scaled.dim(), moved.dim(), "{name}");
        let (sum, work) = counted.work(|_| (of(&x) * 2.0).sum().item().unwrap());
        assert_eq!(work.kernels, 1, "the sum of {name}");
        assert!((sum - 2.0 * moved.sum()).abs() < 1e-2, "{name}: {sum}");
    }
}

/// No flag is needed for indices that are known to be within bounds, and none is downloaded.
#[run_by(Counted::somewhere, |counted|)]
fn moved_elements_need_no_checks() {
    let x = counted.array(&matrix((30, 40)));
    for (name, of) in MOVES {
        let (_, _) = counted.work(|_| of(&x).to_host().unwrap());
        assert_eq!(
            counted.calls.count("copy_device_to_host_async"),
            1,
            "{name}"
        );
    }
}

/// A large array with a constant around it is one kernel, too.
#[test]
fn a_large_array_is_padded_by_one_kernel() {
    let device = Device::simulated().unwrap();
    let x = Array::from_host(&device, &Array1::<f32>::zeros(1 << 21)).unwrap();
    let pending = device.region(|g| {
        let padded = g.array(&x).pad(&[(1, 1)], PadMode::Constant(1.0));
        assert_eq!(g.explain(&padded)?.kernels().len(), 1);
        Ok(())
    });
    pending.unwrap().wait().unwrap();
}

/// Counting takes a kernel for zeros and one for the elements.
#[run_by(Counted::everywhere, |counted|)]
fn counts_take_two_kernels() {
    let x = counted.array(&Array1::from_shape_fn(5000, |at| (at % 50) as i64));
    let (counts, work) = counted.work(|_| x.bincount(50).to_host().unwrap());
    assert_eq!((counts, work.kernels), (Array1::from_elem(50, 100), 2));
    let halves = || x.cast::<f32>() * 0.5;
    let (counts, work) = counted.work(|_| halves().histogram(5, (0.0, 25.0)).0.to_host().unwrap());
    assert_eq!((counts, work.kernels), (Array1::from_elem(5, 1000), 2));
}

/// Sums of products of which one operand has no axis of its own, and products without sums, are
/// one kernel with the operands; others are a matrix product.
#[run_by(Counted::everywhere, |counted|)]
fn sums_of_products_are_one_kernel() {
    let x = counted.array(&matrix((20, 20)));
    let of = |subscripts: &str, operands: usize| {
        let operands: Vec<_> = (0..operands).map(|_| (&x + 1.0).into_dyn()).collect();
        let (_, work) = counted.work(|_| einsum(subscripts, &operands).unwrap().to_host().unwrap());
        work.kernels
    };
    for subscripts in ["ab,ab->b", "ab,cd->abcd", "ab,ab->ba", "ab,ab->"] {
        assert_eq!(of(subscripts, 2), 1, "{subscripts}");
    }
    assert_eq!((of("ab->ba", 1), of("aa", 1)), (1, 1));
    // The sums, which both factors are, and the product.
    assert_eq!(of("ab,bc->ac", 2), 2);
}
