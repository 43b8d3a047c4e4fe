//! The creation of textures, and copies to and from them.

#![allow(unsafe_code, reason = "allocates the target of a copy")]

use std::{marker::PhantomData, panic::Location};

use bytemuck::Pod;
use millstream_driver::{Copy3d, Memory3d, Side3d};

use super::same_length;
use crate::{
    Pending, ReadOperand, Result, Stream, Texture, UsageError, UsageErrorKind,
    array::{CopyOperand, CopySource, Span, Texel, TextureOptions},
    context::{AtCaller, CopyBox},
    error::OperationKind,
    memory::Allocation,
    tracker::AccessKind,
};

/// The name of the creation in errors and reports.
const TEXTURE: &str = "texture";

impl Stream {
    #[doc = include_str!("texture.md")]
    #[track_caller]
    #[doc(alias("cudaMallocArray", "cudaMalloc3DArray", "cudaCreateTextureObject"))]
    pub fn texture<T: Texel>(
        &self,
        options: TextureOptions,
        source: impl ReadOperand<T>,
    ) -> Result<Texture<T>> {
        let location = Location::caller();
        let made = self.texture_of(options, &source, location);
        made.at_caller(TEXTURE, location)
    }

    fn texture_of<T: Texel>(
        &self,
        options: TextureOptions,
        source: &impl ReadOperand<T>,
        location: &'static Location<'static>,
    ) -> Result<Texture<T>> {
        let (device, texels) = (self.device_state(), options.texels());
        let key = options.key::<T>();
        let key = key.map_err(|problem| UsageError::new(TEXTURE, problem))?;
        same_length(TEXTURE, source.len(), texels)?;
        let source = source.operand();
        self.same_device(TEXTURE, 0, &source.0.allocation.device)?;
        device.refuse_recording(
            self.state(),
            TEXTURE,
            "create it before, on an ordinary stream",
        )?;
        let _name = device.named(TEXTURE, location);
        let texture = Texture {
            allocation: Allocation::array(device, &key, texels * size_of::<T>())?,
            options,
            element: PhantomData,
        };
        let source = CopyOperand::Device(source);
        self.copy_operands(&source, &texture.source(), size_of::<T>(), location)?;
        Ok(texture)
    }

    /// Downloads the texels of a texture, like [`download`](Self::download).
    ///
    /// # Errors
    ///
    /// If the texture is on another device, the stream is recording, or the device is lost.
    #[track_caller]
    pub fn download_texture<T: Pod>(&self, source: &Texture<T>) -> Result<Pending<Vec<T>>> {
        // SAFETY: the copy writes all of it before the download.
        let mut target = unsafe { self.uninit::<T>(source.options.texels()) }?;
        self.copy(source, &mut target)?;
        self.download(&target)
    }

    /// Copies between a texture and an array or a texture of the same length.
    pub(super) fn copy_texels(
        &self,
        from: &CopyOperand<'_>,
        to: &CopyOperand<'_>,
        location: &'static Location<'static>,
    ) -> Result<()> {
        let (
            CopyOperand::Device(from) | CopyOperand::Texture(from),
            CopyOperand::Device(to) | CopyOperand::Texture(to),
        ) = (from, to)
        else {
            let operand = usize::from(matches!(to, CopyOperand::Pinned(_)));
            return Err(UsageError::new("copy", UsageErrorKind::OnHost { operand }).into());
        };
        let (from, to) = (&from.0, &to.0);
        self.same_device("copy", 0, &from.allocation.device)?;
        self.same_device("copy", 1, &to.allocation.device)?;
        let shape = |span: &Span<'_>| span.allocation.as_array().map(|array| array.key.0);
        let shape = match (shape(from), shape(to)) {
            (Some(from), Some(to)) if from != to => {
                let detail = "the two textures differ in size".into();
                return Err(UsageError::new("copy", UsageErrorKind::Unsupported { detail }).into());
            }
            (shape, other) => shape.or(other).expect("one operand is a texture"),
        };
        let (height, depth) = (shape.height.max(1), shape.depth.max(1));
        let side = |span: &Span<'_>| Side3d {
            memory: match span.allocation.as_array() {
                Some(array) => Memory3d::Array(array.array),
                None => Memory3d::Device(span.pointer()),
            },
            origin: [0; 3],
            pitch_bytes: from.bytes.len() / (height * depth),
            height,
        };
        let (source, target) = (side(from), side(to));
        let size = [source.pitch_bytes, height, depth];
        let copy = &Copy3d {
            source,
            target,
            size,
        };
        let accesses = [from.access(AccessKind::Read), to.access(AccessKind::Write)].into();
        let (kind, bytes) = (OperationKind::DeviceToDevice, from.bytes.len());
        self.submit_copy(kind, bytes, accesses, None, location, CopyBox { copy })
    }
}
