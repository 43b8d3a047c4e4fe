//! Somebody vouches for the signatures of kernels: without `unsafe` there is no block of them.

millstream::kernels! {
    mod gates from include_str!("../../../../kernels/gate.ptx") { //~ "write `unsafe mod`: the author guarantees that the declared signatures match the PTX"
        unsafe fn gate(flag: u64);
    }
}

fn main() {}
