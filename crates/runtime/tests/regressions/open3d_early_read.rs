//! Open3D: a copy to the host is followed by a wait for the default stream. On any other stream the
//! copy is asynchronous and nothing waits for it, so the program reads the memory's previous
//! contents. Where Open3D does wait, it waits for the whole device.
//!
//! Here a returned value is complete, on whichever stream it was downloaded, and nothing else is
//! waited for.

use crate::regressions::{N, counted, regression};

#[test]
fn a_value_from_any_stream_is_complete() {
    regression(|harness| {
        let source: Vec<u32> = (0..N as u32).collect();
        for stream in [
            harness.device.thread_stream()?,
            harness.stream(),
            harness.device.stream_with_priority(-1)?,
        ] {
            let array = stream.upload(&source)?;
            let (mut pinned, mut borrowed) = (harness.device.pinned::<u32>(N)?, vec![0; N]);
            let gate = harness.gate(&stream);
            let value = stream.download(&array)?;
            stream.copy(&array, &mut pinned)?;
            harness.open_pending(gate, &value);
            harness
                .device
                .scope(|scope| scope.download(&stream, &array, &mut borrowed))?;
            assert_eq!(borrowed, source);
            assert_eq!(*pinned.read()?, source);
            assert_eq!(value.wait()?, source);
        }
        Ok(())
    });
}

#[test]
fn a_value_waits_only_for_its_own_stream() {
    counted(|harness, calls| {
        let [stream, busy] = harness.streams();
        let array = stream.upload(&[3_u32; N])?;
        let other = busy.upload(&[4_u32; N])?;
        let gate = harness.gate(&busy);
        let held = busy.download(&other)?;
        assert_eq!(stream.download(&array)?.wait()?, [3; N]);
        harness.open_pending(gate, &held);
        assert_eq!(held.wait()?, [4; N]);
        assert_eq!(calls.count("context_synchronize"), 0);
        assert_eq!(calls.legacy(), 0, "the default stream is not used");
        Ok(())
    });
}
