//! Tests on fat binaries that NVIDIA's tools made (`testdata/make.py`), whole and damaged.

use proptest::prelude::*;

use super::*;

/// Includes a file of `testdata`.
macro_rules! testdata {
    ($name:literal) => {
        (
            $name,
            include_bytes!(concat!("testdata/", $name, ".fatbin")).as_slice(),
        )
    };
}

/// Fat binaries with PTX for `sm_75` and `sm_90`, made by tools of CUDA 12.
const OF_CUDA_12: [(&str, &[u8]); 4] = [
    testdata!("nvfatbin-12.4-none"),
    testdata!("nvfatbin-12.4-lz4"),
    testdata!("nvfatbin-12.9-lz4"),
    testdata!("nvfatbin-12.9-zstd"),
];

/// Fat binaries with PTX for `sm_75`, `sm_90a` and `sm_100f`, made by tools of CUDA 13.0. The first
/// has machine code for `sm_75` too.
const OF_CUDA_13: [(&str, &[u8]); 3] = [
    testdata!("fatbinary-13.0-none"),
    testdata!("fatbinary-13.0-lz4"),
    testdata!("fatbinary-13.0-zstd"),
];

/// A fat binary with PTX for `sm_90`, a name, and options of `ptxas`.
const DEBUG: (&str, &[u8]) = testdata!("fatbinary-13.0-debug");

/// A fat binary with machine code for `sm_75` and `sm_90a`.
const CODE: (&str, &[u8]) = testdata!("fatbinary-13.0-code");

/// A fat binary that nvcc 13.0 makes by default, with machine code and PTX for `sm_75`, and one
/// with machine code for `sm_90a`.
const OF_NVCC: [(&str, &[u8]); 2] = [testdata!("nvcc-13.0-default"), testdata!("nvcc-13.0-code")];

/// A fat binary whose entries are compressed together, which CUDA 13.0 cannot read.
const CONCATENATED: (&str, &[u8]) = testdata!("fatbinary-13.5-concat");

fn files() -> Vec<(&'static str, &'static [u8])> {
    [
        &OF_CUDA_12[..],
        &OF_CUDA_13[..],
        &OF_NVCC[..],
        &[DEBUG, CODE, CONCATENATED],
    ]
    .concat()
}

fn ptx(file: &[u8], compute_capability: (u32, u32)) -> Result<String, FatbinError> {
    Fatbin::parse(file)?.ptx_for(compute_capability)
}

/// Asserts that PTX is that of the kernel for a target. NVIDIA's tools change its white space and
/// remove comments.
#[track_caller]
fn assert_kernel(ptx: &str, target: &str) {
    let source = include_str!("testdata/scale.ptx").replace("sm_52", target);
    let code = source.lines().filter(|line| !line.starts_with("//"));
    let expected: Vec<&str> = code.flat_map(str::split_whitespace).collect();
    let found: Vec<&str> = ptx.split_whitespace().collect();
    assert_eq!(found, expected);
}

fn changed(file: &[u8], at: usize, change: impl FnOnce(u8) -> u8) -> Vec<u8> {
    let mut file = file.to_vec();
    file[at] = change(file[at]);
    file
}

#[test]
fn the_ptx_of_cuda_12_is_read_with_and_without_compression() {
    for (name, file) in OF_CUDA_12 {
        println!("{name}");
        assert_kernel(&ptx(file, (7, 5)).unwrap(), "sm_75");
        assert_kernel(&ptx(file, (8, 9)).unwrap(), "sm_75");
        assert_kernel(&ptx(file, (9, 0)).unwrap(), "sm_90");
        assert_kernel(&ptx(file, (12, 1)).unwrap(), "sm_90");
    }
}

#[test]
fn the_ptx_of_cuda_13_is_read_with_and_without_compression() {
    for (name, file) in OF_CUDA_13 {
        println!("{name}");
        assert_kernel(&ptx(file, (8, 0)).unwrap(), "sm_75");
        assert_kernel(&ptx(file, (9, 0)).unwrap(), "sm_90a");
        assert_kernel(&ptx(file, (10, 3)).unwrap(), "sm_100f");
        assert_kernel(&ptx(file, (12, 0)).unwrap(), "sm_75");
    }
    assert_kernel(&ptx(DEBUG.1, (9, 0)).unwrap(), "sm_90");
}

