//! Counts, histograms, sums of segments, elements moved by all distances, and the errors of
//! these operations.

use millstream_region::PadMode;

use crate::differential::{
    device, host,
    prelude::*,
    step::{Arrange, Padding},
    usage_errors::fails,
};

#[run_by(everywhere, |device|)]
fn counts_and_sums_of_segments() -> Outcome {
    for (length, count) in [(0, 0), (0, 3), (1, 1), (100, 7), (3000, 2000), (9000, 5)] {
        let segments = Array1::from_shape_fn(length, |at| (at * at * 7 % 1013 % count) as i64);
        let narrow = segments.mapv(|segment| segment as i32);
        let x = Array2::from_shape_fn((length, 3), |(i, j)| ((i * 5 + j) % 17) as f32 - 8.0);
        let (counts, weighted, sums, wide) = evaluate(device, |g| {
            let (x, segments, narrow) = (g.array(&x), g.array(&segments), g.array(&narrow));
            (
                narrow.bincount(count + 1),
                segments.bincount_weighted(count, &x.column(1)),
                x.segment_sum(&segments, count),
                x.cast::<i16>().segment_sum(&narrow, count),
            )
        })?;
        let mut expected = Array2::<f32>::zeros((count, 3));
        let mut numbers = Array1::<i64>::zeros(count + 1);
        for (&segment, row) in segments.iter().zip(x.rows()) {
            let mut sum = expected.row_mut(segment as usize);
            sum += &row;
            numbers[segment as usize] += 1;
        }
        assert_eq!((counts, weighted), (numbers, expected.column(1).to_owned()));
        assert_eq!(wide, expected.mapv(|x| x as i16));
        assert_eq!(sums, expected);
    }
    Ok(())
}

/// Elements at edges, beside them, outside of the range, and NaN.
#[run_by(everywhere, |device|)]
fn histograms_count_what_is_between_their_edges() -> Outcome {
    let ranges = [
        (1, 0.0, 1.0),
        (7, -1.0, 1.5),
        (10, 0.1, 0.7),
        (300, -3.0, 1e3),
    ];
    for (bins, start, end) in ranges {
        let (shown, edges) = device
            .region(|g| g.zeros::<f64, _>(0).histogram(bins, (start, end)))?
            .wait()?;
        assert_eq!(shown, Array1::<i64>::zeros(bins));
        assert_eq!((edges.len(), edges[0], edges[bins]), (bins + 1, start, end));
        let mut x = vec![f64::NAN, f64::INFINITY, -f64::INFINITY, -0.0];
        for edge in &edges {
            x.extend([edge.next_down(), *edge, edge.next_up(), edge + 0.01]);
        }
        let x = Array1::from(x);
        let integers = x.mapv(|x| x as i32);
        let (counts, of_singles, of_integers) = evaluate(device, |g| {
            let x = g.array(&x);
            let singles = x.cast::<f32>();
            let of = (bins, (start, end));
            (
                x.histogram(of.0, of.1).0,
                singles.insert_axis(Axis(0)).histogram(of.0, of.1).0,
                g.array(&integers).histogram(of.0, of.1).0,
            )
        })?;
        let expected = |x: &mut dyn Iterator<Item = f64>| {
            let mut counts = Array1::<i64>::zeros(bins);
            for x in x.filter(|x| (start..=end).contains(x)) {
                let bin = edges.iter().take(bins).rposition(|edge| *edge <= x);
                counts[bin.expect("the element is within the range")] += 1;
            }
            counts
        };
        assert_eq!(counts, expected(&mut x.iter().copied()));
        let single = x.mapv(|x| f64::from(x as f32));
        assert_eq!(of_singles, expected(&mut single.into_iter()));
        let integers = integers.mapv(f64::from);
        assert_eq!(of_integers, expected(&mut integers.into_iter()));
    }
    Ok(())
}

/// Moves the elements of short axes by all distances, of which some are longer than the axis.
#[test]
fn elements_are_moved_by_all_distances() -> Outcome {
    let on = Device::simulated()?;
    for length in [0, 1, 2, 3, 5] {
        let x = Array2::from_shape_fn((2, length), |(i, j)| (i * 10 + j) as i32 + 1);
        let x = [Host::I32(x.into_dyn())];
        let mut all: Vec<Arrange> = (-7..8).map(|shift| Arrange::Roll(shift, 1)).collect();
        for (front, behind) in (0..64).map(|widths| (widths / 8, widths % 8)) {
            let widths = vec![(behind % 2, 1), (front, behind)];
            let padding = [Padding::Edge, Padding::Reflect, Padding::Wrap];
            if length > 0 || (front, behind) == (0, 0) {
                all.extend(padding.map(|padding| Arrange::Pad(widths.clone(), padding)));
            }
            all.push(Arrange::Pad(widths, Padding::Constant(-9)));
        }
        for count in 0..4 {
            all.extend([Arrange::Tile(vec![2, count]), Arrange::Repeat(count, 1)]);
            all.push(Arrange::Windows(vec![1 + count % 3, 1 + count]));
            let diagonal = count as isize - 2;
            all.extend([true, false].map(|is_lower| Arrange::Triangle(diagonal, is_lower)));
        }
        for step in all.into_iter().map(|how| Step::Arrange(0, how)) {
            let expected = host::apply(&step, &x);
            let found = evaluate(&on, |g| device::apply(&step, g, &[x[0].on_device(g)]))?;
            if let Some(difference) = expected.difference(&found) {
                return Err(format!("{step:?} of length {length}: {difference}").into());
            }
        }
    }
    Ok(())
}

#[rustfmt::skip]
#[run_by(everywhere, |device|)]
fn wrong_operations_name_themselves_and_their_line() -> Outcome {
    let x = Array2::<f32>::ones((2, 3));
    let (index, empty) = (array![1_i64, -4, 2], Array2::<f32>::ones((2, 0)));
    fails!(device, "roll", |g| g.array(&x).roll(1, Axis(2)), "axis 2");
    fails!(device, "pad", |g| g.array(&x).pad(&[(1, 1)], PadMode::Edge), "1 pairs");
    fails!(device, "pad", |g| g.array(&empty).pad(&[(0, 0), (1, 0)], PadMode::Wrap), "axis 1");
    fails!(device, "tile", |g| g.array(&x).into_dyn().tile(IxDyn(&[2])), "1 numbers");
    fails!(device, "repeat", |g| g.array(&x).repeat(2, Axis(5)), "axis 5");
    fails!(device, "repeat", |g| g.array(&x).repeat(usize::MAX, Axis(1)), "too large");
    fails!(device, "windows", |g| g.array(&x).windows((1, 0)), "window");
    fails!(device, "histogram", |g| g.array(&x).histogram(0, (0.0, 1.0)).0, "0 bins");
    fails!(device, "histogram", |g| g.array(&x).histogram(3, (1.0, 1.0)).1, "range");
    fails!(device, "histogram", |g| g.array(&x).histogram(3, (0.0, f64::NAN)).0, "range");
    fails!(device, "segment_sum", |g| g.array(&x).segment_sum(&g.array(&index), 3), "[3]");
    fails!(device, "bincount", |g| g.array(&index).bincount(0), "out of bounds");
    // Only the device knows these indices.
    fails!(device, "index", |g| g.array(&index).bincount(3), "index -4 is out of bounds");
    fails!(device, "index", |g| g.array(&index).abs().bincount(4), "index 4 is out of bounds");
    fails!(device, "index", |g| g.array(&x).t().segment_sum(&g.array(&index), 3), "index -4 ");
    Ok(())
}
