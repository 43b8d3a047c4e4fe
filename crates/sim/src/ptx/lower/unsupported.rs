//! Instructions that the simulated device does not have, and why.

const TENSOR: &str = "the simulated device has no tensor cores; compile the kernel without `wmma` and `mma`, or run it on a GPU";
const BULK: &str = "the simulated device copies no tensors or bulk data asynchronously; `cp.async` and plain loads and stores work";
const ASYNC_PROXY: &str = "the simulated device has no asynchronous proxy, which copies of tensors and bulk data go through; \
                           what does not use them needs no such fence";
const CLUSTER: &str = "the simulated device has no clusters of blocks";
const TEXTURE: &str =
    "the simulated device has no textures and surfaces; loads from global memory work";

/// By the first part of the name.
const BASES: [(&str, &str); 21] = [
    ("mma", TENSOR),
    ("wmma", TENSOR),
    ("wgmma", TENSOR),
    ("tcgen05", TENSOR),
    ("ldmatrix", TENSOR),
    ("stmatrix", TENSOR),
    ("movmatrix", TENSOR),
    ("setmaxnreg", TENSOR),
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

/// By some part of the name, whatever comes first.
const PARTS: [(&str, &str); 7] = [
    ("bulk", BULK),
    ("tensor", BULK),
    ("mbarrier::complete_tx::bytes", BULK),
    ("tensormap::generic", BULK),
    ("cluster", CLUSTER),
    ("shared::cluster", CLUSTER),
    ("async::generic", ASYNC_PROXY),
];

/// Why an instruction is refused, if it is of a kind that the simulated device does not have.
pub(super) fn why(base: &str, full: &str) -> Option<&'static str> {
    let by_base = BASES.iter().find(|(name, _)| *name == base);
    let has = |part: &str| full.split('.').any(|known| known == part);
    if base == "fence" && has("proxy") && has("async") {
        return Some(ASYNC_PROXY);
    }
    let found = by_base.or_else(|| PARTS.iter().find(|(part, _)| has(part)));
    found.map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::why;

    #[test]
    fn kinds_that_are_missing_say_so_and_others_do_not() {
        assert!(
            why("mma", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
                .is_some_and(|text| text.contains("tensor"))
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
