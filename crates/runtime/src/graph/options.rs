//! Options of a recording.

/// The order between the operations of one recorded stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// The order of the calls, as on an ordinary stream.
    #[default]
    Stream,
    /// None: an operation runs only after those with which it conflicts. An access that opts out of
    /// ordering then has no order at all.
    Data,
}

/// Options of a recording: see [`Device::record_with`](crate::Device::record_with).
///
/// ```
/// use millstream::{Device, graph::{GraphOptions, Order}};
///
/// let device = Device::simulated()?;
/// let stream = device.stream()?;
/// let (mut x, mut y) = (stream.zeros::<u8>(9)?, stream.zeros::<u8>(9)?);
/// let options = GraphOptions::new().order(Order::Data);
/// let graph = device.record_with("fills", options, |r| {
///     let recorded = r.stream()?;
///     recorded.fill(&mut x, 1)?; // neither waits for the other
///     recorded.fill(&mut y, 2)
/// })?;
/// assert_eq!(graph.figures().edges, 0);
/// # Ok::<(), millstream::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct GraphOptions {
    pub(super) order: Order,
    pub(super) reuse: bool,
    pub(super) iterations_per_look: u32,
}

impl GraphOptions {
    /// Returns the default options.
    pub const fn new() -> Self {
        Self {
            order: Order::Stream,
            reuse: true,
            iterations_per_look: 1,
        }
    }

    /// Sets the order between the operations of one stream.
    pub const fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// Sets whether the memory of an array that is dropped in the recording serves later arrays of
    /// the recording. Without it, no two arrays share memory, which helps in the search for an
    /// array that is used after it was dropped. Arrays do not share memory with [`Order::Data`].
    pub const fn reuse(self, reuse: bool) -> Self {
        Self { reuse, ..self }
    }

    /// Sets how many iterations of a loop the host enqueues between two looks at its flag, where
    /// the host runs loops: see [`GraphRecorder::while_loop`](crate::GraphRecorder::while_loop).
    /// With more than one, which is the default, the device has work while the host looks; but the
    /// iterations that follow the clearing of the flag then run too, and must not change results.
    pub const fn iterations_per_look(self, iterations: u32) -> Self {
        let iterations_per_look = if iterations == 0 { 1 } else { iterations };
        Self {
            iterations_per_look,
            ..self
        }
    }
}

impl Default for GraphOptions {
    fn default() -> Self {
        Self::new()
    }
}
