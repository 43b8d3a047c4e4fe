//! From the bytes of a PNG or JPEG file to a picture, or to what is wrong with them.

use std::io::Cursor;

use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::Picture;
use super::complete::is_complete_jpeg;
use super::problem::{PIXELS_MAX, Problem};

/// The most bytes that decoding one picture may take: sixteen bits for each of four channels, and
/// as much again.
const DECODING_BYTES_MAX: u64 = PIXELS_MAX * 8 * 2;

/// The format of the picture that starts with `bytes`.
pub(super) fn format(bytes: &[u8]) -> Result<ImageFormat, Problem> {
    match image::guess_format(bytes) {
        Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg)) => Ok(format),
        _ if bytes.is_empty() => Err(Problem::Empty),
        _ => Err(Problem::NotAPicture),
    }
}

/// The picture in a file of these contents, upright: turned as the file says, and what is
/// transparent put on white.
pub(super) fn decode(bytes: &[u8]) -> Result<Picture, Problem> {
    let format = format(bytes)?;
    if format == ImageFormat::Jpeg && !is_complete_jpeg(bytes) {
        return Err(Problem::Truncated);
    }
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(DECODING_BYTES_MAX);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(Problem::of_decoder)?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > PIXELS_MAX {
        return Err(Problem::TooLarge(width, height));
    }
    let orientation = decoder.orientation().map_err(Problem::of_decoder)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(Problem::of_decoder)?;
    picture.apply_orientation(orientation);
    let (width, height) = (picture.width(), picture.height());
    Ok(Picture {
        width,
        height,
        rgb: on_white(picture),
    })
}

/// The bytes of a picture, with white behind what is transparent.
fn on_white(picture: DynamicImage) -> Vec<u8> {
    if !picture.color().has_alpha() {
        return picture.into_rgb8().into_raw();
    }
    let mix = |[red, green, blue, alpha]: [u8; 4]| {
        let alpha = u32::from(alpha);
        [red, green, blue]
            .map(|level| ((u32::from(level) * alpha + 255 * (255 - alpha) + 127) / 255) as u8)
    };
    picture
        .into_rgba8()
        .pixels()
        .flat_map(|pixel| mix(pixel.0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{GrayImage, ImageEncoder, RgbImage, RgbaImage};

    /// A file's worth of `image` in `format`.
    fn encoded(image: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        image.into().write_to(&mut bytes, format).unwrap();
        bytes.into_inner()
    }

    /// A picture in which no two neighbours are alike.
    fn colourful(width: u32, height: u32) -> RgbImage {
        RgbImage::from_fn(width, height, |x, y| {
            image::Rgb([(x * 37) as u8, (y * 59) as u8, (x * y) as u8])
        })
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
        let image = colourful(5, 3);
        let picture = decode(&encoded(image.clone(), ImageFormat::Png)).unwrap();
        assert_eq!(
            (picture.width, picture.height, picture.rgb),
            (5, 3, image.into_raw())
        );
        let grey = decode(&encoded(
            GrayImage::from_raw(2, 1, vec![7, 200]).unwrap(),
            ImageFormat::Png,
        ))
        .unwrap();
        assert_eq!(grey.rgb, [7, 7, 7, 200, 200, 200]);
    }

    #[test]
    fn thin_and_wide_pictures_work() {
        for (width, height) in [(1, 1), (1, 500), (500, 1), (20_000, 3), (3, 20_000)] {
            let picture = decode(&encoded(colourful(width, height), ImageFormat::Png)).unwrap();
            assert_eq!((picture.width, picture.height), (width, height));
            let picture = decode(&encoded(colourful(width, height), ImageFormat::Jpeg)).unwrap();
            assert_eq!(picture.rgb.len(), (width * height * 3) as usize);
        }
    }

    #[test]
    fn transparent_pixels_lie_on_white() {
        let image =
            RgbaImage::from_raw(3, 1, vec![0, 0, 0, 0, 0, 100, 200, 255, 0, 0, 0, 128]).unwrap();
        assert_eq!(
            decode(&encoded(image, ImageFormat::Png)).unwrap().rgb,
            [255, 255, 255, 0, 100, 200, 127, 127, 127]
        );
    }

    #[test]
    fn a_picture_is_turned_as_its_file_says() {
        // EXIF with one entry: orientation 6, to be turned by 90° to the right.
        let exif = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
        let mut bytes = Vec::new();
        let mut encoder = image::codecs::png::PngEncoder::new(&mut bytes);
        encoder.set_exif_metadata(exif.to_vec()).unwrap();
        encoder
            .write_image(&[10, 20], 2, 1, image::ExtendedColorType::L8)
            .unwrap();
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
        let mut png = encoded(colourful(40, 40), ImageFormat::Png);
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
        for format in [ImageFormat::Png, ImageFormat::Jpeg] {
            let whole = encoded(colourful(30, 30), format);
            // The last twelve bytes of a PNG file, and the checksum before them, say nothing about
            // pixels.
            let needed = if format == ImageFormat::Png {
                whole.len() - 16
            } else {
                whole.len()
            };
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
        let mut png = encoded(colourful(1, 1), ImageFormat::Png);
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
