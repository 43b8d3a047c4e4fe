//! The descriptions of kernel faults.

use std::io::Write as _;

use millstream_driver::{ResultCode, printable};

use super::{
    execute::OpFailure,
    objects::waiting::KernelRecord,
    op::{KernelLaunch, StreamOp},
    state::SimState,
};
use crate::{
    ReportKind,
    exec::{KernelFault, KernelFaultKind},
    ids::OpId,
    memory::AccessTime,
};

impl SimState {
    /// Describes a kernel fault and selects its report kind and error code.
    pub(super) fn explain_fault(
        &self,
        id: OpId,
        device: u32,
        launch: &KernelLaunch,
        fault: KernelFault,
    ) -> OpFailure {
        let ([bx, by, bz], [tx, ty, tz]) = (fault.block, fault.thread);
        let line = Self::line_of(launch, &fault);
        let what = match fault.kind {
            KernelFaultKind::OutOfBounds {
                address,
                bytes,
                write,
            } => {
                let does = if write { "write" } else { "read" };
                match self
                    .memory
                    .locate(address, bytes.into(), AccessTime::Run(id))
                {
                    Err(error) => format!("{does} of {}, which {}", error.what, error.problem),
                    Ok((other, _)) => format!(
                        "{does} of {bytes} bytes at {address:#x}, which are memory of \
                         device {}: {}{}",
                        other.device,
                        other.describe(),
                        self.no_access(device, other)
                    ),
                }
            }
            KernelFaultKind::InvalidFree { address } => match self.memory.around(address) {
                Some(found) => format!("{}: {}", fault.kind, found.describe()),
                None => fault.kind.to_string(),
            },
            KernelFaultKind::Assertion(ref failed) => {
                // As CUDA prints it. Without a usable standard error the report still has the text.
                let _ = writeln!(
                    std::io::stderr(),
                    "{}:{}: {}: block: [{bx},{by},{bz}], thread: [{tx},{ty},{tz}] Assertion `{}` \
                     failed.",
                    printable(&failed.file),
                    failed.line,
                    printable(&failed.function),
                    printable(&failed.message)
                );
                fault.kind.to_string()
            }
            KernelFaultKind::NeverWoken { address } => match self.memory.around(address) {
                Some(found) => format!(
                    "waits for a change of byte {} of {}",
                    address - found.base,
                    found.info.describe()
                ),
                None => fault.kind.to_string(),
            },
            _ => fault.kind.to_string(),
        };
        let text = format!("{line}in block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}): {what}");
        OpFailure {
            kind: ReportKind::KernelFault,
            code: match fault.kind {
                KernelFaultKind::OutOfBounds { .. } | KernelFaultKind::ReadOnly { .. } => {
                    ResultCode::ILLEGAL_ADDRESS
                }
                KernelFaultKind::Misaligned { .. } => ResultCode::MISALIGNED_ADDRESS,
                KernelFaultKind::SharedOutOfBounds { .. }
                | KernelFaultKind::LocalOutOfBounds { .. } => ResultCode::ILLEGAL_ADDRESS,
                KernelFaultKind::StepLimit { .. } | KernelFaultKind::NeverWoken { .. } => {
                    ResultCode::LAUNCH_TIMEOUT
                }
                KernelFaultKind::Assertion(_) => ResultCode::ASSERT,
                _ => ResultCode::LAUNCH_FAILED,
            },
            text,
            fault: Some(Box::new(fault)),
        }
    }

    /// Reports the faults after which a kernel has gone on, and returns them.
    pub(super) fn report_faults(
        &mut self,
        (id, op): (OpId, &StreamOp),
        launch: &KernelLaunch,
        record: &KernelRecord,
    ) -> Vec<KernelFault> {
        let report = |(fault, count): (KernelFault, u64)| {
            let failure = self.explain_fault(id, op.device, launch, fault.clone());
            let (described, text) = (op.describe(id), failure.text);
            let text = format!("{described}: {text}; failures at this line: {count}");
            self.report_for_device(Some(op.device), failure.kind, text);
            fault
        };
        record.faults.take().into_iter().map(report).collect()
    }

    /// Returns the line of a kernel's place, followed by a space; empty for a launch as a whole.
    pub(super) fn line_of(launch: &KernelLaunch, place: &KernelFault) -> String {
        let source = place.source_line.as_ref();
        let source = source.map_or_else(String::new, |source| format!(" ({source})"));
        match place.ptx_line {
            0 => String::new(),
            line => {
                let module = launch.module.name(launch.module_handle);
                format!("line {line} of the PTX of {module}{source} ")
            }
        }
    }
}
