//! Arrivals: operations by which memory gets its contents from several devices.

use std::{panic::Location, sync::Arc};

use smallvec::SmallVec;

use super::{
    verdict::{CrossDeviceImport, Failure, Place},
    watch::{place, watch},
};
use crate::{
    context::{DeviceState, StreamState, imports},
    error::OperationKind,
    tracker::{Access, Accesses, Import, Imports, Sequence},
};

/// An operation by which memory gets its contents from several devices.
pub(crate) struct Arrival<'a> {
    pub(crate) kind: OperationKind,
    pub(crate) label: &'static str,
    pub(crate) location: &'static Location<'static>,
    /// The devices on which the contents depend, first the one on which the operation runs.
    pub(crate) devices: &'a [&'a Arc<DeviceState>],
    pub(crate) stream: &'a Arc<StreamState>,
    pub(crate) sequence: Sequence,
    /// Set if the operation may end without its results.
    pub(crate) failure: Option<&'a Failure>,
    /// True if all of the operation was submitted without an error.
    pub(crate) submitted: bool,
}

impl Arrival<'_> {
    /// Notes that what the operation writes depends on its devices and on the imports `carried` of
    /// what it reads. The devices stay open until the operation is complete.
    pub(crate) fn note<'a, 'b: 'a>(
        &self,
        mut carried: Imports,
        accesses: impl IntoIterator<Item = &'a Access<'b>>,
    ) {
        let (place, import) = self.import();
        carried.push(Arc::clone(&import) as Arc<dyn Import>);
        imports::note(self.kind, &carried, accesses, self.submitted);
        watch(self.devices, place, self.sequence, Some(import));
    }

    fn import(&self) -> (Arc<Place>, Arc<CrossDeviceImport>) {
        let place = place(self.devices, self.stream);
        let operation = (self.label, self.location);
        let import = CrossDeviceImport::new(operation, &place, self.sequence, self.failure);
        (place, import)
    }
}

/// Notes that what each operation of a group writes depends on all of them, and on the imports
/// `carried` of what they read. The devices stay open until the operations are complete.
pub(super) fn note_group(operations: &[(Arrival<'_>, &Accesses<'_>)], mut carried: Imports) {
    let imports: SmallVec<[_; 4]> = operations
        .iter()
        .map(|(arrival, _)| arrival.import())
        .collect();
    let own = imports.iter().map(|(_, import)| Arc::clone(import));
    carried.extend(own.map(|import| import as Arc<dyn Import>));
    for (arrival, accesses) in operations {
        imports::note(arrival.kind, &carried, accesses.iter(), arrival.submitted);
    }
    // Only now, because a watch ends earlier that nothing else refers to.
    drop(carried);
    for ((arrival, _), (place, import)) in operations.iter().zip(imports) {
        watch(arrival.devices, place, arrival.sequence, Some(import));
    }
}
