//! W01: sorts, positions, the greatest elements and searches give the bits of a stable sort on the
//! host, with ties, NaN, zeros of both signs and empty arrays.

use std::cmp::Ordering;

use millstream_region::{DeviceValue, Element, Side};

use crate::differential::{prelude::*, usage_errors::fails};

/// An element with its bits, and one of each bit pattern.
pub(crate) trait Word: Element + Copy + PartialOrd {
    fn bits(self) -> u64;
    fn of(bits: u64) -> Self;
}

macro_rules! words {
    ($($type:ty: $bits:ident => $of:expr, $into:expr;)*) => {$(
        impl Word for $type {
            fn bits(self) -> u64 {
                let into: fn($type) -> $bits = $into;
                into(self).into()
            }

            fn of(bits: u64) -> Self {
                let of: fn($bits) -> $type = $of;
                of(bits as $bits)
            }
        }
    )*};
}

words! {
    bool: u8 => |bits| bits & 1 == 1, u8::from;
    u8: u8 => |bits| bits, |word| word;
    u16: u16 => |bits| bits, |word| word;
    u32: u32 => |bits| bits, |word| word;
    u64: u64 => |bits| bits, |word| word;
    i8: u8 => |bits| bits as i8, |word| word as u8;
    i16: u16 => |bits| bits as i16, |word| word as u16;
    i32: u32 => |bits| bits as i32, |word| word as u32;
    i64: u64 => |bits| bits as i64, |word| word as u64;
    f16: u16 => f16::from_bits, f16::to_bits;
    bf16: u16 => bf16::from_bits, bf16::to_bits;
    f32: u32 => f32::from_bits, f32::to_bits;
    f64: u64 => f64::from_bits, f64::to_bits;
}

/// The order of sorts: all NaN are equal and greater than numbers.
fn order<T: PartialOrd>(one: &T, other: &T) -> Ordering {
    let is_nan = |word: &T| word.partial_cmp(word).is_none();
    let of_nan = is_nan(one).cmp(&is_nan(other));
    of_nan.then(one.partial_cmp(other).unwrap_or(Ordering::Equal))
}

/// Elements with many ties, or of all bit patterns.
fn words<T: Word>(random: &mut Pcg32, few: bool) -> T {
    let bits = random.next_u64();
    if !few {
        return T::of(bits);
    }
    // Zeros, small numbers of both signs, infinities and NaN with payloads, for floats.
    let top = 8 * size_of::<T>() as u32 - 1;
    let sign = (bits >> 8 & 1) << top;
    T::of(match bits % 8 {
        0..3 => sign,
        3..6 => sign | (bits >> 16 & 3) << (top.saturating_sub(4)),
        6 => sign | (((1 << top) - 1) >> (bits >> 20 & 1)),
        _ => bits >> 32 & 7,
    })
}

fn array<T: Word>(seed: u64, shape: &[usize], few: bool) -> ArrayD<T> {
    let mut random = Pcg32::seed_from_u64(seed);
    ArrayD::from_shape_simple_fn(shape, || words(&mut random, few))
}

/// Returns the positions of the first `count` elements of each lane in sorted order.
pub(super) fn positions<T: PartialOrd>(
    x: &ArrayD<T>,
    axis: Axis,
    count: usize,
    descending: bool,
) -> ArrayD<i64> {
    let mut shape = x.shape().to_vec();
    shape[axis.0] = count;
    let mut result = ArrayD::zeros(shape);
    for (lane, mut target) in x.lanes(axis).into_iter().zip(result.lanes_mut(axis)) {
        let mut places: Vec<usize> = (0..lane.len()).collect();
        places.sort_by(|&one, &other| match descending {
            false => order(&lane[one], &lane[other]),
            true => order(&lane[other], &lane[one]),
        });
        for (target, place) in target.iter_mut().zip(places) {
            *target = place as i64;
        }
    }
    result
}

