//! candle #3352 and #3002: temporary tensors, and the host memory of uploads, are freed when the
//! capture is over, although the graph contains their addresses. Replays read freed memory.
//!
//! Here a graph owns the arrays that were dropped in the recording, and the data that were uploaded
//! there.

use crate::regressions::{N, regression};

#[test]
fn arrays_dropped_in_a_recording_live_as_long_as_the_graph() {
    regression(|harness| {
        let [stream, other] = harness.streams();
        let mut output = stream.zeros::<u32>(2 * N)?;
        let mut data = vec![5_u32; N];
        let graph = harness.record("temporaries", |r| {
            let recorded = r.stream()?;
            let uploaded = recorded.upload(&data)?;
            let mut copy = recorded.zeros::<u32>(N)?;
            recorded.copy(&uploaded, &mut copy)?;
            drop(uploaded);
            recorded.copy(&copy, output.slice_mut(..N))?;
            recorded.upload_into(&data, output.slice_mut(N..))
        })?;
        data.fill(6);
        drop(data);
        // Memory that was freed would be overwritten by these.
        let arrays = [(); 4].map(|()| other.upload(&[9_u32; N]));
        for _ in 0..2 {
            stream.fill(&mut output, 0)?;
            graph.replay(&stream)?;
            assert_eq!(stream.download(&output)?.wait()?, [5; 2 * N]);
        }
        for array in arrays {
            assert_eq!(other.download(&array?)?.wait()?, [9; N]);
        }
        Ok(())
    });
}
