//! Guards for host accesses to memory shared with the device. A guard exists once all conflicting
//! operations are complete.

use std::{
    fmt,
    ops::{Deref, DerefMut, Range},
    sync::Arc,
};

use crate::{
    Result,
    context::DeviceState,
    future::{completions, wait_ticket},
    page_locked::HostAccessGuard,
    tracker::{AccessHistory, AccessKind},
};

/// Blocks until the host may access these bytes.
pub(crate) fn wait_for_access(
    device: &DeviceState,
    history: &AccessHistory,
    bytes: &Range<u64>,
    kind: AccessKind,
) -> Result<()> {
    // No conflicting operation can be submitted meanwhile: it would need the borrow that the caller
    // holds.
    for ticket in history.host_conflicts(bytes, kind) {
        device
            .with_stream(ticket.stream, |device, stream| {
                wait_ticket(device, stream, ticket.sequence)
            })
            .unwrap_or(Ok(()))?;
    }
    history.provenance.read()
}

/// Completes when the host may access these bytes.
pub(crate) async fn access(
    device: &Arc<DeviceState>,
    history: &AccessHistory,
    bytes: Range<u64>,
    kind: AccessKind,
) -> Result<()> {
    let conflicts = history.host_conflicts(&bytes, kind);
    for completion in completions(device, conflicts) {
        completion.await?;
    }
    history.provenance.read()
}

/// A guard for reading elements of [`Pinned`](crate::Pinned) or [`Managed`](crate::Managed) memory.
/// No operation writes them while it exists; the access ends on drop.
pub struct ReadGuard<'a, T> {
    pub(crate) elements: &'a [T],
    pub(crate) _access: HostAccessGuard<'a>,
}

/// A guard for writing elements of [`Pinned`](crate::Pinned) or [`Managed`](crate::Managed) memory.
/// No operation uses them while it exists; the access ends on drop.
pub struct WriteGuard<'a, T> {
    pub(crate) elements: &'a mut [T],
    pub(crate) _access: HostAccessGuard<'a>,
}

/// Implements the traits of both guards.
macro_rules! guard {
    ($name:ident) => {
        impl<T: fmt::Debug> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name))
                    .field(&self.elements)
                    .finish()
            }
        }

        impl<T> Deref for $name<'_, T> {
            type Target = [T];

            fn deref(&self) -> &[T] {
                self.elements
            }
        }
    };
}

guard!(ReadGuard);
guard!(WriteGuard);

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.elements
    }
}
