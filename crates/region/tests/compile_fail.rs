//! Programs in `compile_fail/` that the compiler rejects, with the advice of each error.

use std::path::Path;

use millstream_testkit::refused::Refused;

#[test]
fn invalid_region_programs_are_rejected_with_advice() {
    let programs = Refused {
        package: Path::new(env!("CARGO_MANIFEST_DIR")),
        tmp: Path::new(env!("CARGO_TARGET_TMPDIR")),
        uses: &[
            ("millstream", "runtime", None),
            ("millstream-region", "region", Some("mesh")),
        ],
        others: "ndarray = \"*\"\n",
    };
    programs.check();
}
