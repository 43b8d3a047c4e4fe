//! The steps that create arrays and move data.

use std::sync::Arc;

use bytemuck::Pod;
use bytes::Bytes;
use millstream::{
    Buffer, Error, Pinned, Rejected, Result, Stream,
    array::{Advice, TextureOptions, View2d, View2dMut},
};

use super::{
    elem::{Elem, content, typed},
    host::{AnyPending, pending_bytes},
    interpreter::{Array, Interpreter, part, part_mut},
    outcome::{Answer, Outcome, Stop},
    step::{Made, On, Owner, Pages, Part, Rect},
};

fn elements<T: Pod>(value: u32, len: usize) -> Vec<T> {
    let mut elements = vec![T::zeroed(); len];
    let bytes = content(value, len * size_of::<T>());
    bytemuck::cast_slice_mut(&mut elements).copy_from_slice(&bytes);
    elements
}

fn element<T: Pod>(value: u32) -> T {
    elements(value, 1)[0]
}

pub(super) fn bytes_of<T: Pod>(elements: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(elements).to_vec()
}

/// Converts a rejection into a stop that also logs the source that the error returned.
fn rejected<S>(rejected: Rejected<S>, bytes: impl FnOnce(S) -> Vec<u8>) -> Stop {
    Stop {
        outcome: Outcome::Failed(rejected.error),
        seen: Some(bytes(rejected.source)),
    }
}

fn upload_owned<T: Pod + Send + Sync>(
    stream: &Stream,
    owner: Owner,
    source: Vec<T>,
) -> Result<Buffer<T>, Stop> {
    match owner {
        Owner::Vec | Owner::Bytes => stream
            .upload_owned(source)
            .map_err(|error| rejected(error, |source| bytes_of(&source[..]))),
        Owner::Box => stream
            .upload_owned(source.into_boxed_slice())
            .map_err(|error| rejected(error, |source| bytes_of(&source[..]))),
        Owner::Arc => stream
            .upload_owned(Arc::<[T]>::from(source))
            .map_err(|error| rejected(error, |source| bytes_of(&source[..]))),
        Owner::ArcVec => stream
            .upload_owned(Arc::new(source))
            .map_err(|error| rejected(error, |source| bytes_of(&source[..]))),
    }
}

/// Uploads an owned source into a target of bytes; evaluates to the pending value that returns the
/// source.
macro_rules! owned_into {
    ($stream:expr, $target:expr, $source:expr) => {{
        match $stream.upload_owned_into($source, $target) {
            Ok(pending) => pending_bytes(pending, |source| bytes_of(&source[..])),
            Err(error) => return Err(rejected(error, |source| bytes_of(&source[..]))),
        }
    }};
}

fn zeros_of<T: Pod>(stream: &Stream, len: usize) -> Result<Buffer<u8>, Stop> {
    Ok(stream.zeros::<T>(len)?.cast::<u8>()?)
}

/// Returns a read view of a rectangle of a device array; pinned arrays are skipped.
fn rect<T: Pod>(array: &Array, rect: Rect) -> Result<View2d<'_, T>, Stop> {
    let len = |bytes: usize| bytes / size_of::<T>() * size_of::<T>();
    let whole = match array {
        Array::Buffer(buffer) => buffer.slice(..len(buffer.len())),
        Array::Managed(managed) => managed.slice(..len(managed.len())),
        Array::Pinned(_) => return Err(Stop::SKIP),
    };
    let whole = whole.cast::<T>()?;
    let rows = whole.len() / rect.pitch;
    let table = whole.view_2d_pitched(rows, rect.pitch, rect.pitch)?;
    let [row, col] = rect.first;
    Ok(table.rect(row..row + rect.size[0], col..col + rect.size[1])?)
}

/// Returns a mutable view of a rectangle of a device array; pinned arrays are skipped.
fn rect_mut<T: Pod>(array: &mut Array, rect: Rect) -> Result<View2dMut<'_, T>, Stop> {
    let len = |bytes: usize| bytes / size_of::<T>() * size_of::<T>();
    let whole = match array {
        Array::Buffer(buffer) => {
            let len = len(buffer.len());
            buffer.slice_mut(..len)
        }
        Array::Managed(managed) => {
            let len = len(managed.len());
            managed.slice_mut(..len)
        }
        Array::Pinned(_) => return Err(Stop::SKIP),
    };
    let whole = whole.cast::<T>()?;
    let rows = whole.len() / rect.pitch;
    let table = whole.view_2d_pitched_mut(rows, rect.pitch, rect.pitch)?;
    within(table, rect)
}

