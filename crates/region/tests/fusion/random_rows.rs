//! Random functions of rows, in row kernels and with each value stored: the bits must be the same.

use millstream_region::Region;

use crate::fusion::prelude::*;

type Three<T> = (Array<T, Ix3>, Array<T, Ix3>, Array<T, Ix3>);

/// Defines a function that computes a random function of rows with two of the arrays that lead to
/// it, and stores each intermediate array if `is_stored`.
macro_rules! program {
    ($name:ident, $type:ty) => {
        fn $name(x: &Array<$type, Ix3>, seed: u64, is_stored: bool) -> Three<$type> {
            let random = &mut Pcg64Mcg::seed_from_u64(seed);
            let axis = [Axis(2)];
            let length = x.shape()[2];
            let index = Array3::from_shape_fn(x.dim(), |(a, b, at)| {
                ((at * 7 + a * 3 + b) % length) as i64
            });
            let index = Array::from_host(x.device(), &index).unwrap();
            // Arrays with the shape of `x`, and arrays with one element for each row.
            let mut elements = vec![x.clone()];
            let mut rows: Vec<Array<$type, Ix3>> = Vec::new();
            for _ in 0..3 + below(random, 8) {
                let of_elements = elements[below(random, elements.len())].clone();
                let other = elements[below(random, elements.len())].clone();
                if rows.is_empty() || below(random, 3) == 0 {
                    rows.push(match below(random, 7) {
                        0 => of_elements.sum_keepdims(&axis) * 0.125,
                        1 => of_elements.max_keepdims(&axis),
                        2 => of_elements.min_keepdims(&axis),
                        3 => of_elements.mean_keepdims(&axis),
                        4 => of_elements.argmax_keepdims(&axis).cast::<$type>(),
                        5 => (&of_elements * &other).sum_keepdims(&axis).tanh(),
                        _ => of_elements.less(0.5).any_keepdims(&axis).cast::<$type>(),
                    });
                    if is_stored {
                        rows[rows.len() - 1].to_host().unwrap();
                    }
                    continue;
                }
                let of_rows = rows[below(random, rows.len())].clone();
                elements.push(match below(random, 9) {
                    0 => &of_elements - &of_rows,
                    1 => (&of_elements * 0.25).tanh() + &of_rows,
                    2 => &of_elements * &(&of_rows + 0.5).tanh(),
                    3 => of_elements.greater(&of_rows).where_cond(&other, 0.25),
                    4 => &of_elements + &of_elements.slice(s![.., .., ..;-1]),
                    5 => &of_elements + &of_rows.slice(s![.., ..;-1, ..]),
                    7 => &of_elements + &(x.gather(Axis(2), &index) * &of_rows),
                    6 => &of_elements * &x.slice(s![..1, ..1, ..]),
                    _ => &other / &(&of_rows * &of_rows + 1.0),
                });
                if is_stored {
                    elements[elements.len() - 1].to_host().unwrap();
                }
            }
            let inner = [&elements, &rows].map(|all| all[below(random, all.len())].clone());
            let last = if below(random, 3) == 0 { rows } else { elements };
            let [of_elements, of_rows] = inner;
            (last[last.len() - 1].clone(), of_elements, of_rows)
        }
    };
}

program!(singles, f32);
program!(doubles, f64);

fn check(counted: &Counted, seed: u64) {
    let random = &mut Pcg64Mcg::seed_from_u64(!seed);
    let length = [2, 7, 16, 33, 40, 128, 255, 256, 257, 300, 513, 1000][below(random, 12)];
    let shape = (1 + below(random, 2), 1 + below(random, 3), length);
    let host = Array3::from_shape_simple_fn(shape, || below(random, 512) as f64 / 256.0 - 1.0);
    let what = format!("{shape:?}, MILLSTREAM_SEED={seed}");
    macro_rules! check {
        ($program:ident, $type:ident) => {
            let host = host.mapv(|element| element as $type);
            let [found, stored] = [false, true].map(|is_stored| {
                let of = |region: &Region| $program(&region.array(&host), seed, is_stored);
                let (last, of_elements, of_rows) = counted.result(of);
                [last, of_elements, of_rows].map(|array| array.mapv($type::to_bits))
            });
            assert_eq!(found, stored, "{what}");
        };
    }
    if seed.is_multiple_of(2) {
        check!(singles, f32);
    } else {
        check!(doubles, f64);
    }
}

#[test]
fn random_functions_of_rows_give_the_bits_of_stored_values() {
    Counted::somewhere(|counted| seeds(60).for_each(|seed| check(counted, seed)));
}
