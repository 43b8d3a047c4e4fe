//! What can be wrong with an input, each in a few words.

use std::io::ErrorKind;

use image::error::ImageError;

/// The most pixels that a picture may have, whatever its shape: on the device one of this size
/// takes 1.5 GiB.
pub(super) const PIXELS_MAX: u64 = 1 << 28;

/// What is wrong with an input.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("there is no such file")]
    Missing,
    #[error("cannot be read ({0})")]
    Unreadable(std::io::Error),
    #[error("is neither a file nor a folder")]
    Special,
    #[error("there is no PNG or JPEG file in this folder")]
    NoPictures,
    #[error("the file is empty")]
    Empty,
    #[error("is not a PNG or JPEG picture")]
    NotAPicture,
    #[error("the picture is cut off: the file ends too early")]
    Truncated,
    #[error("the picture is damaged ({0})")]
    Damaged(String),
    #[error("the picture is too large: {0} × {1} pixels, and at most {PIXELS_MAX} are possible")]
    TooLarge(u32, u32),
}

impl Problem {
    /// What the error of a file operation means.
    pub(super) fn of_file(error: std::io::Error) -> Problem {
        if error.kind() == ErrorKind::NotFound {
            Problem::Missing
        } else {
            Problem::Unreadable(error)
        }
    }

    /// What the error of a decoder means.
    pub(super) fn of_decoder(error: ImageError) -> Problem {
        match error {
            ImageError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Problem::Truncated
            }
            error => Problem::Damaged(error.to_string().replace(char::is_control, " ")),
        }
    }
}
