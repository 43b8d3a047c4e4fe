//! K2 and K4: a missing compiler, missing headers, and errors in the source.

use std::path::Path;

use millstream::{
    Cuda, Device, Error,
    driver::nvrtc::{self, NvrtcCode},
    error::{CompileError, Severity},
};

use crate::compiled::{Outcome, child, device};

use crate::scenarios::prelude::assert_says;

fn refused(device: &Device, source: Cuda) -> CompileError {
    match device.compile(source.without_cache()) {
        Err(Error::Compile(error)) => (*error).clone(),
        Err(other) => panic!("another error: {other}"),
        Ok(_) => panic!("it was compiled"),
    }
}

#[test]
fn k02_without_nvrtc_the_error_lists_what_was_tried() -> Outcome {
    let nowhere = Path::new("/millstream/no/such/folder");
    let variables = [("MILLSTREAM_NVRTC", "/millstream/no/such/libnvrtc.so")];
    let text = child::output(child::start(2, nowhere, &variables));
    let expected = "refused: cannot compile `scale.cu`: NVRTC could not be loaded (tried \
                    /millstream/no/such/libnvrtc.so: ";
    assert!(text.starts_with(expected), "{text}");
    for advice in [
        "set MILLSTREAM_NVRTC to its file or folder",
        "pip install nvidia-cuda-nvrtc-cu12",
        "millstream compile",
    ] {
        assert!(text.contains(advice), "{advice}: {text}");
    }
    Ok(())
}

#[test]
fn k02_without_nvrtc_ptx_is_loaded() -> Outcome {
    let nowhere = Path::new("/millstream/no/such/folder");
    let variables = [("MILLSTREAM_NVRTC", "/millstream/no/such/libnvrtc.so")];
    let text = child::output(child::start(child::PTX, nowhere, &variables));
    assert_eq!(text, "loaded [\"vecadd\", \"vecadd4\"]");
    Ok(())
}

#[test]
#[ignore = "needs NVRTC"]
fn k02_a_missing_header_names_the_folders_that_were_searched() -> Outcome {
    let device = &device();
    let source = "\n#include <no_such_header.h>\n__global__ void k() {}";
    let error = refused(
        device,
        Cuda::source("k.cu", source).include_folder("/my/headers"),
    );
    let CompileError::MissingHeader {
        header,
        folders,
        diagnostic,
        ..
    } = &error
    else {
        return Err(format!("another error: {error}").into());
    };
    assert_eq!((header.as_str(), diagnostic.line), ("no_such_header.h", 2));
    assert_eq!(folders[0], Path::new("/my/headers"));
    let text = error.to_string();
    for expected in [
        "cannot compile `k.cu`: the header `no_such_header.h` was not found",
        "2 | #include <no_such_header.h>",
        "tried /my/headers",
        "Cuda::header(\"no_such_header.h\", …)",
        "CUDA_HOME",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    Ok(())
}

#[test]
#[ignore = "needs NVRTC"]
fn k02_an_unknown_option_is_the_compilers_own_message() -> Outcome {
    let device = &device();
    let source = Cuda::source("k.cu", "__global__ void k() {}").option("--fats-math");
    let error = refused(device, source);
    let CompileError::Failed { cause, .. } = &error else {
        return Err(format!("another error: {error}").into());
    };
    assert_eq!(cause.code, NvrtcCode::INVALID_OPTION);
    assert_says(&error, "unrecognized option --fats-math");
    Ok(())
}

/// Sources with errors, each with the name of the file that shows them.
const WRONG: &[(&str, &str)] = &[
    (
        "undefined",
        "extern \"C\" __global__ void scale(float* y, float a, int n) {\n    int i = \
         threadIdx.x;\n    if (i < n) y[i] = valeus[i] * a;\n}\n",
    ),
    (
        "several",
        "__device__ int twice(int x) { return 2 * x }\n\n__global__ void k(int* out) {\n\tint \
         unused;\n\tout[0] = twice(\"two\");\n}\n",
    ),
    (
        "in_a_header",
        "#include \"shapes.h\"\n__global__ void k(Shape* out) { out->width = 1; }\n",
    ),
];

#[test]
#[ignore = "needs NVRTC"]
fn k04_errors_are_shown_with_their_source_lines() -> Outcome {
    let device = &device();
    for &(name, text) in WRONG {
        let header = "struct Shape {\n    int width;\n    float heigth = unknown;\n};\n";
        let source = Cuda::source("k.cu", text).header("shapes.h", header);
        let error = refused(device, source);
        assert!(matches!(error, CompileError::Source { .. }), "{error}");
        let first = &error.diagnostics()[0];
        assert_eq!(first.severity, Severity::Error);
        let (file, line) = match name {
            "undefined" => ("k.cu", 3),
            "several" => ("k.cu", 1),
            _ => ("shapes.h", 3),
        };
        assert_eq!((first.file.as_str(), first.line), (file, line), "{error}");
        compare(name, &error.to_string())?;
    }
    Ok(())
}

/// Compares a message with the file that holds it for this version of NVRTC. Versions without files
/// have messages of their own.
fn compare(name: &str, text: &str) -> Outcome {
    let (major, minor) = nvrtc::load()?.version();
    let file = format!("{major}.{minor}-{name}.txt");
    let expected = GOLDEN.iter().find(|(known, _)| *known == file);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compiled/golden");
        std::fs::write(folder.join(file), text)?;
    } else if let Some((_, expected)) = expected {
        assert_eq!(text, *expected, "{file}");
    }
    Ok(())
}

