//! Copies of boxes: rows in layers, from and to memory and arrays.

use millstream_driver::{
    ArrayHandle, ContextHandle, Copy2d, Copy3d, Memory2d, Memory3d, ResultCode, Side3d,
    StreamHandle,
};

use crate::{
    abi::{Copy2dFields, Copy3dFields, Handle, In, Side2dFields, Side3dFields},
    api::copy::{memory_at, serialised},
    call::Call,
    codes::Answer,
    export::exports,
};

/// `CUmemorytype`
pub(crate) mod memory_type {
    pub(crate) const HOST: u32 = 1;
    pub(crate) const DEVICE: u32 = 2;
    pub(crate) const ARRAY: u32 = 3;
}

fn side(call: &Call, side: &Side3dFields, copy: &Copy3dFields) -> Answer<Side3d> {
    let or = |given: usize, otherwise: usize| if given == 0 { otherwise } else { given };
    let memory = if side.memory_type == memory_type::ARRAY {
        Memory3d::Array(ArrayHandle::from_raw(side.array))
    } else {
        match memory_at(call, side.memory_type, side.host, side.device, 0)? {
            Memory2d::Device(first) => Memory3d::Device(first),
            Memory2d::Host(first) => Memory3d::Host(first),
        }
    };
    Ok(Side3d {
        memory,
        origin: [side.x_bytes, side.y, side.z],
        pitch_bytes: or(side.pitch, copy.width_bytes),
        height: or(side.height, copy.height),
    })
}

fn box_of(call: &Call, fields: &Copy3dFields) -> Answer<Copy3d> {
    Ok(Copy3d {
        source: side(call, &fields.source, fields)?,
        target: side(call, &fields.target, fields)?,
        size: [fields.width_bytes, fields.height, fields.depth],
    })
}

/// Returns the copies of rows that a node's copy consists of. Nodes of graphs copy no arrays.
pub(crate) fn copies(call: &Call, fields: &Copy3dFields) -> Answer<Vec<Copy2d>> {
    if [&fields.source, &fields.target]
        .map(|side| side.memory_type)
        .contains(&memory_type::ARRAY)
    {
        return Err(ResultCode::NOT_SUPPORTED);
    }
    let copies = box_of(call, fields)?.copies(|_| None);
    copies.ok_or(ResultCode::INVALID_VALUE)
}

/// Enqueues the copy, or copies at once.
pub(crate) fn copy(
    call: &Call,
    fields: &Copy3dFields,
    (context, stream): (ContextHandle, StreamHandle),
    asynchronous: bool,
) -> Answer {
    let copy = box_of(call, fields)?;
    let process = call.process()?;
    if asynchronous {
        process.copy_3d_async(context, &copy, stream)
    } else {
        process.copy_3d_synchronous(context, &copy, stream)
    }
}

/// Returns a copy of rows from or to an array as a copy of a box; `None` for one without arrays.
pub(crate) fn of_array(fields: &Copy2dFields) -> Option<Copy3dFields> {
    let sides = [&fields.source, &fields.target];
    if !sides
        .map(|side| side.memory_type)
        .contains(&memory_type::ARRAY)
    {
        return None;
    }
    let side = |side: &Side2dFields| Side3dFields {
        x_bytes: side.x_bytes,
        y: side.y,
        memory_type: side.memory_type,
        host: side.host,
        device: side.device,
        array: side.array,
        pitch: side.pitch,
        ..Side3dFields::NONE
    };
    Some(Copy3dFields {
        source: side(&fields.source),
        target: side(&fields.target),
        width_bytes: fields.width_bytes,
        height: fields.height,
        depth: 1,
    })
}

/// Returns the fields of a copy between contexts, which must be alive.
fn between_contexts(call: &Call, fields: In<Copy3dFields>) -> Answer<Copy3dFields> {
    let fields = fields.get()?;
    for side in [&fields.source, &fields.target] {
        call.context_of_handle(side.context)?;
    }
    Ok(fields)
}

exports! {
    [cuMemcpy3D_v2, cuMemcpy3D_v2_ptds per_thread]
    fn of_boxes(call, fields: In<Copy3dFields>) {
        let place = (call.context()?, call.default_stream);
        copy(call, &fields.get()?, place, false)
    }

    [cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz per_thread]
    fn of_boxes_async(call, fields: In<Copy3dFields>, stream: Handle) {
        copy(call, &fields.get()?, call.stream(stream)?, true)
    }

    [cuMemcpy3DPeer, cuMemcpy3DPeer_ptds per_thread]
    fn peer(call, fields: In<Copy3dFields>) {
        let fields = between_contexts(call, fields)?;
        serialised(call, [fields.target.context, fields.source.context], || {
            copy(call, &fields, (call.context()?, call.default_stream), false)
        })
    }

    [cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz per_thread]
    fn peer_async(call, fields: In<Copy3dFields>, stream: Handle) {
        let fields = between_contexts(call, fields)?;
        copy(call, &fields, call.stream(stream)?, true)
    }
}
