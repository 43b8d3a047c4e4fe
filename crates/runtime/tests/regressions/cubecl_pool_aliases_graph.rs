//! cubecl #1612: the memory pool hands out a slice that a captured graph uses for its intermediate
//! values. A replay then overwrites the new array, and the new array's contents reach the graph's
//! results as NaNs.
//!
//! Here the memory of a graph's intermediate arrays is the graph's until it is dropped.

use crate::regressions::{N, regression};

#[test]
fn arrays_made_after_a_recording_share_no_memory_with_the_graph() {
    regression(|harness| {
        let [stream, other] = harness.streams();
        let input = stream.upload(&[1.0_f32; N])?;
        let mut output = stream.zeros::<f32>(N)?;
        let graph = harness.record("intermediates", |r| {
            let recorded = r.stream()?;
            let mut first = recorded.zeros::<f32>(N)?;
            recorded.copy(&input, &mut first)?;
            let mut second = recorded.zeros::<f32>(N)?;
            recorded.copy(&first, &mut second)?;
            drop(first);
            recorded.copy(&second, &mut output)
        })?;
        for _ in 0..3 {
            let new = [f32::NAN, 7.0].map(|value| other.upload(&[value; N]));
            graph.replay(&stream)?;
            let [nans, sevens] = new;
            let found = other.download(&sevens?)?;
            assert!(
                stream
                    .download(&nans?)?
                    .wait()?
                    .iter()
                    .all(|value| value.is_nan())
            );
            assert_eq!(found.wait()?, [7.0; N]);
            assert_eq!(stream.download(&output)?.wait()?, [1.0; N]);
        }
        Ok(())
    });
}
