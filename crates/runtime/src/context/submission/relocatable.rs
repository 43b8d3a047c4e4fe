//! The command of a foreign call that can be made for other addresses, recorded as kernels.
//!
//! A captured call is a child graph, with addresses that nothing can change later. A call that can
//! be made for other addresses is captured twice, the second time with each operand moved by a
//! displacement of its own. The kernels of the two captures differ in the addresses only, and the
//! difference says which operand an address belongs to. If there is another difference, or another
//! node than a kernel, the call is recorded as a child graph.

#![allow(unsafe_code, reason = "enqueues the calls of other libraries")]

use millstream_driver::{DevicePtr, DriverError, GraphKernel, GraphNode};
use smallvec::SmallVec;

use super::{
    commands::{Command, DriverStream},
    foreign::CapturedGraph,
};
use crate::context::recording::{AddressPlace, NodeSink, NotRecorded, RelocatableKernel};

/// The displacement of the first operand, a multiple of every alignment. Those of the others are
/// larger.
const DISPLACEMENT: u64 = 1 << 32;

/// A call of another library, for operands that are moved by these displacements.
pub(crate) struct Relocatable<F> {
    pub(crate) call: F,
    pub(crate) operands: usize,
}

impl<F: Fn(DriverStream<'_>, &[u64]) -> Result<(), DriverError>> Relocatable<F> {
    /// Captures the call with operands moved by these displacements.
    fn capture<'a>(
        &self,
        driver_stream: DriverStream<'a>,
        displacements: &[u64],
    ) -> Result<CapturedGraph<'a>, DriverError> {
        CapturedGraph::of(driver_stream, |stream| (self.call)(stream, displacements))
    }
}

impl<F: Fn(DriverStream<'_>, &[u64]) -> Result<(), DriverError>> Command for Relocatable<F> {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        let unmoved: SmallVec<[u64; 4]> = SmallVec::from_elem(0, self.operands);
        (self.call)(driver_stream, &unmoved)
    }

    fn record(
        self,
        driver_stream: DriverStream<'_>,
        sink: &mut dyn NodeSink,
    ) -> Result<(), NotRecorded> {
        let mut displacements: SmallVec<[u64; 4]> = SmallVec::from_elem(0, self.operands);
        let graph = self.capture(driver_stream, &displacements)?;
        for (number, displacement) in (0..).zip(&mut displacements) {
            // Odd, so that the difference of two is not a displacement.
            *displacement = (2 * number + 1) * DISPLACEMENT;
        }
        let kernels = graph.kernels().and_then(|kernels| {
            let moved = self.capture(driver_stream, &displacements).ok()?;
            compare(kernels, &moved.kernels()?, &displacements)
        });
        if !kernels.is_some_and(|kernels| sink.add_kernels(&kernels)) {
            sink.add(&GraphNode::Child(graph.into_handle()));
        }
        Ok(())
    }
}

/// Finds the addresses in the kernels of a call: the words that differ, by an operand's
/// displacement, from those of the call with moved operands. `None` if there is another difference.
fn compare(
    kernels: Vec<GraphKernel>,
    moved: &[GraphKernel],
    displacements: &[u64],
) -> Option<Vec<RelocatableKernel>> {
    if kernels.len() != moved.len() {
        return None;
    }
    let each = kernels.into_iter().zip(moved);
    each.map(|(kernel, moved)| {
        let same = (kernel.function, kernel.dims, kernel.attributes)
            == (moved.function, moved.dims, moved.attributes);
        if !same || kernel.params.len() != moved.params.len() {
            return None;
        }
        let mut addresses = Vec::new();
        for (param, (value, moved)) in kernel.params.iter().zip(&moved.params).enumerate() {
            let (words, rest) = value.as_chunks::<8>();
            let (moved_words, moved_rest) = moved.as_chunks::<8>();
            if words.len() != moved_words.len() || rest != moved_rest {
                return None;
            }
            for (word, (value, moved)) in words.iter().zip(moved_words).enumerate() {
                let (value, moved) = (u64::from_ne_bytes(*value), u64::from_ne_bytes(*moved));
                if value != moved {
                    let displacement = moved.wrapping_sub(value);
                    let mut numbers = displacements.iter();
                    let operand = numbers.position(|&number| number == displacement)?;
                    addresses.push(AddressPlace {
                        param,
                        word,
                        address: DevicePtr::from_raw(value),
                        operand: u16::try_from(operand).ok()?,
                    });
                }
            }
        }
        Some(RelocatableKernel { kernel, addresses })
    })
    .collect()
}
