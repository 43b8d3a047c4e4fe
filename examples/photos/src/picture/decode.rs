//! Decodes PNG and JPEG files, or says what is wrong with them.

use std::io::Cursor;

use png::{ColorType, Transformations};
use zune_jpeg::{
    JpegDecoder,
    zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions},
};

use super::Picture;
use super::complete::is_complete_jpeg;
use super::orientation::{orientation, upright};
use super::problem::{PIXELS_MAX, Problem};

/// The most bytes that the PNG decoder may allocate: sixteen bits for each of four channels, and
/// as much again.
const DECODING_BYTES_MAX: u64 = PIXELS_MAX * 8 * 2;

/// A file format that the program reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Format {
    Png,
    Jpeg,
}

/// The format of the picture that starts with `bytes`.
pub(super) fn format(bytes: &[u8]) -> Result<Format, Problem> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Ok(Format::Png),
        [0xff, 0xd8, 0xff, ..] => Ok(Format::Jpeg),
        [] => Err(Problem::Empty),
        _ => Err(Problem::NotAPicture),
    }
}

/// The picture in a file with the contents `bytes`: upright by its EXIF orientation, and on white
/// where it is transparent.
pub(super) fn decode(bytes: &[u8]) -> Result<Picture, Problem> {
    match format(bytes)? {
        Format::Png => decode_png(bytes),
        Format::Jpeg if is_complete_jpeg(bytes) => decode_jpeg(bytes),
        Format::Jpeg => Err(Problem::Truncated),
    }
}

fn decode_png(bytes: &[u8]) -> Result<Picture, Problem> {
    let limits = png::Limits {
        bytes: usize::try_from(DECODING_BYTES_MAX).unwrap_or(usize::MAX),
    };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(Transformations::EXPAND);
    let info = decoder.read_header_info().map_err(Problem::of_png)?;
    let (width, height) = info.size();
    refuse_large(width, height)?;
    let mut reader = decoder.read_info().map_err(Problem::of_png)?;
    let size = reader.output_buffer_size();
    let mut samples = vec![0; size.ok_or(Problem::TooLarge(width, height))?];
    let frame = reader.next_frame(&mut samples).map_err(Problem::of_png)?;
    if frame.bit_depth == png::BitDepth::Sixteen {
        samples = samples.chunks_exact(2).map(eight_bits).collect();
    }
    let rgb = on_white(samples, frame.color_type);
    let exif = reader.info().exif_metadata.as_deref();
    let orientation = exif.map_or(1, orientation);
    Ok(upright(Picture { width, height, rgb }, orientation))
}

fn decode_jpeg(bytes: &[u8]) -> Result<Picture, Problem> {
    let options = DecoderOptions::default()
        .jpeg_set_out_colorspace(ColorSpace::RGB)
        .set_strict_mode(false)
        .set_max_width(usize::MAX)
        .set_max_height(usize::MAX);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(Problem::of_jpeg)?;
    let (width, height) = decoder.dimensions().ok_or(Problem::Truncated)?;
    // JPEG has 16 bits for each of them.
    let (width, height) = (width as u32, height as u32);
    refuse_large(width, height)?;
    let rgb = decoder.decode().map_err(Problem::of_jpeg)?;
    let orientation = decoder.exif().map_or(1, |exif| orientation(exif));
    Ok(upright(Picture { width, height, rgb }, orientation))
}

/// Refuses a picture of more than [`PIXELS_MAX`] pixels.
fn refuse_large(width: u32, height: u32) -> Result<(), Problem> {
    if u64::from(width) * u64::from(height) > PIXELS_MAX {
        return Err(Problem::TooLarge(width, height));
    }
    Ok(())
}

/// A big-endian 16-bit sample in 8 bits, rounded to the nearest.
fn eight_bits(sample: &[u8]) -> u8 {
    ((u32::from(sample[0]) << 8 | u32::from(sample[1])) + 128).div_euclid(257) as u8
}

