//! Steps with operands of several kinds: their usage errors, and the bytes they write.

use super::{
    super::{
        elem::{Elem, content},
        step::{By, On, Part, Reach, Rect, ScopeCopy, ScopeEnd},
    },
    Expected, Oracle,
    bytes::{Array, Bytes, Kind},
};

impl Oracle {
    pub(super) fn put(&mut self, array: usize, start: usize, bytes: &Bytes) -> Option<Expected> {
        self.arrays[array].as_mut()?.bytes.write(start, bytes);
        Some(Expected::Done(None))
    }

    /// Writes values to a range of a device array.
    pub(super) fn write(&mut self, on: On, to: Part, values: Vec<u8>) -> Option<Expected> {
        let device = self.streams[on.stream]?;
        let (array, bytes) = self.find(to, on.elem)?;
        if !array.on_device()?.has(&bytes) || array.device != device {
            return Some(Expected::Mistake);
        }
        self.put(to.array, bytes.start, &Bytes::of(values))
    }

    pub(super) fn copy(&mut self, on: On, from: Part, to: Part) -> Option<Expected> {
        let device = self.streams[on.stream]?;
        let (source, from_bytes) = self.find(from, on.elem)?;
        let (target, to_bytes) = self.find(to, on.elem)?;
        if from.array == to.array {
            return None;
        }
        let both_on_host = source.kind == Kind::Pinned && target.kind == Kind::Pinned;
        let with_host = source.kind == Kind::Pinned || target.kind == Kind::Pinned;
        let is_reached = is_reached(device, [source, target], with_host);
        let fit =
            source.has(&from_bytes) && target.has(&to_bytes) && from_bytes.len() == to_bytes.len();
        if both_on_host || !is_reached || !fit {
            return Some(Expected::Mistake);
        }
        let copied = source.bytes.part(from_bytes);
        self.put(to.array, to_bytes.start, &copied)
    }

    pub(super) fn copy_rows(&mut self, on: On, from: Rect, to: Rect) -> Option<Expected> {
        let device = self.streams[on.stream]?;
        let source = self.arrays[from.array].as_ref()?;
        let target = self.arrays[to.array].as_ref()?;
        if from.array == to.array {
            return None;
        }
        let (from_host, to_host) = (source.kind == Kind::Pinned, target.kind == Kind::Pinned);
        let elem = if from_host || to_host {
            Elem::U8
        } else {
            on.elem
        };
        let is_reached = is_reached(device, [source, target], from_host || to_host);
        let (Some(from_places), Some(to_places)) = (source.rect(from, elem), target.rect(to, elem))
        else {
            return Some(Expected::Mistake);
        };
        if (from_host && to_host) || !is_reached || from.size != to.size {
            return Some(Expected::Mistake);
        }
        let copied = source.gather(from_places, elem);
        let size = elem.bytes();
        let target = self.arrays[to.array].as_mut()?;
        for (number, at) in to_places.enumerate() {
            target
                .bytes
                .write(at, &copied.part(number * size..(number + 1) * size));
        }
        Some(Expected::Done(None))
    }

    /// Applies a kernel over floats, of the sources' elements and the target's own.
    pub(super) fn compute(
        &mut self,
        by: By,
        sources: &[Part],
        to: Part,
        each: impl Fn(&[f32]) -> f32,
    ) -> Option<Expected> {
        let device = self.streams[by.stream]?;
        let mut operands = Vec::new();
        let mut is_right = true;
        for part in sources.iter().chain([&to]) {
            let (array, bytes) = self.find(*part, Elem::F32)?;
            is_right &= array.on_device()?.has(&bytes)
                && self.is_operand(array, device, by.peer)
                && part.len >= to.len;
            operands.push((array, bytes.start));
        }
        if sources.iter().any(|part| part.array == to.array) {
            return None;
        }
        if !is_right {
            return Some(Expected::Mistake);
        }
        let mut computed = Bytes::of(Vec::new());
        for number in 0..to.len {
            let of = |(array, start): &(&Array, usize)| {
                array.bytes.part(start + 4 * number..start + 4 * number + 4)
            };
            let elements: Vec<_> = operands.iter().map(of).collect();
            let float = |bytes: &Bytes| {
                f32::from_le_bytes(bytes.values[..].try_into().expect("four bytes"))
            };
            let floats: Vec<_> = elements.iter().map(float).collect();
            let result = each(&floats);
            // The bit pattern of a NaN result is unspecified.
            let is_known =
                !result.is_nan() && elements.iter().all(|bytes| bytes.known == [true; 4]);
            computed.append(Bytes {
                values: result.to_le_bytes().to_vec(),
                known: vec![is_known; 4],
            });
        }
        self.put(to.array, to.first * 4, &computed)
    }

