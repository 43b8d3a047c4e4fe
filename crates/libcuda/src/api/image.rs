//! Arrays, textures and surfaces. Cube maps, mipmaps and sparse arrays are refused by name.

use std::ffi::c_void;

use millstream_driver::{
    ArrayDescriptor, ArrayHandle, ResourceDescriptor, ResultCode, SurfaceHandle, TextureDescriptor,
    TextureHandle, cuda::api,
};

use crate::{
    abi::{Address, Copy3dFields, Device, FlatArrayFields, Handle, In, Out, Side3dFields},
    api::copy_3d::{self, memory_type},
    call::Call,
    codes::{Answer, refuse_if},
    export::exports,
    process,
};

/// The flags of arrays that are supported.
const ARRAY_FLAGS: u32 =
    api::ARRAY3D_LAYERED | api::ARRAY3D_SURFACE_LDST | api::ARRAY3D_TEXTURE_GATHER;
/// The flags of arrays that are not supported, with their names.
const REFUSED: [(u32, &str); 3] = [
    (4, "cube maps are"),
    (0x10, "depth textures are"),
    (0x40, "sparse arrays are"),
];
/// The flags of textures: those beside the first two concern mipmaps.
const TEXTURE_FLAGS: u32 = 0x33;
/// `CU_TRSF_SRGB`
const SRGB: u32 = 0x10;
/// `CU_RESOURCE_TYPE_MIPMAPPED_ARRAY`
const MIPMAPPED: i32 = 1;

/// Refuses something by name, which is said once.
fn refuse<T>(call: &Call, what: &str) -> Answer<T> {
    let text = format!(
        "{}: {what} not supported by the simulated device",
        call.name
    );
    process::say_notes(&[text]);
    Err(ResultCode::NOT_SUPPORTED)
}

fn create(call: &Call, array: Out<Handle>, shape: &ArrayDescriptor) -> Answer {
    array.check()?;
    let context = call.context()?;
    for (flag, what) in REFUSED {
        if shape.flags & flag != 0 {
            return refuse(call, what);
        }
    }
    refuse_if(shape.flags & !ARRAY_FLAGS != 0, ResultCode::INVALID_VALUE)?;
    array.set(call.process()?.array_create(context, shape)?.as_raw())
}

fn shape(call: &Call, array: Handle) -> Answer<ArrayDescriptor> {
    let shape = call
        .process()?
        .gpu
        .array_shape(ArrayHandle::from_raw(array));
    shape.ok_or_else(|| call.wrong_handle("array", array))
}

fn resource(call: &Call, resource: In<ResourceDescriptor>) -> Answer<ResourceDescriptor> {
    let resource = resource.get()?;
    refuse_if(resource.flags != 0, ResultCode::INVALID_VALUE)?;
    match resource.kind {
        MIPMAPPED => refuse(call, "mipmaps are"),
        api::RESOURCE_TYPE_ARRAY..=api::RESOURCE_TYPE_PITCH2D => Ok(resource),
        _ => Err(ResultCode::INVALID_VALUE),
    }
}

fn mode(call: &Call, mode: In<TextureDescriptor>) -> Answer<TextureDescriptor> {
    let mode = mode.get()?;
    let known = mode.address.iter().all(|mode| (0..4).contains(mode));
    let filters = [mode.filter, mode.mipmap[0]];
    let known = known && filters.iter().all(|filter| (0..2).contains(filter));
    let known = known && mode.flags & !TEXTURE_FLAGS == 0;
    refuse_if(!known, ResultCode::INVALID_VALUE)?;
    if mode.flags & SRGB != 0 {
        return refuse(call, "sRGB textures are");
    }
    Ok(mode)
}

type Details = (ResourceDescriptor, Option<TextureDescriptor>);

fn details(call: &Call, handle: u64) -> Answer<Details> {
    let found = call.process()?.gpu.image_details(handle);
    found.ok_or(ResultCode::INVALID_VALUE)
}

/// Copies bytes of a row from or to an array.
fn copy(call: &Call, sides: [Side3dFields; 2], bytes: usize, stream: Option<Handle>) -> Answer {
    let [target, source] = sides;
    let (width_bytes, height, depth) = (bytes, 1, 1);
    let fields = Copy3dFields {
        source,
        target,
        width_bytes,
        height,
        depth,
    };
    let place = match stream {
        Some(stream) => call.stream(stream)?,
        None => (call.context()?, call.default_stream),
    };
    copy_3d::copy(call, &fields, place, stream.is_some())
}

fn host(host: *mut u8) -> Side3dFields {
    Side3dFields {
        memory_type: memory_type::HOST,
        host,
        ..Side3dFields::NONE
    }
}

fn device(device: Address) -> Side3dFields {
    Side3dFields {
        memory_type: memory_type::DEVICE,
        device,
        ..Side3dFields::NONE
    }
}

fn array(array: Handle, x_bytes: usize) -> Side3dFields {
    Side3dFields {
        memory_type: memory_type::ARRAY,
        array,
        x_bytes,
        ..Side3dFields::NONE
    }
}

