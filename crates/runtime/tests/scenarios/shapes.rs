//! Scenarios of sizes and mismatches: B13, B15, B16 and B17.

use crate::scenarios::prelude::*;

#[run_by(counted_on, |harness, calls, [stream]|)]
fn b13_mismatches_are_typed_errors_and_enqueue_nothing() -> Result<()> {
    let kernels = sums::load(&harness.device)?;
    let a = stream.upload(&[1.0_f32, 2.0, 3.0, 4.0])?;
    let mut b = stream.zeros::<f32>(3)?;
    let elsewhere = Device::simulated()?;
    let mut foreign = elsewhere.stream()?.zeros::<f32>(4)?;
    let mut short = harness.device.pinned::<f32>(2)?;
    calls.forget();

    let lengths = unequal(4, 3);
    assert_eq!(problem(stream.copy(&a, &mut b)), lengths);
    assert_eq!(problem(stream.upload_into(&[0.0; 4], &mut b)), lengths);
    let pinned = unequal(4, 2);
    assert_eq!(problem(stream.copy(&a, &mut short)), pinned);
    assert_eq!(problem(a.try_slice(2..5)), out_of_range(2..5, 4));
    let (start, end) = (3, 1);
    let reversed = problem(a.try_slice(start..end));
    assert_eq!(reversed, out_of_range(start..end, 4));
    let other = problem(stream.copy(&a, &mut foreign));
    assert_is!(other, UsageErrorKind::OtherDevice { operand: 1, .. });
    let other = problem(stream.download(&foreign));
    assert_is!(other, UsageErrorKind::OtherDevice { operand: 0, .. });
    let clause = problem(kernels.vecadd(&stream, 4, &a, &a, &mut b, 4));
    let text = "the requirement `c.len() >= n` does not hold: c.len() = 3, n = 4";
    assert_eq!(clause.to_string(), text);
    assert_eq!(
        clause,
        UsageErrorKind::Requires {
            clause: "c.len() >= n",
            values: "c.len() = 3, n = 4".to_owned()
        }
    );
    let config = LaunchConfig::new([1, 1, 1], [2048, 1, 1]);
    let block = problem(kernels.vecadd(&stream, config, &a, &a, &mut b, 3));
    assert_is!(block, UsageErrorKind::LaunchConfig { .. });
    let greedy = LaunchConfig::linear(3).with_shared_bytes(1 << 30);
    let shared = problem(kernels.vecadd(&stream, greedy, &a, &a, &mut b, 3));
    assert_is!(shared, UsageErrorKind::LaunchConfig { .. });
    for (config, asked) in [
        (
            LaunchConfig::linear(usize::MAX),
            "no grid has -1 (18446744073709551615 without a sign) threads",
        ),
        (
            LaunchConfig::from(-3),
            "no grid has -3 (18446744073709551613 ",
        ),
    ] {
        let error = usage_error(kernels.vecadd(&stream, config, &a, &a, &mut b, 3));
        assert_says(&error, asked);
    }
    let huge = problem(stream.zeros::<u64>(usize::MAX / 4));
    assert_is!(
        huge,
        UsageErrorKind::TooLarge {
            element_bytes: 8,
            ..
        }
    );

    calls.assert_none();
    kernels.vecadd(&stream, 3, &a, &a, &mut b, 3)?;
    assert_eq!(
        stream.values(&b)?,
        [2.0, 4.0, 6.0],
        "the arrays stay usable after rejected calls"
    );
    Ok(())
}

