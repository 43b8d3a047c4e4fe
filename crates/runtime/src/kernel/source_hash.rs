//! The first line of checked-in PTX, which names the source that it was compiled from.

use super::sha256::{hex, sha256};

/// The beginning of the line, before the hash of the source.
const PREFIX: &str = "// source sha256 ";

/// Returns the first lines of PTX that was compiled from a source, for `millstream compile`.
#[doc(hidden)]
#[must_use]
pub fn header(source: &str, options: &[String], compiler: &str) -> String {
    let hash = hex(&sha256(source.as_bytes()));
    let options = options.join(" ");
    format!("{PREFIX}{hash}, options {options}\n// compiled by {compiler}\n")
}

/// Returns whether the first line of the PTX has the hash of the source. `kernels!` calls it when a
/// program is compiled.
#[doc(hidden)]
#[must_use]
pub const fn compiled_from(ptx: &str, source: &str) -> bool {
    let (ptx, prefix) = (ptx.as_bytes(), PREFIX.as_bytes());
    let hash = sha256(source.as_bytes());
    if ptx.len() < prefix.len() + 2 * hash.len() {
        return false;
    }
    let mut at = 0;
    while at < prefix.len() {
        if ptx[at] != prefix[at] {
            return false;
        }
        at += 1;
    }
    let mut byte = 0;
    while byte < hash.len() {
        let (high, low) = (hash[byte] >> 4, hash[byte] & 15);
        if ptx[at] != digit(high) || ptx[at + 1] != digit(low) {
            return false;
        }
        at += 2;
        byte += 1;
    }
    true
}

/// Stops the compilation of a program with this message if the PTX is not that of the source.
///
/// # Panics
///
/// If the first line of the PTX does not have the hash of the source.
#[doc(hidden)]
pub const fn assert_compiled_from(ptx: &str, source: &str, message: &'static str) {
    assert!(compiled_from(ptx, source), "{}", message);
}

const fn digit(value: u8) -> u8 {
    if value < 10 {
        b'0' + value
    } else {
        b'a' + value - 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_that_of_its_source_alone() {
        let ptx = header("source", &["--a".into(), "-b".into()], "NVRTC 12.0") + ".version 8.0\n";
        let expected = "// source sha256 41cf6794ba4200b839c53531555f0f3998df4cbb01a4d5cb0b94e3\
                        ca5e23947d, options --a -b\n// compiled by NVRTC 12.0\n";
        assert!(ptx.starts_with(expected), "{ptx}");
        assert!(compiled_from(&ptx, "source"));
        assert!(!compiled_from(&ptx, "source "));
        assert!(!compiled_from(".version 8.0", "source") && !compiled_from("", ""));
        let other = ptx.replacen("947d", "947e", 1);
        assert!(!compiled_from(&other, "source"), "every digit counts");
    }
}
