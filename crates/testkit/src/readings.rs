//! The rules on which CUDA's documentation and hardware differ, in combinations of readings.

use millstream::sim::{Reading, Rules};

/// Returns the readings of the disputed rules; each bit of `choice` selects the strict reading of
/// one; the bit of the allocator selects that of peer access too, the bit of small uploads that of
/// graphs, and the bit of pageable downloads that of kernels at the same time.
pub fn rules(choice: u64) -> Rules {
    let reading = |bit: u32| {
        if choice >> bit & 1 == 1 {
            Reading::Strict
        } else {
            Reading::Observed
        }
    };
    Rules {
        small_upload: reading(0),
        pageable_upload: reading(1),
        pageable_download: reading(2),
        cross_stream_reuse: reading(3),
        implicit_synchronisation: reading(4),
        peer_access: reading(3),
        graph_destruction: reading(0),
        concurrent_kernels: reading(2),
    }
}
