//! The EXIF orientation of a picture, and turning a picture upright by it.

use super::Picture;

/// The tag of the orientation, and the type of its value: an unsigned 16-bit integer.
const TAG: u16 = 0x112;
const SHORT: u16 = 3;
/// Bytes of an entry of an image file directory.
const ENTRY_BYTES: usize = 12;

/// The orientation in the EXIF data `exif`, which is a TIFF header with an image file directory: 1
/// (upright) to 8. It is 1 if the data has no valid orientation.
pub(super) fn orientation(exif: &[u8]) -> u8 {
    find(exif)
        .filter(|value| (1..=8).contains(value))
        .map_or(1, |value| value as u8)
}

/// The value of the orientation's entry.
fn find(exif: &[u8]) -> Option<u16> {
    let is_big = match exif.get(..4)? {
        b"II*\0" => false,
        b"MM\0*" => true,
        _ => return None,
    };
    let short = |at: usize| {
        let bytes = exif.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if is_big {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        })
    };
    let long = |at: usize| {
        let (first, second) = (u32::from(short(at)?), u32::from(short(at.checked_add(2)?)?));
        Some(if is_big {
            first << 16 | second
        } else {
            second << 16 | first
        })
    };
    let directory = long(4)? as usize;
    let entries = usize::from(short(directory)?);
    let mut entries = (0..entries).map(|entry| directory + 2 + entry * ENTRY_BYTES);
    let entry = entries.find(|&at| {
        short(at) == Some(TAG) && short(at + 2) == Some(SHORT) && long(at + 4) == Some(1)
    })?;
    short(entry + 8)
}

/// The picture, turned and mirrored as the EXIF orientation asks.
pub(super) fn upright(picture: Picture, orientation: u8) -> Picture {
    if !(2..=8).contains(&orientation) {
        return picture;
    }
    let (width, height) = (picture.width as usize, picture.height as usize);
    let (right, bottom) = (width - 1, height - 1);
    // The source of the pixel at (x, y) of the result.
    let source = |x: usize, y: usize| match orientation {
        2 => (right - x, y),
        3 => (right - x, bottom - y),
        4 => (x, bottom - y),
        5 => (y, x),
        6 => (y, bottom - x),
        7 => (right - y, bottom - x),
        _ => (right - y, x),
    };
    let (new_width, new_height) = if orientation < 5 {
        (width, height)
    } else {
        (height, width)
    };
    let rgb = (0..new_height)
        .flat_map(|y| (0..new_width).map(move |x| (x, y)))
        .flat_map(|(x, y)| {
            let (x, y) = source(x, y);
            let at = 3 * (y * width + x);
            [picture.rgb[at], picture.rgb[at + 1], picture.rgb[at + 2]]
        })
        .collect();
    Picture {
        width: new_width as u32,
        height: new_height as u32,
        rgb,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EXIF data with one entry: an orientation.
    pub(super) fn exif(value: u8) -> Vec<u8> {
        let mut bytes = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".to_vec();
        bytes.extend([value, 0, 0, 0, 0, 0, 0, 0]);
        bytes
    }

    #[test]
    fn both_byte_orders_are_read_and_anything_else_is_upright() {
        assert_eq!(
            (1..=8).map(|value| orientation(&exif(value))).max(),
            Some(8)
        );
        let big = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        assert_eq!(orientation(big), 6);
        for value in [0, 9, 255] {
            assert_eq!(orientation(&exif(value)), 1);
        }
        let whole = exif(6);
        for length in 0..whole.len() - 8 {
            assert_eq!(orientation(&whole[..length]), 1, "{length} bytes");
        }
        assert_eq!(orientation(b"II*\0\xff\xff\xff\xff"), 1);
    }

    #[test]
    fn every_orientation_puts_the_first_pixel_where_exif_says() {
        // Three pixels wide and two high; the corners are named by their red.
        let picture = || Picture {
            width: 3,
            height: 2,
            rgb: [1, 0, 2, 3, 0, 4]
                .iter()
                .flat_map(|&red| [red, 0, 0])
                .collect(),
        };
        let corners = |orientation| {
            let turned = upright(picture(), orientation);
            let (width, height) = (turned.width as usize, turned.height as usize);
            let red = |x, y| turned.rgb[3 * (y * width + x)];
            let (right, bottom) = (width - 1, height - 1);
            assert_eq!(
                (width, height),
                if orientation < 5 { (3, 2) } else { (2, 3) }
            );
            [red(0, 0), red(right, 0), red(0, bottom), red(right, bottom)]
        };
        // Upper left, upper right, lower left, lower right.
        assert_eq!(corners(1), [1, 2, 3, 4]);
        assert_eq!(corners(2), [2, 1, 4, 3]);
        assert_eq!(corners(3), [4, 3, 2, 1]);
        assert_eq!(corners(4), [3, 4, 1, 2]);
        assert_eq!(corners(5), [1, 3, 2, 4]);
        assert_eq!(corners(6), [3, 1, 4, 2]);
        assert_eq!(corners(7), [4, 2, 3, 1]);
        assert_eq!(corners(8), [2, 4, 1, 3]);
    }
}
