//! Halo exchange against `ndarray` on the host.

use millstream_region::{Border, Result, Sharded, Split, region};
use ndarray::{Array1, Array2, ArrayD, Axis, Slice, concatenate};

use crate::mesh::on_devices;

/// Returns the array with `width` elements more at both ends of an axis.
fn with_halo(x: &ArrayD<i32>, axis: usize, width: usize, border: Border) -> ArrayD<i32> {
    let length = x.shape()[axis];
    let first = x.slice_axis(Axis(axis), Slice::from(0..width)).to_owned();
    let last = x
        .slice_axis(Axis(axis), Slice::from(length - width..length))
        .to_owned();
    let (before, after) = match border {
        Border::Zero => (first.mapv(|_| 0), last.mapv(|_| 0)),
        Border::Wrap => (last, first),
    };
    concatenate(Axis(axis), &[before.view(), x.view(), after.view()]).expect("equal axes")
}

/// Returns the parts of the whole that each device has with its halo, concatenated.
fn expected(
    x: &ArrayD<i32>,
    lengths: &[usize],
    axis: usize,
    width: usize,
    border: Border,
) -> ArrayD<i32> {
    let whole = with_halo(x, axis, width, border);
    let (mut parts, mut start) = (Vec::new(), 0);
    for length in lengths {
        let range = start..start + length + 2 * width;
        parts.push(whole.slice_axis(Axis(axis), Slice::from(range)));
        start += length;
    }
    concatenate(Axis(axis), &parts).expect("equal axes")
}

fn ramp(rows: usize, columns: usize) -> Array2<i32> {
    Array2::from_shape_fn((rows, columns), |(row, column)| {
        (100 * row + column) as i32 + 1
    })
}

#[test]
fn neighbours_rows_are_those_of_the_whole_array() {
    for (count, rows, lengths) in [
        (1, 4, &[4][..]),
        (2, 5, &[3, 2]),
        (3, 8, &[3, 3, 2]),
        (4, 10, &[3, 3, 3, 1]),
    ] {
        for border in [Border::Zero, Border::Wrap] {
            let width = if count == 4 { 1 } else { 2 };
            on_devices(count, |machine| {
                let (mesh, x) = (machine.mesh(), ramp(rows, 3));
                let sharded = mesh.shard(&x, Split::<0>::over("data"))?;
                let haloed: Sharded<Array2<i32>, 0> =
                    mesh.region(|g| g.local(&sharded).halo("data", Axis(0), width, border))?;
                let whole = expected(&x.into_dyn(), lengths, 0, width, border);
                assert_eq!(haloed.to_host()?.into_dyn(), whole, "{border:?}");
                Ok(())
            });
        }
    }
}

#[run_by(on_devices(2), |machine|)]
fn columns_are_exchanged_as_rows_are() -> Result<()> {
    let (mesh, x) = (machine.mesh(), ramp(3, 5));
    let sharded = mesh.shard(&x, Split::<1>::over("data"))?;
    let haloed: Sharded<Array2<i32>, 1> =
        mesh.region(|g| (g.local(&sharded) * 2).halo("data", Axis(1), 1, Border::Wrap))?;
    let whole = expected(&(x * 2).into_dyn(), &[3, 2], 1, 1, Border::Wrap);
    assert_eq!(haloed.to_host()?.into_dyn(), whole);
    Ok(())
}

/// Takes steps of a moving average, several in one region.
#[region(mesh)]
fn smoothed(x: &Sharded<Array1<f32>, 0>, steps: usize) -> Sharded<Array1<f32>, 0> {
    let mut x = x.clone();
    for _ in 0..steps {
        let length = x.len();
        let wide = x.halo("data", Axis(0), 1, Border::Zero);
        let at = |offset: usize| wide.slice_axis(Axis(0), Slice::from(offset..offset + length));
        x = (at(0) + at(1) * 2.0 + at(2)) * 0.25;
    }
    x
}

#[test]
fn a_stencil_gives_the_bits_of_the_host() {
    for count in [1, 2, 4] {
        on_devices(count, |machine| {
            let mesh = machine.mesh();
            let mut x = Array1::from_shape_fn(37, |at| (at as f32 * 0.7).sin());
            let sharded = mesh.shard(&x, Split::over("data"))?;
            let smooth = smoothed(&mesh, &sharded, 9)?;
            for _ in 0..9 {
                let mut wide = vec![0.0];
                wide.extend(&x);
                wide.push(0.0);
                let at = |at: usize| (wide[at] + wide[at + 1] * 2.0 + wide[at + 2]) * 0.25;
                x = Array1::from_shape_fn(37, at);
            }
            assert_eq!(smooth.to_host()?, x, "{}", machine.name);
            Ok(())
        });
    }
}

#[run_by(on_devices(2), |machine|)]
fn a_halo_of_no_rows_is_the_array() -> Result<()> {
    let (mesh, x) = (machine.mesh(), ramp(4, 2));
    let sharded = mesh.shard(&x, Split::<0>::over("data"))?;
    let same: Sharded<Array2<i32>, 0> =
        mesh.region(|g| g.local(&sharded).halo("data", Axis(0), 0, Border::Zero))?;
    assert_eq!(same.to_host()?, x);
    Ok(())
}
