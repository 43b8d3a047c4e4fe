//! Collectives of mesh regions, recorded while the bodies of the devices run.
//!
//! A body is recorded completely before anything of it is enqueued, so a collective is a record:
//! the nodes that a device contributes, and *awaiting* nodes that stand for its results. When the
//! bodies of all devices are recorded, the collectives run in their order, and store the results.

use std::{
    fmt,
    panic::Location,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::expr::{AxisSet, NodeRef, Reduction};

/// The maximum number of nodes of one device that depend on a collective of their region. They
/// cannot be evaluated while they are recorded, so they are bounded.
const DEFERRED_MAX: usize = 8192;

/// The named axes of a mesh. Ranks are row-major: the last axis varies fastest.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct MeshShape {
    pub(crate) axes: Vec<(String, usize)>,
}

impl MeshShape {
    pub(crate) fn devices(&self) -> usize {
        self.axes.iter().map(|(_, length)| length).product()
    }

    pub(crate) fn axis(&self, name: &str) -> Option<usize> {
        self.axes.iter().position(|(known, _)| known == name)
    }

    /// Returns the number of ranks between neighbours along an axis.
    fn stride(&self, axis: usize) -> usize {
        let inner = &self.axes[axis + 1..];
        inner.iter().map(|(_, length)| length).product()
    }

    pub(crate) fn position(&self, rank: usize, axis: usize) -> usize {
        rank / self.stride(axis) % self.axes[axis].1
    }

    /// Returns the ranks along an axis with the other coordinates of `rank`, in their order.
    pub(crate) fn group(&self, rank: usize, axis: usize) -> Vec<usize> {
        let stride = self.stride(axis);
        let first = rank - self.position(rank, axis) * stride;
        let positions = 0..self.axes[axis].1;
        positions.map(|at| first + at * stride).collect()
    }

    pub(crate) fn groups(&self, axis: usize) -> Vec<Vec<usize>> {
        let ranks = 0..self.devices();
        let first = ranks.filter(|&rank| self.position(rank, axis) == 0);
        first.map(|rank| self.group(rank, axis)).collect()
    }

    pub(crate) fn names(&self, set: AxisSet) -> String {
        let axes = self.axes.iter().enumerate();
        let axes = axes.filter(|(axis, _)| set & (1 << axis) != 0);
        let names: Vec<String> = axes.map(|(_, (name, _))| format!("`{name}`")).collect();
        names.join(" and ")
    }
}

impl fmt::Display for MeshShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = self
            .axes
            .iter()
            .map(|(name, length)| format!("{name}={length}"));
        f.write_str(&axes.collect::<Vec<_>>().join(", "))
    }
}

/// The place of a session in a mesh, with the collectives that its body has recorded.
pub(crate) struct MeshMember {
    pub(crate) shape: Arc<MeshShape>,
    pub(crate) rank: usize,
    recorded: Mutex<Vec<Collective>>,
    deferred: AtomicUsize,
}

impl MeshMember {
    pub(crate) fn new(shape: Arc<MeshShape>, rank: usize) -> Self {
        Self {
            shape,
            rank,
            recorded: Mutex::default(),
            deferred: AtomicUsize::new(0),
        }
    }

    pub(crate) fn record(&self, collective: Collective) {
        self.recorded.lock().push(collective);
    }

    /// Returns the recorded collectives, in their order, and forgets them.
    pub(crate) fn take_recorded(&self) -> Vec<Collective> {
        std::mem::take(&mut *self.recorded.lock())
    }

    /// Counts a deferred node. Returns the maximum if it is exceeded.
    pub(crate) fn count_deferred(&self) -> Option<usize> {
        let before = self.deferred.fetch_add(1, Ordering::Relaxed);
        (before >= DEFERRED_MAX).then_some(DEFERRED_MAX)
    }
}

/// The part of one device in a collective.
pub(crate) struct Collective {
    pub(crate) kind: CollectiveKind,
    /// The mesh axis along which devices exchange elements.
    pub(crate) mesh_axis: usize,
    /// The nodes that the device contributes.
    pub(crate) operands: SmallVec<[NodeRef; 2]>,
    /// The awaiting nodes; a halo has none where it meets the border.
    pub(crate) results: SmallVec<[Option<NodeRef>; 2]>,
    pub(crate) location: &'static Location<'static>,
}

impl Collective {
    /// Returns the only result, which every collective but a halo has on each device.
    pub(crate) fn result(&self) -> &NodeRef {
        let result = self.results[0].as_ref();
        result.expect("this collective has a result on every device")
    }
}

/// The kinds of collectives. The axes are those of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CollectiveKind {
    /// The elements of all devices combined, on every device.
    AllReduce(Reduction),
    /// The elements of all devices added, and split along an axis.
    ReduceScatter { axis: usize },
    /// The parts of all devices, concatenated along an axis.
    AllGather { axis: usize },
    /// The neighbours' elements next to the own ones. The operands are the first and the last
    /// elements along the axis, the results those of the neighbours in front and behind.
    Halo {
        axis: usize,
        /// The number of elements along the axis.
        width: usize,
        /// True if the first device and the last are neighbours.
        wraps: bool,
    },
}

impl CollectiveKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            CollectiveKind::AllReduce(Reduction::Maximum) => "all_reduce_max",
            CollectiveKind::AllReduce(Reduction::Minimum) => "all_reduce_min",
            CollectiveKind::AllReduce(_) => "all_reduce",
            CollectiveKind::ReduceScatter { .. } => "reduce_scatter",
            CollectiveKind::AllGather { .. } => "all_gather",
            CollectiveKind::Halo { .. } => "halo",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_row_major_and_groups_vary_along_one_axis() {
        let axes = vec![("data".to_owned(), 2), ("model".to_owned(), 3)];
        let shape = MeshShape { axes };
        assert_eq!(shape.devices(), 6);
        assert_eq!((shape.position(4, 0), shape.position(4, 1)), (1, 1));
        assert_eq!(shape.group(4, 0), [1, 4]);
        assert_eq!(shape.group(4, 1), [3, 4, 5]);
        assert_eq!(shape.groups(1), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(shape.names(0b11), "`data` and `model`");
        assert_eq!(shape.to_string(), "data=2, model=3");
    }
}
