//! Conversion of the driver interface's types to libcuda's.

use std::{
    ffi::{c_int, c_uint, c_void},
    ptr,
};

use super::api::{self, KernelNodeParams, LaunchAttribute, Memcpy2d, Memcpy3d, MemsetNodeParams};
use crate::{
    CaptureMode, ContextHandle, Copy2d, Copy3d, DevicePtr, EventKind, FillPattern, KernelNode,
    LaunchAttributes, ManagedAdvice, Memory3d, PeerCopy2d, Side2d, Side3d,
};

/// Returns the number of an advice in `CUmem_advise`.
pub(super) fn advice_number(advice: ManagedAdvice) -> c_int {
    match advice {
        ManagedAdvice::SetReadMostly => api::MEM_ADVISE_SET_READ_MOSTLY,
        ManagedAdvice::UnsetReadMostly => api::MEM_ADVISE_UNSET_READ_MOSTLY,
        ManagedAdvice::SetPreferredLocation => api::MEM_ADVISE_SET_PREFERRED_LOCATION,
        ManagedAdvice::UnsetPreferredLocation => api::MEM_ADVISE_UNSET_PREFERRED_LOCATION,
        ManagedAdvice::SetAccessedBy => api::MEM_ADVISE_SET_ACCESSED_BY,
        ManagedAdvice::UnsetAccessedBy => api::MEM_ADVISE_UNSET_ACCESSED_BY,
    }
}

pub(super) fn stream_flags(non_blocking: bool) -> c_uint {
    if non_blocking {
        api::STREAM_NON_BLOCKING
    } else {
        api::STREAM_DEFAULT
    }
}

pub(super) fn event_flags(kind: EventKind) -> c_uint {
    match kind {
        EventKind::Ordering => api::EVENT_DISABLE_TIMING,
        EventKind::Timing => api::EVENT_DEFAULT,
        EventKind::Interprocess => api::EVENT_INTERPROCESS | api::EVENT_DISABLE_TIMING,
    }
}

/// Converts the attributes of a launch to libcuda's list.
pub(super) fn launch_attributes(attributes: &LaunchAttributes) -> Vec<LaunchAttribute> {
    let LaunchAttributes {
        cooperative,
        cluster,
        priority,
    } = *attributes;
    let attribute = |id, words: &[c_int]| {
        let mut attribute = LaunchAttribute {
            id,
            ..LaunchAttribute::default()
        };
        attribute.value[..words.len()].copy_from_slice(words);
        attribute
    };
    let cooperative = cooperative.then(|| attribute(api::LAUNCH_ATTRIBUTE_COOPERATIVE, &[1]));
    let cluster = cluster.map(|blocks| {
        let blocks = blocks.map(u32::cast_signed);
        attribute(api::LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &blocks)
    });
    let priority = priority.map(|priority| attribute(api::LAUNCH_ATTRIBUTE_PRIORITY, &[priority]));
    cooperative
        .into_iter()
        .chain(cluster)
        .chain(priority)
        .collect()
}

/// Returns a side's memory type, its host address, its device address and its array; those that do
/// not apply are null.
fn address(memory: Memory3d) -> (c_int, *mut c_void, DevicePtr, usize) {
    let (host, device, array) = (ptr::null_mut(), DevicePtr::from_raw(0), 0);
    match memory {
        Memory3d::Device(first) => (api::MEMORYTYPE_DEVICE, host, first, array),
        Memory3d::Host(first) => (api::MEMORYTYPE_HOST, first.cast(), device, array),
        Memory3d::Array(first) => (api::MEMORYTYPE_ARRAY, host, device, first.as_raw()),
    }
}

/// Converts a two-dimensional copy to libcuda's parameters.
pub(super) fn memcpy_2d(copy: &Copy2d) -> Memcpy2d {
    let (source_type, source_host, source_device, source_array) =
        address(copy.source.memory.into());
    let (target_type, target_host, target_device, target_array) =
        address(copy.target.memory.into());
    Memcpy2d {
        source_x_bytes: 0,
        source_y: 0,
        source_type,
        source_host,
        source_device,
        source_array,
        source_pitch: copy.source.pitch_bytes,
        target_x_bytes: 0,
        target_y: 0,
        target_type,
        target_host,
        target_device,
        target_array,
        target_pitch: copy.target.pitch_bytes,
        width_bytes: copy.width_bytes,
        height: copy.height,
    }
}

