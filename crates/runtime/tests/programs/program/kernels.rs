//! The steps that need `unsafe`: kernel launches, and operations that opt out of ordering.

#![allow(unsafe_code, reason = "declares kernels, and opts out of ordering")]

use millstream::{Device, LaunchConfig, Result};

use super::{
    elem::{Elem, content},
    interpreter::{Array, Interpreter, part, part_mut},
    outcome::{Answer, Stop},
    step::{By, Part},
};
use crate::scenarios::prelude::sums;

millstream::kernels! {
    // SAFETY: the signature is that of saxpy.cu; each thread below `n` accesses its element of both
    // arrays and no others.
    unsafe mod products from include_str!("../../../../../kernels/saxpy.ptx") {
        safe fn saxpy(n: i32, a: f32, x: &[f32], y: &mut [f32])
            requires x.len() >= n, y.len() >= n;
    }
    // SAFETY: the signature is that of luminance in photo.cu; each thread below `n` reads three
    // bytes and writes one.
    unsafe mod pictures from include_str!("../../../../../kernels/photo.ptx") {
        safe fn luminance(rgb: &[u8], luma: &mut [u8], n: i32)
            requires n >= 0, rgb.len() >= n * 3, luma.len() >= n;
    }
}

pub(super) struct Kernels {
    sums: sums::Kernels,
    products: products::Kernels,
    pictures: pictures::Kernels,
}

impl Kernels {
    pub(super) fn load(device: &Device) -> Result<Self> {
        Ok(Self {
            sums: sums::load(device)?,
            products: products::load(device)?,
            pictures: pictures::load(device)?,
        })
    }
}

impl Interpreter<'_> {
    pub(super) fn add(&mut self, by: By, terms: [Part; 2], sum: Part) -> Answer {
        let (device, stream) = self.stream(by.stream)?;
        let kernels = self.kernels(device);
        self.with(sum.array, |interpreter, target| {
            let [first, second] = terms.map(|term| (interpreter.array(term.array), term));
            let (first, second) = ((first.0?, first.1), (second.0?, second.1));
            if first.0.is_pinned() || second.0.is_pinned() || target.is_pinned() {
                return Err(Stop::SKIP);
            }
            let a = part(first.0, first.1, Elem::F32)?.cast::<f32>()?;
            let b = part(second.0, second.1, Elem::F32)?.cast::<f32>()?;
            let mut c = part_mut(target, sum, Elem::F32)?.cast::<f32>()?;
            let (config, n) = (LaunchConfig::linear(sum.len), sum.len as u64);
            let sums = &kernels.sums;
            if by.peer {
                let device = stream.device();
                let (a, b, c) = (a.peer(&device)?, b.peer(&device)?, c.peer_mut(&device)?);
                sums.vecadd(&stream, config, &a, &b, c, n)?;
            } else {
                sums.vecadd(&stream, config, &a, &b, c, n)?;
            }
            Ok(None)
        })
    }

    pub(super) fn saxpy(&mut self, by: By, factor: f32, [x, y]: [Part; 2]) -> Answer {
        let (device, stream) = self.stream(by.stream)?;
        let kernels = self.kernels(device);
        self.with(y.array, |interpreter, target| {
            let source = interpreter.array(x.array)?;
            if source.is_pinned() || target.is_pinned() {
                return Err(Stop::SKIP);
            }
            let source = part(source, x, Elem::F32)?.cast::<f32>()?;
            let mut target = part_mut(target, y, Elem::F32)?.cast::<f32>()?;
            let (config, n) = (LaunchConfig::linear(y.len), y.len as i32);
            let products = &kernels.products;
            if by.peer {
                let device = stream.device();
                let (source, target) = (source.peer(&device)?, target.peer_mut(&device)?);
                products.saxpy(&stream, config, n, factor, source, target)?;
            } else {
                products.saxpy(&stream, config, n, factor, source, target)?;
            }
            Ok(None)
        })
    }

    pub(super) fn luminance(&mut self, by: By, pixels: Part, luma: Part) -> Answer {
        let (device, stream) = self.stream(by.stream)?;
        let kernels = self.kernels(device);
        self.with(luma.array, |interpreter, target| {
            let source = interpreter.array(pixels.array)?;
            if source.is_pinned() || target.is_pinned() {
                return Err(Stop::SKIP);
            }
            let source = part(source, pixels, Elem::Rgb)?;
            let mut target = part_mut(target, luma, Elem::U8)?;
            let (config, n) = (LaunchConfig::linear(luma.len), luma.len as i32);
            let pictures = &kernels.pictures;
            if by.peer {
                let device = stream.device();
                let (source, target) = (source.peer(&device)?, target.peer_mut(&device)?);
                pictures.luminance(&stream, config, source, target, n)?;
            } else {
                pictures.luminance(&stream, config, source, target, n)?;
            }
            Ok(None)
        })
    }

    pub(super) fn unordered(&mut self, stream: usize, array: usize, value: u32) -> Answer {
        let (_, stream) = self.stream(stream)?;
        self.with(array, |_, array| {
            let [first, second] = [value, value + 1].map(|value| content(value, 1)[0]);
            match array {
                Array::Pinned(_) => return Err(Stop::SKIP),
                Array::Buffer(buffer) => {
                    stream.fill(&mut *buffer, first)?;
                    // SAFETY: the fill precedes it on the same stream and waits for every use of
                    // the array.
                    stream.fill(unsafe { buffer.unordered_mut() }, second)?;
                }
                Array::Managed(managed) => {
                    stream.fill(&mut *managed, first)?;
                    // SAFETY: as above.
                    stream.fill(unsafe { managed.view_mut().unordered_mut() }, second)?;
                }
            }
            Ok(None)
        })
    }
}
