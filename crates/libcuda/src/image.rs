//! Module images: PTX text, or a fat binary with PTX in it.

use millstream_driver::ResultCode;

use crate::{
    codes::Answer,
    fatbin::{Fatbin, FatbinError, is_fatbin},
    process::{self, say},
    versions,
};

/// The first bytes of machine code in its usual format.
const ELF: &[u8] = b"\x7fELF";

/// Returns the PTX of an image that the function `caller` was given. The reason of a failure goes
/// to standard error.
pub(crate) fn ptx(caller: &str, image: Vec<u8>) -> Answer<Vec<u8>> {
    let start = image.first_chunk::<4>().copied().unwrap_or_default();
    if start == ELF {
        say(&format!(
            "{caller}: the image is machine code (a cubin); the simulated device runs PTX"
        ));
        return Err(ResultCode::NO_BINARY_FOR_GPU);
    }
    if !is_fatbin(start) {
        return accepted(caller, image);
    }
    let capability = capability()?;
    let found = Fatbin::parse(&image).and_then(|fatbin| fatbin.ptx_for(capability));
    let ptx = found.map_err(|error| {
        say(&format!("{caller}: {error}"));
        match error {
            FatbinError::NoFittingPtx { .. } | FatbinError::OnlyMachineCode { .. } => {
                ResultCode::NO_BINARY_FOR_GPU
            }
            _ => ResultCode::INVALID_IMAGE,
        }
    })?;
    accepted(caller, ptx.into_bytes())
}

fn capability() -> Answer<(u32, u32)> {
    let (major, minor) = process::options()?.kind.compute_capability();
    Ok((major.unsigned_abs(), minor.unsigned_abs()))
}

/// Returns whether an image is CUDA's device runtime library, whose PTX is for newer devices. It is
/// recognised by a function that launches kernels.
pub(crate) fn is_device_runtime(image: &[u8]) -> Answer<bool> {
    let capability = capability()?;
    let mark = "__cudaCDP2LaunchDevice";
    Ok(Fatbin::parse(image)
        .is_ok_and(|fatbin| fatbin.ptx_for(capability).is_err() && fatbin.has_ptx_with(mark)))
}

/// Returns the text, unless its version of PTX is newer than the driver's.
fn accepted(caller: &str, ptx: Vec<u8>) -> Answer<Vec<u8>> {
    let newest = versions::newest_ptx(process::options()?.cuda_version);
    if let (Some(version), Some(newest)) = (version(&ptx), newest)
        && version > newest
    {
        let (version, newest) = (dotted(version), dotted(newest));
        say(&format!(
            "{caller}: the image has PTX {version}; a driver of this CUDA version knows {newest} \
             and older ones (MILLSTREAM_CUDA chooses the version)"
        ));
        return Err(ResultCode::UNSUPPORTED_PTX_VERSION);
    }
    Ok(ptx)
}

fn version(ptx: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(ptx).ok()?;
    let lines = text.lines().map(str::trim_start);
    let (major, minor) = lines
        .filter_map(|line| line.strip_prefix(".version"))
        .next()?
        .split_whitespace()
        .next()?
        .split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn dotted((major, minor): (u32, u32)) -> String {
    format!("{major}.{minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_ptx_is_read_from_its_text() {
        let text = b"// .version 1.0\n\n  .version 8.8\n.target sm_90\n";
        assert_eq!(version(text), Some((8, 8)));
        assert_eq!(version(b".target sm_90"), None);
        assert_eq!(version(b".version nine"), None);
    }
}
