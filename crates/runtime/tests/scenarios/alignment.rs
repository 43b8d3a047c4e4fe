//! Elements with a large alignment: the host never gets a misaligned reference.

use bytemuck::{Pod, Zeroable};

use crate::scenarios::prelude::*;

/// An element with the largest alignment that page-locked and managed memory guarantees (rule 56).
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(256))]
struct Line([u8; 256]);

/// An element with twice that alignment, which small page-locked allocations on an H200 have by
/// chance.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(512))]
struct TwoLines([[u8; 256]; 2]);

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(8192))]
struct TwoPages([[u8; 4096]; 2]);

#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(65_536))]
struct SixteenPages([[u8; 4096]; 16]);

/// Returns whether a slice is aligned. `black_box` is needed because the compiler assumes that a
/// reference is.
fn is_aligned<T>(elements: &[T]) -> bool {
    std::hint::black_box(elements.as_ptr().addr()).is_multiple_of(align_of::<T>())
}

fn refused<T: Pod>(harness: &Harness) {
    let expected = UsageErrorKind::Alignment {
        element: std::any::type_name::<T>(),
        alignment: align_of::<T>(),
        guaranteed: 256,
    };
    for len in [0, 1, 3] {
        assert_eq!(problem(harness.device.pinned::<T>(len)), expected);
        assert_eq!(problem(harness.device.managed::<T>(len)), expected);
    }
    assert_eq!(
        problem(harness.device.pinned_from(&[T::zeroed()])),
        expected
    );
}

#[run_by(scenario, |harness|)]
fn page_locked_and_managed_arrays_of_overaligned_elements_are_rejected() -> Result<()> {
    for _ in 0..8 {
        refused::<TwoLines>(harness);
        refused::<TwoPages>(harness);
    }
    refused::<SixteenPages>(harness);
    let usage_error = usage_error(harness.device.pinned::<TwoPages>(1));
    let text = usage_error.to_string();
    assert!(text.starts_with("pinned: elements of type `"), "{text}");
    assert_says(&text, "an alignment of 8192 bytes");
    assert_says(&text, "only 256");
    Ok(())
}

#[run_by(scenario, |harness|)]
fn references_to_elements_of_the_largest_alignment_are_aligned() -> Result<()> {
    let mut arrays = Vec::new();
    for len in [0, 1, 2, 3, 0, 1] {
        let mut pinned = harness.device.pinned::<Line>(len)?;
        assert!(is_aligned(&pinned.read()?) && is_aligned(&pinned.write()?));
        let mut managed = harness.device.managed::<Line>(len)?;
        assert!(is_aligned(&managed.read()?) && is_aligned(&managed.write()?));
        if len > 1 {
            assert!(
                is_aligned(&managed.read_range(1..)?) && is_aligned(&managed.write_range(1..)?)
            );
        }
        assert!(is_aligned(&pinned.into_vec()?));
        arrays.push((harness.device.pinned::<Line>(len)?, managed));
    }
    Ok(())
}

#[run_by(scenario_on, |harness, [stream]|)]
fn vectors_of_any_alignment_survive_a_round_trip() -> Result<()> {
    for len in [0, 1, 3] {
        let source: Vec<_> = (0..len).map(|at| SixteenPages([[at; 4096]; 16])).collect();
        let array = stream.upload(&source)?;
        let back = stream.values(&array)?;
        assert!(is_aligned(&back) && back == source);
        let mut registered = Pinned::register(&harness.device, source.clone())?;
        assert!(is_aligned(&registered.read()?) && is_aligned(&registered.write()?));
        stream.copy(&array, &mut registered)?;
        let back = registered.into_vec()?;
        assert!(is_aligned(&back) && back == source);
    }
    Ok(())
}
