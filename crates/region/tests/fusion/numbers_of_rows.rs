//! Graphs for each number of rows of one plan, and rows that larger blocks keep.

use crate::fusion::prelude::*;

/// All numbers of rows have one plan, and each has a graph of its own.
#[run_by(Counted::everywhere, |counted|)]
fn kernels_of_rows_are_replayed_for_each_number_of_rows() {
    let from_greatest = |x: &Array3<f32>, axis: usize| -> Array3<f32> {
        let greatest = x.map_axis(Axis(axis), |row| row.fold(f32::MIN, |a, b| a.max(*b)));
        x - &greatest.insert_axis(Axis(axis))
    };
    for rows in [3, 70, 3, 200] {
        let host = Array3::from_shape_fn((rows, 9, 16), |(row, column, layer)| {
            ((row * 5 + column * layer) % 31) as f32
        });
        let x = counted.array(&host);
        let expected = [2, 1, 2, 1]
            .iter()
            .fold(host, |x, &axis| from_greatest(&x, axis));
        for call in 1..=4 {
            let (found, work) = counted.region(|g| {
                let axes = [2, 1, 2, 1].map(Axis);
                let from_greatest = |x: Array<f32, Ix3>, axis: &Axis| {
                    let greatest = x.max_keepdims(&[*axis]);
                    x - greatest
                };
                axes.iter().fold(g.array(&x), from_greatest)
            });
            assert_eq!(found, expected, "{rows}");
            // The third call of a number of rows records its graph.
            assert!(call < 4 || work.kernels == 0, "{rows}: {work:?}");
        }
    }
}

#[test]
fn rows_that_a_larger_block_keeps_are_read_once() {
    let cases = [(8_193, 1), (16_388, 1), (16_389, 3), (32_772, 3)];
    for (length, reads) in share::cases(cases, 2) {
        let host = matrix((130, length));
        let bytes = 4 * host.len() as u64;
        Counted::with(Schedule::Timed, |counted| {
            let (found, work) = counted.region(|g| {
                let x = g.array(&host);
                let greatest = x.max_keepdims(&[Axis(1)]);
                let least = (&x - &greatest).min_keepdims(&[Axis(1)]);
                &x - &least
            });
            assert_eq!((work.kernels, work.bytes_written), (1, bytes), "{length}");
            // Threads beyond the end of the row read its last elements again.
            let read = work.bytes_read as f64 / bytes as f64;
            assert!(
                (f64::from(reads)..f64::from(reads) + 0.5).contains(&read),
                "{read}"
            );
            for (found, row) in found.rows().into_iter().zip(host.rows()) {
                let greatest = row.fold(f32::MIN, |a, &b| a.max(b));
                let least = row.fold(f32::MAX, |a, &b| a.min(b - greatest));
                assert_eq!(found, row.mapv(|x| x - least), "{length}");
            }
        });
    }
}
