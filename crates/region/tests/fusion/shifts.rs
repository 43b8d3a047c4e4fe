//! Slices that begin within a vector of 16 bytes, and updates of most of an array: groups of
//! neighbours are read by whole vectors, with the results of the host.

use crate::fusion::prelude::*;

/// Defines a test of shifted slices for an element type.
macro_rules! shifts {
    ($name:ident, $type:ty) => {
        #[test]
        fn $name() {
            let host = Array3::from_shape_fn((2, 5, 16), |(a, b, c)| {
                (a * 80 + b * 16 + c) as f64 / 8.0
            })
            .mapv(|element| element as $type);
            let two = 2 as $type;
            Counted::everywhere(|counted| {
                let x = counted.array(&host);
                for (start, length) in [(0, 16), (1, 8), (2, 12), (3, 12), (4, 12), (5, 8), (7, 4)]
                {
                    let end = start + length;
                    let part = x.slice(s![.., 1..4, start..end]) * two;
                    let expected = &host.slice(s![.., 1..4, start..end]) * two;
                    assert_eq!(part.to_host().unwrap(), expected, "{start}, {length}");
                    // A slice of an expression of slices, some of whose starts add up to a vector.
                    let sum = &x.slice(s![.., ..4, 1..15]) + &x.slice(s![.., 1.., 2..16]);
                    let inner = sum.slice(s![..;-1, .., 3..11]) + &x.slice(s![.., ..4, ..8]);
                    let sum = &host.slice(s![.., ..4, 1..15]) + &host.slice(s![.., 1.., 2..16]);
                    let expected =
                        &sum.slice(s![..;-1, .., 3..11]) + &host.slice(s![.., ..4, ..8]);
                    assert_eq!(inner.to_host().unwrap(), expected);
                }
                for (start, end) in [(0, 16), (0, 15), (1, 16), (2, 15), (3, 16), (4, 16)] {
                    let length = end - start;
                    let (mut new, mut expected) = (x.clone(), host.clone());
                    let value = x.slice(s![.., ..4, ..length]) + x.slice(s![.., 1.., start..end]);
                    new.slice_mut(s![.., 1.., start..end]).assign(&value);
                    let value =
                        &host.slice(s![.., ..4, ..length]) + &host.slice(s![.., 1.., start..end]);
                    expected.slice_mut(s![.., 1.., start..end]).assign(&value);
                    let (found, work) = counted.work(|_| new.to_host().unwrap());
                    assert_eq!(found, expected, "{start}..{end}");
                    assert_eq!(work.kernels, 1, "{start}..{end}");
                }
            });
        }
    };
}

shifts!(shifted_slices_of_f32_are_those_of_the_host, f32);
shifts!(shifted_slices_of_f64_are_those_of_the_host, f64);
shifts!(shifted_slices_of_i32_are_those_of_the_host, i32);
shifts!(shifted_slices_of_u8_are_those_of_the_host, u8);