/// Declares the files with messages, by version and name.
macro_rules! golden {
    ($($file:literal),* $(,)?) => {
        &[$(($file, include_str!(concat!("golden/", $file)))),*]
    };
}

const GOLDEN: &[(&str, &str)] = golden![
    "12.0-undefined.txt",
    "12.0-several.txt",
    "12.0-in_a_header.txt",
    "13.5-undefined.txt",
    "13.5-several.txt",
    "13.5-in_a_header.txt",
];

#[test]
#[ignore = "needs NVRTC"]
fn k04_warnings_of_a_compilation_are_kept() -> Outcome {
    let device = &device();
    let source = "__global__ void k() {\n    int unused;\n}";
    let module = device.compile(Cuda::source("k.cu", source).without_cache())?;
    let [warning] = module.warnings() else {
        return Err(format!("{:?}", module.warnings()).into());
    };
    assert_eq!((warning.severity, warning.line), (Severity::Warning, 2));
    assert_eq!(
        warning.message,
        "variable \"unused\" was declared but never referenced"
    );
    assert_eq!(warning.source_line.as_deref(), Some("    int unused;"));
    Ok(())
}

#[test]
#[ignore = "needs NVRTC"]
fn k04_names_are_those_of_the_source_and_move_no_cursor() -> Outcome {
    let device = &device();
    let name = "a\"b\\c??/\x1b[2J.cu";
    let source = || Cuda::source(name, "#error \x1b[2J\n__global__ void k() {}");
    let error = refused(device, source());
    assert_eq!(
        (
            error.diagnostics()[0].file.as_str(),
            error.diagnostics()[0].line
        ),
        (name, 1)
    );
    let failed = refused(device, source().option("--fats-math"));
    for text in [error.to_string(), failed.to_string()] {
        assert!(
            !text.contains('\x1b') && text.contains("a\"b\\c??/\u{fffd}[2J.cu"),
            "{text}"
        );
        assert!(!text.contains("/dev/null"), "{text}");
    }
    let source = Cuda::source("k.cu", "__global__ void k(int* x) { *x = __LINE__; }");
    let source = source.option("--gpu-architecture=compute_75");
    let (ptx, _) = source.option("--generate-line-info").to_ptx()?;
    assert!(
        ptx.contains("/k.cu\"") && !ptx.contains("/dev/null"),
        "{ptx}"
    );
    Ok(())
}
