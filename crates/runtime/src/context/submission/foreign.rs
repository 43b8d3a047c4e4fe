//! The command of a foreign call, and its capture for a graph.

#![allow(unsafe_code, reason = "captures the calls of other libraries")]

use std::mem::ManuallyDrop;

use millstream_driver::{CaptureMode, DriverError, GraphHandle, GraphKernel, GraphNode};

use super::commands::{Command, DriverStream};
use crate::{
    context::recording::{NodeSink, NotRecorded},
    disposal::log,
};

/// A call of another library, which enqueues its own work.
pub(crate) struct Foreign<F> {
    pub(crate) call: F,
}

impl<F: FnOnce(DriverStream<'_>) -> Result<(), DriverError>> Command for Foreign<F> {
    type Output = ();

    unsafe fn enqueue(self, driver_stream: DriverStream<'_>) -> Result<(), DriverError> {
        (self.call)(driver_stream)
    }

    fn record(
        self,
        driver_stream: DriverStream<'_>,
        sink: &mut dyn NodeSink,
    ) -> Result<(), NotRecorded> {
        let graph = CapturedGraph::of(driver_stream, self.call)?;
        sink.add(&GraphNode::Child(graph.into_handle()));
        Ok(())
    }
}

/// The graph of a captured call, destroyed when it is dropped.
pub(super) struct CapturedGraph<'a> {
    driver_stream: DriverStream<'a>,
    graph: GraphHandle,
}

impl<'a> CapturedGraph<'a> {
    pub(super) fn of(
        driver_stream: DriverStream<'a>,
        call: impl FnOnce(DriverStream<'_>) -> Result<(), DriverError>,
    ) -> Result<Self, DriverError> {
        let (driver, context, stream) = driver_stream.parts();
        let mode = CaptureMode::ThreadLocal;
        // Made first, because a call that failed may have begun the capture nevertheless.
        let capture = Capture(driver_stream);
        // SAFETY: the stream is alive, and the recording keeps the operands of the call alive.
        unsafe { driver.stream_begin_capture(context, stream, mode) }?;
        let called = call(driver_stream);
        let graph = capture.end().map(|graph| Self {
            driver_stream,
            graph,
        });
        // An error of the call tells more than that of the capture which it spoiled.
        called?;
        graph
    }

    /// Returns the kernels of the call, or `None` if it has others.
    pub(super) fn kernels(&self) -> Option<Vec<GraphKernel>> {
        let (driver, context, _) = self.driver_stream.parts();
        // SAFETY: the graph is alive.
        let kernels = unsafe { driver.graph_kernels(context, self.graph) };
        kernels.ok().flatten()
    }

    /// Returns the graph, which is the caller's to destroy.
    pub(super) fn into_handle(self) -> GraphHandle {
        ManuallyDrop::new(self).graph
    }
}

impl Drop for CapturedGraph<'_> {
    fn drop(&mut self) {
        let (driver, context, _) = self.driver_stream.parts();
        // SAFETY: the capture made the graph, which nothing else uses.
        if let Err(error) = unsafe { driver.graph_destroy(context, self.graph) } {
            log!(debug, %error, "cannot destroy a graph");
        }
    }
}

/// A capture in progress, ended when it is dropped.
struct Capture<'a>(DriverStream<'a>);

impl Capture<'_> {
    fn end(self) -> Result<GraphHandle, DriverError> {
        // After an error the drop makes sure that the stream does not capture.
        let graph = self.end_once()?;
        let _ended = ManuallyDrop::new(self);
        Ok(graph)
    }

    fn end_once(&self) -> Result<GraphHandle, DriverError> {
        let (driver, context, stream) = self.0.parts();
        // SAFETY: the stream is alive, and its capture began on this thread.
        unsafe { driver.stream_end_capture(context, stream) }
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        // The call panicked, or the capture did not begin or end. Its nodes are forgotten.
        if let Ok(graph) = self.end_once() {
            drop(CapturedGraph {
                driver_stream: self.0,
                graph,
            });
        }
    }
}
