//! cudarc: events are recorded and waited for only while more than one stream exists. When the last
//! extra stream is dropped with pending work, nothing waits for that work any more: the first
//! stream overwrites or frees an array that is still being read.
//!
//! Here the work of a dropped stream stays tracked until it is complete.

use crate::regressions::{N, regression};

#[test]
fn a_write_waits_for_a_reader_whose_stream_is_gone() {
    regression(|harness| {
        let first = harness.stream();
        let mut array = first.upload(&[1_u32; N])?;
        let extra = harness.stream();
        let gate = harness.gate(&extra);
        let read = extra.download(&array)?;
        drop(extra);
        first.fill(&mut array, 2)?;
        let written = first.download(&array)?;
        harness.open_pending(gate, &written);
        assert_eq!(read.wait()?, [1; N]);
        assert_eq!(written.wait()?, [2; N]);
        Ok(())
    });
}

#[test]
fn a_read_waits_for_a_writer_whose_stream_is_gone() {
    regression(|harness| {
        let first = harness.stream();
        let mut array = first.upload(&[1_u32; N])?;
        let extra = harness.stream();
        let gate = harness.gate(&extra);
        extra.fill(&mut array, 2)?;
        drop(extra);
        assert_eq!(harness.opened(gate, first.download(&array)?), [2; N]);
        Ok(())
    });
}

#[test]
fn a_free_waits_for_a_reader_whose_stream_is_gone() {
    regression(|harness| {
        let first = harness.stream();
        let array = first.upload(&[1_u32; N])?;
        let extra = harness.stream();
        let gate = harness.gate(&extra);
        let read = extra.download(&array)?;
        drop(extra);
        drop(array);
        // The arrays have the same size, so they would reuse the memory if it were free.
        let others = [5, 6, 7].map(|value| first.upload(&[value; N]));
        gate.open();
        assert_eq!(read.wait()?, [1; N]);
        for (other, value) in others.into_iter().zip(5..) {
            assert_eq!(first.download(&other?)?.wait()?, [value; N]);
        }
        Ok(())
    });
}
