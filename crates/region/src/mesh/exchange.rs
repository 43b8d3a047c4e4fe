//! The exchange of elements between the devices of a mesh.

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::Mesh;
use crate::{
    Region,
    checks::DeferredChecks,
    error::Result,
    evaluate::evaluate,
    graph::{
        Collective, CollectiveKind, Function, Node, NodeRef, Op, Reduction, State, Storage,
    },
    launch::allocate,
};

/// Enqueues one collective, whose operands are enqueued on all devices, and stores its results.
pub(super) fn run(mesh: &Mesh, regions: &[Region], collectives: &[Collective]) -> Result<()> {
    let (kind, mesh_axis) = (collectives[0].kind, collectives[0].mesh_axis);
    for group in mesh.shape().groups(mesh_axis) {
        for (position, &rank) in group.iter().enumerate() {
            let target = Target {
                mesh,
                region: &regions[rank],
                rank,
            };
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

/// A device that gets a result.
struct Target<'m> {
    mesh: &'m Mesh,
    region: &'m Region,
    rank: usize,
}

impl Target<'_> {
    /// Returns the memory of a stored node, on this device: the node's own, or a copy.
    fn import(&self, node: &NodeRef) -> Result<Arc<Storage>> {
        let storage = node
            .storage()
            .expect("operands are enqueued before their collective");
        if node.device == *self.region.device() {
            return Ok(storage);
        }
        let stream = &self.mesh.inner.streams[self.rank];
        let mut buffer = allocate(stream, node.bytes())?;
        if node.elements > 0 {
            stream.copy(&storage.buffer, &mut buffer)?;
        }
        let mut checks = DeferredChecks::default();
        checks.join(&storage.checks);
        Ok(Arc::new(Storage { buffer, checks }))
    }

    /// Returns stored nodes of this device with the elements of nodes of the group's devices.
    fn imports(&self, nodes: &[&NodeRef]) -> Result<Vec<NodeRef>> {
        let import = |node: &&NodeRef| -> Result<NodeRef> {
            Ok(Arc::new(Node::new(
                self.region.device().clone(),
                node.dtype,
                node.shape.clone(),
                State::Stored(self.import(node)?),
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
        let result = own.results[0].as_ref().expect(HAS_RESULT);
        self.region.session().plan(
            result.dtype,
            result.shape.clone(),
            op,
            own.kind.name(),
            own.location,
        )
    }

    /// Enqueues the work of a node, and stores its elements as the collective's result.
    fn finish(&self, own: &Collective, node: &NodeRef) -> Result<()> {
        evaluate(self.region.session(), std::slice::from_ref(node))?;
        let result = own.results[0].as_ref().expect(HAS_RESULT);
        result.store(node.storage().expect("the node is evaluated"));
        Ok(())
    }
}

const HAS_RESULT: &str = "this collective has a result on every device";
