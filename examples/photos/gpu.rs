//! The device's part of the photos example: every step of a picture is called for, and nothing is
//! waited for but results.

#![allow(
    unsafe_code,
    reason = "vouches for the signatures of the kernels that come with the program"
)]

use millstream::{Device, LaunchConfig, Pending, Result, Stream};

use crate::{cpu::Analysis, picture::Picture};

/// The shape of the blocks that photo.cu expects, in pixels.
const TILE: (u32, u32) = (32, 8);
/// Blocks that a grid may have in y; the kernels go on to the rows beyond by themselves.
const GRID_Y_MAX: usize = 65_535;
/// Threads that count a histogram: several blocks, each with many pixels, so that few bins are
/// added up at the end.
const COUNTING_THREADS_MAX: usize = 64 * 256;

millstream::kernels! {
    /// The kernels of photo.cu.
    // SAFETY: the signatures are those of photo.cu. Every kernel stays within `n`, or `w` times
    // `h`, elements of its arrays, which the clauses compare with the arrays' lengths, and within
    // its shared memory in blocks of 32 by 8 threads.
    pub(crate) unsafe mod photo from include_str!("../../kernels/photo.ptx") {
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
    kernels: photo::Kernels,
    streams: Vec<Stream>,
    /// How many pictures have been started.
    started: usize,
}

/// A picture on its way.
pub(crate) struct InFlight {
    edges: Pending<Vec<u8>>,
    bins: Pending<Vec<u32>>,
}

impl Analyser {
    /// Loads the kernels and makes `streams` streams.
    pub(crate) fn new(device: &Device, streams: usize) -> Result<Self> {
        let kernels = photo::load(device)?;
        let streams = (0..streams)
            .map(|_| device.stream())
            .collect::<Result<_>>()?;
        Ok(Self {
            kernels,
            streams,
            started: 0,
        })
    }

    /// How many streams the pictures are spread over.
    pub(crate) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Calls for everything that is to be done with a picture: its edges on one stream, its
    /// histogram on the next. Returns at once.
    pub(crate) fn start(&mut self, picture: &Picture) -> Result<InFlight> {
        let main = &self.streams[self.started % self.streams.len()];
        let side = &self.streams[(self.started + 1) % self.streams.len()];
        self.started += 1;

        let (w, h) = (picture.width as usize, picture.height as usize);
        let n = w * h;
        let (wide, high, pixels) = (w as i32, h as i32, n as i32);
        let tiles = LaunchConfig::tiled((w, h.min(GRID_Y_MAX * TILE.1 as usize)), TILE);

        let rgb = main.upload(&picture.rgb)?;
        let mut luma = main.zeros::<u8>(n)?;
        self.kernels
            .luminance(main, LaunchConfig::linear(n), &rgb, &mut luma, pixels)?;

        let mut bins = side.zeros::<u32>(256)?;
        let counting = LaunchConfig::linear(n.min(COUNTING_THREADS_MAX));
        self.kernels
            .histogram256(side, counting, &luma, &mut bins, pixels)?;

        let mut rows = main.zeros::<u16>(n)?;
        self.kernels
            .blur_rows(main, tiles, &luma, &mut rows, wide, high)?;
        let mut blurred = main.zeros::<u8>(n)?;
        self.kernels
            .blur_columns(main, tiles, &rows, &mut blurred, wide, high)?;
        let mut edges = main.zeros::<u8>(n)?;
        self.kernels
            .sobel(main, tiles, &blurred, &mut edges, wide, high)?;

        Ok(InFlight {
            edges: main.download(&edges)?,
            bins: side.download(&bins)?,
        })
    }
}

impl InFlight {
    /// Waits for the results.
    pub(crate) fn wait(self) -> Result<Analysis> {
        let bins = self.bins.wait()?;
        let bins = std::array::from_fn(|at| bins[at]);
        Ok(Analysis {
            edges: self.edges.wait()?,
            bins,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use millstream::Select;

    use super::*;
    use crate::{cpu, picture};

    /// A picture whose every byte differs from its neighbours.
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
        let flights: Vec<_> = pictures
            .iter()
            .map(|picture| analyser.start(picture))
            .collect::<Result<_>>()?;
        for (picture, flight) in pictures.iter().zip(flights) {
            let expected = cpu::analyse(
                &picture.rgb,
                picture.width as usize,
                picture.height as usize,
            );
            let found = flight.wait()?;
            let size = (picture.width, picture.height);
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
