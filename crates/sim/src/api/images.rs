//! Arrays, textures and surfaces: validation, creation and destruction, and copies to arrays.

#![allow(unsafe_code, reason = "relies on promises about host memory")]

use millstream_driver::{
    ArrayDescriptor, ArrayHandle, ContextHandle, Copy2d, Copy3d, Memory3d, ResourceDescriptor,
    ResultCode, StreamHandle, SurfaceHandle, TextureDescriptor, TextureHandle, cuda::api,
};

use super::{
    copy::CopyForm,
    driver::{Result, counted_inside, side},
};
use crate::{
    Gpu, ReportKind,
    core::{
        call_error::{CallError, CallResult},
        gpu::StateGuard,
        objects::image::{Array, ImageObject},
    },
    exec::{Image, component_bytes},
    ids::{Handle, OpId},
    memory::MemoryKind,
};

/// The maximum number of texels of a texture over linear memory.
const LINEAR_MAX: u64 = 1 << 28;
/// The maximum width, height and pitch of a texture over rows of linear memory.
const PITCHED_MAX: [u64; 3] = [131_072, 65_000, 2_097_120];
const TEXTURE_ALIGNMENT: u64 = 512;
const TEXTURE_PITCH_ALIGNMENT: u64 = 32;

/// Returns why texels cannot be of a format.
fn format_problem((format, channels): (i32, u32)) -> Option<String> {
    let known = component_bytes(format).is_some() && [1, 2, 4].contains(&channels);
    (!known).then(|| format!("texels of {channels} components of the format {format}"))
}

/// Returns a texture over linear memory as kernels see it. A fetch outside of the memory fails.
fn linear_image(
    resource: &ResourceDescriptor,
    mode: &TextureDescriptor,
) -> std::result::Result<Image, String> {
    let [base, format, width, height, pitch, ..] = resource.words;
    let format = (format as u32 as i32, (format >> 32) as u32);
    if let Some(problem) = format_problem(format) {
        return Err(problem);
    }
    let mut image = Image {
        base,
        size: [1; 3],
        dimensions: 2,
        layered: false,
        pitch_bytes: pitch,
        format,
        mode: Some(*mode),
    };
    let texel = image.texel_bytes() as u64;
    let (size, max) = if resource.kind == api::RESOURCE_TYPE_LINEAR {
        image.dimensions = 1;
        ([width / texel, 1], [LINEAR_MAX, 1])
    } else {
        ([width, height], [PITCHED_MAX[0], PITCHED_MAX[1]])
    };
    if size.contains(&0) || size[0] > max[0] || size[1] > max[1] {
        return Err(format!(
            "a texture of {size:?} texels over linear memory; the maximum is {max:?}"
        ));
    }
    if !base.is_multiple_of(TEXTURE_ALIGNMENT) {
        return Err(format!(
            "a texture at {base:#x}, no multiple of {TEXTURE_ALIGNMENT}"
        ));
    }
    image.size = [size[0] as u32, size[1] as u32, 1];
    let row = image.row_bytes();
    let fits = (row..=PITCHED_MAX[2]).contains(&pitch);
    if image.dimensions == 2 && !(fits && pitch.is_multiple_of(TEXTURE_PITCH_ALIGNMENT)) {
        return Err(format!(
            "a texture with a pitch of {pitch} bytes: it must be a multiple of \
             {TEXTURE_PITCH_ALIGNMENT} from {row} to {}",
            PITCHED_MAX[2]
        ));
    }
    Ok(image)
}