/// Red, green and blue of each pixel, mixed with white where it is transparent.
fn on_white(samples: Vec<u8>, colour: ColorType) -> Vec<u8> {
    let mix = |level: u8, alpha: u8| {
        let (level, alpha) = (u32::from(level), u32::from(alpha));
        ((level * alpha + 255 * (255 - alpha) + 127) / 255) as u8
    };
    match colour {
        ColorType::Rgb => samples,
        ColorType::Grayscale => samples.iter().flat_map(|&level| [level; 3]).collect(),
        ColorType::GrayscaleAlpha => samples
            .chunks_exact(2)
            .flat_map(|pixel| [mix(pixel[0], pixel[1]); 3])
            .collect(),
        ColorType::Rgba => samples
            .chunks_exact(4)
            .flat_map(|pixel| [0, 1, 2].map(|channel| mix(pixel[channel], pixel[3])))
            .collect(),
        ColorType::Indexed => unreachable!("the decoder expands palettes"),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use png::BitDepth;

    use super::*;

    fn png(size: (u32, u32), colour: ColorType, depth: BitDepth, samples: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, size.0, size.1);
        encoder.set_color(colour);
        encoder.set_depth(depth);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(samples).unwrap();
        writer.finish().unwrap();
        bytes
    }

    /// A PNG file with 8 bits for red, green and blue.
    fn rgb_png(size: (u32, u32), samples: &[u8]) -> Vec<u8> {
        png(size, ColorType::Rgb, BitDepth::Eight, samples)
    }

    /// JPEG files of the best quality: a grey ramp of 32 × 32 pixels, and [`colourful`] ones.
    const SMOOTH: &[u8] = include_bytes!("../../../tests/jpeg/smooth.jpg");
    const COLOURFUL: &[u8] = include_bytes!("../../../tests/jpeg/colourful.jpg");

    /// JPEG files of one colour, with their sizes.
    const THIN: [((u32, u32), &[u8]); 5] = [
        ((1, 1), include_bytes!("../../../tests/jpeg/1x1.jpg")),
        ((1, 500), include_bytes!("../../../tests/jpeg/1x500.jpg")),
        ((500, 1), include_bytes!("../../../tests/jpeg/500x1.jpg")),
        (
            (20_000, 3),
            include_bytes!("../../../tests/jpeg/20000x3.jpg"),
        ),
        (
            (3, 20_000),
            include_bytes!("../../../tests/jpeg/3x20000.jpg"),
        ),
    ];

    /// Pixels of which no two neighbours are equal.
    fn colourful((width, height): (u32, u32)) -> Vec<u8> {
        (0..height)
            .flat_map(|y| (0..width).map(move |x| [x * 37, y * 59, x * y]))
            .flat_map(|pixel| pixel.map(|level| level as u8))
            .collect()
    }

    /// The message about a file of these contents.
    #[track_caller]
    fn message(bytes: &[u8]) -> String {
        decode(bytes)
            .map(|picture| (picture.width, picture.height))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn pixels_come_out_as_they_went_in() {
        let samples = colourful((5, 3));
        let picture = decode(&rgb_png((5, 3), &samples)).unwrap();
        assert_eq!(
            (picture.width, picture.height, picture.rgb),
            (5, 3, samples)
        );
        let grey = png((2, 1), ColorType::Grayscale, BitDepth::Eight, &[7, 200]);
        assert_eq!(decode(&grey).unwrap().rgb, [7, 7, 7, 200, 200, 200]);
        // Two pixels of one bit, and three samples of sixteen: 0x7fff is 127.498 of 255.
        let bits = png((2, 1), ColorType::Grayscale, BitDepth::One, &[0b0100_0000]);
        assert_eq!(decode(&bits).unwrap().rgb, [0, 0, 0, 255, 255, 255]);
        let deep = [0xff, 0xff, 0x7f, 0xff, 0x80, 0x80];
        let deep = png((1, 1), ColorType::Rgb, BitDepth::Sixteen, &deep);
        assert_eq!(decode(&deep).unwrap().rgb, [255, 127, 128]);
    }

    #[test]
    fn a_photograph_in_jpeg_is_nearly_what_it_was() {
        let smooth: Vec<u8> = (0..32 * 32).flat_map(|at| [(at / 8) as u8; 3]).collect();
        let picture = decode(SMOOTH).unwrap();
        assert_eq!((picture.width, picture.height), (32, 32));
        let off = smooth.iter().zip(&picture.rgb);
        let off = off.map(|(before, after)| before.abs_diff(*after)).max();
        assert!(off.unwrap() <= 3, "{off:?}");
    }

    #[test]
    fn thin_and_wide_pictures_work() {
        for (size, jpeg) in THIN {
            let samples = colourful(size);
            let picture = decode(&rgb_png(size, &samples)).unwrap();
            assert_eq!((picture.width, picture.height), size);
            let picture = decode(jpeg).unwrap();
            assert_eq!(picture.rgb.len(), (size.0 * size.1 * 3) as usize);
            assert_eq!((picture.width, picture.height), size);
        }
    }

    #[test]
    fn transparent_pixels_lie_on_white() {
        let samples = [0, 0, 0, 0, 0, 100, 200, 255, 0, 0, 0, 128];
        let colours = png((3, 1), ColorType::Rgba, BitDepth::Eight, &samples);
        assert_eq!(
            decode(&colours).unwrap().rgb,
            [255, 255, 255, 0, 100, 200, 127, 127, 127]
        );
        let samples = [0, 0, 0, 128, 9, 255];
        let greys = png((3, 1), ColorType::GrayscaleAlpha, BitDepth::Eight, &samples);
        assert_eq!(
            decode(&greys).unwrap().rgb,
            [255, 255, 255, 127, 127, 127, 9, 9, 9]
        );
    }

    #[test]
    fn a_picture_is_turned_as_its_file_says() {
        // EXIF with one entry: orientation 6, to be turned by 90° to the right.
        let exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        let mut info = png::Info::with_size(2, 1);
        info.color_type = ColorType::Grayscale;
        info.exif_metadata = Some(Cow::Borrowed(exif));
        let mut bytes = Vec::new();
        let encoder = png::Encoder::with_info(&mut bytes, info).unwrap();
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&[10, 20]).unwrap();
        writer.finish().unwrap();
        let picture = decode(&bytes).unwrap();
        assert_eq!((picture.width, picture.height, picture.rgb[0]), (1, 2, 10));
    }

    #[test]
    fn bad_contents_are_told_apart() {
        assert_eq!(message(b""), "the file is empty");
        assert_eq!(message(b"hello, world\n"), "is not a PNG or JPEG picture");
        assert_eq!(
            message(b"GIF89a\x01\0\x01\0"),
            "is not a PNG or JPEG picture"
        );
        let mut png = rgb_png((40, 40), &colourful((40, 40)));
        let middle = png.len() / 2;
        png[middle] ^= 0xff;
        assert!(
            message(&png).starts_with("the picture is damaged ("),
            "{}",
            message(&png)
        );
    }

    #[test]
    fn a_picture_that_is_cut_off_is_never_a_picture() {
        let samples = colourful((30, 30));
        let png = rgb_png((30, 30), &samples);
        // The last twelve bytes of a PNG file, and the checksum before them, say nothing about
        // pixels.
        for (format, whole, needed) in [
            (Format::Png, &png[..], png.len() - 16),
            (Format::Jpeg, COLOURFUL, COLOURFUL.len()),
        ] {
            for length in 8..needed {
                let problem = decode(&whole[..length]).map(|_| ()).unwrap_err();
                assert!(
                    matches!(problem, Problem::Truncated),
                    "{format:?} of {length}: {problem}"
                );
            }
        }
    }

    #[test]
    fn too_many_pixels_are_refused_before_they_are_decoded() {
        let mut png = rgb_png((1, 1), &[0; 3]);
        // Width, height, and the checksum of the header that says so.
        png[16..24].copy_from_slice(&[0, 0, 0x80, 0, 0, 0, 0x40, 0]);
        let checksum = crc32(&png[12..29]);
        png[29..33].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(
            message(&png),
            "the picture is too large: 32768 × 16384 pixels, and at most 268435456 are possible"
        );
    }

    /// The checksum that PNG uses.
    fn crc32(bytes: &[u8]) -> u32 {
        let step = |crc: u32, _| {
            if crc & 1 == 1 {
                (crc >> 1) ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        };
        !bytes
            .iter()
            .fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
    }
}
