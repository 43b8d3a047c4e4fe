//! Misuse: each is a typed error that names the operation, its line and the operands, and nothing
//! is enqueued.

use std::panic::{AssertUnwindSafe, catch_unwind};

use millstream::{
    driver::{DeviceOrdinal, ResultCode},
    sim::Fault,
};
use millstream_region::{
    Border, Error, Mesh, MeshErrorKind, Partial, RegionExt, Replicated, Result, Sharded, Split,
    UsageError, UsageErrorKind,
};
use ndarray::{Array1, Array2, Axis, array};

use crate::mesh::{Machine, assert_contains, mesh_error, on_devices, usage_error};

type Matrix = Array2<f32>;

fn sharded(machine: &Machine) -> (Mesh, Sharded<Matrix, 0>) {
    let mesh = machine.mesh();
    let x = array![[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    let sharded = mesh.shard(&x, Split::over("data")).expect("it is sharded");
    (mesh, sharded)
}

#[track_caller]
fn assert_missing(error: &UsageError, number: usize) {
    let is_named = matches!(error.problem(), UsageErrorKind::Axis { axis, .. } if *axis == number);
    assert!(is_named, "{error}");
}

#[run_by(on_devices(2), |machine|)]
fn axes_must_multiply_to_the_number_of_devices() -> Result<()> {
    let of = |axes: &[(&str, usize)]| {
        mesh_error(Mesh::new(machine.devices.clone(), axes.iter().copied()))
    };
    assert_eq!(
        of(&[("data", 3)]).to_string(),
        "a mesh of (data=3) has 3 devices, and 2 were passed"
    );
    let huge = [("data", usize::MAX), ("model", 2)];
    assert!(matches!(of(&huge), MeshErrorKind::DeviceCount { .. }));
    assert!(matches!(of(&[]), MeshErrorKind::Axes { .. }));
    assert!(matches!(
        of(&[("data", 2), ("model", 0)]),
        MeshErrorKind::Axes { .. }
    ));
    assert!(matches!(of(&[("a", 1); 9]), MeshErrorKind::Axes { .. }));
    assert_eq!(
        of(&[("data", 2), ("data", 1)]),
        MeshErrorKind::RepeatedAxis {
            name: "data".into()
        }
    );
    let twice = [machine.devices[0].clone(), machine.devices[0].clone()];
    assert!(matches!(
        Mesh::new(twice, [("data", 2)]),
        Err(Error::Device(_))
    ));
    Ok(())
}

#[run_by(on_devices(2), |machine|)]
fn unknown_axes_are_named_with_the_known_ones() -> Result<()> {
    let (mesh, x) = sharded(machine);
    let none = MeshErrorKind::NoSuchAxis {
        name: "rows".into(),
        axes: "data=2".into(),
    };
    assert_eq!(mesh_error(mesh.axis("rows")), none);
    let host = array![1.0_f32, 2.0];
    assert_eq!(
        mesh_error(mesh.shard(&host, Split::<0>::over("rows"))),
        none
    );
    let missing = usage_error(mesh.shard(&host, Split::<1>::over("data")));
    assert_missing(&missing, 1);
    let reduced = mesh.region::<Replicated<Matrix>>(|g| g.local(&x).all_reduce("rows"));
    assert_eq!(mesh_error(reduced), none);
    let index = mesh.region::<Sharded<Array1<i64>, 0>>(|g| g.zeros::<i64, _>(1) + g.index("rows"));
    assert_eq!(mesh_error(index), none);
    Ok(())
}

#[run_by(on_devices(2), |machine|)]
fn a_forgotten_sum_is_an_error_at_its_line() -> Result<()> {
    let (mesh, x) = sharded(machine);
    let w = mesh.replicate(&array![1.0_f32, 2.0])?;
    machine.calls.forget();
    let line = line!() + 3;
    let result = mesh.region::<Replicated<Matrix>>(|g| {
        let x = g.local(&x);
        x.t().dot(&x) * g.local(&w)
    });
    let error = usage_error(result);
    assert_eq!(
        (error.location().file(), error.location().line()),
        (file!(), line)
    );
    assert_contains(&error, "declared as `Replicated`");
    assert_contains(&error, "devices along `data`");
    let enqueued: Vec<_> = machine.calls.counts().into_keys().collect();
    assert!(
        !enqueued.iter().any(|call| call.starts_with("launch")),
        "{enqueued:?}"
    );
    Ok(())
}

#[run_by(on_devices(2), |machine|)]
fn a_sum_over_equal_arrays_is_an_error() -> Result<()> {
    let (mesh, x) = sharded(machine);
    let twice = mesh.region::<Replicated<Matrix>>(|g| {
        let sum = g.local(&x).sum_axis(Axis(0)).all_reduce("data");
        (g.zeros::<f32, _>((1, 2)) + sum).all_reduce("data")
    });
    let replicated = MeshErrorKind::Replicated {
        axis: "data".into(),
    };
    assert_eq!(mesh_error(twice), replicated);
    let partial = mesh.region::<Partial<Array1<f32>>>(|g| g.ones::<f32, _>(2));
    assert_eq!(
        mesh_error(partial),
        MeshErrorKind::NotVarying {
            declared: "Partial"
        }
    );
    Ok(())
}

#[run_by(on_devices(1), |machine|)]
fn a_collective_outside_of_a_mesh_is_an_error() -> Result<()> {
    let device = &machine.devices[0];
    let x = array![1.0_f32];
    let result = device.region(|g| g.array(&x).all_reduce("data"));
    assert_eq!(mesh_error(result), MeshErrorKind::NotInMesh);
    let result = device.region(|g| g.array(&x).halo("data", Axis(0), 1, Border::Zero));
    assert_eq!(mesh_error(result), MeshErrorKind::NotInMesh);
    let result = device.region(|g| g.array(&x).all_gather("data", Axis(0)));
    assert_eq!(mesh_error(result), MeshErrorKind::NotInMesh);
    let result = device.region(|g| g.array(&x).reduce_scatter("data", Axis(0)));
    assert_eq!(mesh_error(result), MeshErrorKind::NotInMesh);
    Ok(())
}

#[run_by(on_devices(2), |machine|)]
fn an_array_of_another_mesh_is_an_error() -> Result<()> {
    let (_, x) = sharded(machine);
    let other = Mesh::new(machine.devices.clone(), [("rows", 2)])?;
    let result = other.region::<Sharded<Matrix, 0>>(|g| g.local(&x) * 2.0);
    let expected = MeshErrorKind::OtherMesh {
        array: "data=2".into(),
        region: "rows=2".into(),
    };
    assert_eq!(mesh_error(result), expected);
    Ok(())
}

#[run_by(on_devices(2), |machine|)]
fn one_devices_array_is_none_of_the_mesh() -> Result<()> {
    let (mesh, x) = sharded(machine);
    let first = x.parts()[0].clone();
    let result = mesh.region::<Sharded<Matrix, 0>>(|g| g.local(&x) + &first);
    let error = usage_error(result);
    assert!(
        matches!(
            error.problem(),
            UsageErrorKind::OtherDevice { .. } | UsageErrorKind::Shapes { .. }
        ),
        "{error}"
    );
    Ok(())
}

#[run_by(on_devices(3), |machine|)]
fn devices_with_different_collectives_are_named_with_both() -> Result<()> {
    let (mesh, x) = sharded(machine);
    let mut rank = 0;
    let mut next = || {
        rank += 1;
        rank - 1
    };
    let result = mesh.region::<Replicated<Array1<f32>>>(|g| {
        let sum = g.local(&x).sum_axis(Axis(0));
        let first = sum.all_reduce("data");
        if next() == 2 {
            sum.all_reduce_max("data") + first
        } else {
            sum.all_reduce("data") + first
        }
    });
    let error = usage_error(result);
    let UsageErrorKind::Mesh(MeshErrorKind::Divergent {
        number: 2,
        left,
        rank: 2,
        right,
    }) = error.problem()
    else {
        panic!("{error}");
    };
    assert!(
        left.starts_with("`all_reduce` along `data` of F32 [2] ("),
        "{left}"
    );
    assert!(
        right.starts_with("`all_reduce_max` along `data`"),
        "{right}"
    );

    let mut rank = 0;
    let result = mesh.region::<Replicated<Array1<f32>>>(|g| {
        let sum = g.local(&x).sum_axis(Axis(0)).all_reduce("data");
        rank += 1;
        if rank == 2 {
            (g.local(&x).sum_axis(Axis(0)) * sum).all_reduce("data")
        } else {
            sum
        }
    });
    let error = usage_error(result);
    assert_contains(&error, "number 2 is missing on device 0");
    assert_contains(&error, "on device 1");
    Ok(())
}

#[run_by(on_devices(2), |machine|)]
fn parts_of_different_shapes_do_not_add_up() -> Result<()> {
    // Two rows on the first device, one on the second.
    let (mesh, x) = sharded(machine);
    let sum = mesh.region::<Replicated<Matrix>>(|g| g.local(&x).all_reduce("data"));
    let expected = |allowed: &str| MeshErrorKind::Parts {
        first: 0,
        second: 1,
        shapes: Box::new([[2, 2][..].into(), [1, 2][..].into()]),
        allowed: allowed.to_owned(),
    };
    assert_eq!(mesh_error(sum), expected("no axis"));
    let gathered = mesh.region::<Replicated<Matrix>>(|g| g.local(&x).all_gather("data", Axis(0)));
    assert_contains(&mesh_error(gathered), "`Sharded::all_gather`");
    let gathered = mesh.region::<Replicated<Matrix>>(|g| g.local(&x).all_gather("data", Axis(1)));
    assert_eq!(mesh_error(gathered), expected("the gathered axis"));
    let partial = mesh.region::<Partial<Matrix>>(|g| g.local(&x));
    assert_eq!(mesh_error(partial), expected("no axis"));
    let columns = mesh.region::<Sharded<Matrix, 1>>(|g| g.local(&x));
    assert_eq!(mesh_error(columns), expected("axis 1 alone"));
    let third = usage_error(mesh.region::<Sharded<Matrix, 2>>(|g| g.local(&x)));
    assert_missing(&third, 2);
    Ok(())
}

#[run_by(on_devices(2), |machine|)]
fn a_halo_wider_than_a_part_is_an_error() -> Result<()> {
    let (mesh, x) = sharded(machine);
    let of = |axis: usize, width: usize| {
        mesh.region::<Sharded<Matrix, 0>>(|g| {
            g.local(&x).halo("data", Axis(axis), width, Border::Zero)
        })
    };
    let expected = MeshErrorKind::HaloWidth {
        width: 2,
        axis: 0,
        rank: 1,
        part: [1, 2][..].into(),
    };
    assert_eq!(mesh_error(of(0, 2)), expected);
    let missing = usage_error(of(2, 1));
    assert_missing(&missing, 2);
    Ok(())
}

#[run_by(on_devices(2), |machine|)]
fn values_behind_a_collective_cannot_be_read_in_the_body() -> Result<()> {
    let (mesh, x) = sharded(machine);
    let mut leaked = None;
    let result = mesh.region::<Sharded<Matrix, 0>>(|g| {
        let x = g.local(&x);
        let sum = x.sum().all_reduce("data");
        assert_eq!(mesh_error((&sum * 2.0).item()), MeshErrorKind::Awaiting);
        leaked = Some(&sum + 1.0);
        // Other devices of the machine do not wait for it either.
        let device = g.device().clone();
        assert_eq!(
            mesh_error(device.region(|h| h.array(&sum) * 2.0)),
            MeshErrorKind::Awaiting
        );
        x.into_shape_with_order((7, 7))
    });
    assert!(matches!(
        usage_error(result).problem(),
        UsageErrorKind::Reshape { .. }
    ));
    // The region has failed, so the collective never runs.
    let leaked = leaked.expect("the body has run");
    assert_eq!(mesh_error(leaked.to_host()), MeshErrorKind::Awaiting);
    Ok(())
}

#[run_by(on_devices(2), |machine|)]
fn a_body_that_panics_leaves_the_mesh_usable() -> Result<()> {
    let (mesh, x) = sharded(machine);
    let mut rank = 0;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        mesh.region::<Replicated<Array1<f32>>>(|g| {
            let sum = g.local(&x).sum_axis(Axis(0)).all_reduce("data");
            rank += 1;
            assert_eq!(rank, 1, "the second device's body panics");
            sum
        })
    }));
    assert!(panicked.is_err());
    let sum: Replicated<Array1<f32>> =
        mesh.region(|g| g.local(&x).sum_axis(Axis(0)).all_reduce("data"))?;
    assert_eq!(sum.to_host()?, array![9.0, 12.0]);
    Ok(())
}

