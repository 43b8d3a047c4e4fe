//! Runs the bodies of all devices, and enqueues what they have recorded.

use std::panic::Location;

use crate::{
    Region,
    error::{Line, MeshErrorKind, Result, UsageError},
    expr::{Collective, CollectiveKind, MeshMember, NodeRef},
    mesh::{Mesh, MeshOutput, MeshRegion, enqueue},
    run::evaluate::evaluate,
};

impl Mesh {
    /// Runs a block once for each device, in the order of the ranks, with that device's arrays.
    /// This returns as soon as the work is enqueued, without waiting for it; the results stay on
    /// the devices.
    ///
    /// [`MeshRegion::local`] gives the block its device's arrays. Devices exchange elements by the
    /// collectives of [`Array`](crate::Array): `all_reduce`, `reduce_scatter`, `all_gather` and
    /// `halo`. `#[region(mesh)]` makes a function of such a block.
    ///
    /// ```
    /// use millstream::{Device, sim::{Gpu, SimConfig}};
    /// use millstream_region::{Mesh, Replicated, Split};
    /// use ndarray::{Array2, array};
    /// let gpu = Gpu::new(SimConfig::new().devices(2));
    /// let devices = [Device::open_simulated(&gpu, 0)?, Device::open_simulated(&gpu, 1)?];
    /// let mesh = Mesh::new(devices, [("data", 2)])?;
    /// let x = mesh.shard(&array![[1.0], [2.0], [3.0]], Split::<0>::over("data"))?;
    /// let squares: Replicated<Array2<f64>> = mesh.region(|g| {
    ///     let x = g.local(&x);
    ///     x.t().dot(&x).all_reduce("data")
    /// })?;
    /// assert_eq!(squares.to_host()?, array![[14.0]]);
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// A sum that is forgotten is an error that names the operation's line, before anything is
    /// enqueued:
    ///
    /// ```
    /// # use millstream::Device;
    /// # use millstream_region::{Mesh, Replicated, Split};
    /// # use ndarray::{Array2, array};
    /// # let mesh = Mesh::new([Device::simulated()?], [("data", 1)])?;
    /// # let x = mesh.shard(&array![[1.0], [2.0], [3.0]], Split::<0>::over("data"))?;
    /// let squares = mesh.region::<Replicated<Array2<f64>>>(|g| {
    ///     let x = g.local(&x);
    ///     x.t().dot(&x)
    /// });
    /// assert!(squares.unwrap_err().to_string().contains("`.all_reduce("));
    /// # Ok::<(), millstream_region::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If an operation of a body was wrong, the bodies of two devices make different collectives, a
    /// result does not have its declared layout, there is not enough memory, or a device is lost.
    #[track_caller]
    pub fn region<R: MeshOutput<Value = R>>(
        &self,
        body: impl FnMut(&MeshRegion) -> R::Body,
    ) -> Result<R> {
        self.run::<R>(Location::caller(), body)
    }

    /// Runs the body of a region function.
    #[doc(hidden)]
    pub fn run<R: MeshOutput>(
        &self,
        location: Line,
        mut body: impl FnMut(&MeshRegion) -> R::Body,
    ) -> Result<R::Value> {
        let (mut regions, mut bodies, mut recorded) = (Vec::new(), Vec::new(), Vec::new());
        for (rank, device) in self.devices().iter().enumerate() {
            let member = MeshMember::new(self.shape().clone(), rank);
            let region = MeshRegion {
                mesh: self.clone(),
                region: Region::in_mesh(device.clone(), member),
            };
            bodies.push(body(&region));
            recorded.push(region.member().take_recorded());
            regions.push(region.region);
        }
        if let Some(error) = regions.iter().find_map(|region| region.session().failure()) {
            return Err(error);
        }
        let mut outputs: Vec<Vec<NodeRef>> = Vec::new();
        for body in &bodies {
            let mut nodes = Vec::new();
            R::visit_nodes(body, &mut |output| nodes.push(output.0))?;
            outputs.push(nodes);
        }
        check_same(self, &recorded, location)?;
        R::check(&bodies.iter().collect::<Vec<_>>(), self)?;
        let mut queues: Vec<_> = recorded.into_iter().map(Vec::into_iter).collect();
        while let Some(collectives) = next_of_all(&mut queues) {
            for (region, collective) in regions.iter().zip(&collectives) {
                evaluate(region.session(), &collective.operands)?;
            }
            enqueue::run(self, &regions, &collectives)?;
        }
        for (region, nodes) in regions.iter().zip(&outputs) {
            evaluate(region.session(), nodes)?;
        }
        Ok(R::assemble(bodies, self))
    }
}