/// Converts a two-dimensional copy between contexts to libcuda's parameters: one plane.
pub(super) fn memcpy_3d_peer(copy: &PeerCopy2d) -> Memcpy3d {
    Memcpy3d {
        source_context: copy.source_context,
        source_pitch: copy.source_pitch_bytes,
        target_context: copy.target_context,
        target_pitch: copy.target_pitch_bytes,
        ..memcpy_3d(&Copy2d {
            source: Side2d::device(copy.source, copy.source_pitch_bytes),
            target: Side2d::device(copy.target, copy.target_pitch_bytes),
            width_bytes: copy.row_bytes,
            height: copy.rows,
        })
    }
}

/// Converts a copy to libcuda's parameters of a graph node: one plane. The pitches of one row are
/// 0, because a contiguous copy may be longer than the maximum pitch.
pub(super) fn memcpy_3d(copy: &Copy2d) -> Memcpy3d {
    let side = |side: Side2d| Side3d {
        memory: side.memory.into(),
        origin: [0; 3],
        pitch_bytes: if copy.height == 1 {
            0
        } else {
            side.pitch_bytes
        },
        height: copy.height,
    };
    memcpy_box(&Copy3d {
        source: side(copy.source),
        target: side(copy.target),
        size: [copy.width_bytes, copy.height, 1],
    })
}

/// Converts a three-dimensional copy to libcuda's parameters.
pub(super) fn memcpy_box(copy: &Copy3d) -> Memcpy3d {
    let (source, target) = (&copy.source, &copy.target);
    let (source_type, source_host, source_device, source_array) = address(source.memory);
    let (target_type, target_host, target_device, target_array) = address(target.memory);
    Memcpy3d {
        source_x_bytes: source.origin[0],
        source_y: source.origin[1],
        source_z: source.origin[2],
        source_lod: 0,
        source_type,
        source_host,
        source_device,
        source_array,
        source_context: ContextHandle::from_raw(0),
        source_pitch: source.pitch_bytes,
        source_height: source.height,
        target_x_bytes: target.origin[0],
        target_y: target.origin[1],
        target_z: target.origin[2],
        target_lod: 0,
        target_type,
        target_host,
        target_device,
        target_array,
        target_context: ContextHandle::from_raw(0),
        target_pitch: target.pitch_bytes,
        target_height: target.height,
        width_bytes: copy.size[0],
        height: copy.size[1],
        depth: copy.size[2],
    }
}

/// Converts a fill to libcuda's parameters of a graph node: one row.
pub(super) fn memset(target: DevicePtr, pattern: FillPattern, count: usize) -> MemsetNodeParams {
    let (value, element_bytes) = match pattern {
        FillPattern::U8(value) => (u32::from(value), 1),
        FillPattern::U16(value) => (u32::from(value), 2),
        FillPattern::U32(value) => (value, 4),
    };
    MemsetNodeParams {
        target,
        pitch: 0,
        value,
        element_bytes,
        width: count,
        height: 1,
    }
}

/// Converts a kernel to libcuda's parameters of a graph node, which borrow the list of arguments.
/// The driver only reads that list and the arguments, although the C declaration has no `const`.
pub(super) fn kernel_node(node: &KernelNode<'_>) -> KernelNodeParams {
    KernelNodeParams {
        function: node.function,
        grid: node.dims.grid,
        block: node.dims.block,
        shared_bytes: node.dims.shared_bytes,
        params: node.params.as_ptr().cast_mut().cast(),
        extra: ptr::null_mut(),
        kernel: 0,
        context: ContextHandle::from_raw(0),
    }
}

