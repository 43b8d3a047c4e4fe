//! Pictures as files: finding and decoding them, naming and writing the results.

mod chart;
mod complete;
mod decode;
pub(crate) mod input;
mod names;
mod orientation;
mod problem;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

pub(crate) use input::gather;

use super::cpu::Analysis;

#[derive(Debug)]
pub(crate) struct Picture {
    /// The width in pixels, at least 1.
    pub(crate) width: u32,
    /// The height in pixels, at least 1.
    pub(crate) height: u32,
    /// Red, green and blue of every pixel, row by row.
    pub(crate) rgb: Vec<u8>,
}

/// The 64-bit FNV-1a hash of the edges, then of the bins in little-endian order.
pub(crate) fn checksum(analysis: &Analysis) -> u64 {
    let bins = analysis.bins.iter().flat_map(|count| count.to_le_bytes());
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    analysis
        .edges
        .iter()
        .copied()
        .chain(bins)
        .fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Writes edges-NAME.png and histogram-NAME.svg to the folder `out`, which is made if it does not
/// exist, and returns their paths.
///
/// # Errors
///
/// If one of the two cannot be written; the error names it.
pub(crate) fn write(
    out: &Path,
    name: &str,
    size: (u32, u32),
    analysis: &Analysis,
) -> Result<[PathBuf; 2]> {
    std::fs::create_dir_all(out)
        .with_context(|| format!("cannot make the folder {}", out.display()))?;
    let [edges, histogram] = names::outputs(out, name);
    let context = || format!("cannot write {}", edges.display());
    std::fs::write(&edges, grey_png(size, &analysis.edges)?).with_context(context)?;
    std::fs::write(&histogram, chart::draw(&analysis.bins))
        .with_context(|| format!("cannot write {}", histogram.display()))?;
    Ok([edges, histogram])
}

/// A PNG file of one byte a pixel.
fn grey_png((width, height): (u32, u32), levels: &[u8]) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(levels)?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_fnv_1a_of_edges_then_bins() {
        let analysis = |edges: &[u8]| Analysis {
            edges: edges.to_vec(),
            bins: [0; 256],
        };
        // Written out a byte at a time: the published offset basis and prime, "a", then 1,024 zero
        // bytes.
        let mut expected = 0xcbf2_9ce4_8422_2325_u64;
        for byte in [b'a'].into_iter().chain([0; 1024]) {
            expected = (expected ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
        }
        assert_eq!(checksum(&analysis(b"a")), expected);
        let mut other = analysis(b"a");
        other.bins[255] = 1;
        assert_ne!(checksum(&other), expected);
        assert_ne!(checksum(&analysis(b"b")), expected);
    }
}
