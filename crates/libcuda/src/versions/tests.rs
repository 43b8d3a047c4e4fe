//! Tests of the search for functions.

use std::collections::BTreeSet;

use super::{NEWEST_CUDA as NEWEST, *};

/// Returns the symbol that a driver gives to a program made for CUDA version `asked`.
#[track_caller]
fn symbol(name: &str, asked: i32, driver: i32, stream: DefaultStream) -> &'static str {
    match find(name, asked, driver, stream) {
        Lookup::Found(version) => version.symbol,
        other => panic!("{name} for {asked}: {other:?}"),
    }
}

/// Returns the symbol that the newest driver gives with the legacy default stream.
#[track_caller]
fn legacy(name: &str, asked: i32) -> &'static str {
    symbol(name, asked, NEWEST, DefaultStream::Legacy)
}

#[test]
fn the_asked_cuda_version_chooses_the_newest_version_before_it() {
    for (asked, expected) in [
        (2000, "cuCtxCreate"),
        (3020, "cuCtxCreate_v2"),
        (11_030, "cuCtxCreate_v2"),
        (11_040, "cuCtxCreate_v3"),
        (12_040, "cuCtxCreate_v3"),
        (12_050, "cuCtxCreate_v4"),
        (13_000, "cuCtxCreate_v4"),
    ] {
        assert_eq!(legacy("cuCtxCreate", asked), expected, "{asked}");
    }
    for asked in [11_000, 11_080, 12_000, 12_090, 13_000] {
        assert_eq!(legacy("cuMemAlloc", asked), "cuMemAlloc_v2");
        assert_eq!(legacy("cuInit", asked), "cuInit");
        assert_eq!(legacy("cuStreamDestroy", asked), "cuStreamDestroy_v2");
    }
    for (name, asked, version) in [
        ("cuGetProcAddress", 11_080, ""),
        ("cuGetProcAddress", 12_000, "_v2"),
        ("cuMemPrefetchAsync", 12_010, ""),
        ("cuMemPrefetchAsync", 12_020, "_v2"),
    ] {
        assert_eq!(legacy(name, asked), format!("{name}{version}"), "{asked}");
    }
}

#[test]
fn a_second_version_with_another_signature_answers_only_programs_that_know_it() {
    for (name, asked, version) in [
        ("cuCtxSynchronize", 2000, ""),
        ("cuCtxGetDevice", 2000, ""),
        ("cuCtxSynchronize", 11_040, ""),
        ("cuCtxGetDevice", 11_040, ""),
        ("cuCtxSynchronize", 12_090, ""),
        ("cuCtxGetDevice", 12_090, ""),
        ("cuCtxSynchronize", 13_000, "_v2"),
        ("cuStreamGetCtx", 12_040, ""),
        ("cuStreamGetCtx", 12_050, "_v2"),
        // The macro of the header names another function since CUDA 12; the search does not.
        ("cuGraphInstantiate", 13_000, "_v2"),
        ("cuGraphInstantiateWithFlags", 11_040, ""),
    ] {
        assert_eq!(legacy(name, asked), format!("{name}{version}"), "{asked}");
    }
}

#[test]
fn per_thread_default_streams_choose_the_per_thread_versions() {
    for (name, asked, version) in [
        ("cuMemcpyHtoD", 7000, "_v2_ptds"),
        ("cuMemcpy", 11_000, "_ptds"),
        ("cuLaunchKernel", 12_000, "_ptsz"),
        ("cuStreamBeginCapture", 10_000, "_ptsz"),
        ("cuStreamBeginCapture", 12_000, "_v2_ptsz"),
        ("cuStreamGetCaptureInfo", 11_030, "_v2_ptsz"),
        // These do not use the default stream.
        ("cuMemAlloc", 12_000, "_v2"),
        ("cuStreamCreate", 12_000, ""),
    ] {
        let found = symbol(name, asked, NEWEST, DefaultStream::PerThread);
        assert_eq!(found, format!("{name}{version}"), "{asked}");
    }
    assert_eq!(
        find("cuMemcpyHtoD", 6050, NEWEST, DefaultStream::PerThread),
        Lookup::VersionNotSufficient
    );
}

#[test]
fn an_older_driver_lacks_newer_functions_and_versions() {
    let find = |name, asked, driver| find(name, asked, driver, DefaultStream::Legacy);
    assert_eq!(find("cuLibraryLoadData", 11_080, 11_080), Lookup::NotFound);
    assert_eq!(
        find("cuLibraryLoadData", 11_080, 12_000),
        Lookup::VersionNotSufficient
    );
    assert_eq!(
        symbol("cuLibraryLoadData", 12_000, 12_000, DefaultStream::Legacy),
        "cuLibraryLoadData"
    );
    assert_eq!(
        symbol("cuCtxCreate", 12_040, 12_040, DefaultStream::Legacy),
        "cuCtxCreate_v3"
    );
    assert_eq!(find("cuCtxCreate", 13_000, 12_040), Lookup::NewerThanDriver);
}

#[test]
fn only_base_names_are_found() {
    for name in ["cuMemAlloc_v2", "cuMemcpy_ptds", "cuNothing", "", "cu"] {
        assert_eq!(
            find(name, NEWEST, NEWEST, DefaultStream::Legacy),
            Lookup::NotFound,
            "{name}"
        );
    }
}

#[test]
fn only_the_documented_flags_are_decoded() {
    let found = [0, 1, 2, 3, 4, u64::MAX].map(DefaultStream::from_flags);
    assert_eq!(
        found,
        [
            Some(DefaultStream::Legacy),
            Some(DefaultStream::Legacy),
            Some(DefaultStream::PerThread),
            None,
            None,
            None
        ]
    );
}

#[test]
fn the_table_is_sorted_and_names_each_symbol_once() {
    let source = format!("CUDA {}.{}\n", NEWEST / 1000, NEWEST % 1000 / 10);
    assert!(TABLE.contains(&source), "not from the headers of {source}");
    assert!(FUNCTIONS.is_sorted_by(|a, b| a.name < b.name));
    assert!(symbols().all(|version| (2000..=NEWEST).contains(&version.since)));
    for function in FUNCTIONS.iter() {
        assert_eq!(function.legacy[0].symbol, function.name);
        assert!(function.legacy.is_sorted_by(|a, b| a.since < b.since));
        assert!(function.per_thread.is_sorted_by(|a, b| a.since < b.since));
    }
    let names: BTreeSet<&str> = symbols().map(|version| version.symbol).collect();
    assert_eq!(names.len(), symbols().count());
    assert!(names.contains("cuMemcpyDtoH_v2_ptds") && names.contains("cuProfilerStart"));
    assert!(!names.iter().any(|name| name.contains("WGL")));
}

#[test]
fn versions_of_one_function_may_differ_in_their_parameters() {
    let parameters = |symbol| {
        let version = symbols().find(|version| version.symbol == symbol);
        version.unwrap().parameters
    };
    assert_eq!(parameters("cuInit"), 1);
    assert_eq!(parameters("cuCtxSynchronize"), 0);
    assert_eq!(parameters("cuCtxSynchronize_v2"), 1);
    assert_eq!(parameters("cuLaunchKernel"), 11);
    assert_eq!(parameters("cuLaunchKernel_ptsz"), 11);
    assert_eq!(parameters("cuGetProcAddress"), 4);
    assert_eq!(parameters("cuGetProcAddress_v2"), 5);
}