#[run_by(on_devices(2), |machine|)]
fn operations_behind_a_collective_are_bounded() -> Result<()> {
    let (mesh, x) = sharded(machine);
    let of = |steps: usize| {
        mesh.region::<Replicated<Array1<f32>>>(|g| {
            let mut sum = g.local(&x).sum_axis(Axis(0)).all_reduce("data");
            for _ in 0..steps {
                sum += 1.0;
            }
            sum
        })
    };
    assert_eq!(of(2000)?.to_host()?, array![2009.0, 2012.0]);
    assert!(matches!(
        mesh_error(of(10_000)),
        MeshErrorKind::TooManyDeferred { limit: 8192 }
    ));
    Ok(())
}

#[run_by(on_devices(2), |machine|)]
fn a_lost_device_ends_the_region_with_its_error() -> Result<()> {
    let (mesh, x) = sharded(machine);
    let second = DeviceOrdinal::from_raw(1);
    let fault = Fault::nth(1).losing(second, ResultCode::ILLEGAL_ADDRESS);
    machine.gpu.inject(fault);
    let result = mesh
        .region::<Replicated<Array1<f32>>>(|g| g.local(&x).sum_axis(Axis(0)).all_reduce("data"));
    let read = result.and_then(|sum| sum.to_host());
    assert!(matches!(read, Err(Error::Device(_))), "{read:?}");
    Ok(())
}

#[millstream_region::region(mesh)]
fn failing(x: &Sharded<Matrix, 0>) -> Result<Replicated<Matrix>> {
    let joined = millstream_region::concatenate(Axis(2), &[x, x])?;
    Ok(joined.all_reduce("data"))
}

#[run_by(on_devices(2), |machine|)]
fn an_error_that_a_body_returns_is_the_regions() -> Result<()> {
    let (mesh, x) = sharded(machine);
    let error = usage_error(failing(&mesh, &x));
    assert_eq!(error.operation(), "concatenate");
    Ok(())
}
