//! The imports of operands: which results of several devices an operation depends on.
//!
//! While any import of the process is unsettled, or the end of a [lease](super::leases) is put off,
//! every device examines the operands of each operation before it is submitted ([`examine`]). Notes
//! for host reads make only those devices do so whose memory they have reached. Otherwise nothing
//! is examined.

use super::{DeviceState, Operation, lease_conflicts::end_returned_leases};
use crate::{
    Result,
    error::OperationKind,
    tracker::{Access, AccessHistory, AccessKind, DeviceNumber, Imports, LaterCollective, merge},
};

/// Collects the unsettled imports of everything that these accesses may read.
///
/// # Errors
///
/// If an operand is invalid.
#[inline]
pub(crate) fn unsettled_imports<'a, 'b: 'a>(
    kind: OperationKind,
    accesses: impl IntoIterator<Item = &'a Access<'b>>,
) -> Result<Imports> {
    let mut imports = Imports::new();
    for access in accesses {
        if reads(kind, access) && access.history.provenance.is_used() {
            merge(&mut imports, access.history.provenance.unsettled()?);
        }
    }
    Ok(imports)
}

/// Collects the unsettled imports of everything that a collective may read. Those that the
/// collective's own imports will include are left out.
///
/// # Errors
///
/// If an operand is invalid.
pub(crate) fn unsettled_imports_before<'a, 'b: 'a>(
    collective: &LaterCollective,
    accesses: impl IntoIterator<Item = &'a Access<'b>>,
) -> Result<Imports> {
    let mut imports = Imports::new();
    for access in accesses {
        merge(
            &mut imports,
            access.history.provenance.unsettled_before(collective)?,
        );
    }
    Ok(imports)
}

/// Returns an error if the contents of an allocation are invalid.
#[inline]
pub(crate) fn check(history: &AccessHistory) -> Result<()> {
    if history.provenance.is_used() {
        history.provenance.unsettled()?;
    }
    Ok(())
}

/// Notes that an operation which passes these imports on writes memory of these devices.
pub(crate) fn reach(imports: &Imports, devices: impl Iterator<Item = DeviceNumber>) {
    for device in devices {
        imports.iter().for_each(|import| import.reaches(device));
    }
}

/// Returns whether an operation of this kind may read what it accesses.
#[inline]
fn reads(kind: OperationKind, access: &Access<'_>) -> bool {
    access.kind == AccessKind::Read || !may_overwrite(kind)
}

/// Returns whether an operation of this kind does not read what it writes. A kernel and a
/// collective may read it.
fn may_overwrite(kind: OperationKind) -> bool {
    !matches!(
        kind,
        OperationKind::Kernel | OperationKind::Collective | OperationKind::Graph
    )
}

/// Returns whether an operation of this kind replaces all contents of the allocation.
fn overwrites(kind: OperationKind, access: &Access<'_>) -> bool {
    !reads(kind, access) && access.extent.is_whole(access.history.bytes())
}

/// Notes that the results of an operation come from these imports.
///
/// Called before the submission, because a submission that fails may have enqueued the operation;
/// and again if it was `submitted` without an error: memory that the operation overwrites as a
/// whole has no earlier imports then.
pub(crate) fn note<'a, 'b: 'a>(
    kind: OperationKind,
    imports: &Imports,
    accesses: impl IntoIterator<Item = &'a Access<'b>>,
    submitted: bool,
) {
    if imports.is_empty() && !(submitted && may_overwrite(kind)) {
        return;
    }
    for access in accesses {
        if submitted && overwrites(kind, access) {
            access.history.provenance.replace(imports);
        } else if access.kind == AccessKind::Write {
            access.history.provenance.add(imports);
        }
    }
}

/// Notes that the submitted parts of an operation together replace the contents of an allocation,
/// if they cover all of it.
pub(crate) fn note_overwritten(device: &DeviceState, access: &Access<'_>) {
    if device.admission.examines_operands() && access.extent.is_whole(access.history.bytes()) {
        access.history.provenance.replace(&[]);
    }
}

/// Examines the operands of an operation on one device. Returns the imports that its results depend
/// on.
///
/// # Errors
///
/// If an operand is invalid or lent to another library.
pub(crate) fn examine(operation: &mut Operation<'_>) -> Result<Imports> {
    let label = (operation.label, operation.location);
    end_returned_leases(label, operation.accesses.iter())?;
    let imports = unsettled_imports(operation.kind, operation.accesses.iter())?;
    note(operation.kind, &imports, operation.accesses.iter(), false);
    Ok(imports)
}