fn gathered<T: Word>(x: &ArrayD<T>, axis: Axis, places: &ArrayD<i64>) -> ArrayD<u64> {
    ArrayD::from_shape_fn(places.shape(), |at| {
        let mut from = at.clone();
        from[axis.0] = places[&at] as usize;
        x[from].bits()
    })
}

/// Compares all operations along an axis with the host's.
fn check<T: Word>(device: &Device, x: &ArrayD<T>, axis: usize, ks: &[usize]) -> Outcome
where
    Array<T, IxDyn>: DeviceValue<Host = ArrayD<T>>,
{
    let (axis, length) = (Axis(axis), x.shape()[axis]);
    let what = format!("{:?} of {}", x.shape(), std::any::type_name::<T>());
    let (sorted, order) = evaluate(device, |g| {
        let x = g.array(x);
        (x.sort_axis(axis), x.argsort_axis(axis))
    })?;
    let expected = positions(x, axis, length, false);
    assert!(order == expected, "positions of {what}");
    let expected = gathered(x, axis, &expected);
    assert!(sorted.mapv(T::bits) == expected, "elements of {what}");
    for &k in ks.iter().filter(|&&k| k <= length) {
        let (values, order) = evaluate(device, |g| g.array(x).topk(k, axis))?;
        let expected = positions(x, axis, k, true);
        assert!(order == expected, "positions of the {k} greatest of {what}");
        let values = values.mapv(T::bits);
        assert!(
            values == gathered(x, axis, &expected),
            "the {k} greatest of {what}"
        );
    }
    Ok(())
}

macro_rules! for_all_types {
    ($check:ident, $device:expr) => {
        for_all_types!($check, $device, bool u8 i8 u16 i16 f16 bf16 u32 i32 f32 u64 i64 f64)
    };
    ($check:ident, $device:expr, $($type:ident)*) => {
        $($check::<$type>($device)?;)*
    };
}

#[run_by(in_one(7), |device|)]
fn w01_every_type_is_sorted_in_short_and_long_rows() -> Outcome {
    fn shapes<T: Word>(device: &Device) -> Outcome
    where
        Array<T, IxDyn>: DeviceValue<Host = ArrayD<T>>,
    {
        for (shape, few) in [([7, 50], true), ([5, 16], false), ([2, 2100], true)] {
            check(device, &array::<T>(1, &shape, few), 1, &[1, 30])?;
        }
        check(device, &array::<T>(2, &[1, 2300], false), 1, &[700])?;
        Ok(())
    }
    for_all_types!(shapes, device);
    Ok(())
}

#[run_by(in_one(5), |device|)]
fn w01_lengths_around_those_of_blocks_and_tiles_are_sorted() -> Outcome {
    let lengths = [
        0, 1, 2, 3, 31, 32, 33, 64, 65, 1024, 1025, 2047, 2048, 2049, 8063, 8064, 8065, 16_129,
    ];
    for (seed, length) in lengths.into_iter().enumerate() {
        for few in [false, true] {
            let x = array::<f32>(seed as u64, &[length], few);
            check(device, &x, 0, &[0, 1, length / 2, length])?;
        }
    }
    check(device, &array::<i8>(1, &[8100], true), 0, &[])?;
    check(device, &array::<bf16>(1, &[8100], true), 0, &[])?;
    for length in [4223, 4224, 4225, 8449] {
        check(device, &array::<f64>(1, &[2, length], true), 1, &[5])?;
    }
    for shape in [[0, 5], [5, 0], [0, 0]] {
        check(device, &array::<i32>(1, &shape, true), 1, &[0, 1])?;
    }
    Ok(())
}

