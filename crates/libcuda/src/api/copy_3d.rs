//! Copies of boxes: rows in layers. Each becomes copies of rows, one for all layers if the layers
//! of both sides follow each other like their rows, else one for each layer.

use millstream_driver::{ContextHandle, Copy2d, ResultCode, Side2d, StreamHandle};

use crate::{
    abi::{Copy3dFields, Handle, In, Side3dFields},
    api::copy::memory_at,
    call::Call,
    codes::Answer,
    export::exports,
};

/// The distances within one side, in bytes.
#[derive(Clone, Copy, Debug)]
struct Layout {
    row: usize,
    layer: usize,
    /// The offset of the first byte.
    start: usize,
}

impl Layout {
    fn of(side: &Side3dFields, copy: &Copy3dFields) -> Option<Self> {
        let or = |given: usize, otherwise: usize| if given == 0 { otherwise } else { given };
        let row = or(side.pitch, copy.width_bytes);
        let rows = or(side.height, copy.height);
        if copy.depth > 1 && rows < side.y.checked_add(copy.height)? {
            return None;
        }
        let layer = row.checked_mul(rows)?;
        let start = side.z.checked_mul(layer)?;
        let start = start.checked_add(side.y.checked_mul(row)?)?;
        // The last layer must be in the address space, too.
        let start = start.checked_add(side.x_bytes)?;
        start.checked_add(layer.checked_mul(copy.depth)?)?;
        Some(Self { row, layer, start })
    }
}

/// Returns the copies of rows that a copy consists of.
pub(crate) fn copies(call: &Call, fields: &Copy3dFields) -> Answer<Vec<Copy2d>> {
    let layout = |side| Layout::of(side, fields).ok_or(ResultCode::INVALID_VALUE);
    let (source, target) = (layout(&fields.source)?, layout(&fields.target)?);
    if fields.width_bytes == 0 || fields.height == 0 || fields.depth == 0 {
        return Ok(Vec::new());
    }
    let dense = |it: Layout| it.layer == it.row * fields.height;
    let (layers, height) = if dense(source) && dense(target) {
        (1, fields.height * fields.depth)
    } else {
        (fields.depth, fields.height)
    };
    let side = |side: &Side3dFields, layout: Layout, layer: usize| {
        let offset = layout.start + layer * layout.layer;
        let memory = memory_at(call, side.memory_type, side.host, side.device, offset)?;
        Ok(Side2d {
            memory,
            pitch_bytes: layout.row,
        })
    };
    (0..layers)
        .map(|layer| {
            Ok(Copy2d {
                source: side(&fields.source, source, layer)?,
                target: side(&fields.target, target, layer)?,
                width_bytes: fields.width_bytes,
                height,
            })
        })
        .collect()
}

/// Enqueues the copies, or copies at once.
fn copy(
    call: &Call,
    fields: &Copy3dFields,
    (context, stream): (ContextHandle, StreamHandle),
    asynchronous: bool,
) -> Answer {
    let process = call.process()?;
    for copy in copies(call, fields)? {
        if asynchronous {
            process.copy_2d_async(context, &copy, stream)?;
        } else {
            process.copy_2d_synchronous(context, &copy, stream)?;
        }
    }
    Ok(())
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
        copy(call, &fields, (call.context()?, call.default_stream), false)
    }

    [cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz per_thread]
    fn peer_async(call, fields: In<Copy3dFields>, stream: Handle) {
        let fields = between_contexts(call, fields)?;
        copy(call, &fields, call.stream(stream)?, true)
    }
}
