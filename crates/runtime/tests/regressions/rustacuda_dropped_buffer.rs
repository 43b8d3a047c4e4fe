//! RustaCUDA: asynchronous copies take references that end when the call returns. A device buffer,
//! or the host memory of the copy, may be dropped while the copy is pending; the free then waits
//! for the whole device or, in other versions, does not wait.
//!
//! Here everything may be dropped as soon as the call returns; nothing blocks, and the copied
//! values are correct.

use std::mem;

use crate::regressions::{N, counted};

#[test]
fn both_ends_of_a_copy_may_be_dropped_in_flight() {
    counted(|harness, calls| {
        let stream = harness.stream();
        let gate = harness.gate(&stream);
        calls.forget();
        let mut source = vec![1_u32; N];
        let uploaded = stream.upload(&source)?;
        source.fill(2);
        drop(source);
        let mut copy = stream.zeros::<u32>(N)?;
        stream.copy(&uploaded, &mut copy)?;
        drop(uploaded);
        let mut pinned = harness.device.pinned_from(&[3_u32; N])?;
        let mut from_pinned = stream.zeros::<u32>(N)?;
        stream.copy(&pinned, &mut from_pinned)?;
        // The new array has the same size and would reuse the memory if it were free.
        drop(mem::replace(
            &mut pinned,
            harness.device.pinned_from(&[4_u32; N])?,
        ));
        stream.copy(&copy, &mut pinned)?;
        let (first, second) = (stream.download(&copy)?, stream.download(&from_pinned)?);
        drop((pinned, copy, from_pinned));
        drop(stream.upload(&[5_u32; N])?);
        for blocking in [
            "mem_free",
            "host_free",
            "stream_synchronize",
            "context_synchronize",
        ] {
            assert_eq!(calls.count(blocking), 0, "{blocking}");
        }
        harness.open_pending(gate, &first);
        assert_eq!(first.wait()?, [1; N]);
        assert_eq!(second.wait()?, [3; N]);
        Ok(())
    });
}
