//! The command of a foreign call, and its capture for a graph.

#![allow(unsafe_code, reason = "captures the calls of other libraries")]

use std::mem::ManuallyDrop;

use millstream_driver::{CaptureMode, DriverError, GraphHandle, GraphNode};

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
        let DriverStream {
            driver,
            context,
            stream,
        } = driver_stream;
        let mode = CaptureMode::ThreadLocal;
        // Made first, because a call that failed may have begun the capture nevertheless.
        let capture = Capture(driver_stream);
        // SAFETY: the stream is alive, and the recording keeps the operands of the call alive.
        unsafe { driver.stream_begin_capture(context, stream, mode) }?;
        let called = (self.call)(driver_stream);
        let graph = capture.end();
        // An error of the call tells more than that of the capture which it spoiled.
        if let Err(error) = called {
            if let Ok(graph) = graph {
                // SAFETY: the capture just made the graph.
                unsafe { driver.graph_destroy(context, graph) }?;
            }
            return Err(error.into());
        }
        sink.add(&GraphNode::Child(graph?));
        Ok(())
    }
}

/// A capture in progress, ended when it is dropped.
struct Capture<'a>(DriverStream<'a>);

impl Capture<'_> {
    /// Ends the capture and returns its graph.
    fn end(self) -> Result<GraphHandle, DriverError> {
        // After an error the drop makes sure that the stream does not capture.
        let graph = self.end_once()?;
        let _ended = ManuallyDrop::new(self);
        Ok(graph)
    }

    fn end_once(&self) -> Result<GraphHandle, DriverError> {
        let DriverStream {
            driver,
            context,
            stream,
        } = self.0;
        // SAFETY: the stream is alive, and its capture began on this thread.
        unsafe { driver.stream_end_capture(context, stream) }
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        // The call panicked, or the capture did not begin or end. Its nodes are forgotten.
        if let Ok(graph) = self.end_once() {
            // SAFETY: the capture just made the graph.
            let destroyed = unsafe { self.0.driver.graph_destroy(self.0.context, graph) };
            if let Err(error) = destroyed {
                log!(debug, %error, "cannot destroy a graph");
            }
        }
    }
}
