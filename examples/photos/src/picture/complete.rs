//! Detects JPEG files that were cut off: decoders fill the missing part with grey and report
//! success.

/// Returns whether the JPEG file `bytes` contains its end-of-image marker.
pub(super) fn is_complete_jpeg(bytes: &[u8]) -> bool {
    let mut at = 2; // behind the start-of-image marker
    while let [first, marker, ..] = bytes[at.min(bytes.len())..] {
        at += match (first, marker) {
            (0xff, 0xd9) => return true,
            // Compressed data between the segments, or padding before a marker.
            (0..=0xfe, _) | (0xff, 0xff) => 1,
            // A byte 0xff of compressed data, or a marker that stands alone.
            (0xff, 0x00 | 0x01 | 0xd0..=0xd8) => 2,
            // A segment, which tells its length; an end marker inside it (of a thumbnail, say)
            // means nothing.
            (0xff, _) => match bytes[at + 2..] {
                [high, low, ..] => 2 + usize::from(u16::from_be_bytes([high, low])),
                _ => return false,
            },
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::is_complete_jpeg;

    #[test]
    fn the_end_marker_counts_only_between_segments() {
        assert!(is_complete_jpeg(&[0xff, 0xd8, 0xff, 0xd9]));
        assert!(is_complete_jpeg(&[
            0xff, 0xd8, 0xff, 0xda, 0, 2, 7, 0xff, 0, 7, 0xff, 0xd0, 0xff, 0xff, 0xd9, 9, 9
        ]));
        assert!(!is_complete_jpeg(&[
            0xff, 0xd8, 0xff, 0xe1, 0, 6, 0xff, 0xd9, 0xff, 0xd9, 7, 0xff
        ]));
        for short in [
            &[][..],
            &[0xff],
            &[0xff, 0xd8],
            &[0xff, 0xd8, 0xff],
            &[0xff, 0xd8, 0xff, 0xe1, 0],
        ] {
            assert!(!is_complete_jpeg(short), "{short:?}");
        }
    }
}
