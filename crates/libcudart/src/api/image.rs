//! Arrays, textures and surfaces.

#![allow(unsafe_code, reason = "exports a function that returns a structure")]

use crate::{
    abi::{DriverBox3, DriverSide, Extent, Ptr, Stream},
    api::copy::{ARRAY, enqueue_box, memory_types},
    call::Call,
    codes::{Answer, INVALID_CHANNEL_DESCRIPTOR, INVALID_FILTER_SETTING, refuse_if},
    driver::cu,
    export::exports,
};

/// `cudaChannelFormatDesc`: the bits of each component, and its kind: signed, unsigned, or float.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channels {
    bits: [i32; 4],
    kind: i32,
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the name of CUDA's function")]
extern "C" fn cudaCreateChannelDesc(x: i32, y: i32, z: i32, w: i32, kind: i32) -> Channels {
    let bits = [x, y, z, w];
    Channels { bits, kind }
}

/// The formats of the driver: the number of bits, the kind, and the number of the format.
#[rustfmt::skip]
const FORMATS: [(i32, i32, u32); 8] = [
    (8, 1, 1), (16, 1, 2), (32, 1, 3), (8, 0, 8), (16, 0, 9), (32, 0, 10), (16, 2, 16), (32, 2, 32),
];

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct ArrayFields {
    size: Extent,
    format: u32,
    channels: u32,
    flags: u32,
}

impl Channels {
    /// Returns the driver's number of the format, and the number of components.
    fn format(self) -> Answer<(u32, u32)> {
        let first = self.bits[0];
        let count = self.bits.iter().take_while(|bits| **bits == first).count();
        let rest = self.bits[count..].iter().all(|bits| *bits == 0);
        let known = FORMATS
            .iter()
            .find(|known| (known.0, known.1) == (first, self.kind));
        match known.filter(|_| rest) {
            Some(known) => Ok((known.2, count as u32)),
            None => Err(INVALID_CHANNEL_DESCRIPTOR),
        }
    }

    fn of(format: u32, channels: u32) -> Self {
        let known = FORMATS.iter().find(|known| known.2 == format);
        let (bits, kind, _) = *known.unwrap_or(&FORMATS[0]);
        let of = |index| if index < channels { bits } else { 0 };
        Self {
            bits: [of(0), of(1), of(2), of(3)],
            kind,
        }
    }
}

fn create(array: Ptr<usize>, channels: Ptr<Channels>, size: Extent, flags: u32) -> Answer {
    array.check()?;
    let (format, channels) = channels.get()?.format()?;
    let fields = ArrayFields {
        size,
        format,
        channels,
        flags,
    };
    cu!(cuArray3DCreate_v2, array, &fields)
}

fn fields_of(array: usize) -> Answer<ArrayFields> {
    let mut fields = ArrayFields::default();
    cu!(cuArray3DGetDescriptor_v2, &mut fields, array)?;
    Ok(fields)
}

/// Writes the properties of an array that are wanted.
fn info(channels: Ptr<Channels>, size: Ptr<Extent>, flags: Ptr<u32>, array: usize) -> Answer {
    let fields = fields_of(array)?;
    // A null pointer wants nothing.
    let _ = channels.set(Channels::of(fields.format, fields.channels));
    let _ = size.set(fields.size);
    let _ = flags.set(fields.flags);
    Ok(())
}

/// Returns the number of bytes of an element of an array.
pub(crate) fn element_bytes(array: usize) -> Answer<usize> {
    let fields = fields_of(array)?;
    let bits = Channels::of(fields.format, fields.channels).bits;
    Ok(bits.iter().sum::<i32>() as usize / 8)
}

/// Returns one side of a copy of rows: an array, or memory of the driver's type.
fn side(
    array: usize,
    at: (usize, usize),
    (address, pitch): (usize, usize),
    kind: u32,
) -> DriverSide {
    DriverSide {
        at: Extent {
            width: at.0,
            height: at.1,
            depth: 0,
        },
        memory_type: if array == 0 { kind } else { ARRAY },
        host: if kind == 1 { address } else { 0 },
        device: if kind == 1 { 0 } else { address },
        array,
        pitch,
        ..DriverSide::default()
    }
}

/// One side of a copy of rows: an array, the first byte of a row and the first row; or an address
/// and its pitch, if the array is null.
type Rows = (usize, (usize, usize), (usize, usize));