#[test]
fn the_ptx_of_a_program_that_nvcc_compiles_is_read() {
    let ptx = ptx(OF_NVCC[0].1, (9, 0)).unwrap();
    let kernels = millstream_ptx::signatures(&ptx).unwrap();
    assert_eq!(kernels.len(), 1);
    assert_eq!(kernels[0].name, "_Z5scalePffj");
    assert_eq!(kernels[0].param_bytes(), 16);
    let fatbin = Fatbin::parse(OF_NVCC[0].1).unwrap();
    let kinds: Vec<EntryKind> = fatbin.entries().iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::MachineCode, EntryKind::Ptx]);
    assert_eq!(fatbin.entries()[1].ptx_version, (9, 0));
}

#[test]
fn headers_are_read() {
    let fatbin = Fatbin::parse(OF_CUDA_13[0].1).unwrap();
    let entries: Vec<(EntryKind, String)> = fatbin
        .entries()
        .iter()
        .map(|entry| (entry.kind, entry.target.to_string()))
        .collect();
    let entry = |kind, target: &str| (kind, target.to_owned());
    assert_eq!(
        entries,
        [
            entry(EntryKind::Ptx, "sm_75"),
            entry(EntryKind::Ptx, "sm_90a"),
            entry(EntryKind::Ptx, "sm_100f"),
            entry(EntryKind::MachineCode, "sm_75"),
        ]
    );
    assert!(fatbin.entries().iter().all(Entry::is_64_bit));
    assert_eq!(fatbin.entries()[0].ptx_version, (8, 0));
}

#[test]
fn targets_run_on_the_devices_that_their_suffix_allows() {
    let target = |number, scope| Target { number, scope };
    for (target, devices, others) in [
        (
            target(90, TargetScope::Newer),
            [(9, 0), (10, 0), (12, 1)],
            [(8, 9), (7, 5), (0, 0)],
        ),
        (
            target(100, TargetScope::Family),
            [(10, 0), (10, 1), (10, 3)],
            [(9, 0), (11, 0), (12, 0)],
        ),
        (
            target(90, TargetScope::Exact),
            [(9, 0), (9, 0), (9, 0)],
            [(8, 9), (10, 0), (12, 0)],
        ),
    ] {
        for device in devices {
            assert!(target.runs_on(device), "{target} on {device:?}");
        }
        for device in others {
            assert!(!target.runs_on(device), "{target} on {device:?}");
        }
    }
    let scopes = [TargetScope::Newer, TargetScope::Family, TargetScope::Exact];
    assert!(scopes.is_sorted_by(|a, b| target(90, *a) < target(90, *b)));
    assert!(target(89, TargetScope::Exact) < target(90, TargetScope::Newer));
}

#[test]
fn errors_say_why_there_is_no_ptx() {
    let message = |file: &[u8], device| ptx(file, device).unwrap_err().to_string();
    assert_eq!(
        message(OF_CUDA_12[0].1, (7, 0)),
        "fat binary with PTX for sm_75, sm_90, and none that a device of sm_70 supports"
    );
    for (file, targets) in [(CODE.1, "sm_75, sm_90a"), (OF_NVCC[1].1, "sm_90a")] {
        let error = message(file, (9, 0));
        let start = format!("fat binary with machine code only ({targets}), which");
        assert!(error.starts_with(&start), "{error}");
    }
    let error = message(CONCATENATED.1, (9, 0));
    assert!(error.contains("without `--concat`"), "{error}");
    for (kind, expected) in [(8, "link time"), (3, "unknown kind 3")] {
        // The first of two entries of machine code is made one of another kind.
        let error = message(&changed(CODE.1, HEADER_BYTES, |_| kind), (9, 0));
        assert!(error.contains(expected), "{error}");
    }
    let error = ptx(b".version 7.0", (9, 0)).unwrap_err();
    assert!(matches!(error, FatbinError::NotFatbin { .. }), "{error}");
}

#[test]
fn unknown_flags_and_versions_are_refused() {
    let file = OF_CUDA_12[0].1;
    // The flags of the first entry are at the offset 40 behind the container's header.
    let flags = HEADER_BYTES + 40;
    for (at, bit) in [
        (0, 0x04),
        (0, 0x08),
        (1, 0x01),
        (1, 0x40),
        (2, 0x40),
        (7, 0x80),
    ] {
        let changed = changed(file, flags + at, |byte| byte | bit);
        let error = ptx(&changed, (9, 0)).unwrap_err();
        let expected = FatbinError::UnknownFlags {
            flags: u64::from(bit) << (8 * at),
            target: "sm_75".into(),
        };
        assert_eq!(error, expected);
    }
    let both = changed(file, flags + 2, |byte| byte | 0x30);
    let error = ptx(&both, (9, 0)).unwrap_err().to_string();
    assert!(error.contains("0x300000"), "{error}");
    for at in [4, HEADER_BYTES + 2] {
        let error = ptx(&changed(file, at, |byte| byte + 1), (9, 0)).unwrap_err();
        assert!(
            matches!(error, FatbinError::UnknownVersion { .. }),
            "{error}"
        );
    }
}

