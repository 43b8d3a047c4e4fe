//! Copies within one array, and fills with elements of every size.

#![allow(unsafe_code, reason = "declares byte arrays as plain data")]

use crate::scenarios::prelude::*;

#[run_by(counted_scenario, |harness, _|)]
fn copies_within_an_array_agree_with_slice_copy_within() -> Result<()> {
    const LEN: usize = 11;
    let stream = harness.stream();
    let numbers: Vec<[u8; 3]> = (0..LEN as u8).map(|n| [n, n + 50, n + 100]).collect();
    for start in 0..=LEN {
        for end in start..=LEN {
            let target = (7 * start + 3 * end) % (LEN - (end - start) + 1);
            let mut array = stream.upload(&numbers)?;
            stream.copy_within(&mut array, start..end, target)?;
            let mut expected = numbers.clone();
            expected.copy_within(start..end, target);
            let case = format!("{start}..{end} to {target}");
            assert_eq!(stream.values(&array)?, expected, "{case}");
        }
    }
    Ok(())
}

#[run_by(counted_scenario, |harness, calls|)]
fn a_copy_within_an_array_makes_the_minimal_driver_calls() -> Result<()> {
    harness.device.set_cache_limit(0);
    let stream = harness.stream();
    let numbers: Vec<u32> = (0..1000).collect();
    let mut array = stream.upload(&numbers)?;
    let mut expected = numbers;
    let counts = [
        (0..400, 600, vec![("copy_device_to_device_async", 1)]),
        (0..600, 400, vec![("copy_device_to_device_async", 2)]),
        (200..1000, 0, vec![("copy_device_to_device_async", 4)]),
        (
            1..1000,
            0,
            vec![
                ("copy_device_to_device_async", 2),
                ("mem_alloc_async", 1),
                ("mem_free_async", 1),
            ],
        ),
        (5..1000, 5, vec![]),
        (7..7, 900, vec![]),
    ];
    for (range, start, wanted) in counts {
        calls.forget();
        stream.copy_within(array.slice_mut(..), range.clone(), start)?;
        let made: Vec<_> = calls.counts().into_iter().collect();
        assert_eq!(made, wanted, "{range:?} to {start}");
        expected.copy_within(range, start);
    }
    assert_eq!(stream.values(&array)?, expected);
    Ok(())
}

#[run_by(counted_on, |harness, calls, [s1, s2]|)]
pub(crate) fn a04_a_copy_within_an_array_is_ordered_with_its_own_bytes() -> Result<()> {
    let mut array = s1.upload(&[1_u8; 900])?;
    s2.values(&array)?;
    s1.fill(array.slice_mut(300..), 2)?;
    let gate = harness.gate(&s1);
    s1.copy_within(&mut array, 0..100, 800)?;
    s1.copy_within(&mut array, 500..600, 520)?;
    calls.forget();
    s2.fill(array.slice_mut(100..500), 3)?;
    assert_eq!(s2.values(array.slice(620..800))?, [2; 180]);
    assert_eq!(
        s2.values(array.slice(..100))?,
        [1; 100],
        "the pending copy only reads these bytes"
    );
    harness.assert_count(calls, "stream_wait_event", 1);
    let tail = s2.download(array.slice(800..))?;
    s2.fill(array.slice_mut(..100), 4)?;
    harness.open_pending(gate, &tail);
    assert_eq!(tail.wait()?, [1; 100]);
    Ok(())
}

#[run_by(counted_on, |_, calls, [stream]|)]
fn b13_a_copy_past_the_ends_of_an_array_is_refused() -> Result<()> {
    let mut array = stream.upload(&[1_u16, 2, 3])?;
    let elsewhere = millstream::Device::simulated()?.stream()?;
    calls.forget();
    let source = problem(stream.copy_within(&mut array, 2..4, 0));
    assert_eq!(source, out_of_range(2..4, 3));
    let target = problem(stream.copy_within(&mut array, 1.., 2));
    assert_eq!(target, out_of_range(2..4, 3));
    let far = problem(stream.copy_within(&mut array, .., usize::MAX));
    assert_is!(far, UsageErrorKind::Range { len: 3, .. });
    let other = problem(elsewhere.copy_within(&mut array, .., 0));
    assert_is!(other, UsageErrorKind::OtherDevice { operand: 0, .. });
    calls.assert_none();
    assert_eq!(stream.values(&array)?, [1, 2, 3]);
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(transparent)]
struct Bytes<const N: usize>([u8; N]);

// SAFETY: the type consists only of bytes, which may be zero.
unsafe impl<const N: usize> bytemuck::Zeroable for Bytes<N> {}
// SAFETY: the type consists only of bytes, without padding, and any byte values are valid.
unsafe impl<const N: usize> bytemuck::Pod for Bytes<N> {}

/// Fills a few elements of `N` bytes at an odd offset.
fn fill_odd<const N: usize>(stream: &millstream::Stream) -> Result<()> {
    for (offset, elements) in [(1, 5), (3, 1), (7, 4)] {
        let value = Bytes(std::array::from_fn(|byte| (byte * 7 + offset) as u8));
        let mut bytes = stream.upload(&[0xEE_u8; 8 * 64])?;
        let end = offset + elements * N;
        stream.fill(bytes.slice_mut(offset..end).cast::<Bytes<N>>()?, value)?;
        let mut expected = [0xEE; 8 * 64];
        for place in expected[offset..end].chunks_exact_mut(N) {
            place.copy_from_slice(&value.0);
        }
        let found = stream.values(&bytes)?;
        assert_eq!(
            found, expected,
            "{elements} elements of {N} bytes from {offset}"
        );
    }
    Ok(())
}

#[test]
fn b15_fills_with_elements_of_1_to_64_bytes_at_odd_offsets() {
    macro_rules! sizes {
        ($stream:expr; $($size:literal)*) => {
            $(fill_odd::<$size>($stream)?;)*
        };
    }
    counted_scenario(|harness, _| {
        let stream = harness.stream();
        sizes!(&stream; 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24);
        sizes!(&stream; 25 26 27 28 29 30 31 32);
        sizes!(&stream; 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56);
        sizes!(&stream; 57 58 59 60 61 62);
        sizes!(&stream; 63 64);
        Ok(())
    });
}
