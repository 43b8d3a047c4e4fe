//! The device's part of the photos example: enqueues every step of a picture, and waits only for
//! the results.

#![allow(unsafe_code, reason = "asserts the signatures of photo.cu's kernels")]

use millstream::{Buffer, Device, LaunchConfig, Pinned, Result, Stream};

use super::{
    cpu::{self, Analysis},
    picture::Picture,
};

/// The shape of the blocks that photo.cu expects, in pixels.
const TILE: (u32, u32) = (32, 8);
/// The most blocks that a grid may have in y; the kernels loop over the rows beyond.
const GRID_Y_MAX: usize = 65_535;
/// The most threads that count a histogram: several blocks, each with many pixels, so that few bins
/// are added up at the end.
const COUNTING_THREADS_MAX: usize = 64 * 256;

millstream::kernels! {
    /// The kernels of photo.cu.
    // SAFETY: the signatures are those of photo.cu. Every kernel stays within `n`, or `w` times
    // `h`, elements of its arrays, which the clauses compare with the arrays' lengths, and within
    // its shared memory in blocks of 32 by 8 threads.
    pub(crate) unsafe mod photo from include_str!("../kernels/photo.ptx") {
        /// Brightness of `n` pixels of three bytes.
        pub(crate) safe fn luminance(rgb: &[u8], luma: &mut [u8], n: i32)
            requires rgb.len() >= 3 * n, luma.len() >= n;
        /// The horizontal half of a Gaussian blur, in 256ths.
        pub(crate) safe fn blur_rows(input: &[u8], output: &mut [u16], w: i32, h: i32)
            requires w >= 1, h >= 1, input.len() >= w * h, output.len() >= w * h,
                grid.block.x == 32, grid.block.y == 8, grid.block.z == 1;
        /// The vertical half.
        pub(crate) safe fn blur_columns(input: &[u16], output: &mut [u8], w: i32, h: i32)
            requires w >= 1, h >= 1, input.len() >= w * h, output.len() >= w * h,
                grid.block.x == 32, grid.block.y == 8, grid.block.z == 1;
        /// The length of the Sobel gradient.
        pub(crate) safe fn sobel(input: &[u8], edges: &mut [u8], w: i32, h: i32)
            requires w >= 1, h >= 1, input.len() >= w * h, edges.len() >= w * h,
                grid.block.x == 32, grid.block.y == 8, grid.block.z == 1;
        /// Adds to each of the 256 bins how many of `n` bytes have its value.
        pub(crate) safe fn histogram256(input: &[u8], bins: &mut [u32], n: i32)
            requires input.len() >= n, bins.len() >= 256;
    }
}

/// A device with the kernels on it and streams to spread pictures over.
pub(crate) struct Analyser {
    device: Device,
    kernels: photo::Kernels,
    streams: Vec<Stream>,
    /// The number of pictures that were uploaded.
    uploads: usize,
}

/// A picture on the host, with room for its results: page-locked memory, which the device copies
/// from and to while the host does something else.
pub(crate) struct Job {
    pub(crate) width: u32,
    pub(crate) height: u32,
    rgb: Pinned<u8>,
    edges: Pinned<u8>,
    bins: Pinned<u32>,
}

/// A picture whose upload is enqueued.
pub(crate) struct Uploaded {
    job: Job,
    rgb: Buffer<u8>,
    /// The place of the picture's stream among the analyser's.
    stream: usize,
}

/// A picture for which everything is enqueued.
pub(crate) struct InFlight {
    job: Job,
}

impl Analyser {
    pub(crate) fn new(device: &Device, streams: usize) -> Result<Self> {
        let kernels = photo::load(device)?;
        let streams = (0..streams)
            .map(|_| device.stream())
            .collect::<Result<_>>()?;
        Ok(Self {
            device: device.clone(),
            kernels,
            streams,
            uploads: 0,
        })
    }

    /// The number of streams that the pictures are spread over.
    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Puts a picture into page-locked memory.
    pub(crate) fn prepare(&self, picture: &Picture) -> Result<Job> {
        let pixels = picture.rgb.len() / 3;
        Ok(Job {
            width: picture.width,
            height: picture.height,
            rgb: self.device.pinned_from(&picture.rgb)?,
            edges: self.device.pinned(pixels)?,
            bins: self.device.pinned(256)?,
        })
    }

    /// Enqueues the upload of a picture, on the next stream.
    pub(crate) fn upload(&mut self, job: Job) -> Result<Uploaded> {
        let stream = self.uploads % self.streams.len();
        self.uploads += 1;
        let main = &self.streams[stream];
        let mut rgb = main.zeros::<u8>(job.rgb.len())?;
        main.copy(&job.rgb, &mut rgb)?;
        Ok(Uploaded { job, rgb, stream })
    }