/// Copies rows of bytes between two arrays, or an array and memory at an address with a pitch.
fn copy(
    call: &Call,
    (to, to_at, target): Rows,
    (from, from_at, source): Rows,
    (width, height): (usize, usize),
    (kind, stream): (i32, Option<Stream>),
) -> Answer {
    let (from_kind, to_kind) = memory_types(kind)?;
    let driver = DriverBox3 {
        source: side(from, from_at, source, from_kind),
        target: side(to, to_at, target, to_kind),
        extent: Extent {
            width,
            height,
            depth: 1,
        },
    };
    enqueue_box(call, &driver, stream)
}

/// Copies consecutive bytes between two arrays, or an array and memory at an address. The rows of
/// an array follow each other.
fn copy_consecutive(
    call: &Call,
    (mut to, mut from): (Rows, Rows),
    mut bytes: usize,
    way: (i32, Option<Stream>),
) -> Answer {
    let row = |side: &Rows| -> Answer<usize> {
        match side.0 {
            0 => Ok(usize::MAX),
            array => Ok(fields_of(array)?.size.width * element_bytes(array)?),
        }
    };
    let ends = [row(&to)?, row(&from)?];
    // A place behind a row is in the next one, as on a GPU.
    for (side, end) in [&mut to, &mut from].into_iter().zip(ends) {
        side.1 = (side.1.0 % end, side.1.1.saturating_add(side.1.0 / end));
    }
    while bytes > 0 {
        let width = bytes.min(ends[0] - to.1.0).min(ends[1] - from.1.0);
        copy(call, to, from, (width, 1), way)?;
        bytes -= width;
        for (side, end) in [&mut to, &mut from].into_iter().zip(ends) {
            let (_, (x, y), (address, _)) = side;
            *address += width;
            if end != usize::MAX {
                *x = (*x + width) % end;
                *y += usize::from(*x == 0);
            }
        }
    }
    Ok(())
}

/// `cudaResourceDesc`: an array; or an address, its components, and sizes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resource {
    kind: i32,
    first: usize,
    channels: Channels,
    sizes: [usize; 3],
}

/// Returns the words of a `CUDA_RESOURCE_DESC`.
fn resource(resource: Ptr<Resource>) -> Answer<[usize; 18]> {
    let mut words = [0; 18];
    // The rest is not readable behind an array.
    words[0] = resource.to::<u32>().get()? as usize;
    words[1] = resource.to::<usize>().at(1).get()?;
    if words[0] >= 2 {
        let Resource {
            channels, sizes, ..
        } = resource.get()?;
        let (format, count) = channels.format()?;
        words[2] = format as usize | (count as usize) << 32;
        words[3..6].copy_from_slice(&sizes);
    }
    Ok(words)
}

/// `cudaTextureDesc`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Texture {
    address: [u32; 3],
    filter: u32,
    /// Whether integers are read as numbers from 0 or -1 to 1.
    scaled: i32,
    srgb: i32,
    border: [u32; 4],
    normalized: i32,
    anisotropy: u32,
    mipmap: [u32; 4],
}

fn create_texture(
    texture: Ptr<u64>,
    memory: Ptr<Resource>,
    given: Ptr<Texture>,
    view: usize,
) -> Answer {
    let (memory, given) = (resource(memory)?, given.get()?);
    let format = match memory[0] {
        0 => fields_of(memory[1])?.format,
        _ => memory[2] as u32,
    };
    // Integers of 32 bits, and integers that stay integers, have no values between them.
    let integer = format < 16 && (given.scaled == 0 || format & 7 == 3 || format == 10);
    refuse_if(given.filter != 0 && integer, INVALID_FILTER_SETTING)?;
    let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
    let flags =
        flag(given.scaled == 0, 1) | flag(given.normalized != 0, 2) | flag(given.srgb != 0, 0x10);
    // The words of a `CUDA_TEXTURE_DESC`.
    let mut words = [0_u32; 26];
    words[..3].copy_from_slice(&given.address);
    words[3..6].copy_from_slice(&[given.filter, flags, given.anisotropy]);
    words[6..10].copy_from_slice(&given.mipmap);
    words[10..14].copy_from_slice(&given.border);
    cu!(cuTexObjectCreate, texture, &memory, &words, view)
}

include!("../tables/images.txt");
