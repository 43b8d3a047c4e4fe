//! Placing arrays on meshes, and the layouts of results.

use millstream_region::{Mesh, Partial, Replicated, Result, Sharded, Split, region};
use ndarray::{Array1, Array2, Axis, array};

use crate::mesh::on_devices;

fn ramp(rows: usize, columns: usize) -> Array2<f32> {
    Array2::from_shape_fn((rows, columns), |(row, column)| {
        (row * columns + column) as f32
    })
}

#[test]
fn uneven_parts_come_back_whole() {
    for (count, rows) in [(1, 5), (2, 5), (3, 7), (4, 5), (4, 2), (2, 0)] {
        on_devices(count, |machine| {
            let (mesh, x) = (machine.mesh(), ramp(rows, 3));
            let by_rows = mesh.shard(&x, Split::<0>::over("data"))?;
            assert_eq!(by_rows.shape(), [rows, 3]);
            assert_eq!(by_rows.to_host()?, x);
            // Columns are no contiguous parts of the host's array.
            let by_columns = mesh.shard(&x.t(), Split::<1>::over("data"))?;
            assert_eq!(by_columns.to_host()?, x.t());
            let gathered = by_rows.all_gather()?;
            for copy in gathered.copies() {
                assert_eq!(copy.to_host()?, x);
            }
            assert_eq!(by_columns.all_gather()?.to_host()?, x.t());
            Ok(())
        });
    }
}

#[region(mesh)]
fn scaled(x: &Sharded<Array2<f32>, 0>, by: &Replicated<Array1<f32>>) -> Sharded<Array2<f32>, 0> {
    x * by
}

#[run_by(on_devices(3), |machine|)]
fn a_region_computes_each_part_on_its_device() -> Result<()> {
    let (mesh, x, by) = (machine.mesh(), ramp(8, 2), array![2.0, -1.0]);
    let sharded = mesh.shard(&x, Split::over("data"))?;
    let replicated = mesh.replicate(&by)?;
    machine.calls.forget();
    let result = scaled(&mesh, &sharded, &replicated)?;
    for (device, part) in mesh.devices().iter().zip(result.parts()) {
        assert_eq!(part.device(), device);
    }
    let copies: Vec<_> = machine.calls.counts().into_keys().collect();
    assert!(
        !copies.iter().any(|call| call.starts_with("copy")),
        "{copies:?}"
    );
    assert_eq!(result.to_host()?, &x * &by);
    Ok(())
}

#[region(mesh)]
fn both(
    x: &Sharded<Array2<f32>, 0>,
    scale: f32,
) -> Result<(Partial<Array1<f32>>, Sharded<Array2<f32>, 0>)> {
    Ok((x.sum_axis(Axis(0)), x * scale))
}

#[test]
fn summands_leave_by_a_reduction() {
    for count in [1, 2, 4] {
        on_devices(count, |machine| {
            let (mesh, x) = (machine.mesh(), ramp(7, 5));
            let (sum, scaled) = both(&mesh, &mesh.shard(&x, Split::over("data"))?, 0.5)?;
            let expected = x.sum_axis(Axis(0));
            for copy in sum.all_reduce("data")?.copies() {
                assert_eq!(copy.to_host()?, expected);
            }
            let scattered: Sharded<_, 0> = sum.reduce_scatter("data")?;
            assert_eq!(scattered.to_host()?, expected);
            assert_eq!(scaled.to_host()?, &x * 0.5);
            Ok(())
        });
    }
}

#[run_by(on_devices(4), |machine|)]
fn a_mesh_of_two_axes_reduces_along_each() -> Result<()> {
    let mesh = Mesh::new(machine.devices.clone(), [("data", 2), ("model", 2)])?;
    assert_eq!((mesh.axis("data")?, mesh.axis("model")?), (2, 2));
    let x = ramp(4, 6);
    let (a, b) = (
        mesh.shard(&x, Split::<0>::over("data"))?,
        mesh.shard(&x, Split::<1>::over("model"))?,
    );
    assert_eq!(a.to_host()?, x);
    assert_eq!(b.to_host()?, x);
    // Rows along one axis of the mesh, columns along the other.
    let product: Sharded<Array2<f32>, 0> = mesh.region(|g| {
        let columns = g.local(&b).sum_axis(Axis(1)).all_reduce("model");
        let rows = g.local(&a).sum_axis(Axis(0)).all_reduce("data");
        g.local(&a) * rows + columns.sum()
    })?;
    let expected = &x * &x.sum_axis(Axis(0)) + x.sum();
    assert_eq!(product.to_host()?, expected);
    let index: Sharded<Array1<i64>, 0> =
        mesh.region(|g| g.zeros::<i64, _>(1) + g.index("model"))?;
    assert_eq!(index.to_host()?, array![0, 1]);
    Ok(())
}

/// The constructors of a body are those of its device.
#[region(mesh)]
fn ones_like(x: &Sharded<Array1<f32>, 0>) -> Sharded<Array1<f32>, 0> {
    x * 0.0 + Array1::<f32>::ones(x.len())
}

#[run_by(on_devices(2), |machine|)]
fn constructors_make_arrays_on_each_device() -> Result<()> {
    let mesh = machine.mesh();
    let x = mesh.shard(&array![1.0, 2.0, 3.0], Split::over("data"))?;
    assert_eq!(ones_like(&mesh, &x)?.to_host()?, array![1.0, 1.0, 1.0]);
    Ok(())
}