#[test]
fn code_for_32_bit_programs_is_not_chosen() {
    let file = changed(OF_CUDA_12[0].1, HEADER_BYTES + 40, |byte| byte & !1);
    assert_kernel(&ptx(&file, (9, 0)).unwrap(), "sm_90");
    let error = ptx(&file, (8, 0)).unwrap_err().to_string();
    assert!(error.contains("sm_75 (32-bit), sm_90"), "{error}");
}

#[test]
fn a_false_size_of_the_text_is_refused() {
    for (name, file) in [OF_CUDA_12[1], OF_CUDA_12[3]] {
        // The size before compression is at the offset 56 of the entry.
        for (at, change, reason) in [
            (0, 0x01, "PTX for sm_75: "),
            (0, 0x80, "PTX for sm_75: "),
            (3, 0x10, "cannot be in the compressed data"),
            (7, 0xff, "cannot be in the compressed data"),
        ] {
            let file = changed(file, HEADER_BYTES + 56 + at, |byte| byte ^ change);
            let error = ptx(&file, (7, 5)).unwrap_err();
            assert!(
                matches!(error, FatbinError::Corrupt { .. }) && error.to_string().contains(reason),
                "{name}: {error}"
            );
        }
    }
}

#[test]
fn every_truncation_is_an_error() {
    for (name, file) in files() {
        for length in 0..file.len() {
            let error = ptx(&file[..length], (9, 0)).unwrap_err();
            assert!(
                matches!(error, FatbinError::Truncated { .. }),
                "{length} bytes of {name}: {error}"
            );
        }
    }
}

#[test]
fn every_shortened_entry_is_an_error_or_another_text() {
    // The container's size is made to fit, so that the entry itself is truncated.
    for (name, file) in files() {
        for length in HEADER_BYTES + 1..file.len() {
            let mut file = file[..length].to_vec();
            let rest = (length - HEADER_BYTES) as u64;
            file[8..16].copy_from_slice(&rest.to_le_bytes());
            let result = Fatbin::parse(&file);
            assert!(
                matches!(&result, Ok(fatbin) if !fatbin.entries().is_empty())
                    || matches!(result, Err(FatbinError::Truncated { .. })),
                "{length} bytes of {name}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_files_never_panic(
        file in 0..files().len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        device in (0_u32..20, 0_u32..10),
    ) {
        let mut file = files()[file].1.to_vec();
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        let _ = ptx(&file, device);
    }

    #[test]
    fn damaged_data_never_panics(
        file in 0..OF_CUDA_12.len(),
        at in 88_usize..300,
        value in any::<u8>(),
        device in 0_u32..2,
    ) {
        // The headers stay valid, so that the decompression sees the change.
        let file = changed(OF_CUDA_12[file].1, HEADER_BYTES + at, |_| value);
        let _ = ptx(&file, (7, 5 * device));
    }

    #[test]
    fn random_bytes_behind_valid_headers_never_panic(
        kind in 0_u16..4,
        flags in prop::sample::select(vec![0x11_u64, 0x2011, 0x8011, 0xa011, 0x4011]),
        claimed in prop_oneof![0_u64..4096, any::<u64>()],
        data in prop::collection::vec(any::<u8>(), 0..256),
    ) {
        let mut entry = Vec::new();
        entry.extend(kind.to_le_bytes());
        entry.extend(0x101_u16.to_le_bytes());
        entry.extend(64_u32.to_le_bytes());
        entry.extend((data.len() as u64).to_le_bytes());
        entry.extend((data.len() as u32).to_le_bytes());
        entry.extend([0; 8]);
        entry.extend(75_u32.to_le_bytes());
        entry.extend([0; 8]);
        entry.extend(flags.to_le_bytes());
        entry.extend([0; 8]);
        entry.extend(claimed.to_le_bytes());
        entry.extend(&data);
        let mut file = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
        file.extend((entry.len() as u64).to_le_bytes());
        file.extend(entry);
        let fatbin = Fatbin::parse(&file).unwrap();
        prop_assert_eq!(fatbin.entries().len(), 1);
        let _ = fatbin.ptx_for((9, 0));
    }
}
