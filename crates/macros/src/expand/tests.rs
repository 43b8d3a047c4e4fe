//! Tests of the expansion of declarations, and of the errors of invalid ones. `tests/kernels` tests
//! the behaviour of the expanded code.

use proc_macro2::TokenStream;
use quote::quote;

use super::expand;

/// Returns the error message of an invalid declaration, and the source text that it points at.
fn error(source: &str) -> (String, String) {
    let tokens: TokenStream = source.parse().expect("valid tokens");
    let error = expand(tokens).expect_err("a wrong declaration");
    (
        error.to_string(),
        error.span().source_text().unwrap_or_default(),
    )
}

/// Asserts that the error of an invalid kernel contains `message` and points at `place`.
#[track_caller]
fn assert_kernel_error(declaration: &str, message: &str, place: &str) {
    let (text, at) = error(&format!("pub unsafe mod m from PTX {{ {declaration} }}"));
    assert!(text.contains(message), "{text}");
    assert_eq!(at, place, "{text}");
}

/// Asserts the errors of a table: each line has a part of a declaration, the message and the place.
#[track_caller]
fn assert_errors(table: &str, declaration: impl Fn(&str) -> String) {
    for line in table.trim().lines() {
        let cells: Vec<&str> = line.trim().split(" | ").collect();
        assert_kernel_error(&declaration(cells[0]), cells[1], cells[2]);
    }
}

#[test]
fn a_clause_with_arithmetic_that_cannot_be_checked_is_rejected() {
    let table = r#"
        x.len() >= p.w as u64 * n | no casts in a clause | as
        n >= (p.x as usize) | no casts in a clause | as
        { let mut a = p.w; a *= p.h; a > n } | no compound assignment | *=
        x.len() >= area!(p) | cannot check the arithmetic in a macro | area!(p)
        matches!(area!(p), 3) | cannot check the arithmetic in a macro | area!(p)
        matches!(n) | expected `,` | )
        x.len() >= Mul::mul(p.w, p.h) | write an operator | Mul::mul
        x.len() >= u32::pow(p.w, 2) | write `a.pow(…)` | u32::pow
        x.len() >= <u32 as Mul>::mul(p.w, p.h) | write an operator | <u32 as Mul>::mul
        x.len() >= f(p).map(i32::abs).unwrap() | write `a.abs(…)` | i32::abs
        x.len() >= p.dims.iter().product() | `product` may overflow unchecked | product
        x.len() >= p.dims.iter().sum::<u32>() | `sum` may overflow unchecked | sum
        x.len() >= p.w.mul(p.h) | `mul` may overflow unchecked | mul
        TABLE[p.w as usize] > 3 | no casts in a clause | as
        n > 3 && f(p.w, p.h as u8) | no casts in a clause | as
    "#;
    assert_errors(table, |clause| {
        format!("safe fn k(x: &[u8], p: Size, n: i32) requires {clause};")
    });
}

#[test]
fn documentation_of_parameters_and_clauses_is_listed_on_the_method() {
    let expansion = expand(quote! {
        unsafe mod m from PTX {
            safe fn k(
                /// The input.
                x: &[u8],
                n: i32,
            ) requires x.len() >= n;
            unsafe fn u(n: i32);
            static hits: u32;
        }
    })
    .expect("a right declaration")
    .to_string();
    for line in [
        r#"# [doc = "The kernels of the PTX module `m`."]"#,
        r#"# [doc = "Launches the kernel `k`."]"#,
        r###"# [doc = "* `x`:"] # [doc = r" The input."] # [doc = "\n# Requires"###,
        r#"# [doc = "* `x.len() >= n`"]"#,
        r#"# [doc = "\n# Errors\n\nIf a requirement fails, an operand"#,
        r#"# [doc = "Returns the variable `hits`."]"#,
    ] {
        assert!(expansion.contains(line), "{line} is not in {expansion}");
    }
    // A safe kernel requires nothing of its caller.
    assert_eq!(expansion.matches("# Safety").count(), 1, "{expansion}");
}

