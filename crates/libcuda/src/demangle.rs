//! Readable names of kernels in reports.
//!
//! C++ compilers encode the parameter types of a function in its symbol: nvcc names the kernel
//! `scale(float*, float, unsigned int)` `_Z5scalePffj`. Numba does the same for Python functions,
//! and adds tags that make each compilation unique, which are left out here.

use std::borrow::Cow;

use cpp_demangle::{DemangleOptions, Symbol};

/// The start of a mangled name.
const PREFIX: &str = "_Z";

/// Returns the C++ name of a symbol, or the symbol itself if it is not a mangled name.
#[must_use]
pub fn name(symbol: &str) -> Cow<'_, str> {
    if !symbol.starts_with(PREFIX) {
        return Cow::Borrowed(symbol);
    }
    let options = DemangleOptions::new().no_return_type();
    let demangled = Symbol::new(symbol)
        .ok()
        .and_then(|symbol| symbol.demangle_with_options(&options).ok());
    match demangled {
        Some(name) => Cow::Owned(without_tags(&name)),
        None => Cow::Borrowed(symbol),
    }
}

/// Returns a text with the C++ name of each symbol in it.
#[must_use]
pub fn text(text: &str) -> String {
    let mut readable = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(PREFIX) {
        let (before, found) = rest.split_at(start);
        let end = found.find(|letter| !is_symbol(letter));
        let (symbol, after) = found.split_at(end.unwrap_or(found.len()));
        readable += before;
        // Within a longer word this is not the start of a symbol.
        if before.ends_with(is_symbol) {
            readable += symbol;
        } else {
            readable += &name(symbol);
        }
        rest = after;
    }
    readable + rest
}

/// Returns whether a character can be part of a symbol.
fn is_symbol(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$')
}

/// Removes ABI tags, as `[abi:v1]`.
fn without_tags(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, tag)) = rest.split_once("[abi:") {
        plain += before;
        rest = tag.split_once(']').map_or("", |(_, after)| after);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn mangled_names_are_demangled_and_others_kept() {
        for (symbol, expected) in [
            ("_Z5scalePffj", "scale(float*, float, unsigned int)"),
            (
                "_ZN4math3addIfEEvPT_S2_",
                "math::add<float>(float*, float*)",
            ),
            ("scale", "scale"),
            ("_Z", "_Z"),
            ("_Znot_a_name", "_Znot_a_name"),
            ("", ""),
            ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ] {
            assert_eq!(name(symbol), expected, "{symbol}");
        }
    }

    #[test]
    fn tags_are_left_out() {
        assert_eq!(
            name("_ZN6cudapy8__main__3addB2v1B4cw51E5ArrayIfLi1E1C7mutable7alignedE"),
            "cudapy::__main__::add(Array<float, 1, C, mutable, aligned>)"
        );
        assert_eq!(without_tags("f[abi:a][abi:b](int)"), "f(int)");
        assert_eq!(without_tags("f[abi:a"), "f");
    }

    #[test]
    fn symbols_in_a_text_are_demangled() {
        assert_eq!(
            text("kernel `_Z5scalePffj` (a:7) after _Z3addPi, not x_Z3addPi"),
            "kernel `scale(float*, float, unsigned int)` (a:7) after add(int*), not x_Z3addPi"
        );
        assert_eq!(text("_Z3addPi"), "add(int*)");
        assert_eq!(text("nothing"), "nothing");
    }

    proptest! {
        #[test]
        fn any_text_is_accepted(
            before in ".{0,20}",
            symbol in "_Z[NSTIEPKRFijfvLBCDJX0-9_]{0,60}",
        ) {
            let _ = text(&format!("{before}{symbol}"));
        }

        #[test]
        fn a_text_without_symbols_is_kept(plain in "[a-z0-9 ().:_]{0,80}") {
            prop_assert_eq!(text(&plain), plain);
        }
    }
}
