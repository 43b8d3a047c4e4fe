//! What is said about functions that cannot be regions. What a region function does is in the tests of `millstream-region`.

use proc_macro2::TokenStream;

use super::expand;

/// Checks the message about a wrong function: that it says `message`, and points at `place`.
#[track_caller]
fn assert_error(source: &str, message: &str, place: &str) {
    let tokens: TokenStream = source.parse().expect("valid tokens");
    let error = expand(&TokenStream::new(), tokens).expect_err("a wrong function");
    let text = error.to_string();
    assert!(text.contains(message), "{source}: {text}");
    assert_eq!(error.span().source_text().as_deref(), Some(place), "{text}");
}

#[test]
fn what_cannot_be_a_region_is_refused_where_it_stands() {
    for (source, message, place) in [
        ("async fn f() {}", "what it returns can be awaited", "async"),
        ("const fn f() {}", "is not `const`", "const"),
        ("unsafe fn f() {}", "is not `unsafe`", "unsafe"),
        ("extern \"C\" fn f() {}", "is not `extern`", "extern \"C\""),
        ("fn f(&self) {}", "has no `self`", "&self"),
        ("fn f(x: impl Copy) {}", "types by their names", "impl"),
        ("fn f(x: &Vec<impl Copy>) {}", "types by their names", "impl"),
        ("fn f() -> impl Copy {}", "is a type by its name", "impl"),
        ("fn f(#[x] y: f32) {}", "has no attributes", "#[x]"),
        ("fn f(x: f32, g: &Region) {}", "is the first parameter", "&Region"),
        (
            "fn f(g: &mut r::Region) {}",
            "is the first parameter",
            "&mut r::Region",
        ),
        ("struct S;", "stands in front of a function", "struct"),
    ] {
        assert_error(source, message, place);
    }
}

#[test]
fn arguments_of_the_attribute_are_refused() {
    let arguments: TokenStream = "fast".parse().unwrap();
    let function: TokenStream = "fn f() {}".parse().unwrap();
    let error = expand(&arguments, function).expect_err("there are none");
    assert_eq!(error.to_string(), "`#[region]` takes no arguments");
}