    /// Enqueues the kernels and the downloads of a picture: for its edges on its own stream, for
    /// its histogram on another.
    pub(crate) fn analyse(&self, picture: Uploaded) -> Result<InFlight> {
        let Uploaded {
            mut job,
            rgb,
            stream,
        } = picture;
        let count = self.streams.len();
        let main = &self.streams[stream];
        // That of the picture before, which has fewer steps left than the next one's.
        let side = &self.streams[(stream + count - 1) % count];

        let (w, h) = (job.width as usize, job.height as usize);
        let n = w * h;
        let (wide, high, pixels) = (w as i32, h as i32, n as i32);
        let tiles = LaunchConfig::tiled((w, h.min(GRID_Y_MAX * TILE.1 as usize)), TILE);

        let mut luma = main.zeros::<u8>(n)?;
        self.kernels
            .luminance(main, LaunchConfig::linear(n), &rgb, &mut luma, pixels)?;

        let mut bins = side.zeros::<u32>(256)?;
        let counting = LaunchConfig::linear(n.min(COUNTING_THREADS_MAX));
        self.kernels
            .histogram256(side, counting, &luma, &mut bins, pixels)?;
        side.copy(&bins, &mut job.bins)?;

        let mut rows = main.zeros::<u16>(n)?;
        self.kernels
            .blur_rows(main, tiles, &luma, &mut rows, wide, high)?;
        let mut blurred = main.zeros::<u8>(n)?;
        self.kernels
            .blur_columns(main, tiles, &rows, &mut blurred, wide, high)?;
        let mut edges = main.zeros::<u8>(n)?;
        self.kernels
            .sobel(main, tiles, &blurred, &mut edges, wide, high)?;
        main.copy(&edges, &mut job.edges)?;
        Ok(InFlight { job })
    }
}

impl InFlight {
    /// The picture and its results, as soon as the downloads are complete: reading page-locked
    /// memory waits for the copies to it.
    pub(crate) fn wait(self) -> Result<(Job, Analysis)> {
        let edges = self.job.edges.read()?.to_vec();
        let counts = self.job.bins.read()?;
        let bins = std::array::from_fn(|at| counts[at]);
        drop(counts);
        Ok((self.job, Analysis { edges, bins }))
    }
}

impl Job {
    /// The same analysis in plain Rust, on the host.
    pub(crate) fn analyse_on_host(&self) -> Result<Analysis> {
        let rgb = self.rgb.read()?;
        let (width, height) = (self.width as usize, self.height as usize);
        Ok(cpu::analyse(&rgb, width, height))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use millstream::Select;

    use super::super::picture;
    use super::*;

    /// Creates a picture in which neighbouring bytes differ.
    fn noise(width: u32, height: u32) -> Picture {
        let rgb = (0..width as usize * height as usize * 3)
            .map(|at| ((at * at * 31 + at * 7) >> 3) as u8)
            .collect();
        Picture { width, height, rgb }
    }

    #[test]
    fn the_device_and_plain_rust_agree_to_the_bit() -> Result<()> {
        let device = Device::open(Select::Auto)?;
        let mut analyser = Analyser::new(&device, 3)?;
        let sizes = [
            (1, 1),
            (1, 40),
            (40, 1),
            (31, 7),
            (33, 9),
            (64, 64),
            (20_000, 2),
            (2, 3000),
        ];
        let mut pictures: Vec<_> = sizes.map(|(width, height)| noise(width, height)).into();
        let (sources, bad) = picture::gather(&[], Path::new("out"));
        assert!(bad.is_empty() && sources.len() == 3);
        pictures.extend(
            sources
                .iter()
                .map(|source| source.load().expect("the photographs decode")),
        );
        let uploads: Vec<_> = pictures
            .iter()
            .map(|picture| analyser.upload(analyser.prepare(picture)?))
            .collect::<Result<_>>()?;
        let flights: Vec<_> = uploads
            .into_iter()
            .map(|upload| analyser.analyse(upload))
            .collect::<Result<_>>()?;
        for flight in flights {
            let (job, found) = flight.wait()?;
            let expected = job.analyse_on_host()?;
            let size = (job.width, job.height);
            assert!(
                found.edges == expected.edges,
                "the edges of {size:?} differ"
            );
            assert!(
                found.bins == expected.bins,
                "the histogram of {size:?} differs"
            );
        }
        Ok(())
    }
}