fn within<T>(table: View2dMut<'_, T>, rect: Rect) -> Result<View2dMut<'_, T>, Stop> {
    let [row, col] = rect.first;
    Ok(table.rect_mut(row..row + rect.size[0], col..col + rect.size[1])?)
}

fn pinned_rect(pinned: &Pinned<u8>, rect: Rect) -> Result<View2d<'_, u8>, Stop> {
    let [row, col] = rect.first;
    let table = pinned.view_2d_pitched(pinned.len() / rect.pitch, rect.pitch, rect.pitch)?;
    Ok(table.rect(row..row + rect.size[0], col..col + rect.size[1])?)
}

fn pinned_rect_mut(pinned: &mut Pinned<u8>, rect: Rect) -> Result<View2dMut<'_, u8>, Stop> {
    let rows = pinned.len() / rect.pitch;
    within(
        pinned.view_2d_pitched_mut(rows, rect.pitch, rect.pitch)?,
        rect,
    )
}

impl Interpreter<'_> {
    pub(super) fn make(&mut self, at: usize, on: On, len: usize, made: Made) -> Answer {
        let elem = on.elem;
        let (device, stream) = self.stream(on.stream)?;
        let buffer = match made {
            Made::Zeros => typed!(elem, T => zeros_of::<T>(&stream, len)?),
            Made::Upload(value) => {
                typed!(elem, T => stream.upload(&elements::<T>(value, len))?.cast::<u8>()?)
            }
            Made::Owned(Owner::Bytes, value) => {
                let source = Bytes::from(content(value, len * elem.bytes()));
                stream
                    .upload_owned(source)
                    .map_err(|error| rejected(error, |source| source.to_vec()))?
            }
            Made::Owned(owner, value) => {
                typed!(elem, T => {
                    upload_owned(&stream, owner, elements::<T>(value, len))?.cast::<u8>()?
                })
            }
        };
        self.arrays[at] = Some((device, Array::Buffer(buffer)));
        Ok(None)
    }

    pub(super) fn make_pinned(
        &mut self,
        array: usize,
        device: usize,
        len: usize,
        pages: Pages,
    ) -> Answer {
        let on = &self.devices[device];
        let made = match pages {
            Pages::Zeros => on.pinned(len)?,
            Pages::Captured(value) => on.pinned_from(&content(value, len))?,
            Pages::Registered(value) => Pinned::register(on, content(value, len))
                .map_err(|error| rejected(error, |source| source))?,
        };
        self.arrays[array] = Some((device, Array::Pinned(made)));
        Ok(None)
    }

    pub(super) fn take_vec(&mut self, array: usize) -> Answer {
        if !self.array(array)?.is_pinned() {
            return Err(Stop::SKIP);
        }
        match self.arrays[array].take() {
            Some((_, Array::Pinned(pinned))) => Ok(Some(pinned.into_vec()?)),
            _ => unreachable!("it is pinned"),
        }
    }

    pub(super) fn fill(&mut self, on: On, to: Part, value: u32) -> Answer {
        let (_, stream) = self.stream(on.stream)?;
        self.with(to.array, |_, array| {
            let target = part_mut(array, to, on.elem)?;
            typed!(on.elem, T => stream.fill(target.cast::<T>()?, element::<T>(value))?);
            Ok(None)
        })
    }

    pub(super) fn upload_into(&mut self, on: On, to: Part, value: u32) -> Answer {
        let (_, stream) = self.stream(on.stream)?;
        self.with(to.array, |_, array| {
            let target = part_mut(array, to, on.elem)?;
            typed!(on.elem, T => {
                let mut source = elements::<T>(value, to.len);
                stream.upload_into(&source, target.cast::<T>()?)?;
                // The upload has captured the source, so overwriting it must have no effect.
                source.fill(element::<T>(value + 1));
            });
            Ok(None)
        })
    }

    pub(super) fn owned_into(
        &mut self,
        on: On,
        to: Part,
        (owner, value): (Owner, u32),
        back: usize,
    ) -> Answer {
        let (_, stream) = self.stream(on.stream)?;
        self.with(to.array, |interpreter, array| {
            let target = part_mut(array, to, on.elem)?;
            let pending: Box<dyn AnyPending> = match owner {
                Owner::Bytes => {
                    let source = Bytes::from(content(value, to.len * on.elem.bytes()));
                    owned_into!(stream, target, source)
                }
                Owner::Vec => typed!(on.elem, T => {
                    owned_into!(stream, target.cast::<T>()?, elements::<T>(value, to.len))
                }),
                Owner::Box => typed!(on.elem, T => {
                    let source = elements::<T>(value, to.len).into_boxed_slice();
                    owned_into!(stream, target.cast::<T>()?, source)
                }),
                Owner::Arc => typed!(on.elem, T => {
                    let source = Arc::<[T]>::from(elements::<T>(value, to.len));
                    owned_into!(stream, target.cast::<T>()?, source)
                }),
                Owner::ArcVec => typed!(on.elem, T => {
                    let source = Arc::new(elements::<T>(value, to.len));
                    owned_into!(stream, target.cast::<T>()?, source)
                }),
            };
            interpreter.pendings[back] = Some(pending);
            Ok(None)
        })
    }

    pub(super) fn copy(&mut self, on: On, from: Part, to: Part) -> Answer {
        let (_, stream) = self.stream(on.stream)?;
        self.with(to.array, |interpreter, target| {
            copy(
                &stream,
                on.elem,
                (interpreter.array(from.array)?, from),
                (target, to),
            )
        })
    }

    pub(super) fn copy_within(&mut self, on: On, from: Part, start: usize) -> Answer {
        let (_, stream) = self.stream(on.stream)?;
        self.with(from.array, |_, array| {
            let bytes = match array {
                Array::Buffer(buffer) => buffer.len(),
                Array::Managed(managed) => managed.len(),
                Array::Pinned(_) => return Err(Stop::SKIP),
            };
            let whole = Part {
                first: 0,
                len: bytes / on.elem.bytes(),
                ..from
            };
            let target = part_mut(array, whole, on.elem)?;
            let range = from.first..from.first + from.len;
            typed!(on.elem, T => stream.copy_within(target.cast::<T>()?, range, start)?);
            Ok(None)
        })
    }

    pub(super) fn fill_rows(&mut self, on: On, to: Rect, value: u32) -> Answer {
        let (_, stream) = self.stream(on.stream)?;
        self.with(to.array, |_, array| {
            match array {
                Array::Pinned(pinned) => {
                    stream.fill_2d(pinned_rect_mut(pinned, to)?, element::<u8>(value))?;
                }
                array => typed!(on.elem, T => {
                    stream.fill_2d(rect_mut::<T>(array, to)?, element::<T>(value))?;
                }),
            }
            Ok(None)
        })
    }

    pub(super) fn upload_rows(&mut self, on: On, to: Rect, gap: usize, value: u32) -> Answer {
        let (_, stream) = self.stream(on.stream)?;
        let pitch = to.size[1] + gap;
        self.with(to.array, |_, array| {
            typed!(on.elem, T => {
                let source = elements::<T>(value, to.size[0] * pitch);
                stream.upload_2d(&source, pitch, rect_mut::<T>(array, to)?)?;
            });
            Ok(None)
        })
    }

    pub(super) fn copy_rows(&mut self, on: On, from: Rect, to: Rect) -> Answer {
        let (_, stream) = self.stream(on.stream)?;
        self.with(to.array, |interpreter, target| {
            match (interpreter.array(from.array)?, target) {
                (Array::Pinned(source), Array::Pinned(target)) => {
                    stream.copy_2d(pinned_rect(source, from)?, pinned_rect_mut(target, to)?)?;
                }
                (Array::Pinned(source), target) => {
                    stream.copy_2d(pinned_rect(source, from)?, rect_mut::<u8>(target, to)?)?;
                }
                (source, Array::Pinned(target)) => {
                    stream.copy_2d(rect::<u8>(source, from)?, pinned_rect_mut(target, to)?)?;
                }
                (source, target) => typed!(on.elem, T => {
                    stream.copy_2d(rect::<T>(source, from)?, rect_mut::<T>(target, to)?)?;
                }),
            }
            Ok(None)
        })
    }

    pub(super) fn download_rows(&mut self, on: On, from: Rect, pending: usize) -> Answer {
        let (_, stream) = self.stream(on.stream)?;
        let array = self.array(from.array)?;
        let brings = typed!(on.elem, T => {
            pending_bytes(stream.download_2d(rect::<T>(array, from)?)?, |value| bytes_of(&value))
        });
        self.pendings[pending] = Some(brings);
        Ok(None)
    }

    pub(super) fn download(&mut self, on: On, from: Part, pending: usize) -> Answer {
        let (_, stream) = self.stream(on.stream)?;
        let source = part(self.array(from.array)?, from, on.elem)?;
        let brings = typed!(on.elem, T => {
            pending_bytes(stream.download(source.cast::<T>()?)?, |value| bytes_of(&value))
        });
        self.pendings[pending] = Some(brings);
        Ok(None)
    }

    pub(super) fn prefetch(&mut self, stream: usize, from: Part, to_host: bool) -> Answer {
        let (_, stream) = self.stream(stream)?;
        let source = part(self.array(from.array)?, from, Elem::U8)?;
        if to_host {
            stream.prefetch_to_host(source)?;
        } else {
            stream.prefetch(source)?;
        }
        Ok(None)
    }

    pub(super) fn advise(&mut self, array: usize, advice: u8) -> Answer {
        let Array::Managed(managed) = self.array(array)? else {
            return Err(Stop::SKIP);
        };
        let advices = [
            Advice::ReadMostly(true),
            Advice::ReadMostly(false),
            Advice::PreferDevice,
            Advice::PreferHost,
            Advice::PreferNothing,
            Advice::AccessedByDevice(true),
            Advice::AccessedByHost(true),
        ];
        managed.advise(advices[usize::from(advice) % advices.len()])?;
        Ok(None)
    }
}