#[run_by(in_one(4), |device|)]
fn w01_any_axis_of_any_view_is_sorted() -> Outcome {
    let x = array::<i16>(9, &[3, 2500, 4], true);
    for axis in 0..3 {
        check(device, &x, axis, &[2, 3])?;
    }
    let seen = x.slice(s![1.., ..;-3, ..2]).into_dyn();
    let found = evaluate(device, |g| {
        let seen = g.array(&x).slice(s![1.., ..;-3, ..2]).into_dyn();
        // A function, whose results are stored first, and functions of the results.
        let sorted = (&seen * 2).sort_axis(Axis(1)) + 1;
        (sorted, seen.argsort_axis(Axis(0)))
    })?;
    let doubled = seen.mapv(|word| word.wrapping_mul(2));
    let of_doubled = positions(&doubled, Axis(1), doubled.shape()[1], false);
    let sorted = gathered(&doubled, Axis(1), &of_doubled);
    let sorted = sorted.mapv(|bits| (bits as i16).wrapping_add(1));
    let places = positions(&seen.to_owned(), Axis(0), 2, false);
    assert_eq!(found, (sorted, places));
    Ok(())
}

/// Blocks wait for each other, so each schedule runs them in another order.
#[test]
fn w01_rows_are_sorted_under_every_schedule() -> Outcome {
    let x = array::<f32>(2, &[2, 17_000], true);
    let short = array::<f32>(3, &[70, 90], true);
    everywhere(|device| {
        check(device, &short, 1, &[3])?;
        check(device, &x, 1, &[3, 900])
    })
}

/// A few long rows are split, and candidates selected from the parts.
#[run_by(in_one(6), |device|)]
fn w01_the_greatest_of_one_long_row_are_found_in_parts() -> Outcome {
    for few in [false, true] {
        let x = array::<f32>(7, &[40_001], few);
        check(device, &x, 0, &[1, 64, 1024])?;
    }
    // All greatest elements are in one part, in the order that a bound foresees least.
    let ascending = ArrayD::from_shape_fn(vec![2, 20_000], |at| (at[1] / 3) as i32);
    check(device, &ascending, 1, &[200])?;
    Ok(())
}

#[run_by(in_one(6), |device|)]
fn w01_searches_count_lesser_and_equal_elements() -> Outcome {
    fn search<T: Word>(device: &Device) -> Outcome
    where
        Array<T, IxDyn>: DeviceValue<Host = ArrayD<T>>,
    {
        for length in [0, 1, 300] {
            let mut edges = array::<T>(3, &[length], true).into_raw_vec_and_offset().0;
            edges.sort_by(order);
            let (edges, x) = (Array1::from(edges), array::<T>(4, &[5, 60], true));
            let (left, right) = evaluate(device, |g| {
                let (edges, x) = (g.array(&edges), g.array(&x));
                (
                    edges.searchsorted(&x, Side::Left),
                    edges.searchsorted(&x, Side::Right),
                )
            })?;
            let count = |value: &T, most| {
                let is_before = |edge: &&T| order(*edge, value) <= most;
                edges.iter().filter(is_before).count() as i64
            };
            assert!(left == x.map(|value| count(value, Ordering::Less)));
            assert!(right == x.map(|value| count(value, Ordering::Equal)));
        }
        Ok(())
    }
    for_all_types!(search, device);
    Ok(())
}