exports! {
    [cuArrayCreate_v2]
    fn _(call, array: Out<Handle>, fields: In<FlatArrayFields>) {
        let FlatArrayFields { width, height, format, channels } = fields.get()?;
        let flat = ArrayDescriptor { width, height, format, channels, ..Default::default() };
        create(call, array, &flat)
    }

    [cuArray3DCreate_v2]
    fn _(call, array: Out<Handle>, shape: In<ArrayDescriptor>) {
        create(call, array, &shape.get()?)
    }

    [cuArrayGetDescriptor_v2]
    fn _(call, fields: Out<FlatArrayFields>, array: Handle) {
        let ArrayDescriptor { width, height, format, channels, .. } = shape(call, array)?;
        fields.set(FlatArrayFields { width, height, format, channels })
    }

    [cuArray3DGetDescriptor_v2]
    fn _(call, fields: Out<ArrayDescriptor>, array: Handle) {
        fields.set(shape(call, array)?)
    }

    [cuArrayDestroy]
    fn _(call, array: Handle) {
        let context = call.context()?;
        call.process()?.array_destroy(context, ArrayHandle::from_raw(array))
    }

    [cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds per_thread]
    fn _(call, target: Handle, offset: usize, source: *mut u8, bytes: usize) {
        copy(call, [array(target, offset), host(source)], bytes, None)
    }

    [cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz per_thread]
    fn _(call, target: Handle, offset: usize, source: *mut u8, bytes: usize, stream: Handle) {
        copy(call, [array(target, offset), host(source)], bytes, Some(stream))
    }

    [cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds per_thread]
    fn _(call, target: *mut u8, source: Handle, offset: usize, bytes: usize) {
        copy(call, [host(target), array(source, offset)], bytes, None)
    }

    [cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz per_thread]
    fn _(call, target: *mut u8, source: Handle, offset: usize, bytes: usize, stream: Handle) {
        copy(call, [host(target), array(source, offset)], bytes, Some(stream))
    }

    [cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds per_thread]
    fn _(call, target: Handle, offset: usize, source: Address, bytes: usize) {
        copy(call, [array(target, offset), device(source)], bytes, None)
    }

    [cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds per_thread]
    fn _(call, target: Address, source: Handle, offset: usize, bytes: usize) {
        copy(call, [device(target), array(source, offset)], bytes, None)
    }

    [cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds per_thread]
    fn _(call, target: Handle, to: usize, source: Handle, from: usize, bytes: usize) {
        copy(call, [array(target, to), array(source, from)], bytes, None)
    }

    [cuTexObjectCreate]
    fn _(
        call, texture: Out<u64>, memory: In<ResourceDescriptor>, given: In<TextureDescriptor>,
        view: In<c_void>
    ) {
        texture.check()?;
        let (context, resource) = (call.context()?, resource(call, memory)?);
        let mode = mode(call, given)?;
        if !view.is_null() {
            return refuse(call, "views of resources are");
        }
        texture.set(call.process()?.texture_create(context, &resource, &mode)?.as_raw())
    }

    [cuTexObjectDestroy]
    fn _(call, texture: u64) {
        let context = call.context()?;
        if texture == 0 {
            return Ok(());
        }
        call.process()?.texture_destroy(context, TextureHandle::from_raw(texture))
    }

    [cuTexObjectGetResourceDesc]
    fn resource_of(call, resource: Out<ResourceDescriptor>, object: u64) {
        resource.set(details(call, object)?.0)
    }

    [cuTexObjectGetTextureDesc]
    fn _(call, mode: Out<TextureDescriptor>, texture: u64) {
        mode.set(details(call, texture)?.1.ok_or(ResultCode::INVALID_VALUE)?)
    }

    /// No texture has a view.
    [cuTexObjectGetResourceViewDesc]
    fn _(call, _view: Out<c_void>, texture: u64) {
        details(call, texture)?;
        Err(ResultCode::INVALID_VALUE)
    }

    [cuSurfObjectCreate]
    fn _(call, surface: Out<u64>, memory: In<ResourceDescriptor>) {
        surface.check()?;
        let (context, resource) = (call.context()?, resource(call, memory)?);
        surface.set(call.process()?.surface_create(context, &resource)?.as_raw())
    }

    [cuSurfObjectDestroy]
    fn _(call, surface: u64) {
        let context = call.context()?;
        if surface == 0 {
            return Ok(());
        }
        call.process()?.surface_destroy(context, SurfaceHandle::from_raw(surface))
    }

    [cuSurfObjectGetResourceDesc]
    fn _(call, resource: Out<ResourceDescriptor>, surface: u64) {
        resource_of(call, resource, surface)
    }

    [cuDeviceGetTexture1DLinearMaxWidth]
    fn _(call, width: Out<usize>, _format: i32, _channels: u32, device: Device) {
        call.device(device)?;
        width.set(1 << 28)
    }
}
