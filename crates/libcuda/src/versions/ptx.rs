//! The newest version of PTX that a driver accepts.
//!
//! The source is the table "PTX Release History" of NVIDIA's manual "Parallel Thread Execution
//! ISA". CUDA 12.6 has the version of 12.5, and CUDA 12.7 was released as a driver only.

/// The first CUDA version with each version of PTX, from the newest to the oldest.
const HISTORY: [(i32, (u32, u32)); 24] = [
    (13_050, (9, 5)),
    (13_040, (9, 4)),
    (13_030, (9, 3)),
    (13_020, (9, 2)),
    (13_010, (9, 1)),
    (13_000, (9, 0)),
    (12_090, (8, 8)),
    (12_080, (8, 7)),
    (12_070, (8, 6)),
    (12_050, (8, 5)),
    (12_040, (8, 4)),
    (12_030, (8, 3)),
    (12_020, (8, 2)),
    (12_010, (8, 1)),
    (12_000, (8, 0)),
    (11_080, (7, 8)),
    (11_070, (7, 7)),
    (11_060, (7, 6)),
    (11_050, (7, 5)),
    (11_040, (7, 4)),
    (11_030, (7, 3)),
    (11_020, (7, 2)),
    (11_010, (7, 1)),
    (11_000, (7, 0)),
];

/// Returns the newest version of PTX that a driver of this CUDA version accepts: major and minor.
/// It refuses newer PTX with `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`. `None` before CUDA 11.0.
#[must_use]
pub fn newest_ptx(cuda_version: i32) -> Option<(u32, u32)> {
    let of = HISTORY.iter().find(|(since, _)| *since <= cuda_version);
    of.map(|&(_, version)| version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versions::NEWEST_CUDA;

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
            (NEWEST_CUDA, Some((9, 5))),
        ] {
            assert_eq!(newest_ptx(cuda_version), expected, "{cuda_version}");
        }
        assert_eq!(HISTORY[0].0, NEWEST_CUDA, "the newest headers have a row");
        assert!(HISTORY.is_sorted_by(|a, b| a.0 > b.0 && a.1 > b.1));
    }
}
