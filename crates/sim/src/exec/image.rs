//! Fetches from textures, filters, queries, and the addresses of accesses to surfaces.
//!
//! The texels of an array lie in rows, like those of a texture over linear memory, so that an
//! access to either is an access to global memory, which the checks for races see as such.

use millstream_driver::TextureDescriptor;
use millstream_driver::cuda::api::TRSF_NORMALIZED_COORDINATES;
use smallvec::SmallVec;

use super::fault::KernelFaultKind;
use super::memory::{CachedRegion, WarpMemory};
use super::observer::{IssuePoint, Observer};
use super::registers::{FULL, LANES, lanes};
use super::texels::{Components, Image, Taps};
use super::warp::Warp;
use super::warp_access::LaneFault;
use super::warp_context::WarpContext;
use crate::memory::AccessFlags;
use crate::ptx::ir::{Boundary, ImageAccess, ImageOp, ImageQuery};

/// The reads of a warp's fetch.
struct Reader<'s, 'r, 'm> {
    memory: WarpMemory<'r, 'm>,
    cached: &'s mut CachedRegion<'m>,
    image: &'s Image,
    mode: &'s TextureDescriptor,
    lane: usize,
    /// The lanes and addresses of the texels read, if these are observed.
    read: Option<&'s mut SmallVec<[(usize, u64); 32]>>,
}

impl Reader<'_, '_, '_> {
    /// Reads a texel, or the border colour.
    fn texel(&mut self, place: [Option<u32>; 3]) -> Result<Components, LaneFault> {
        let [Some(x), Some(y), Some(z)] = place else {
            return Ok(self.image.border(self.mode));
        };
        let bytes = self.image.texel_bytes();
        let address = self.image.address(u64::from(x) * bytes as u64, y, z);
        let mut buffer = [0; 16];
        let found = self.memory.region(self.cached, address, bytes);
        let copied = found.and_then(|(found, offset)| {
            if let Some(bitmap) = found.bitmap {
                bitmap.note(AccessFlags::READ, offset, bytes);
            }
            found.region.bytes.copy_to(offset, &mut buffer[..bytes])
        });
        if copied.is_none() {
            let kind = KernelFaultKind::OutOfBounds {
                address,
                bytes: bytes as u32,
                write: false,
            };
            return Err((self.lane, kind));
        }
        self.memory.traffic.read_bytes += bytes as u64;
        if let Some(read) = &mut self.read {
            read.push((self.lane, address));
        }
        Ok(self.image.components(&buffer[..bytes], self.mode))
    }
}

/// Executes an operation on textures and surfaces.
#[cold]
pub(super) fn run<O: Observer>(
    access: &ImageAccess,
    warp: &mut Warp,
    shared: &mut WarpContext<'_, '_>,
    observer: &mut O,
    at: IssuePoint,
) -> Result<(), LaneFault> {
    let handles = *warp.registers.double(access.handle);
    let coordinates = access.coordinates.map(|slot| match access.dimensions {
        0 => [0; LANES],
        _ => *warp.registers.word(slot),
    });
    let mut results = [[0; LANES]; 4];
    let mut places = [0; LANES];
    let mut inside = 0;
    let mut read = SmallVec::new();
    let mut known: Option<(u64, Image)> = None;
    let mut cached = None;
    let mut bytes = 0;
    for lane in lanes(at.mask) {
        let handle = handles[lane];
        let image = match known {
            Some((of, image)) if of == handle => image,
            _ => find(access, shared, handle)
                .map_err(|problem| (lane, KernelFaultKind::InvalidImage { handle, problem }))?,
        };
        known = Some((handle, image));
        let of_lane = coordinates.map(|axis| axis[lane]);
        let components = match access.f {
            ImageOp::Query(query) => [answer(&image, query); 4],
            ImageOp::Place(bytes, boundary) => {
                let found = place(&image, access, bytes, boundary, of_lane);
                if let Some(address) = found.map_err(|kind| (lane, kind))? {
                    places[lane] = address;
                    inside |= 1 << lane;
                }
                continue;
            }
            ImageOp::Fetch { .. } | ImageOp::Gather(_) => {
                bytes = image.texel_bytes() as u64;
                let mut reader = Reader {
                    memory: shared.all(&mut warp.local),
                    cached: &mut cached,
                    image: &image,
                    mode: &image.mode.unwrap_or_default(),
                    lane,
                    read: O::ON.then_some(&mut read),
                };
                fetch(&mut reader, access, of_lane)?
            }
        };
        for (result, component) in results.iter_mut().zip(components) {
            result[lane] = component;
        }
    }
    if O::ON {
        for (lane, address) in read {
            observer.image_read(warp, at.pc, lane, (address, bytes));
        }
    }
    for (slot, values) in access.results().iter().zip(&results) {
        warp.registers.set_word(*slot, at.mask, values);
    }
    if let ImageOp::Place(..) = access.f {
        warp.registers.set_double(access.address, inside, &places);
        warp.registers
            .set_predicate(access.inside, at.mask & FULL, inside);
    }
    Ok(())
}

/// Returns the image of a handle, if it is of the kind that the instruction needs.
fn find(access: &ImageAccess, shared: &WarpContext<'_, '_>, handle: u64) -> Result<Image, String> {
    let kind = if access.surface { "surface" } else { "texture" };
    let image = shared.global.image(handle);
    let image = image.filter(|image| image.mode.is_none() == access.surface);
    let image = image.ok_or_else(|| format!("is the handle of no live {kind} of the device"))?;
    let wanted = (access.dimensions, access.layered);
    if access.dimensions != 0 && (image.dimensions, image.layered) != wanted {
        let name = |(dimensions, layered)| {
            let layers = if layered { " with layers" } else { "" };
            format!("{dimensions}-D {kind}{layers}")
        };
        let found = name((image.dimensions, image.layered));
        return Err(format!("is a {found}, read as a {}", name(wanted)));
    }
    Ok(image)
}

