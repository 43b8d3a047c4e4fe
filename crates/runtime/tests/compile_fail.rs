//! What the compiler refuses for us: the programs in `compile_fail/`.

#[path = "refused/mod.rs"]
mod refused;

use std::path::Path;

use refused::Refused;

#[test]
#[cfg_attr(miri, ignore = "starts other programs")]
fn what_must_not_compile_is_refused_and_for_the_right_reason() {
    let programs = Refused {
        package: Path::new(env!("CARGO_MANIFEST_DIR")),
        scratch: Path::new(env!("CARGO_TARGET_TMPDIR")),
        uses: &[("millstream", "runtime")],
        others: "bytemuck = { version = \"1\", features = [\"derive\"] }\n",
    };
    programs.check();
}
