//! Collectives in the bodies of regions.

use millstream::sim::Link;
use millstream_region::{Border, Replicated, Result, Sharded, Split, region};
use ndarray::{Array1, Array2, Axis, array, s};

use crate::mesh::{assert_contains, on_devices, on_linked_devices};

#[test]
fn sums_are_those_of_a_loop_in_the_order_of_the_ranks() {
    for count in [1, 2, 3, 4] {
        on_devices(count, |machine| {
            let mesh = machine.mesh();
            // Added in any other order, these give other bits.
            let x = Array2::from_shape_fn((count as usize, 33), |(row, column)| {
                1.0 / (1.0 + (7 * row + column) as f32)
            });
            let expected = x
                .rows()
                .into_iter()
                .map(|row| row.to_owned())
                .reduce(|sum, row| sum + row)
                .expect("there is a device");
            let sharded = mesh.shard(&x, Split::<0>::over("data"))?;
            let sum: Replicated<Array1<f32>> =
                mesh.region(|g| g.local(&sharded).row(0).all_reduce("data"))?;
            for copy in sum.copies() {
                assert_eq!(copy.to_host()?, expected, "{}", machine.name);
            }
            Ok(())
        });
    }
}

#[run_by(on_devices(3), |machine|)]
fn every_type_and_reduction_agrees_with_the_host() -> Result<()> {
    let mesh = machine.mesh();
    let x = array![[3_u8, 200], [1, 100], [2, 7]];
    let x = mesh.shard(&x, Split::<0>::over("data"))?;
    type Vector<T> = Replicated<Array1<T>>;
    let (sum, least, greatest): (Vector<u8>, Vector<i64>, Vector<f64>) = mesh.region(|g| {
        let x = g.local(&x).row(0);
        (
            x.all_reduce("data"),
            x.cast::<i64>().all_reduce_min("data"),
            x.cast::<f64>().all_reduce_max("data"),
        )
    })?;
    assert_eq!(sum.to_host()?, array![6, 51]);
    assert_eq!(least.to_host()?, array![1, 7]);
    assert_eq!(greatest.to_host()?, array![3.0, 200.0]);
    Ok(())
}

#[run_by(on_devices(2), |machine|)]
fn a_collective_may_depend_on_another() -> Result<()> {
    let mesh = machine.mesh();
    let x = mesh.shard(&array![1.0_f64, 2.0, 3.0, 4.0], Split::<0>::over("data"))?;
    let normal: Sharded<Array1<f64>, 0> = mesh.region(|g| {
        let x = g.local(&x);
        let mean = x.sum().all_reduce("data") / 4.0;
        let centred = &x - &mean;
        let variance = (&centred * &centred).sum().all_reduce("data") / 4.0;
        centred / variance.sqrt()
    })?;
    let centred = array![-1.5_f64, -0.5, 0.5, 1.5];
    assert_eq!(normal.to_host()?, centred / 1.25_f64.sqrt());
    Ok(())
}

#[region(mesh)]
fn gathered(x: &Sharded<Array2<i32>, 1>) -> (Replicated<Array2<i32>>, Sharded<Array2<i32>, 0>) {
    let twice = x * 2;
    let all = twice.all_gather("data", Axis(1));
    (
        all.clone(),
        (all.t() + twice.sum()).reduce_scatter("data", Axis(0)),
    )
}

#[run_by(on_devices(2), |machine|)]
fn parts_are_gathered_and_sums_are_scattered_along_any_axis() -> Result<()> {
    let mesh = machine.mesh();
    let x = array![[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]];
    let (all, scattered) = gathered(&mesh, &mesh.shard(&x, Split::over("data"))?)?;
    let twice = &x * 2;
    for copy in all.copies() {
        assert_eq!(copy.to_host()?, twice);
    }
    assert_eq!(scattered.to_host()?, &twice.t() * 2 + twice.sum());
    Ok(())
}

#[test]
fn devices_without_peer_access_exchange_through_the_host() {
    for link in [Link::NoPeerAccess, Link::Pcie] {
        on_linked_devices(3, link, |machine| {
            let mesh = machine.mesh();
            let x = Array1::from_shape_fn(3 * 1000, |at| at as f32);
            let sharded = mesh.shard(&x, Split::<0>::over("data"))?;
            let (sum, haloed): (Replicated<Array1<f32>>, Sharded<Array1<f32>, 0>) =
                mesh.region(|g| {
                    let x = g.local(&sharded);
                    let haloed = x.halo("data", Axis(0), 1, Border::Wrap);
                    (x.all_reduce("data"), haloed.slice(s![2..]))
                })?;
            let expected = Array1::from_shape_fn(1000, |at| (3 * at + 3000) as f32);
            for copy in sum.copies() {
                assert_eq!(copy.to_host()?, expected);
            }
            let mut rotated = x.to_vec();
            rotated.rotate_left(1);
            assert_eq!(haloed.to_host()?.to_vec(), rotated);
            Ok(())
        });
    }
}

#[run_by(on_devices(2), |machine|)]
fn a_mistaken_index_is_found_behind_a_collective() -> Result<()> {
    let mesh = machine.mesh();
    let x = mesh.shard(&array![1, 2, 3, 9], Split::<0>::over("data"))?;
    let table = mesh.replicate(&array![0.0_f32, 1.0, 2.0, 3.0])?;
    let sum: Replicated<ndarray::Array0<f32>> = mesh.region(|g| {
        let picked = g.local(&table).select(Axis(0), &g.local(&x));
        picked.sum().all_reduce("data")
    })?;
    // The index is one of the second device, and the first device's copy depends on it.
    let error = crate::mesh::usage_error(sum.to_host());
    assert_contains(&error, "is out of bounds for axis");
    Ok(())
}

#[run_by(on_devices(2), |machine|)]
fn a_body_may_read_what_no_collective_has_changed() -> Result<()> {
    let mesh = machine.mesh();
    let x = mesh.shard(&array![1.0_f32, 2.0], Split::<0>::over("data"))?;
    let scaled: Sharded<Array1<f32>, 0> = mesh.region(|g| {
        let x = g.local(&x);
        let first = x.sum().item().expect("it depends on no collective");
        &x * first
    })?;
    assert_eq!(scaled.to_host()?, array![1.0, 4.0]);
    Ok(())
}

#[run_by(on_devices(2), |machine|)]
fn a_long_body_without_collectives_runs_while_it_is_recorded() -> Result<()> {
    let mesh = machine.mesh();
    let x = mesh.shard(&array![0_i64, 10], Split::<0>::over("data"))?;
    let counted: Sharded<Array1<i64>, 0> = mesh.region(|g| {
        let mut x = g.local(&x);
        for _ in 0..1000 {
            x += 1;
        }
        x
    })?;
    assert_eq!(counted.to_host()?, array![1000, 1010]);
    Ok(())
}