/// Returns the answer to a query, with the numbers of OpenCL, as CUDA's compilers have them.
fn answer(image: &Image, query: ImageQuery) -> u32 {
    match query {
        ImageQuery::Size(axis) if axis < image.dimensions => image.size[usize::from(axis)],
        // The layers follow the sizes, and a 1-D texture has one row, as on an H200.
        ImageQuery::Size(axis) if image.layered && axis == image.dimensions => image.size[2],
        ImageQuery::Size(axis) => u32::from(axis == 1 && image.mode.is_some()),
        ImageQuery::Layers if image.layered => image.size[2],
        ImageQuery::Layers => 0,
        ImageQuery::DataType => image.format.0.cast_unsigned(),
        ImageQuery::Order => image.format.1,
        ImageQuery::Normalized => {
            (image.mode.unwrap_or_default().flags & TRSF_NORMALIZED_COORDINATES) >> 1
        }
    }
}

fn fetch(
    reader: &mut Reader<'_, '_, '_>,
    access: &ImageAccess,
    coordinates: [u32; 4],
) -> Result<Components, LaneFault> {
    let (image, mode) = (reader.image, reader.mode);
    let mut taps: [Taps; 3] = [([Some(0); 2], 0); 3];
    for (axis, taps) in taps.iter_mut().enumerate().take(access.dimensions.into()) {
        *taps = image.taps(axis, coordinates[axis], access.f, mode);
    }
    if access.layered {
        let last = image.size[2] - 1;
        let outside = coordinates[3] > last && access.f == (ImageOp::Fetch { integer: true });
        taps[2].0 = [(!outside).then_some(coordinates[3].min(last)); 2];
    }
    let place = |x: usize, y: usize, z: usize| [taps[0].0[x], taps[1].0[y], taps[2].0[z]];
    if let ImageOp::Gather(component) = access.f {
        let mut gathered = [0; 4];
        for (result, (x, y)) in gathered.iter_mut().zip([(0, 1), (1, 1), (1, 0), (0, 0)]) {
            *result = reader.texel(place(x, y, 0))?[usize::from(component)];
        }
        return Ok(gathered);
    }
    if access.f == (ImageOp::Fetch { integer: true }) && place(0, 0, 0).contains(&None) {
        return Ok([0; 4]);
    }
    let is_point = mode.filter == 0 || access.f == (ImageOp::Fetch { integer: true });
    if is_point || !image.is_float(mode) {
        return reader.texel(place(0, 0, 0));
    }
    let mut sums = [0.0_f64; 4];
    // Between the centres of texels are few coordinates of most programs.
    let weights = match taps.map(|(_, weight)| weight) {
        [0, 0, 0] => [256, 0, 0, 0, 0, 0, 0, 0],
        of => weights(of),
    };
    for (index, weight) in weights
        .into_iter()
        .enumerate()
        .filter(|(_, weight)| *weight > 0)
    {
        let texel = reader.texel(place(index & 1, index >> 1 & 1, index >> 2))?;
        for (sum, component) in sums.iter_mut().zip(texel) {
            *sum += image.for_filter(component, mode) * f64::from(weight);
        }
    }
    Ok(sums.map(|sum| image.of_filter(sum / 256.0, mode)))
}

/// Returns the weights of the eight texels of a filter in 1/256, from those of the second texel in
/// each dimension: products, rounded so that all add up to 256, as an H100 rounds those of two
/// dimensions. Of three dimensions, one weight in a hundred differs from an H100's by 1.
fn weights([x, y, z]: [u32; 3]) -> [u32; 8] {
    let (other, far, rest, near) = if z == 0 { (y, 2, 0, 4) } else { (z, 4, y, 2) };
    let both = (x * other + 128) >> 8;
    let pairs = [256 + both - x - other, x - both, other - both, both];
    let mut weights = [0; 8];
    for (pair, weight) in pairs.into_iter().enumerate() {
        let at = (pair & 1) + far * (pair >> 1);
        let second = (weight * rest + 128) >> 8;
        (weights[at], weights[at + near]) = (weight - second, second);
    }
    weights
}

/// Returns the address of bytes of a surface; `None` if the access has no effect.
fn place(
    image: &Image,
    access: &ImageAccess,
    bytes: u8,
    boundary: Boundary,
    coordinates: [u32; 4],
) -> Result<Option<u64>, KernelFaultKind> {
    let last = [
        image.row_bytes() as i64 - i64::from(bytes),
        i64::from(image.size[1]) - 1,
        i64::from(image.size[2]) - 1,
    ];
    let (mut at, mut given) = ([0; 3], [0; 3]);
    let mut outside = last[0] < 0;
    for axis in 0..3 {
        let value = match axis {
            2 if access.layered => i64::from(coordinates[3]),
            _ if axis < usize::from(access.dimensions) => coordinates[axis].cast_signed().into(),
            _ => 0,
        };
        given[axis] = value;
        at[axis] = value.clamp(0, last[axis].max(0));
        outside |= at[axis] != value;
    }
    if outside && boundary == Boundary::Trap || last[0] < 0 {
        return Err(KernelFaultKind::OutsideSurface {
            bytes: bytes.into(),
            place: given,
        });
    }
    let [x, y, z] = at;
    let address = image.address(x as u64, y as u32, z as u32);
    Ok((!outside || boundary == Boundary::Clamp).then_some(address))
}
