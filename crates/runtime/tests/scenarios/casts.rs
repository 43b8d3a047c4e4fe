//! Casts of arrays to other element types: rejected casts, and preservation of the access history.

use crate::scenarios::prelude::*;

#[run_by(counted_on, |_, calls, [stream]|)]
fn b13_casts_that_do_not_fit_give_everything_back() -> Result<()> {
    let bytes = stream.upload(&[1_u8, 2, 3, 4, 5, 6, 7])?;
    calls.forget();
    let rejected = bytes.cast::<u32>().unwrap_err();
    let size = UsageErrorKind::CastSize {
        elements: 7,
        element_bytes: 1,
        target_element_bytes: 4,
    };
    let text = "cast: 7 elements of 1 bytes cannot be cast to elements of 4 bytes: the total \
                is not a multiple (";
    assert!(rejected.to_string().starts_with(text), "{rejected}");
    let mut bytes = rejected.source;
    let alignment = UsageErrorKind::CastAlignment {
        alignment: 1,
        target_alignment: 2,
    };
    assert_eq!(
        problem(bytes.slice(..3).cast::<u16>()),
        UsageErrorKind::CastSize {
            elements: 3,
            element_bytes: 1,
            target_element_bytes: 2,
        }
    );
    assert_eq!(problem(bytes.slice(1..3).cast::<u16>()), alignment);
    let rejected = bytes.slice_mut(1..5).cast::<u16>().unwrap_err();
    let view = rejected.source;
    assert_eq!(problem::<()>(Err(rejected.error)), alignment);
    calls.assert_none();
    stream.fill(view, 9)?;
    assert_eq!(problem(bytes.slice(..).cast::<u32>()), size);
    assert_eq!(stream.values(&bytes)?, [1, 9, 9, 9, 9, 6, 7]);
    Ok(())
}

#[run_by(counted_on, |_, _, [stream]|)]
fn casts_of_every_kind_see_the_same_bytes() -> Result<()> {
    let mut words = stream.upload(&[0x0403_0201_u32, 0x0807_0605])?;
    assert_eq!(stream.values(words.slice(1..).cast::<u8>()?)?, [5, 6, 7, 8]);
    stream.fill(words.slice_mut(..1).cast::<[u8; 2]>()?, [7, 9])?;
    let bytes = words.cast::<[u8; 4]>()?;
    assert_eq!(stream.values(&bytes)?, [[7, 9, 7, 9], [5, 6, 7, 8]]);
    let long = bytes.cast::<u64>()?;
    assert_eq!(long.len(), 1);
    assert_eq!(stream.values(&long)?, [0x0807_0605_0907_0907]);
    // Three-byte elements from four-byte ones, and empty arrays of several types.
    let triples = stream.upload(&[1_u32, 2, 3])?.cast::<[u8; 3]>()?;
    assert_eq!(triples.len(), 4);
    let nothing = stream.upload::<u8>(&[])?.cast::<u64>()?.cast::<[u8; 3]>()?;
    assert_eq!(stream.values(&nothing)?, [[0; 3]; 0]);
    Ok(())
}

#[run_by(counted_on, |harness, calls, [s1, s2]|)]
fn casts_keep_the_history() -> Result<()> {
    let mut words = s1.zeros::<u32>(600)?;
    s2.values(&words)?;
    let gate = harness.gate(&s1);
    s1.fill(words.slice_mut(..300), 0x0101_0101)?;
    let mut bytes = words.cast::<u8>()?;
    calls.forget();
    assert_eq!(
        s2.values(bytes.slice(1200..))?,
        [0; 1200],
        "the other half must not wait"
    );
    assert_eq!(calls.count("stream_wait_event"), 0);
    let (low, high) = bytes.split_at_mut(1199);
    let (early, late) = (s2.download(high.slice(1..))?, s2.download(low)?);
    harness.assert_count(calls, "stream_wait_event", 1);
    assert_eq!(early.wait()?, [0; 1200], "this download precedes the wait");
    harness.open_pending(gate, &late);
    assert_eq!(late.wait()?, [1; 1199]);
    drop(bytes);
    Ok(())
}
