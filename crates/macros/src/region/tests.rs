//! Tests of the errors of functions that cannot be regions. The tests of `millstream-region` test
//! the behaviour of region functions.

use proc_macro2::TokenStream;

use super::expand;

/// Asserts that the error of an invalid function contains `message` and points at `place`.
#[track_caller]
fn assert_error(source: &str, message: &str, place: &str) {
    let tokens: TokenStream = source.parse().expect("valid tokens");
    let error = expand(&TokenStream::new(), tokens, true).expect_err("a wrong function");
    let text = error.to_string();
    assert!(text.contains(message), "{source}: {text}");
    assert_eq!(error.span().source_text().as_deref(), Some(place), "{text}");
}

#[test]
fn invalid_region_functions_are_rejected_at_the_invalid_part() {
    let table = r#"
        async fn f() {} | its result can be awaited | async
        const fn f() {} | is not `const` | const
        unsafe fn f() {} | is not `unsafe` | unsafe
        extern "C" fn f() {} | is not `extern` | extern "C"
        fn f(&self) {} | has no `self` | &self
        fn f(x: impl Copy) {} | named types | impl
        fn f(x: &Vec<impl Copy>) {} | named types | impl
        fn f() -> impl Copy {} | has a named type | impl
        fn f(x: Option<&Array1<f32>>) {} | write `Array1<f32>` here | &Array1<f32>
        fn f(x: &[&Array1<f32>]) {} | write `Array1<f32>` here | &Array1<f32>
        fn f(#[x] y: f32) {} | has no attributes | #[x]
        fn f(x: f32, g: &Region) {} | is the first parameter | &Region
        fn f(g: &mut r::Region) {} | is the first parameter | &mut r::Region
        fn f(mut x: ArrayViewMut1<f32>) {} | would be lost | ArrayViewMut1<f32>
        struct S; | applies to a function | struct
    "#;
    for line in table.trim().lines() {
        let parts: Vec<&str> = line.trim().split(" | ").collect();
        assert_error(parts[0], parts[1], parts[2]);
    }
}

/// Returns the expansion of a function, as text.
fn expanded(source: &str) -> String {
    let tokens: TokenStream = source.parse().expect("valid tokens");
    expand(&TokenStream::new(), tokens, true)
        .expect("a region function")
        .to_string()
}

#[test]
fn idioms_for_single_elements_are_rejected_on_parameters_alone() {
    for body in [
        "x.mapv(f32::exp)",
        "(-(x * 2.0).exp()).mapv(f64::sqrt)",
        "x.mapv(|v: f32| v)",
        "x.mapv(|v| if v > 0.0 { v } else { v })",
        "x.mapv(|v| match v { v => v })",
        "x.mapv(|v| (v * 2.0) as f64)",
        "x.mapv(|v| (v - 1.0).max(0.0))",
        "x.map(|v| *v * 2.0)",
        "x.map(|&v| v * 2.0)",
        "x.mapv_inplace(f32::abs)",
        "-x.abs().max(1.0)",
        "let y = &x * 2.0; y.min(n as f32)",
        "x.slice_mut(s![..2]) += x",
        "x.slice_mut(s![..2]) %= x",
        "x.row_mut(0) = x",
    ] {
        let source = format!("fn f(x: &Array1<f32>, n: usize) {{ {body}; }}");
        assert!(expanded(&source).contains("compile_error"), "{body}");
    }
    assert!(!expanded("fn f(x: &[Layer]) { x.iter().max(n) }").contains("compile_error"));
    for body in [
        "x.mapv(|v| v * v)",
        "x.mapv(exp)",
        "x.mapv(|v| v * n.max(1) as f32)",
        "x.mapv(|v| if n > 1 { v * 2.0 } else { v * 3.0 })",
        "x.to_host()?.mapv(f32::exp)",
        "let x = x.to_host()?; x.mapv(|v| v.max(0.0))",
        "other.mapv(|v| v as f64)",
        "fn g(x: Array1<f32>) { x.mapv(f32::exp); }",
        "x.max()",
        "x.len().max(n)",
        "let k = x.shape()[0]; k.max(n)",
        "let k = x.len(); k.max(n)",
        "let y = x * 2.0; { let y = n; y.max(1) }",
        "for x in 0..n { x.max(1); }",
        "x.to_host()?.slice_mut(s![..]) += 1.0",
    ] {
        let source = format!("fn f(x: &Array1<f32>, n: usize) {{ {body}; }}");
        assert!(!expanded(&source).contains("compile_error"), "{body}");
    }
}

#[test]
fn constructors_of_imported_types_become_those_of_the_region() {
    for (body, made) in [
        (
            "Array1::zeros(n)",
            "zeros :: < _ , :: millstream_region :: axes :: Ix1 > (n)",
        ),
        (
            "Array::<f32, D>::from_elem(n, 1.0)",
            "from_elem :: < f32 , D > (n , 1.0)",
        ),
        ("Array2::<T>::eye(3)", "eye :: < T > (3)"),
        (
            "Array::range(0.0, 1.0, 0.1)",
            "arange :: < _ > (0.0 , 1.0 , 0.1)",
        ),
    ] {
        let text = expanded(&format!("fn f(n: usize) {{ {body} }}"));
        assert!(text.contains(made), "{text}");
    }
    for body in [
        "ndarray::Array1::zeros(n)",
        "Array1::from_vec(n)",
        "Other::zeros(n)",
    ] {
        let text = expanded(&format!("fn f(n: usize) {{ {body} }}"));
        assert!(!text.contains("millstream_region :: axes"), "{text}");
    }
}

#[test]
fn arguments_of_the_attribute_are_rejected() {
    let arguments: TokenStream = "fast".parse().unwrap();
    let function: TokenStream = "fn f() {}".parse().unwrap();
    let error = expand(&arguments, function, true).expect_err("there are none");
    assert_eq!(
        error.to_string(),
        "`#[region]` takes no arguments, or `mesh`"
    );
    let (arguments, function) = ("mesh".parse().unwrap(), "fn f() {}".parse().unwrap());
    let error = expand(&arguments, function, false).expect_err("there are no meshes");
    assert!(
        error.to_string().contains("needs the feature `mesh`"),
        "{error}"
    );
}
