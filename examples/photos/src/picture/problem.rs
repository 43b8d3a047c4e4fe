//! The problems of an input, each described in a few words.

use std::io::{self, ErrorKind};

use png::DecodingError;
use zune_jpeg::errors::DecodeErrors;

/// The most pixels that a picture may have, whatever its shape: on the device one of this size
/// takes 1.5 GiB.
pub(super) const PIXELS_MAX: u64 = 1 << 28;

#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("there is no such file")]
    Missing,
    #[error("cannot be read ({0})")]
    Unreadable(io::Error),
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
    /// The problem behind the error of a file operation.
    pub(super) fn of_file(error: io::Error) -> Problem {
        if error.kind() == ErrorKind::NotFound {
            Problem::Missing
        } else {
            Problem::Unreadable(error)
        }
    }

    /// The problem behind an error of the PNG decoder.
    pub(super) fn of_png(error: DecodingError) -> Problem {
        match error {
            DecodingError::IoError(error) if error.kind() == ErrorKind::UnexpectedEof => {
                Problem::Truncated
            }
            error => Problem::damaged(&error),
        }
    }

    /// The problem behind an error of the JPEG decoder.
    pub(super) fn of_jpeg(error: DecodeErrors) -> Problem {
        Problem::damaged(&error)
    }

    fn damaged(error: &impl ToString) -> Problem {
        Problem::Damaged(error.to_string().replace(char::is_control, " "))
    }
}
