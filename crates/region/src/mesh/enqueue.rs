//! The exchange of elements between the devices of a mesh.

use std::sync::Arc;

use millstream_collective::{CollectiveElement, Reduce};
use smallvec::{SmallVec, smallvec};

use crate::{
    Region,
    checks::DeferredChecks,
    element::DType,
    error::Result,
    expr::{Collective, CollectiveKind, Function, Node, NodeRef, Op, Reduction, State, Storage},
    mesh::{DeviceGroup, Mesh},
    run::{evaluate::evaluate, launch::allocate},
};

/// Enqueues one collective, whose operands are enqueued on all devices, and stores its results.
pub(super) fn run(mesh: &Mesh, regions: &[Region], collectives: &[Collective]) -> Result<()> {
    let (kind, mesh_axis) = (collectives[0].kind, collectives[0].mesh_axis);
    for devices in &mesh.inner.groups[mesh_axis] {
        let group = &devices.ranks;
        if kind == CollectiveKind::AllReduce(Reduction::Sum) {
            let members: Vec<&Collective> = group.iter().map(|&rank| &collectives[rank]).collect();
            if add(mesh, devices, &members)? {
                continue;
            }
        }
        for (position, &rank) in group.iter().enumerate() {
            let region = &regions[rank];
            let target = Target { mesh, region, rank };
            let own = &collectives[rank];
            let operands = |at: usize| -> Vec<&NodeRef> {
                let of = |&rank: &usize| &collectives[rank].operands[at];
                group.iter().map(of).collect()
            };
            match kind {
                CollectiveKind::AllReduce(reduction) => {
                    target.combine(own, &operands(0), reduction)?;
                }
                CollectiveKind::ReduceScatter { .. } => {
                    target.combine(own, &operands(position), Reduction::Sum)?;
                }
                CollectiveKind::AllGather { axis } => target.join(own, &operands(0), axis)?,
                CollectiveKind::Halo { .. } => {
                    let last = group.len() - 1;
                    let before = if position == 0 { last } else { position - 1 };
                    let after = if position == last { 0 } else { position + 1 };
                    let neighbours = [operands(1)[before], operands(0)[after]];
                    for (result, neighbour) in own.results.iter().zip(neighbours) {
                        if let Some(result) = result {
                            result.store(target.import(neighbour)?);
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

macro_rules! add {
    ($(
        $type:ty: $name:ident = $number:literal, $text:literal, $kind:ident, $doc:literal;
    )*) => {
        /// Adds the operands of a group on all of its devices. Returns whether there are
        /// collectives for their type.
        fn add(mesh: &Mesh, group: &DeviceGroup, members: &[&Collective]) -> Result<bool> {
            match members[0].operands[0].dtype {
                $(DType::$name => add_as::<$type>(mesh, group, members)?,)*
                _ => return Ok(false),
            }
            Ok(true)
        }
    };
}

millstream_collective::elements!(add);

fn add_as<T: CollectiveElement>(
    mesh: &Mesh,
    group: &DeviceGroup,
    members: &[&Collective],
) -> Result<()> {
    // The operands may have other uses, so their copies are added in place.
    let (mut sums, mut checks) = (Vec::new(), DeferredChecks::default());
    for (&rank, member) in group.ranks.iter().zip(members) {
        let storage = stored(&member.operands[0]);
        let stream = &mesh.inner.streams[rank];
        let mut sum = allocate(stream, storage.buffer.len())?;
        stream.copy(&storage.buffer, &mut sum)?;
        sums.push(sum);
        checks.join(&storage.checks);
    }
    let mut views = Vec::new();
    for sum in &mut sums {
        let view = sum.view_mut().cast::<T>();
        views.push(view.map_err(millstream::Error::from)?);
    }
    group.collectives.all_reduce(&mut views, Reduce::Sum)?;
    for (buffer, member) in sums.into_iter().zip(members) {
        let checks = checks.clone();
        member.result().store(Arc::new(Storage { buffer, checks }));
    }
    Ok(())
}

/// Returns the memory of a node whose work is enqueued: an operand before its collective, a result
/// behind it.
fn stored(node: &NodeRef) -> Arc<Storage> {
    node.storage().expect("the node is evaluated")
}

/// A device that gets a result.
struct Target<'m> {
    mesh: &'m Mesh,
    region: &'m Region,
    rank: usize,
}

impl Target<'_> {
    /// Returns the memory of a stored node, on this device: the node's own, or a copy.
    fn import(&self, node: &NodeRef) -> Result<Arc<Storage>> {
        let storage = stored(node);
        if node.device == *self.region.device() {
            return Ok(storage);
        }
        let stream = &self.mesh.inner.streams[self.rank];
        let mut buffer = allocate(stream, node.bytes())?;
        if node.elements > 0 {
            stream.copy(&storage.buffer, &mut buffer)?;
        }
        let checks = storage.checks.clone();
        Ok(Arc::new(Storage { buffer, checks }))
    }

    /// Returns stored nodes of this device with the elements of nodes of the group's devices.
    fn imports(&self, nodes: &[&NodeRef]) -> Result<Vec<NodeRef>> {
        let import = |node: &&NodeRef| -> Result<NodeRef> {
            let (device, state) = (
                self.region.device().clone(),
                State::Stored(self.import(node)?),
            );
            let (dtype, shape) = (node.dtype, node.shape.clone());
            Ok(Arc::new(Node::new(
                device,
                dtype,
                shape,
                state,
                node.location,
            )))
        };
        nodes.iter().map(import).collect()
    }

    /// Combines the operands of a group element by element, in the order of the ranks.
    fn combine(&self, own: &Collective, operands: &[&NodeRef], by: Reduction) -> Result<()> {
        let function = match by {
            Reduction::Maximum => Function::Maximum,
            Reduction::Minimum => Function::Minimum,
            _ => Function::Add,
        };
        let mut operands = self.imports(operands)?.into_iter();
        let mut combined = operands.next().expect("a group has at least one device");
        for operand in operands {
            let both: SmallVec<[NodeRef; 3]> = smallvec![combined, operand];
            combined = self.plan(own, Op::Apply(function, both));
        }
        self.finish(own, &combined)
    }

    /// Concatenates the operands of a group along an axis.
    fn join(&self, own: &Collective, operands: &[&NodeRef], axis: usize) -> Result<()> {
        let parts = self.imports(operands)?.into_iter().collect();
        let joined = self.plan(own, Op::Concatenate { parts, axis });
        self.finish(own, &joined)
    }

    fn plan(&self, own: &Collective, op: Op) -> NodeRef {
        let result = own.result();
        let (session, shape) = (self.region.session(), result.shape.clone());
        session.plan(result.dtype, shape, op, own.kind.name(), own.location)
    }

    /// Enqueues the work of a node, and stores its elements as the collective's result.
    fn finish(&self, own: &Collective, node: &NodeRef) -> Result<()> {
        evaluate(self.region.session(), std::slice::from_ref(node))?;
        own.result().store(stored(node));
        Ok(())
    }
}