#[test]
fn lengths_that_follow_arrays_count_among_the_parameters() {
    let expansion = expand(quote! {
        #[kernel(abi = "rust")]
        unsafe mod m from PTX {
            safe fn k(x: &[f32], n: i32, y: &mut [f64]);
        }
    });
    let expansion = expansion.expect("a right declaration").to_string();
    for array in [
        "param : 0usize , name : \"x\"",
        "param : 3usize , name : \"y\"",
    ] {
        assert!(expansion.contains(array), "{array} is not in {expansion}");
    }
}

#[test]
fn a_module_must_be_unsafe_and_have_its_ptx() {
    for (source, message) in [
        ("pub mod m from PTX {}", "write `unsafe mod`"),
        ("struct S;", "expected `unsafe mod NAME from PTX { … }`"),
        ("unsafe mod m {}", "expected `from`, then the PTX"),
        ("unsafe mod m = PTX {}", "expected `from`, then the PTX"),
        ("", "expected `unsafe mod NAME from PTX { … }`"),
    ] {
        let (text, _) = error(source);
        assert!(text.contains(message), "{source}: {text}");
    }
}

#[test]
fn an_unsupported_parameter_type_is_rejected_at_its_place() {
    let table = r#"
        [f32; 4] | an array is not passed by value | [f32; 4]
        *const f32 | a kernel takes no raw pointers | *const f32
        *mut f32 | a kernel takes no raw pointers | *mut f32
        &f32 | expected a slice `[T]` in the reference | f32
        &mut f32 | expected a slice `[T]` in the reference | f32
        &[[f32; 4]] | an array is not passed by value | [f32; 4]
        &'a [f32] | no lifetimes in a parameter's type | 'a
        Row<'a> | no lifetimes in a parameter's type | 'a
        impl Copy | a kernel takes no parameter of this type | impl Copy
        (f32, f32) | a kernel takes no parameter of this type | (f32, f32)
        <A as B>::C | a kernel takes no parameter of this type | <A as B>::C
    "#;
    assert_errors(table, |ty| format!("safe fn k(x: {ty});"));
}

#[test]
fn an_invalid_kernel_declaration_is_rejected_at_the_invalid_part() {
    let table = r#"
        pub fn k(); | write `safe fn` | fn
        safe async fn k(); | expected `fn` | async
        async fn k(); | expected `safe fn` or `unsafe fn` | async
        struct S; | expected `safe fn` or `unsafe fn` | struct
        safe fn k<T>(x: &[T]); | no generic parameters | <
        safe fn k(x: &[u8]) -> u32; | a kernel returns nothing | ->
        safe fn k() {} | a kernel's body is in its PTX | {}
        safe fn k() where; | expected `requires` with its clauses, or `;` | where
        safe fn k() requires; | expected a clause after `requires` | ;
        safe fn k(&self); | a kernel has no `self` | &
        safe fn k(self); | a kernel has no `self` | self
        safe fn k(mut n: i32); | expected a parameter's plain name | mut n
        safe fn k((a, b): i32); | expected a parameter's plain name | (a, b)
        safe fn k(grid: i32); | `grid` is already an argument of every launch | grid
        safe fn k(stream: i32); | `stream` is already an argument of every launch | stream
        safe fn k(#[x] n: i32); | documentation, but no other attribute | x
        safe fn load(); | `load` is the function that loads the module | load
        safe fn k(); safe fn k(); | `k` is declared twice | k
        safe fn k(); static k: u32; | `k` is declared twice | k
        static load: u32; | `load` is the function that loads the module | load
        static mut n: u32; | a variable has no `mut` | mut
        static n: u32 = 3; | the initial value | =
        static n: [u32; 4]; | a variable is `[T]` | [u32; 4]
        static n: [&u8]; | a variable is `[T]` | &u8
        #[kernel(nom = "x")] safe fn k(); | expected `name = "…"` | nom
        #[kernel(name = "x", name = "y")] safe fn k(); | given twice | name
    "#;
    assert_errors(table, str::to_owned);
}
