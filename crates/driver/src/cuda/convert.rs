//! Conversion of the driver interface's types to libcuda's.

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use super::api::{self, LaunchAttribute, Memcpy2d, Memcpy3dPeer};
use crate::{Copy2d, DevicePtr, LaunchAttributes, ManagedAdvice, Memory2d, PeerCopy2d};

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

/// Returns a side's memory type, its host address and its device address; the address that does not
/// apply is null.
fn address(memory: Memory2d) -> (c_int, *mut c_void, DevicePtr) {
    match memory {
        Memory2d::Device(first) => (api::MEMORYTYPE_DEVICE, ptr::null_mut(), first),
        Memory2d::Host(first) => (api::MEMORYTYPE_HOST, first.cast(), DevicePtr::from_raw(0)),
    }
}

/// Converts a two-dimensional copy to libcuda's parameters.
pub(super) fn memcpy_2d(copy: &Copy2d) -> Memcpy2d {
    let (source_type, source_host, source_device) = address(copy.source.memory);
    let (target_type, target_host, target_device) = address(copy.target.memory);
    Memcpy2d {
        source_x_bytes: 0,
        source_y: 0,
        source_type,
        source_host,
        source_device,
        source_array: 0,
        source_pitch: copy.source.pitch_bytes,
        target_x_bytes: 0,
        target_y: 0,
        target_type,
        target_host,
        target_device,
        target_array: 0,
        target_pitch: copy.target.pitch_bytes,
        width_bytes: copy.width_bytes,
        height: copy.height,
    }
}

/// Converts a two-dimensional copy between contexts to libcuda's parameters: one plane.
pub(super) fn memcpy_3d_peer(copy: &PeerCopy2d) -> Memcpy3dPeer {
    Memcpy3dPeer {
        source_x_bytes: 0,
        source_y: 0,
        source_z: 0,
        source_lod: 0,
        source_type: api::MEMORYTYPE_DEVICE,
        source_host: ptr::null(),
        source_device: copy.source,
        source_array: 0,
        source_context: copy.source_context,
        source_pitch: copy.source_pitch_bytes,
        source_height: copy.rows,
        target_x_bytes: 0,
        target_y: 0,
        target_z: 0,
        target_lod: 0,
        target_type: api::MEMORYTYPE_DEVICE,
        target_host: ptr::null_mut(),
        target_device: copy.target,
        target_array: 0,
        target_context: copy.target_context,
        target_pitch: copy.target_pitch_bytes,
        target_height: copy.rows,
        width_bytes: copy.row_bytes,
        height: copy.rows,
        depth: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContextHandle, Side2d};

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