pub(super) fn capture_mode_number(mode: CaptureMode) -> c_int {
    match mode {
        CaptureMode::Global => api::STREAM_CAPTURE_MODE_GLOBAL,
        CaptureMode::ThreadLocal => api::STREAM_CAPTURE_MODE_THREAD_LOCAL,
        CaptureMode::Relaxed => api::STREAM_CAPTURE_MODE_RELAXED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArrayHandle, ContextHandle, Side2d};

    #[test]
    fn each_side_of_a_copy_keeps_its_own_address_and_pitch() {
        let mut row = [0_u8; 8];
        let host = row.as_mut_ptr();
        let copy = Copy2d {
            source: Side2d::host(host, 5),
            target: Side2d::device(DevicePtr::from_raw(0x700), 7),
            width_bytes: 3,
            height: 2,
        };
        let given = memcpy_2d(&copy);
        assert_eq!((given.source_type, given.target_type), (1, 2));
        assert_eq!(given.source_host, host.cast_const().cast());
        assert!(given.target_host.is_null());
        assert_eq!(given.source_device, DevicePtr::from_raw(0));
        assert_eq!(given.target_device, DevicePtr::from_raw(0x700));
        assert_eq!((given.source_pitch, given.target_pitch), (5, 7));
        assert_eq!((given.width_bytes, given.height), (3, 2));
    }

    #[test]
    fn a_copy_of_one_row_has_no_pitches_in_a_graph() {
        let copy = |height| {
            memcpy_3d(&Copy2d {
                source: Side2d::device(DevicePtr::from_raw(0x500), 5),
                target: Side2d::device(DevicePtr::from_raw(0x700), 7),
                width_bytes: 3,
                height,
            })
        };
        let rows = copy(2);
        assert_eq!((rows.source_pitch, rows.target_pitch), (5, 7));
        assert_eq!((rows.source_height, rows.target_height), (2, 2));
        assert_eq!((rows.width_bytes, rows.height, rows.depth), (3, 2, 1));
        assert_eq!(rows.source_device, DevicePtr::from_raw(0x500));
        assert_eq!(rows.target_device, DevicePtr::from_raw(0x700));
        let row = copy(1);
        assert_eq!((row.source_pitch, row.target_pitch, row.height), (0, 0, 1));
    }

    #[test]
    fn each_side_of_a_box_keeps_its_memory_and_origin() {
        let side = |memory, origin| Side3d {
            memory,
            origin,
            pitch_bytes: 40,
            height: 6,
        };
        let given = memcpy_box(&Copy3d {
            source: side(Memory3d::Array(ArrayHandle::from_raw(9)), [4, 1, 2]),
            target: side(Memory3d::Device(DevicePtr::from_raw(7)), [0, 3, 5]),
            size: [8, 2, 3],
        });
        let types = (
            given.source_type,
            given.target_type,
            given.target_device.as_raw(),
        );
        assert_eq!((types, given.source_array), ((3, 2, 7), 9));
        assert_eq!(
            (given.source_x_bytes, given.source_y, given.source_z),
            (4, 1, 2)
        );
        assert_eq!(
            (given.target_pitch, given.target_height, given.target_z),
            (40, 6, 5)
        );
        assert_eq!((given.width_bytes, given.height, given.depth), (8, 2, 3));
    }

    #[test]
    fn a_fill_in_a_graph_keeps_its_element() {
        let target = DevicePtr::from_raw(0x700);
        for (pattern, element) in [
            (FillPattern::U8(0xab), (0xab, 1)),
            (FillPattern::U16(0xabcd), (0xabcd, 2)),
            (FillPattern::U32(0xabcd_ef01), (0xabcd_ef01, 4)),
        ] {
            let given = memset(target, pattern, 9);
            assert_eq!((given.value, given.element_bytes), element);
            assert_eq!((given.target, given.width, given.height), (target, 9, 1));
        }
    }

    #[test]
    fn each_side_of_a_peer_copy_keeps_its_own_address_pitch_and_context() {
        let given = memcpy_3d_peer(&PeerCopy2d {
            target: DevicePtr::from_raw(0x700),
            target_pitch_bytes: 7,
            target_context: ContextHandle::from_raw(70),
            source: DevicePtr::from_raw(0x500),
            source_pitch_bytes: 5,
            source_context: ContextHandle::from_raw(50),
            row_bytes: 3,
            rows: 2,
        });
        assert_eq!((given.source_type, given.target_type), (2, 2));
        assert_eq!(given.source_device, DevicePtr::from_raw(0x500));
        assert_eq!(given.target_device, DevicePtr::from_raw(0x700));
        assert_eq!(given.source_context, ContextHandle::from_raw(50));
        assert_eq!(given.target_context, ContextHandle::from_raw(70));
        assert_eq!((given.source_pitch, given.target_pitch), (5, 7));
        assert_eq!((given.source_height, given.target_height), (2, 2));
        assert_eq!((given.width_bytes, given.height, given.depth), (3, 2, 1));
    }
}
