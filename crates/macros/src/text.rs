//! Source text of expressions, for error messages.
//!
//! Rust's own rendering of tokens puts spaces around every dot and parenthesis, and the original
//! source text is not available to a macro, so tokens are formatted here by common style.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// Operators of more than one character in expressions.
const OPERATORS: [&str; 12] = [
    "==", "!=", "<=", ">=", "&&", "||", "::", "..", "..=", "<<", ">>", "=>",
];

/// Formats the expression as one line of text.
pub(crate) fn one_line(tokens: TokenStream) -> String {
    let mut writer = Writer {
        text: String::new(),
        previous: Previous::Start,
    };
    writer.tokens(tokens);
    writer.text
}

/// The kind of the previous token, which determines the space before the next one.
#[derive(Clone, Copy, PartialEq)]
enum Previous {
    /// The start of the text or of a group, or a prefix operator: no space follows.
    Start,
    /// A name, a literal or the end of a group.
    Operand,
    /// A binary operator or a comma.
    Operator,
}

struct Writer {
    text: String,
    previous: Previous,
}

impl Writer {
    fn tokens(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(ident) => self.operand(&ident.to_string()),
                TokenTree::Literal(literal) => self.operand(&literal.to_string()),
                TokenTree::Group(group) => {
                    let (open, close) = match group.delimiter() {
                        Delimiter::Parenthesis => ("(", ")"),
                        Delimiter::Bracket => ("[", "]"),
                        Delimiter::Brace => (" { ", " }"),
                        Delimiter::None => ("", ""),
                    };
                    // The bracket of a call or an index follows its operand without a space.
                    if self.previous == Previous::Operator {
                        self.text.push(' ');
                    }
                    self.text.push_str(open);
                    self.previous = Previous::Start;
                    self.tokens(group.stream());
                    self.text.push_str(close);
                    self.previous = Previous::Operand;
                }
                TokenTree::Punct(first) => {
                    let mut operator = String::from(first.as_char());
                    let mut joint = first.spacing() == Spacing::Joint;
                    while let Some(TokenTree::Punct(next)) = tokens.peek() {
                        let longer = format!("{operator}{}", next.as_char());
                        if !joint || !OPERATORS.contains(&longer.as_str()) {
                            break;
                        }
                        joint = next.spacing() == Spacing::Joint;
                        operator = longer;
                        tokens.next();
                    }
                    self.operator(&operator);
                }
            }
        }
    }

    fn operand(&mut self, text: &str) {
        if self.previous != Previous::Start {
            self.text.push(' ');
        }
        self.text.push_str(text);
        self.previous = Previous::Operand;
    }

    fn operator(&mut self, operator: &str) {
        match (operator, self.previous) {
            ("." | "::" | ".." | "..=", _) => {
                self.text.push_str(operator);
                self.previous = Previous::Start;
            }
            ("," | ";" | ":", _) => {
                self.text.push_str(operator);
                self.previous = Previous::Operator;
            }
            ("?", _) => {
                self.text.push('?');
                self.previous = Previous::Operand;
            }
            // The `!` of a macro follows the macro's name.
            ("!", Previous::Operand) => {
                self.text.push('!');
                self.previous = Previous::Operand;
            }
            (_, Previous::Operand) => {
                self.text.push(' ');
                self.text.push_str(operator);
                self.previous = Previous::Operator;
            }
            (_, previous) => {
                // A prefix operator.
                if previous == Previous::Operator {
                    self.text.push(' ');
                }
                self.text.push_str(operator);
                self.previous = Previous::Start;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_read_as_they_were_written() {
        for text in [
            "n >= 0",
            "rgb.len() >= 3 * n",
            "luma.len() >= w * h && w > 0",
            "!x.is_empty()",
            "a != -1 && !(b < c)",
            "(w + 1) * (h - 1) <= out.len()",
            "n.min(m, 4) == n.max(-2)",
            "grid.block.x == TILE_W",
            "std::mem::size_of(x) == 4",
            "matches!(mode, Mode::Fast)",
            "table[i + 1] > 0.5",
            "f(a, &b) as u32 == 1",
            "x.len() == y.len()",
        ] {
            let tokens: TokenStream = text.parse().expect("valid tokens");
            assert_eq!(one_line(tokens), text);
        }
    }

    #[test]
    fn spaces_in_the_source_are_ignored() {
        for (source, text) in [
            ("rgb . len ( )>=3*n", "rgb.len() >= 3 * n"),
            ("a==-1&&!b", "a == -1 && !b"),
            ("xs[ ..=2 ]\n.len()\n>1", "xs[..=2].len() > 1"),
        ] {
            let tokens: TokenStream = source.parse().expect("valid tokens");
            assert_eq!(one_line(tokens), text);
        }
    }
}