#[run_by(in_one(7), |device|)]
fn w01_quantiles_are_weighted_means_of_sorted_elements() -> Outcome {
    fn quantile(mut row: Vec<f64>, q: f64) -> f64 {
        row.sort_by(order);
        let (place, last) = (q * (row.len() - 1) as f64, row[row.len() - 1]);
        let (low, t) = (row[place as usize], place.fract());
        let high = row[(place as usize + 1).min(row.len() - 1)];
        match () {
            () if last.is_nan() => last,
            () if t == 0.0 || low == high => low,
            () => low * (1.0 - t) + high * t,
        }
    }
    for (seed, shape) in [[3, 1], [40, 6], [2, 2101]].into_iter().enumerate() {
        let few = array::<f64>(seed as u64, &shape, true);
        let many = array::<u32>(seed as u64, &shape, false).mapv(|word| f64::from(word) / 7.0);
        for x in [few, many] {
            let x = x.into_dimensionality::<Ix2>()?;
            let single = x.mapv(|word| word as f32);
            for q in [0.0, 0.1, 0.25, 0.5, 0.9, 1.0] {
                let ((along, narrow), all, median) = evaluate(device, |g| {
                    let (x, single) = (g.array(&x), g.array(&single));
                    let along = (
                        x.quantile_axis(q, Axis(1)),
                        single.quantile_axis(q, Axis(1)),
                    );
                    (along, x.quantile(q), x.median())
                })?;
                // All NaN are equal.
                let same = |found: f64, expected: f64| {
                    let [found, expected] =
                        [found, expected].map(|x| if x.is_nan() { f64::NAN } else { x });
                    assert_eq!(found.to_bits(), expected.to_bits());
                };
                for (row, (&found, &narrow)) in along.iter().zip(&narrow).enumerate() {
                    same(found, quantile(x.row(row).to_vec(), q));
                    let exact = quantile(single.row(row).mapv(f64::from).to_vec(), q);
                    same(narrow.into(), f64::from(exact as f32));
                }
                let all_words: Vec<f64> = x.iter().copied().collect();
                same(all.into_scalar(), quantile(all_words.clone(), q));
                same(median.into_scalar(), quantile(all_words, 0.5));
            }
        }
    }
    Ok(())
}

#[run_by(in_one(4), |device|)]
fn w01_distinct_elements_are_the_first_of_their_equals_with_their_numbers() -> Outcome {
    fn distinct<T: Word>(device: &Device) -> Outcome
    where
        Array<T, IxDyn>: DeviceValue<Host = ArrayD<T>>,
    {
        for shape in [[0, 3], [1, 1], [3, 40]] {
            let x = array::<T>(8, &shape, true);
            let (found, numbers) = evaluate(device, |g| g.array(&x).unique_counts())?;
            let mut words: Vec<T> = x.iter().copied().collect();
            words.sort_by(order);
            let equals = words.chunk_by(|one, other| order(one, other).is_eq());
            let expected = equals.map(|equals| (equals[0].bits(), equals.len() as i64));
            let found = found.iter().map(|word| word.bits()).zip(numbers);
            let name = std::any::type_name::<T>();
            assert!(found.eq(expected), "{name} {shape:?}");
        }
        Ok(())
    }
    for_all_types!(distinct, device);
    let x = array::<i16>(3, &[9000], true);
    let found = evaluate(device, |g| g.array(&x).unique())?;
    let mut expected = x.into_raw_vec_and_offset().0;
    expected.sort_unstable();
    expected.dedup();
    assert_eq!(found.to_vec(), expected);
    Ok(())
}

#[rustfmt::skip]
#[run_by(in_one(0), |device|)]
fn w01_wrong_uses_name_the_axis_and_the_lengths() -> Outcome {
    let x = |g: &Region| g.zeros::<f32, _>((2, 3));
    let missing = "axis 2 is out of bounds for shape [2, 3]";
    fails!(device, "sort_axis", |g| x(g).sort_axis(Axis(2)), missing);
    fails!(device, "topk", |g| x(g).topk(4, Axis(1)).0, "topk: axis 1 has 3 elements, and k is 4");
    fails!(device, "topk", |g| x(g).topk(1, Axis(2)).0, missing);
    let most = "axis 1 has 1073741824 elements: at most 1073741823 are sorted";
    fails!(device, "sort_axis", |g| g.zeros::<f32, _>((1, 1 << 30)).sort_axis(Axis(1)), most);
    let between = "q is 1.5: a quantile is between 0 and 1";
    fails!(device, "quantile_axis", |g| x(g).quantile_axis(1.5, Axis(0)), between);
    fails!(device, "quantile_axis", |g| x(g).quantile_axis(f64::NAN, Axis(0)), "q is NaN");
    let empty = "shape [0, 3] has no elements";
    fails!(device, "median_axis", |g| g.zeros::<f32, _>((0, 3)).median_axis(Axis(0)), empty);
    Ok(())
}
