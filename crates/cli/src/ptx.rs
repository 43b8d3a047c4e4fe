//! The subcommand `millstream ptx`: lists the kernels of PTX files.

use std::{fmt::Write, fs, path::Path};

use millstream_sim::ptx::{self, Kernel, Param, PtxError};

/// Returns the report on one file. An error is one line that names the file.
pub(crate) fn report_file(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    report_bytes(path, bytes)
}

fn report_bytes(path: &Path, bytes: Vec<u8>) -> Result<String, String> {
    let file = path.display();
    let source = String::from_utf8(bytes)
        .map_err(|_| format!("{file}: not PTX text: it is not valid UTF-8"))?;
    match report(&source) {
        Ok(kernels) => Ok(format!("{file}\n{kernels}")),
        Err(error) => Err(format!("{file}: {error}")),
    }
}

/// Formats the parser's notes and the kernels of PTX text, one per line.
fn report(source: &str) -> Result<String, PtxError> {
    let module = ptx::parse(source)?;
    let lines: String = module.kernels().map(kernel_line).collect();
    let lines = if lines.is_empty() {
        "  no kernels\n"
    } else {
        &lines
    };
    // The notes on kernels are in their lines.
    let of_kernel = |note: &&String| !note.starts_with("kernel `");
    let notes = module
        .notes()
        .iter()
        .filter(of_kernel)
        .map(|note| format!("  note: {note}\n"));
    Ok(notes.chain([lines.to_owned()]).collect())
}

fn kernel_line(kernel: &Kernel) -> String {
    let params: Vec<_> = kernel.signature().params.iter().map(param).collect();
    if let Some(refusal) = kernel.refusal() {
        let (name, params) = (kernel.name(), params.join(", "));
        return format!("  {name}({params}): cannot run on the simulated device: {refusal}\n");
    }
    let mut line = format!(
        "  {}({}): {} bytes of shared memory, {} virtual registers",
        kernel.name(),
        params.join(", "),
        kernel.static_shared_bytes(),
        kernel.registers()
    );
    let limit = match (kernel.required_block(), kernel.max_threads()) {
        (Some([x, y, z]), _) => write!(line, ", blocks of {x}x{y}x{z} threads"),
        (None, Some(threads)) => write!(line, ", at most {threads} threads per block"),
        (None, None) => Ok(()),
    };
    limit.expect("writing to a string does not fail");
    for (index, name) in kernel.matrix_instructions().into_iter().enumerate() {
        line += if index == 0 { ", with " } else { " and " };
        line += name;
    }
    line.push('\n');
    line
}

/// Formats a parameter's type; for an array, with its length and alignment.
fn param(param: &Param) -> String {
    let Param {
        ty, size, align, ..
    } = param;
    let (name, element) = (ty.name(), ty.bytes());
    if *size == element {
        name.to_owned()
    } else {
        format!("{name}[{}] aligned to {align}", size / element)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = ".version 7.0\n.target sm_75\n.address_size 64\n";

    #[test]
    fn a_kernel_is_shown_with_its_signature_and_resources() {
        let source = format!(
            "{HEADER}
            .visible .entry first(.param .u64 a, .param .f32 b, .param .align 8 .b8 c[24])
            .maxntid 128, 1, 1
            {{
                .reg .b32 %r<3>;
                .reg .b64 %rd<2>;
                .shared .align 4 .b8 tile[256];
                ret;
            }}
            .visible .entry second() .reqntid 32, 8, 1
            {{
                ret;
            }}"
        );
        let text = report(&source).expect("right PTX");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(
            lines[0].starts_with(
                "  first(u64, f32, b8[24] aligned to 8): 256 bytes of shared memory, "
            ),
            "{text}"
        );
        assert!(
            lines[0].ends_with(" virtual registers, at most 128 threads per block"),
            "{text}"
        );
        assert!(
            lines[1].starts_with("  second(): 0 bytes of shared memory, "),
            "{text}"
        );
        assert!(lines[1].ends_with(", blocks of 32x8x1 threads"), "{text}");
    }

    #[test]
    fn a_kernel_is_shown_with_its_matrix_instructions() {
        let source = format!(
            "{HEADER}.visible .entry k() {{ .reg .b32 %r<3>; .shared .align 16 .b8 s[128];
            ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r1}}, [s];
            mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32
                {{%r1, %r2}}, {{%r1}}, {{%r1}}, {{%r1, %r2}};
            ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r1}}, [s]; }}"
        );
        let text = report(&source).expect("right PTX");
        assert!(
            text.ends_with(" virtual registers, with ldmatrix.sync and mma.sync\n"),
            "{text}"
        );
    }

    #[test]
    fn kernels_are_listed_under_their_files_name() {
        let source = include_bytes!("../kernels/saxpy.ptx");
        let text =
            report_bytes(Path::new("kernels/saxpy.ptx"), source.to_vec()).expect("right PTX");
        assert!(text.starts_with("kernels/saxpy.ptx\n  saxpy("), "{text}");
    }

    #[test]
    fn an_error_names_file_and_line() {
        let bytes =
            format!("{HEADER}.visible .entry k()\n{{\n    frobnicate.b32 %r1;\n    ret;\n}}\n")
                .into_bytes();
        let error = report_bytes(Path::new("broken.ptx"), bytes).expect_err("no such opcode");
        assert!(error.starts_with("broken.ptx: line 6: "), "{error}");
        assert!(error.contains("frobnicate.b32"), "{error}");

        let error = report_bytes(Path::new("binary"), vec![0x7f, 0xff]).expect_err("not text");
        assert_eq!(error, "binary: not PTX text: it is not valid UTF-8");
        let error = report_file(Path::new("absent.ptx")).expect_err("no such file");
        assert!(error.starts_with("absent.ptx: "), "{error}");
    }

    #[test]
    fn a_newer_target_than_supported_adds_a_note() {
        let source = HEADER.replace("sm_75", "sm_120a") + ".visible .entry k() { ret; }";
        let text = report(&source).expect("right PTX");
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[0].starts_with("  note: the target sm_120a is newer than sm_90a"),
            "{text}"
        );
        assert!(lines[1].starts_with("  k(): "), "{text}");
        assert_eq!(lines.len(), 2, "{text}");
    }

    #[test]
    fn a_kernel_that_cannot_run_is_named_with_the_reason_and_others_are_listed() {
        let source = format!(
            "{HEADER}.func f() {{\n  wgmma.fence.sync.aligned;\n}}\n\
             .visible .entry k(.param .u64 p) {{ call f; }}\n.visible .entry plain() {{ ret; }}"
        );
        let text = report(&source).expect("right PTX");
        let lines: Vec<_> = text.lines().collect();
        assert!(
            lines[0].starts_with(
                "  k(u64): cannot run on the simulated device: line 5: unsupported opcode `wgmma"
            ),
            "{text}"
        );
        assert!(lines[1].starts_with("  plain(): 0 bytes"), "{text}");
        assert_eq!(lines.len(), 2, "{text}");
    }

    #[test]
    fn text_without_kernels_is_reported() {
        assert_eq!(report(HEADER).as_deref(), Ok("  no kernels\n"));
    }
}
