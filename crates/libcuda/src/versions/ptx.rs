//! The newest version of PTX that a driver accepts.
//!
//! The source is the table "PTX Release History" of NVIDIA's manual "Parallel Thread Execution
//! ISA". CUDA 12.6 has the version of 12.5, and CUDA 12.7 was released as a driver only.

use super::NEWEST_CUDA;

/// Returns the newest version of PTX that a driver of this CUDA version accepts: major and minor.
/// It refuses newer PTX with `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`. `None` before CUDA 11.0.
#[must_use]
pub fn newest_ptx(cuda_version: i32) -> Option<(u32, u32)> {
    let version = cuda_version.min(NEWEST_CUDA).cast_unsigned();
    let minor = version % 1000 / 10;
    match version / 1000 {
        11 => Some((7, minor)),
        12 => Some((8, minor - u32::from(minor > 5))),
        13 => Some((9, minor)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_accepts_the_ptx_of_its_release() {
        for (cuda_version, expected) in [
            (10_020, None),
            (11_000, Some((7, 0))),
            (11_080, Some((7, 8))),
            (12_000, Some((8, 0))),
            (12_060, Some((8, 5))),
            (12_070, Some((8, 6))),
            (12_090, Some((8, 8))),
            (13_000, Some((9, 0))),
            (13_030, Some((9, 3))),
            (13_050, Some((9, 5))),
            // A newer driver is not known, nor its PTX.
            (13_090, Some((9, 5))),
        ] {
            assert_eq!(newest_ptx(cuda_version), expected, "{cuda_version}");
        }
    }
}