#[run_by(scenario_on, |harness, [s1, s2]|)]
fn b15_empty_single_and_odd() -> Result<()> {
    let kernels = sums::load(&harness.device)?;
    let empty = s1.upload::<f32>(&[])?;
    let mut nothing = s2.zeros::<f32>(0)?;
    s2.copy(&empty, &mut nothing)?;
    s1.fill(&mut nothing, 1.0)?;
    kernels.vecadd(&s1, 0, &empty, &empty, &mut nothing, 0)?;
    assert_eq!(s2.values(&nothing)?, [0.0; 0]);
    assert_eq!(*harness.device.pinned::<u64>(0)?.read()?, [0; 0]);

    let one = s1.upload(&[42_u8])?;
    assert_eq!(s2.values(&one)?, [42]);

    let bytes: Vec<u8> = (0..=255).collect();
    let mut odd = s1.upload(&bytes)?;
    let part = s2.upload(&[0xAA_u8; 7])?;
    s2.copy(&part, odd.slice_mut(3..10))?;
    s1.fill(odd.slice_mut(101..102), 0xBB)?;
    assert_eq!(s2.values(odd.slice(5..5))?, [0; 0]);
    let mut expected = bytes;
    expected[3..10].fill(0xAA);
    expected[101] = 0xBB;
    assert_eq!(s2.values(odd.slice(1..))?, expected[1..]);

    let mut wide = s1.zeros::<[f64; 3]>(5)?;
    s2.fill(wide.slice_mut(1..5), [1.5, 2.5, 3.5])?;
    let expected = [
        [0.0; 3],
        [1.5, 2.5, 3.5],
        [1.5, 2.5, 3.5],
        [1.5, 2.5, 3.5],
        [1.5, 2.5, 3.5],
    ];
    assert_eq!(s1.values(&wide)?, expected);
    Ok(())
}

#[run_by(once, |harness|)]
#[ignore = "8 GiB of memory; cargo test -- --ignored b15"]
fn b15_four_gibibytes_and_one_byte() -> Result<()> {
    const LEN: usize = (4 << 30) + 1;
    // Sizes do not depend on the schedule, and there is not enough memory to repeat this under
    // each.
    let stream = harness.device.stream()?;
    let mut a = stream.zeros::<u8>(LEN)?;
    stream.fill(a.slice_mut(LEN - 1..), 7)?;
    stream.fill(a.slice_mut((4 << 30) - 2..(4 << 30) - 1), 6)?;
    let tail = stream.values(a.slice(LEN - 4..))?;
    assert_eq!(tail, [0, 6, 0, 7]);
    let mut b = stream.zeros::<u8>(LEN)?;
    stream.copy(&a, &mut b)?;
    drop(a);
    assert_eq!(stream.values(b.slice(LEN - 4..))?, tail);
    Ok(())
}

/// Evaluates to whether a type is plain data (`Pod`), the bound of every method that takes
/// elements. The inherent constant, defined only for `Pod` types, takes precedence over the
/// trait's.
macro_rules! is_plain {
    ($type:ty) => {{
        struct Asked<T>(std::marker::PhantomData<T>);
        #[allow(dead_code, reason = "used only for other types")]
        trait Otherwise {
            const PLAIN: bool = false;
        }
        impl<T> Otherwise for Asked<T> {}
        #[allow(dead_code, reason = "used only for plain types")]
        impl<T: bytemuck::Pod> Asked<T> {
            const PLAIN: bool = true;
        }
        <Asked<$type>>::PLAIN
    }};
}

/// The `compile_fail` examples of `Buffer` show that the methods require the bound.
#[test]
fn b16_types_with_invalid_bits_or_pointers_are_not_plain_data() {
    assert!(is_plain!(u8) && is_plain!(f64) && is_plain!([f32; 4]) && is_plain!(usize));
    assert!(!is_plain!(bool) && !is_plain!(char) && !is_plain!(&'static u32) && !is_plain!(String));
    assert!(!is_plain!(Option<u32>) && !is_plain!(Box<u8>) && !is_plain!((u8, u32)));
}

#[run_by(scenario_on, |harness, [stream]|)]
fn b17_a_copy_longer_than_its_source_is_refused() -> Result<()> {
    let source = stream.upload(&[1_u8, 2, 3])?;
    let mut target = harness.device.pinned_from(&[9_u8; 5])?;
    let lengths = unequal(3, 5);
    assert_eq!(problem(stream.copy(&source, &mut target)), lengths);
    assert_eq!(*target.read()?, [9; 5]);
    let mut on_device = stream.zeros::<u8>(5)?;
    assert_eq!(problem(stream.copy(&source, &mut on_device)), lengths);
    assert_eq!(stream.values(&source)?, [1, 2, 3]);
    Ok(())
}
