//! Several bindings: an upload from page-locked memory on the default stream is asynchronous, and a
//! program that refills the memory for the next upload changes the bytes that the first one copies.
//!
//! Here a host write waits until the copy has read the memory, and only for that; a host read does
//! not wait at all.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use millstream::Result;

use crate::regressions::{N, regression};

#[test]
fn a_write_of_the_host_waits_for_the_upload() {
    regression(|harness| {
        let stream = harness.device.thread_stream()?;
        let mut array = stream.zeros::<u32>(N)?;
        let mut pinned = harness.device.pinned_from(&[1_u32; N])?;
        let gate = harness.gate(&stream);
        stream.copy(&pinned, &mut array)?;
        assert_eq!(
            *pinned.read()?,
            [1; N],
            "the upload and the guard both only read"
        );
        let opened = AtomicBool::new(false);
        thread::scope(|scope| -> Result<()> {
            let writes = scope.spawn(|| -> Result<bool> {
                pinned.write()?.fill(2);
                Ok(opened.load(Ordering::SeqCst))
            });
            thread::sleep(Duration::from_micros(200));
            opened.store(true, Ordering::SeqCst);
            gate.open();
            let waited = writes.join().expect("the writer does not panic")?;
            assert!(
                waited || !harness.gates_hold(),
                "it wrote while the copy was pending"
            );
            Ok(())
        })?;
        assert_eq!(stream.download(&array)?.wait()?, [1; N]);
        stream.copy(&pinned, &mut array)?;
        assert_eq!(stream.download(&array)?.wait()?, [2; N]);
        Ok(())
    });
}

#[test]
fn a_loop_that_refills_one_pinned_array_uploads_each_content() {
    regression(|harness| {
        let stream = harness.device.thread_stream()?;
        let mut pinned = harness.device.pinned::<u32>(N)?;
        let mut arrays = Vec::new();
        for round in 0..6 {
            pinned.write()?.fill(round);
            let mut array = stream.zeros::<u32>(N)?;
            stream.copy(&pinned, &mut array)?;
            arrays.push(array);
        }
        for (array, round) in arrays.iter().zip(0..) {
            assert_eq!(stream.download(array)?.wait()?, [round; N]);
        }
        Ok(())
    });
}
