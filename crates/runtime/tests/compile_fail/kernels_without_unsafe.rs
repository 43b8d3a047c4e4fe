//! A block of kernel declarations requires `unsafe`, by which the author vouches for the
//! signatures.

millstream::kernels! {
    mod gates from include_str!("../../../../kernels/gate.ptx") { //~ "write `unsafe mod`"
        unsafe fn gate(flag: u64);
    }
}

fn main() {}
