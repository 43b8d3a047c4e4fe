//! Instructions that the simulated device does not have, and the reasons.

const WARPGROUP: &str = "the simulated device has no instructions of warpgroups; \
                         `mma`, `wmma` and `ldmatrix` work, and so do kernels for sm_80";
const MATRIX: &str = "the simulated device multiplies matrices of f16, bf16, tf32, f64, s8, u8, \
                      e4m3 and e5m2 in the shapes that sm_90 has; it has no sparse matrices, \
                      no elements of 1 or 4 bits, and no scaled blocks";
const MATRIX_MOVE: &str = "the simulated device moves matrices of 8 times 8 elements of 16 bits, \
                           as sm_90 does";
const BULK: &str = "the simulated device copies no tensors or bulk data asynchronously; \
                    `cp.async` and plain loads and stores work";
const ASYNC_PROXY: &str = "the simulated device has no asynchronous proxy, \
                           which copies of tensors and bulk data go through; \
                           accesses outside that proxy need no such fence";
const CLUSTER: &str = "the simulated device has no clusters of blocks";
pub(super) const TEXTURE: &str = "the simulated device has texture and surface objects of one to \
                                  three dimensions and of layers; it has no cube maps, mipmaps, \
                                  multisampled or sparse textures, packed halves, offsets, and \
                                  `.texref` variables";

/// The reason for an instruction that no device up to sm_90 has.
pub(super) const NEWER: &str = "only devices newer than sm_90 have this instruction, and the \
                                simulated device is one of sm_90; compile for an older target";

/// The reasons by the first part of the mnemonic.
const BASES: [(&str, &str); 21] = [
    ("mma", MATRIX),
    ("wmma", MATRIX),
    ("wgmma", WARPGROUP),
    ("tcgen05", WARPGROUP),
    ("ldmatrix", MATRIX_MOVE),
    ("stmatrix", MATRIX_MOVE),
    ("movmatrix", MATRIX_MOVE),
    ("setmaxnreg", WARPGROUP),
    ("tensormap", BULK),
    ("multimem", BULK),
    ("mapa", CLUSTER),
    ("getctarank", CLUSTER),
    ("clusterlaunchcontrol", CLUSTER),
    ("tex", TEXTURE),
    ("tld4", TEXTURE),
    ("txq", TEXTURE),
    ("suq", TEXTURE),
    ("suld", TEXTURE),
    ("sust", TEXTURE),
    ("sured", TEXTURE),
    ("istypep", TEXTURE),
];

/// The reasons by any part of the mnemonic.
const PARTS: [(&str, &str); 7] = [
    ("bulk", BULK),
    ("tensor", BULK),
    ("mbarrier::complete_tx::bytes", BULK),
    ("tensormap::generic", BULK),
    ("cluster", CLUSTER),
    ("shared::cluster", CLUSTER),
    ("async::generic", ASYNC_PROXY),
];

/// Types and modifiers that only devices newer than sm_90 have.
const NEWER_PARTS: [&str; 12] = [
    "f32x2", "e2m1x2", "e2m1x4", "e2m3x2", "e2m3x4", "e3m2x2", "e3m2x4", "e4m3x4", "e5m2x4",
    "ue8m0x2", "s2f6x2", "rs",
];

/// Returns the reason why the simulated device does not have an instruction, if the instruction is
/// of such a kind.
pub(super) fn why(base: &str, full: &str) -> Option<&'static str> {
    let by_base = BASES.iter().find(|(name, _)| *name == base);
    let has = |part: &str| full.split('.').any(|known| known == part);
    if base == "fence" && has("proxy") && has("async") {
        return Some(ASYNC_PROXY);
    }
    let is_newer = base == "redux" && has("f32") || has("tf32") && has("satfinite");
    if is_newer || NEWER_PARTS.into_iter().any(has) {
        return Some(NEWER);
    }
    let found = by_base.or_else(|| PARTS.iter().find(|(part, _)| has(part)));
    found.map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::why;

    #[test]
    fn only_missing_kinds_of_instructions_have_a_reason() {
        assert!(
            why("wgmma", "wgmma.fence.sync.aligned")
                .is_some_and(|text| text.contains("warpgroups"))
        );
        assert!(why("cp", "cp.async.bulk.commit_group").is_some_and(|text| text.contains("bulk")));
        assert!(
            why("barrier", "barrier.cluster.arrive").is_some_and(|text| text.contains("clusters"))
        );
        assert!(
            why("fence", "fence.proxy.async.shared::cta")
                .is_some_and(|text| text.contains("asynchronous proxy"))
        );
        assert_eq!(why("fence", "fence.proxy.alias"), None);
        assert_eq!(why("add", "add.s32"), None);
        assert_eq!(why("cp", "cp.async.wait_all"), None);
    }
}
