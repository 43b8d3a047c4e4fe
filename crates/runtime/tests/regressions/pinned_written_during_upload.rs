//! Of several bindings: an upload from page-locked memory on the default stream is asynchronous
//! like any other, and a program that fills the memory anew for the next upload changes what the
//! first one brings.
//!
//! The host's write waits until the copy has read, and only for that; its read does not wait at
//! all.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use millstream::Result;

use crate::{N, regression};

#[test]
fn a_write_of_the_host_waits_for_the_upload() {
    regression(|harness| {
        let stream = harness.device.thread_stream()?;
        let mut array = stream.zeros::<u32>(N)?;
        let mut pinned = harness.device.pinned_from(&[1_u32; N])?;
        let gate = harness.gate(&stream);
        stream.copy(&pinned, &mut array)?;
        assert_eq!(*pinned.read()?, [1; N], "both only read");
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
fn a_loop_that_fills_one_pinned_array_again_and_again_uploads_what_it_filled() {
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