fn bytes_of_part(part: Part, elem: Elem) -> std::ops::Range<usize> {
    part.first * elem.bytes()..(part.first + part.len) * elem.bytes()
}

/// Copies between arrays of any two kinds.
pub(super) fn copy(
    stream: &Stream,
    elem: Elem,
    (source, from): (&Array, Part),
    (target, to): (&mut Array, Part),
) -> Answer {
    // Now and then by way of a texture, if the stream and both arrays are of one device.
    if from.len % 4 == 1 && through_texture(stream, elem, (source, from), (&mut *target, to)) {
        return Ok(None);
    }
    match (source, target) {
        (Array::Pinned(source), Array::Pinned(target)) => {
            let source = source.try_slice(bytes_of_part(from, elem))?;
            stream.copy(source, target.try_slice_mut(bytes_of_part(to, elem))?)?;
        }
        (Array::Pinned(source), target) => {
            let source = source.try_slice(bytes_of_part(from, elem))?;
            stream.copy(source, part_mut(target, to, elem)?)?;
        }
        (source, Array::Pinned(target)) => {
            let target = target.try_slice_mut(bytes_of_part(to, elem))?;
            stream.copy(part(source, from, elem)?, target)?;
        }
        (source, target) => typed!(elem, T => {
            let source = part(source, from, elem)?.cast::<T>()?;
            stream.copy(source, part_mut(target, to, elem)?.cast::<T>()?)?;
        }),
    }
    Ok(None)
}

/// Makes a usage error without allocating: the array has more bytes than the address space.
pub(super) fn mistake(stream_device: &millstream::Device) -> Error {
    match stream_device.pinned::<u64>(usize::MAX) {
        Err(error) => error,
        Ok(_) => unreachable!("it is larger than the address space"),
    }
}

/// Copies by way of a texture of bytes. Returns `false`, and changes nothing, if that is refused.
fn through_texture(
    stream: &Stream,
    elem: Elem,
    (source, from): (&Array, Part),
    (target, to): (&mut Array, Part),
) -> bool {
    let (Ok(source), Ok(target)) = (part(source, from, elem), part_mut(target, to, elem)) else {
        return false;
    };
    let size = [source.len(), 0, 0];
    let options = TextureOptions {
        size,
        ..TextureOptions::default()
    };
    let texture = stream.texture(options, source);
    texture.is_ok_and(|texture| stream.copy(&texture, target).is_ok())
}
