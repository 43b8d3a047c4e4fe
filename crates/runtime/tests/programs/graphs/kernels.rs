//! The kernels of graph programs, and the variables that they use by name.

use std::fmt::Write;

use millstream::{Kernel, signature};

use super::step::{BYTES, KERNELS, VARIABLES, variable_of};

pub(super) type Add = Kernel<signature!(&[u32], &mut [u32], u32, u32)>;

pub(super) fn name(kernel: usize) -> String {
    format!("add{kernel}")
}

/// Returns the PTX of all kernels. One thread of each does all the work.
pub(super) fn ptx() -> String {
    let mut text = ".version 8.0\n.target sm_75\n.address_size 64\n".to_owned();
    for variable in 0..VARIABLES {
        let _ = writeln!(text, ".global .align 256 .b8 v{variable}[{BYTES}];");
    }
    for kernel in 0..KERNELS {
        let by_name = match variable_of(kernel) {
            None => String::new(),
            Some((variable, false)) => {
                format!("ld.global.u32 %e, [v{variable}];\n add.u32 %x, %x, %e;\n")
            }
            Some((variable, true)) => format!(
                "mov.u64 %v, v{variable};\n add.u64 %v, %v, %at;\n ld.global.u32 %e, [%v];\n \
                 add.u32 %x, %x, %e;\n st.global.u32 [%v], %x;\n"
            ),
        };
        let _ = write!(
            text,
            ".visible .entry {}(.param .u64 from, .param .u64 to, .param .u32 n, .param .u32 k)\n\
             {{\n.reg .b64 %from, %to, %at, %v, %a;\n\
             .reg .b32 %n, %k, %i, %x, %e;\n.reg .pred %p;\n\
             ld.param.u64 %from, [from];\n ld.param.u64 %to, [to];\n\
             ld.param.u32 %n, [n];\n ld.param.u32 %k, [k];\n mov.u32 %i, 0;\n\
             NEXT:\n setp.ge.u32 %p, %i, %n;\n @%p bra DONE;\n mul.wide.u32 %at, %i, 4;\n\
             add.u64 %a, %from, %at;\n ld.global.u32 %x, [%a];\n{by_name}\
             add.u32 %x, %x, %k;\n add.u64 %a, %to, %at;\n st.global.u32 [%a], %x;\n\
             add.u32 %i, %i, 1;\n bra NEXT;\nDONE:\n ret;\n}}\n",
            name(kernel)
        );
    }
    text
}