    pub(super) fn luminance(&mut self, by: By, pixels: Part, luma: Part) -> Option<Expected> {
        let device = self.streams[by.stream]?;
        let (source, from) = self.find(pixels, Elem::Rgb)?;
        let (target, to) = self.find(luma, Elem::U8)?;
        source.on_device()?;
        target.on_device()?;
        if pixels.array == luma.array {
            return None;
        }
        let is_reached =
            self.is_operand(source, device, by.peer) && self.is_operand(target, device, by.peer);
        if !is_reached || !source.has(&from) || !target.has(&to) || pixels.len < luma.len {
            return Some(Expected::Mistake);
        }
        let mut computed = Bytes::of(Vec::new());
        for pixel in 0..luma.len {
            let Bytes { values, known } = source
                .bytes
                .part(from.start + 3 * pixel..from.start + 3 * pixel + 3);
            let [r, g, b] = [values[0], values[1], values[2]].map(u32::from);
            let brightness = (13_933 * r + 46_871 * g + 4_732 * b + 32_768) >> 16;
            computed.append(Bytes {
                values: vec![brightness as u8],
                known: vec![known == [true; 3]],
            });
        }
        self.put(luma.array, to.start, &computed)
    }

    pub(super) fn halves(
        &mut self,
        array: usize,
        middle: usize,
        streams: [usize; 2],
        value: u32,
    ) -> Option<Expected> {
        let devices = [self.streams[streams[0]]?, self.streams[streams[1]]?];
        let target = self.arrays[array].as_mut()?;
        let len = target.on_device()?.bytes.values.len();
        if middle > len {
            return None;
        }
        let halves = [0..middle, middle..len];
        for ((half, device), value) in halves.into_iter().zip(devices).zip([value, value + 1]) {
            if device == target.device {
                let mut values = vec![content(value, 1)[0]; half.len()];
                let uploaded = content(value, half.len() / 2);
                values[..uploaded.len()].copy_from_slice(&uploaded);
                target.bytes.write(half.start, &Bytes::of(values));
            }
        }
        Some(if devices == [target.device; 2] {
            Expected::Done(Some(target.bytes.clone()))
        } else {
            Expected::MistakeWith(None)
        })
    }

    /// Returns the usage error, if any, of a guard over this range; the outer `None` means that the
    /// step is skipped.
    pub(super) fn guarded(&self, part: Part) -> Option<Option<Expected>> {
        let (array, bytes) = self.find(part, Elem::U8)?;
        match array.kind {
            Kind::Buffer => None,
            Kind::Managed | Kind::Pinned => Some((!array.has(&bytes)).then_some(Expected::Mistake)),
        }
    }

    pub(super) fn host_read(
        &mut self,
        part: Part,
        reach: Reach,
        meanwhile: Option<(usize, Part)>,
        had: bool,
    ) -> Option<Expected> {
        if let Some(mistake) = self.guarded(part)? {
            return Some(mistake);
        }
        let (array, bytes) = self.find(part, Elem::U8)?;
        let mut twice = array.bytes.part(bytes);
        twice.append(twice.clone());
        let elem = Elem::U8;
        if let (true, Some((stream, to))) = (had, meanwhile)
            && let Some(Expected::Mistake) = self.copy(On { stream, elem }, part, to)
        {
            return Some(Expected::MistakeWith(Some(twice)));
        }
        Some(reach.expected(twice))
    }

    pub(super) fn scope(
        &mut self,
        device: usize,
        copies: &[ScopeCopy],
        end: ScopeEnd,
    ) -> Option<Expected> {
        let mut targets: Vec<_> = copies
            .iter()
            .map(|copy| Bytes::of(vec![0; copy.part.len]))
            .collect();
        let mut is_right = true;
        for (
            ScopeCopy {
                stream,
                part,
                upload,
            },
            target,
        ) in copies.iter().zip(&mut targets)
        {
            let (Some(stream), Some(array)) = (self.streams[*stream], &mut self.arrays[part.array])
            else {
                continue;
            };
            let bytes = part.first..part.first + part.len;
            if array.kind == Kind::Pinned {
                continue;
            }
            if stream != device || array.device != device || !array.has(&bytes) {
                is_right = false;
                break;
            }
            match upload {
                Some(value) => array
                    .bytes
                    .write(part.first, &Bytes::of(content(*value, part.len))),
                None => *target = array.bytes.part(bytes),
            }
        }
        let mut seen = Bytes::of(Vec::new());
        targets.into_iter().for_each(|target| seen.append(target));
        Some(match end {
            ScopeEnd::Value if is_right => Expected::Done(Some(seen)),
            ScopeEnd::Panic if is_right => Expected::Panic(Some(seen)),
            _ => Expected::MistakeWith(Some(seen)),
        })
    }
}

/// Returns whether a copy between two arrays can run on a device.
fn is_reached(device: usize, arrays: [&Array; 2], with_host: bool) -> bool {
    let is_here = |array: &Array| array.kind == Kind::Pinned || array.device == device;
    let [source, target] = arrays.map(is_here);
    if with_host {
        source && target
    } else {
        source || target
    }
}

impl Reach {
    pub(super) fn expected(self, bytes: Bytes) -> Expected {
        match self {
            Self::Wait | Self::Await => Expected::Done(Some(bytes)),
            Self::PollOnce => Expected::Perhaps(bytes),
        }
    }
}
