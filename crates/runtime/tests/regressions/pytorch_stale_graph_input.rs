//! PyTorch #114844, vLLM #53915: a graph reads the address of the input with which it was captured.
//! A program that makes a new input tensor for each replay silently gets results of the old one,
//! or of whatever took its memory.
//!
//! Here a graph keeps the array that it recorded. New contents are uploaded into that array, a new
//! array is swapped in, and an array that the graph does not use is refused.

use crate::regressions::{N, regression};

#[test]
fn a_replay_reads_the_array_that_the_program_has_named() {
    regression(|harness| {
        let [stream, loader] = harness.streams();
        let mut input = loader.upload(&[1_u32; N])?;
        let mut output = stream.zeros::<u32>(N)?;
        let mut graph = harness.record("model", |r| r.stream()?.copy(&input, &mut output))?;
        for step in 2..6 {
            if step % 2 == 0 {
                let new = loader.upload(&[step; N])?;
                graph.swap(&input, &new)?;
                // The memory of the old array may serve others at once.
                input = new;
                drop(loader.upload(&[99_u32; N])?);
            } else {
                loader.upload_into(&[step; N], &mut input)?;
            }
            graph.replay(&stream)?;
            assert_eq!(stream.download(&output)?.wait()?, [step; N]);
        }
        let unknown = loader.upload(&[7_u32; N])?;
        let refused = graph.swap(&unknown, &input);
        assert!(refused.is_err(), "the graph does not use this array");
        Ok(())
    });
}
