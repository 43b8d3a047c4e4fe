//! The capture of streams into graphs.

use std::ffi::c_void;

use millstream_driver::{
    CaptureInfo, CaptureMode, CaptureStatus, GraphNodeHandle, ResultCode, StreamHandle,
};

use crate::{
    abi::{Handle, In, Out},
    call::Call,
    codes::Answer,
};

/// Returns the capture mode with a number of `CUstreamCaptureMode`.
fn mode_of(number: i32) -> Answer<CaptureMode> {
    match number {
        0 => Ok(CaptureMode::Global),
        1 => Ok(CaptureMode::ThreadLocal),
        2 => Ok(CaptureMode::Relaxed),
        _ => Err(ResultCode::INVALID_VALUE),
    }
}

/// `cuThreadExchangeStreamCaptureMode`
pub(crate) fn exchange_mode(call: &Call, mode: Out<i32>) -> Answer {
    let given = mode_of(mode.get_at(0)?)?;
    let before = match call.process()?.exchange_capture_mode(given) {
        CaptureMode::Global => 0,
        CaptureMode::ThreadLocal => 1,
        CaptureMode::Relaxed => 2,
    };
    mode.set(before)
}

/// `cuStreamBeginCapture`, in its first version, which has no mode.
pub(crate) fn begin_global(call: &Call, stream: Handle) -> Answer {
    begin(call, stream, 0)
}

/// `cuStreamBeginCapture`
pub(crate) fn begin(call: &Call, stream: Handle, mode: i32) -> Answer {
    let (context, stream) = call.stream(stream)?;
    let mode = mode_of(mode)?;
    call.process()?.stream_begin_capture(context, stream, mode)
}

/// `cuStreamEndCapture`. A capture that is invalid yields a null graph.
pub(crate) fn end(call: &Call, stream: Handle, graph: Out<Handle>) -> Answer {
    graph.check()?;
    let (context, stream) = call.stream(stream)?;
    let process = call.process()?;
    match process.stream_end_capture(context, stream) {
        Ok(captured) => {
            process.objects.lock().graphs.insert(captured, context);
            graph.set(captured.as_raw())
        }
        Err(code) => {
            graph.set(0)?;
            Err(code)
        }
    }
}

/// Returns a stream with the state of its capture.
fn info_of(call: &Call, stream: Handle) -> Answer<(StreamHandle, CaptureInfo)> {
    let (context, stream) = call.stream(stream)?;
    let process = call.process()?;
    let info = process.stream_capture_info(context, stream)?;
    if let Some(active) = &info.active {
        // The program may add nodes to the graph before the capture ends.
        process.objects.lock().graphs.insert(active.graph, context);
    }
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

/// `cuStreamIsCapturing`
pub(crate) fn is_capturing(call: &Call, stream: Handle, status: Out<i32>) -> Answer {
    status.set(number(info_of(call, stream)?.1.status))
}

/// `cuStreamGetCaptureInfo`, in its first version.
pub(crate) fn info(call: &Call, stream: Handle, status: Out<i32>, id: Out<u64>) -> Answer {
    let (_, info) = info_of(call, stream)?;
    status.set(number(info.status))?;
    id.set_if_wanted(info.active.map_or(0, |active| active.id));
    Ok(())
}

/// `cuStreamGetCaptureInfo_v2`. The list of nodes is valid until the next such call for the stream.
pub(crate) fn info_with_nodes(
    call: &Call,
    stream: Handle,
    status: Out<i32>,
    id: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<*const Handle>,
    count: Out<usize>,
) -> Answer {
    let (stream, info) = info_of(call, stream)?;
    status.set(number(info.status))?;
    let Some(active) = info.active else {
        return Ok(());
    };
    id.set_if_wanted(active.id);
    graph.set_if_wanted(active.graph.as_raw());
    let list: Box<[Handle]> = active
        .dependencies
        .iter()
        .map(|node| node.as_raw())
        .collect();
    count.set_if_wanted(list.len());
    nodes.set_if_wanted(list.as_ptr());
    let mut objects = call.process()?.objects.lock();
    objects.captured_nodes.insert(stream, list);
    Ok(())
}

/// `cuStreamGetCaptureInfo_v3`. No edge has data.
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of cuStreamGetCaptureInfo"
)]
pub(crate) fn info_with_edges(
    call: &Call,
    stream: Handle,
    status: Out<i32>,
    id: Out<u64>,
    graph: Out<Handle>,
    nodes: Out<*const Handle>,
    edges: Out<*const c_void>,
    count: Out<usize>,
) -> Answer {
    edges.set_if_wanted(std::ptr::null());
    info_with_nodes(call, stream, status, id, graph, nodes, count)
}

/// `cuStreamUpdateCaptureDependencies`
pub(crate) fn update_dependencies(
    call: &Call,
    stream: Handle,
    nodes: In<Handle>,
    count: usize,
    flags: u32,
) -> Answer {
    let given = nodes.all(count)?.into_iter().map(GraphNodeHandle::from_raw);
    let mut nodes: Vec<_> = given.collect();
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

/// `cuStreamUpdateCaptureDependencies_v2`. Edges with data are not supported.
pub(crate) fn update_dependencies_with_edges(
    call: &Call,
    stream: Handle,
    nodes: In<Handle>,
    edges: In<u64>,
    count: usize,
    flags: u32,
) -> Answer {
    super::graph::refuse_edge_data(edges, count)?;
    update_dependencies(call, stream, nodes, count, flags)
}
