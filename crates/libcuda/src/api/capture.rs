//! The capture of streams into graphs.

use std::ffi::c_void;

use millstream_driver::{CaptureInfo, CaptureMode, CaptureStatus, ResultCode, StreamHandle};

use crate::{
    abi::{Handle, In, Out},
    api::{
        graph::{nodes, refuse_edge_data},
        graph_node::Place,
    },
    call::Call,
    codes::Answer,
    export::exports,
};

/// The number of the mode that captures have if a call names none.
pub(crate) const GLOBAL: i32 = 0;

/// Returns the capture mode with a number of `CUstreamCaptureMode`.
fn mode_of(number: i32) -> Answer<CaptureMode> {
    match number {
        GLOBAL => Ok(CaptureMode::Global),
        1 => Ok(CaptureMode::ThreadLocal),
        2 => Ok(CaptureMode::Relaxed),
        _ => Err(ResultCode::INVALID_VALUE),
    }
}

/// `cuStreamBeginCaptureToGraph`. Edges with data are not supported.
pub(crate) fn begin_in_graph(
    call: &Call,
    stream: Handle,
    place: Place,
    edges: In<u64>,
    mode: i32,
) -> Answer {
    refuse_edge_data(edges, place.count)?;
    let (context, stream) = call.stream(stream)?;
    let (_, graph) = call.graph(place.graph)?;
    let dependencies = nodes(place.dependencies, place.count)?;
    let mode = mode_of(mode)?;
    call.process()?
        .stream_begin_capture_into(context, stream, graph, &dependencies, mode)
}

fn info_of(call: &Call, stream: Handle) -> Answer<(StreamHandle, CaptureInfo)> {
    let (context, stream) = call.stream(stream)?;
    let info = call.process()?.stream_capture_info(context, stream)?;
    Ok((stream, info))
}

/// Returns the number of a status in `CUstreamCaptureStatus`.
fn number(status: CaptureStatus) -> i32 {
    match status {
        CaptureStatus::None => 0,
        CaptureStatus::Active => 1,
        CaptureStatus::Invalidated => 2,
    }
}

/// The results of `cuStreamGetCaptureInfo` beside the status, null for those that a version does
/// not have.
#[derive(Clone, Copy)]
pub(crate) struct InfoFields {
    pub(crate) id: Out<u64>,
    pub(crate) graph: Out<Handle>,
    pub(crate) nodes: Out<*const Handle>,
    /// The data of edges: no edge has any.
    pub(crate) edges: Out<*const c_void>,
    pub(crate) count: Out<usize>,
}

/// `cuStreamGetCaptureInfo`. The list of nodes is valid until the next such call for the stream.
pub(crate) fn info(call: &Call, stream: Handle, status: Out<i32>, fields: InfoFields) -> Answer {
    let (stream, info) = info_of(call, stream)?;
    status.set(number(info.status))?;
    let Some(active) = info.active else {
        return Ok(());
    };
    fields.id.set_if_wanted(active.id);
    fields.graph.set_if_wanted(active.graph.as_raw());
    fields.edges.set_if_wanted(std::ptr::null());
    let list: Box<[Handle]> = active
        .dependencies
        .iter()
        .map(|node| node.as_raw())
        .collect();
    fields.count.set_if_wanted(list.len());
    fields.nodes.set_if_wanted(list.as_ptr());
    let mut objects = call.process()?.objects.lock();
    objects.captured_nodes.insert(stream, list);
    Ok(())
}

exports! {
    [cuThreadExchangeStreamCaptureMode]
    fn exchange_mode(call, mode: Out<i32>) {
        let given = mode_of(mode.get_at(0)?)?;
        let before = match call.process()?.exchange_capture_mode(given) {
            CaptureMode::Global => GLOBAL,
            CaptureMode::ThreadLocal => 1,
            CaptureMode::Relaxed => 2,
        };
        mode.set(before)
    }

    [cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz per_thread]
    fn begin(call, stream: Handle, mode: i32) {
        let (context, stream) = call.stream(stream)?;
        let mode = mode_of(mode)?;
        call.process()?.stream_begin_capture(context, stream, mode)
    }

    /// A capture that is invalid yields a null graph. A program that captures into a graph that it
    /// has already may not want the result.
    [cuStreamEndCapture, cuStreamEndCapture_ptsz per_thread]
    fn end(call, stream: Handle, graph: Out<Handle>) {
        let (context, stream) = call.stream(stream)?;
        let captured = call.process()?.stream_end_capture(context, stream);
        graph.set_if_wanted(captured.as_ref().map_or(0, |graph| graph.as_raw()));
        captured.map(drop)
    }

    [cuStreamIsCapturing, cuStreamIsCapturing_ptsz per_thread]
    fn is_capturing(call, stream: Handle, status: Out<i32>) {
        status.set(number(info_of(call, stream)?.1.status))
    }

    /// Edges with data are not supported.
    [cuStreamUpdateCaptureDependencies_v2, cuStreamUpdateCaptureDependencies_v2_ptsz per_thread]
    fn update_dependencies(
        call, stream: Handle, list: In<Handle>, edges: In<u64>, count: usize, flags: u32
    ) {
        refuse_edge_data(edges, count)?;
        let mut nodes = nodes(list, count)?;
        match flags {
            // CU_STREAM_ADD_CAPTURE_DEPENDENCIES
            0 => {
                let active = info_of(call, stream)?.1.active;
                nodes.extend(active.into_iter().flat_map(|active| active.dependencies));
            }
            // CU_STREAM_SET_CAPTURE_DEPENDENCIES
            1 => {}
            _ => return Err(ResultCode::INVALID_VALUE),
        }
        let (context, stream) = call.stream(stream)?;
        call.process()?
            .stream_set_capture_dependencies(context, stream, &nodes)
    }

    [cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz per_thread]
    fn _(call, stream: Handle, status: Out<i32>, id: Out<u64>) {
        let (graph, nodes, edges, count) = (Out::null(), Out::null(), Out::null(), Out::null());
        info(call, stream, status, InfoFields { id, graph, nodes, edges, count })
    }

    [cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz per_thread]
    fn _(
        call, stream: Handle, status: Out<i32>, id: Out<u64>, graph: Out<Handle>,
        nodes: Out<*const Handle>, count: Out<usize>
    ) {
        let edges = Out::null();
        info(call, stream, status, InfoFields { id, graph, nodes, edges, count })
    }

    [cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz per_thread]
    fn _(
        call, stream: Handle, status: Out<i32>, id: Out<u64>, graph: Out<Handle>,
        nodes: Out<*const Handle>, edges: Out<*const c_void>, count: Out<usize>
    ) {
        info(call, stream, status, InfoFields { id, graph, nodes, edges, count })
    }

    [cuStreamBeginCapture, cuStreamBeginCapture_ptsz per_thread]
    fn _(call, stream: Handle) {
        begin(call, stream, GLOBAL)
    }

    [cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz per_thread]
    fn _(
        call, stream: Handle, graph: Handle, dependencies: In<Handle>, edges: In<u64>, count: usize,
        mode: i32
    ) {
        begin_in_graph(call, stream, Place { graph, dependencies, count }, edges, mode)
    }

    [cuStreamUpdateCaptureDependencies, cuStreamUpdateCaptureDependencies_ptsz per_thread]
    fn _(call, stream: Handle, nodes: In<Handle>, count: usize, flags: u32) {
        update_dependencies(call, stream, nodes, In::null(), count, flags)
    }
}
