//! cudarc: an array keeps one event for its last reader. When a second stream reads it, that event
//! replaces the first reader's, and a writer waits for the second reader only: it overwrites the
//! array while the first reader still reads it. Reproduced in ten of ten runs on an H200.
//!
//! Here a write of any kind waits for every reader, however slow.

use millstream::{Buffer, Result, Stream};

use crate::regressions::{N, regression_on};

const READERS: usize = 4;

type Write = fn(&Stream, &mut Buffer<u32>, &Buffer<u32>) -> Result<()>;

const WRITES: [Write; 3] = [
    |stream, array, _| stream.fill(array, 2),
    |stream, array, twos| stream.copy(twos, array),
    |stream, array, _| stream.upload_into(&[2; N], array),
];

#[run_by(regression_on, |harness, readers: [_; READERS]|)]
fn a_write_waits_for_every_reader() -> Result<()> {
    let writer = harness.stream();
    let twos = writer.upload(&[2_u32; N])?;
    for (slow, write) in (0..READERS).zip(WRITES.into_iter().cycle()) {
        let mut array = writer.upload(&[1_u32; N])?;
        // The first use on each stream is complete before the gate is closed, because it may
        // add a wait.
        for reader in &readers {
            assert_eq!(reader.download(&array)?.wait()?, [1; N]);
        }
        let gate = harness.gate(&readers[slow]);
        let first = readers[slow].download(&array)?;
        for (at, reader) in readers.iter().enumerate() {
            if at != slow {
                assert_eq!(
                    reader.download(&array)?.wait()?,
                    [1; N],
                    "readers run together"
                );
            }
        }
        write(&writer, &mut array, &twos)?;
        let written = writer.download(&array)?;
        harness.open_pending(gate, &written);
        assert_eq!(first.wait()?, [1; N], "the slow reader saw the write");
        assert_eq!(written.wait()?, [2; N]);
    }
    Ok(())
}
