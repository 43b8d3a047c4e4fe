//! The attribute of tests that run in several configurations.

use proc_macro::{Delimiter, Group, Punct, Spacing, TokenStream, TokenTree};

/// Makes a function a test whose body a runner calls, such as once for each configuration of a
/// device.
///
/// ```ignore
/// #[run_by(everywhere, |harness|)]
/// fn a_stream_is_idle_at_first() -> Result<()> {
///     assert!(harness.stream().is_idle()?);
///     Ok(())
/// }
/// ```
///
/// is the test
///
/// ```ignore
/// #[test]
/// fn a_stream_is_idle_at_first() -> impl Termination {
///     everywhere(|harness| -> Result<()> {
///         assert!(harness.stream().is_idle()?);
///         Ok(())
///     })
/// }
/// ```
///
/// A runner takes the body as its last argument: `#[run_by(under(Schedule::Lazy), |gpu|)]` calls
/// `under(Schedule::Lazy, |gpu| …)`.
#[proc_macro_attribute]
pub fn run_by(runner: TokenStream, function: TokenStream) -> TokenStream {
    let mut runner: Vec<_> = runner.into_iter().collect();
    let bar = runner.iter().position(|token| is_punct(token, '|'));
    let parameters = runner.split_off(bar.expect("a runner stands before the parameters: |…|"));
    runner.pop_if(|token| is_punct(token, ','));
    let arguments = runner.pop_if(|token| is_group(token, Delimiter::Parenthesis));

    let mut function: Vec<_> = function.into_iter().collect();
    let body = function.pop_if(|token| is_group(token, Delimiter::Brace));
    let name = function.iter().position(|token| token.to_string() == "fn");
    let signature = name.expect("the attribute stands above a function") + 3;
    let result = function.split_off(signature);

    let mut passed = TokenStream::new();
    if let Some(TokenTree::Group(arguments)) = arguments {
        passed.extend(arguments.stream());
        passed.extend([TokenTree::from(Punct::new(',', Spacing::Alone))]);
    }
    passed.extend(parameters.into_iter().chain(result).chain(body));
    runner.push(Group::new(Delimiter::Parenthesis, passed).into());
    function.extend(tokens("-> impl ::std::process::Termination"));
    function.push(Group::new(Delimiter::Brace, runner.into_iter().collect()).into());
    tokens("#[test]").chain(function).collect()
}

fn tokens(text: &str) -> impl Iterator<Item = TokenTree> {
    let tokens: TokenStream = text.parse().expect("tokens of Rust");
    tokens.into_iter()
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn is_group(token: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter)
}
