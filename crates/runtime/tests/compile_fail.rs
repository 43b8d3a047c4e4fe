//! Programs that must not compile: the files in `compile_fail/`.

use std::path::Path;

use millstream_testkit::refused::Refused;

#[test]
#[cfg_attr(miri, ignore = "starts other programs")]
fn invalid_programs_fail_to_compile_with_the_expected_errors() {
    let programs = Refused {
        package: Path::new(env!("CARGO_MANIFEST_DIR")),
        tmp: Path::new(env!("CARGO_TARGET_TMPDIR")),
        uses: &[("millstream", "runtime", None)],
        others: "bytemuck = { version = \"1\", features = [\"derive\"] }\n",
    };
    programs.check();
}