fn next_of_all(queues: &mut [std::vec::IntoIter<Collective>]) -> Option<Vec<Collective>> {
    queues.iter_mut().map(Iterator::next).collect()
}

/// Checks that all devices make the same collectives, with operands that fit together.
fn check_same(mesh: &Mesh, recorded: &[Vec<Collective>], location: Line) -> Result<(), UsageError> {
    let first = &recorded[0];
    for (rank, other) in recorded.iter().enumerate().skip(1) {
        for number in 0..first.len().max(other.len()) {
            let pair = (first.get(number), other.get(number));
            if let (Some(left), Some(right)) = pair
                && signature(left) == signature(right)
            {
                continue;
            }
            let problem = MeshErrorKind::Divergent {
                number: number + 1,
                left: described(mesh, pair.0),
                rank,
                right: described(mesh, pair.1),
            };
            let location = pair.0.or(pair.1).map_or(location, |found| found.location);
            return Err(UsageError::new("region", problem.into(), location));
        }
    }
    for number in 0..first.len() {
        for (rank, other) in recorded.iter().enumerate() {
            check_shapes(mesh, recorded, number, rank).map_err(|problem| {
                let other = &other[number];
                UsageError::new(other.kind.name(), problem.into(), other.location)
            })?;
        }
    }
    Ok(())
}

/// Returns the properties in which the collectives of all devices agree.
fn signature(collective: &Collective) -> (CollectiveKind, usize, crate::element::DType, usize) {
    let operand = &collective.operands[0];
    let rank = operand.shape.len();
    (collective.kind, collective.mesh_axis, operand.dtype, rank)
}

fn described(mesh: &Mesh, collective: Option<&Collective>) -> String {
    let Some(collective) = collective else {
        return "missing".to_owned();
    };
    let (name, axis) = (
        collective.kind.name(),
        &mesh.shape().axes[collective.mesh_axis].0,
    );
    let (operand, location) = (&collective.operands[0], collective.location);
    let (dtype, shape) = (operand.dtype, operand.shape.as_slice());
    format!("`{name}` along `{axis}` of {dtype:?} {shape:?} ({location})")
}

/// Checks that the operands of one device fit to those of the first device of its group.
fn check_shapes(
    mesh: &Mesh,
    recorded: &[Vec<Collective>],
    number: usize,
    rank: usize,
) -> Result<(), MeshErrorKind> {
    let of = |rank: usize| &recorded[rank][number];
    let group = mesh.shape().group(rank, of(rank).mesh_axis);
    let (first, second) = (group[0], rank);
    let shape = |rank: usize| &of(rank).operands[0].shape;
    let refuse = |allowed: &str| {
        Err(MeshErrorKind::Parts {
            first,
            second,
            shapes: Box::new([first, second].map(|rank| shape(rank)[..].into())),
            allowed: allowed.to_owned(),
        })
    };
    match of(rank).kind {
        CollectiveKind::AllGather { axis } => {
            let lengths = group.iter().map(|&rank| shape(rank)[axis]);
            let gathered = of(rank).result().shape[axis];
            let mut others = shape(second).clone();
            others[axis] = shape(first)[axis];
            if others != *shape(first) {
                return refuse("the gathered axis");
            }
            if lengths.sum::<usize>() != gathered {
                return refuse("no axis: `Sharded::all_gather` joins uneven parts");
            }
        }
        _ if shape(first) != shape(second) => return refuse("no axis"),
        _ => {}
    }
    Ok(())
}