impl StateGuard<'_> {
    fn bad_image(&mut self, text: impl Into<String>) -> CallError {
        let code = ResultCode::INVALID_VALUE;
        self.violation(ReportKind::BadArgument, code, text.into())
    }

    /// Fails with the reason why a handle is not valid.
    fn bad_handle<H: Handle>(&mut self, handle: H) -> CallError {
        let (kind, text) = self.handles.explain(handle);
        self.violation(kind, ResultCode::INVALID_HANDLE, text)
    }

    fn array(&mut self, array: ArrayHandle) -> CallResult<Array> {
        if array.as_raw() == 0 {
            return Err(self.bad_image("a null pointer for an array"));
        }
        let found = self.images.arrays.get(&array).copied();
        found.ok_or_else(|| self.bad_handle(array))
    }

    pub(crate) fn array_create(
        &mut self,
        context: ContextHandle,
        shape: &ArrayDescriptor,
    ) -> CallResult<ArrayHandle> {
        let device = self.context(context)?;
        let format = || format_problem((shape.format, shape.channels));
        if let Some(problem) = shape.problem().or_else(format) {
            return Err(self.bad_image(problem));
        }
        let mut array = Array::new(context, shape);
        let [_, height, depth] = array.image.size.map(u64::from);
        // The maximum sizes exclude an overflow.
        let bytes = (array.image.pitch_bytes * height * depth) as usize;
        let base = self.allocate_non_pool(MemoryKind::Device, context, device, bytes)?;
        let call = self.call;
        self.memory.set_origin(base, call);
        self.fence(context);
        array.image.base = base;
        let handle = self.handles.next();
        self.images.arrays.insert(handle, array);
        Ok(handle)
    }

    pub(crate) fn array_destroy(
        &mut self,
        context: ContextHandle,
        array: ArrayHandle,
    ) -> CallResult<()> {
        self.check_context(context)?;
        let base = self.array(array)?.image.base;
        self.images.arrays.remove(&array);
        self.wait_for_devices();
        self.end_allocation(base, None);
        self.synchronised(context)
    }

    /// Returns the array of a resource.
    fn array_of(&mut self, resource: &ResourceDescriptor) -> CallResult<Array> {
        if resource.kind != api::RESOURCE_TYPE_ARRAY {
            return Err(self.bad_image("a surface of something else than an array"));
        }
        self.array(ArrayHandle::from_raw(resource.words[0] as usize))
    }

    pub(crate) fn texture_create(
        &mut self,
        context: ContextHandle,
        resource: &ResourceDescriptor,
        mode: &TextureDescriptor,
    ) -> CallResult<TextureHandle> {
        self.context(context)?;
        let image = if resource.kind == api::RESOURCE_TYPE_ARRAY {
            Image {
                mode: Some(*mode),
                ..self.array_of(resource)?.image
            }
        } else {
            linear_image(resource, mode).map_err(|problem| self.bad_image(problem))?
        };
        let texture: TextureHandle = self.handles.next();
        self.add_image(texture.as_raw(), context, resource, image);
        Ok(texture)
    }

    pub(crate) fn surface_create(
        &mut self,
        context: ContextHandle,
        resource: &ResourceDescriptor,
    ) -> CallResult<SurfaceHandle> {
        self.context(context)?;
        let array = self.array_of(resource)?;
        if array.shape.flags & api::ARRAY3D_SURFACE_LDST == 0 {
            return Err(self.bad_image("a surface of an array without the flag for surfaces"));
        }
        let surface: SurfaceHandle = self.handles.next();
        self.add_image(surface.as_raw(), context, resource, array.image);
        Ok(surface)
    }

    fn add_image(
        &mut self,
        handle: u64,
        context: ContextHandle,
        resource: &ResourceDescriptor,
        image: Image,
    ) {
        let resource = *resource;
        let object = ImageObject {
            context,
            resource,
            image,
        };
        self.images.objects.insert(handle, object);
    }

    fn remove_image<H: Handle>(&mut self, context: ContextHandle, handle: H) -> CallResult<()> {
        self.check_context(context)?;
        let oldest = self.ops.keys().next().copied();
        let end = OpId(self.ops_enqueued);
        let gone = self.images.remove(handle.number() as u64, oldest, end);
        gone.ok_or_else(|| self.bad_handle(handle))
    }

    pub(crate) fn texture_destroy(
        &mut self,
        context: ContextHandle,
        texture: TextureHandle,
    ) -> CallResult<()> {
        self.remove_image(context, texture)
    }

    pub(crate) fn surface_destroy(
        &mut self,
        context: ContextHandle,
        surface: SurfaceHandle,
    ) -> CallResult<()> {
        self.remove_image(context, surface)
    }

    /// Returns the copies of rows that a copy consists of, if it stays within its arrays.
    fn copies(&mut self, copy: &Copy3d) -> CallResult<Vec<Copy2d>> {
        for side in [&copy.source, &copy.target] {
            let Memory3d::Array(array) = side.memory else {
                continue;
            };
            let image = self.array(array)?.image;
            let whole = [
                image.row_bytes(),
                image.size[1].into(),
                image.size[2].into(),
            ];
            let ends = side.origin.iter().zip(copy.size).zip(whole);
            let inside = ends
                .map(|((start, size), whole)| (start.checked_add(size), whole))
                .all(|(end, whole)| end.is_some_and(|end| end as u64 <= whole));
            if !inside {
                return Err(self.bad_image(format!(
                    "a copy of {:?} (bytes, rows, layers) at {:?} of an array of {whole:?}",
                    copy.size, side.origin
                )));
            }
        }
        let arrays = &self.images.arrays;
        let copies = copy.copies(|array| arrays.get(&array).map(Array::linear));
        copies.ok_or_else(|| {
            self.bad_image("a copy whose layers overlap, or leave the address space")
        })
    }
}

impl Gpu {
    /// Copies a box like [`copy_3d_async`](millstream_driver::Driver::copy_3d_async), but blocks
    /// the host as a synchronous copy of the same direction (`cuMemcpy3D`).
    ///
    /// # Errors
    ///
    /// As `copy_3d_async`.
    ///
    /// # Safety
    ///
    /// As `copy_3d_async`.
    pub unsafe fn copy_3d_synchronous(
        &self,
        context: ContextHandle,
        copy: &Copy3d,
        stream: StreamHandle,
    ) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.copy_box("cuMemcpy3D", context, copy, stream, CopyForm::Synchronous) }
    }

    /// Enqueues the copies of rows that a box consists of.
    ///
    /// # Safety
    ///
    /// As `copy_3d_async`.
    pub(super) unsafe fn copy_box(
        &self,
        name: &'static str,
        context: ContextHandle,
        copy: &Copy3d,
        stream: StreamHandle,
        form: CopyForm,
    ) -> Result<()> {
        self.call(name, counted_inside, |state| {
            for rows in state.copies(copy)? {
                // SAFETY: the caller promises rows that are writable, with exclusive access for the
                // copy, until the copy is complete.
                let target = unsafe { side(&rows.target, &rows) };
                // SAFETY: the caller promises rows that are readable until the copy is complete.
                let source = unsafe { side(&rows.source, &rows) };
                state.copy_2d(context, (target, source), &rows, stream, form)?;
            }
            Ok(())
        })
    }

    /// Returns the shape of an array; `None` for a handle that is not alive.
    #[must_use]
    pub fn array_shape(&self, array: ArrayHandle) -> Option<ArrayDescriptor> {
        let state = self.enter();
        state.images.arrays.get(&array).map(|found| found.shape)
    }

    /// Returns the memory of a texture or a surface, and the mode of a texture; `None` for a handle
    /// that is not alive.
    #[must_use]
    pub fn image_details(
        &self,
        handle: u64,
    ) -> Option<(ResourceDescriptor, Option<TextureDescriptor>)> {
        let state = self.enter();
        let object = state.images.objects.get(&handle)?;
        Some((object.resource, object.image.mode))
    }
}
