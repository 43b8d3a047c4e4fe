//! Prepares module images for libcuda, and reads its compiler's log.

use std::borrow::Cow;

use crate::{DriverError, ResultCode};

/// How the binary images begin that CUDA's tools write: ELF files (cubin), and the fat binary's own header.
const BINARY_MAGICS: [[u8; 4]; 2] = [*b"\x7fELF", 0xba55_ed50_u32.to_le_bytes()];

/// The image as libcuda wants it: a binary as it is, PTX text with a zero byte at its end.
///
/// # Errors
///
/// For text with a zero byte in the middle, of which libcuda would silently take the first part.
pub(super) fn prepare(image: &[u8]) -> Result<Cow<'_, [u8]>, DriverError> {
    if BINARY_MAGICS.iter().any(|magic| image.starts_with(magic)) {
        return Ok(Cow::Borrowed(image));
    }
    match image.iter().position(|&byte| byte == 0) {
        Some(zero) if image[zero..].iter().all(|&byte| byte == 0) => Ok(Cow::Borrowed(image)),
        Some(zero) => Err(
            DriverError::new("cuModuleLoadDataEx", ResultCode::INVALID_PTX).with_detail(format!(
                "the PTX has a zero byte at offset {zero}, before its end"
            )),
        ),
        None => Ok(Cow::Owned([image, &[0]].concat())),
    }
}

/// What the compiler wrote into its log buffer, as text without the padding.
pub(super) fn log_text(buffer: &[u8]) -> Option<String> {
    let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(buffer.len());
    let text = String::from_utf8_lossy(&buffer[..end]).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_in_one_zero_byte_and_binaries_are_left_alone() {
        assert_eq!(*prepare(b".version 8.0").expect("text"), *b".version 8.0\0");
        assert_eq!(*prepare(b".version 8.0\0").expect("text"), *b".version 8.0\0");
        assert_eq!(*prepare(b"").expect("text"), *b"\0");
        assert_eq!(
            *prepare(b"\x7fELF\x02\0\x01").expect("a cubin"),
            *b"\x7fELF\x02\0\x01"
        );
        assert_eq!(
            *prepare(b"\x50\xed\x55\xba\0\x01").expect("a fat binary"),
            *b"\x50\xed\x55\xba\0\x01"
        );
    }

    #[test]
    fn a_zero_byte_inside_the_text_is_refused() {
        let error = prepare(b".version\0 8.0").expect_err("cut short");
        assert_eq!(error.code(), ResultCode::INVALID_PTX);
        assert_eq!(
            error.detail(),
            Some("the PTX has a zero byte at offset 8, before its end")
        );
    }

    #[test]
    fn the_log_is_what_stands_before_the_first_zero_byte() {
        assert_eq!(
            log_text(b"ptxas fatal : oh\n\0garbage").as_deref(),
            Some("ptxas fatal : oh")
        );
        assert_eq!(log_text(b" \n\0"), None);
        assert_eq!(log_text(b"full").as_deref(), Some("full"));
    }
}
