//! Decompression of PTX. Errors are the reason, for [`FatbinError::Corrupt`](super::FatbinError).

use std::io::Read;

/// The maximum size of decompressed PTX. The text of one module is far smaller, and a few
/// compressed bytes can claim any size.
const TEXT_BYTES_MAX: u64 = 256 << 20;

/// The maximum ratio of the sizes before and after compression as an LZ4 block, in which one byte
/// of a length stands for 255 bytes.
const LZ4_RATIO_MAX: u64 = 255;

pub(super) fn text_of_lz4(data: &[u8], bytes: u64) -> Result<String, String> {
    // Memory is allocated for the claimed size only if the data can hold that much.
    let size = checked_size(bytes, (data.len() as u64).saturating_mul(LZ4_RATIO_MAX))?;
    let text = lz4_flex::block::decompress(data, size).map_err(|error| format!("LZ4: {error}"))?;
    text_of_size(text, size)
}

/// Decompresses Zstandard frames of `bytes` bytes in all.
pub(super) fn text_of_zstd(data: &[u8], bytes: u64) -> Result<String, String> {
    let size = checked_size(bytes, TEXT_BYTES_MAX)?;
    let decoder = ruzstd::decoding::StreamingDecoder::new(data)
        .map_err(|error| format!("Zstandard: {error}"))?;
    let mut text = Vec::new();
    decoder
        .take(bytes + 1)
        .read_to_end(&mut text)
        .map_err(|error| format!("Zstandard: {error}"))?;
    text_of_size(text, size)
}

/// Returns the text in bytes that are padded with zeros.
pub(super) fn text_of_bytes(mut bytes: Vec<u8>) -> Result<String, String> {
    let end = bytes.iter().position(|&byte| byte == 0);
    bytes.truncate(end.unwrap_or(bytes.len()));
    String::from_utf8(bytes).map_err(|error| format!("not a text: {error}"))
}

/// Returns a claimed size, unless it exceeds a maximum.
fn checked_size(bytes: u64, bytes_max: u64) -> Result<usize, String> {
    if bytes > bytes_max.min(TEXT_BYTES_MAX) {
        return Err(format!("{bytes} bytes cannot be in the compressed data"));
    }
    Ok(bytes as usize)
}

/// Returns the text in decompressed bytes, which must have the claimed size.
fn text_of_size(bytes: Vec<u8>, size: usize) -> Result<String, String> {
    if bytes.len() != size {
        return Err(format!(
            "{} bytes were decompressed instead of {size}",
            bytes.len()
        ));
    }
    text_of_bytes(bytes)
}
