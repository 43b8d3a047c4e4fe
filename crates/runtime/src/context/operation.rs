//! `Operation`: the operands and names of an operation, besides its command.

use std::panic::Location;

use super::HostWaiter;
use crate::{error::OperationKind, tracker::Accesses};

/// An operation without its command: its operands, and its label for errors, timelines and reports.
pub(crate) struct Operation<'a> {
    pub(crate) kind: OperationKind,
    pub(crate) label: &'static str,
    pub(crate) location: &'static Location<'static>,
    pub(crate) bytes: u64,
    pub(crate) accesses: Accesses<'a>,
    /// The host waiter of this operation, if the host may wait for it.
    pub(crate) host_waiter: Option<HostWaiter>,
}

impl Operation<'_> {
    /// Describes an operation without operands.
    #[inline(always)]
    pub(crate) fn new(
        kind: OperationKind,
        label: &'static str,
        location: &'static Location<'static>,
    ) -> Self {
        Self {
            kind,
            label,
            location,
            bytes: 0,
            accesses: Accesses::default(),
            host_waiter: None,
        }
    }
}
