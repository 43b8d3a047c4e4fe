//! Writes an expression's tokens as people write them, for error messages. (Rust's own rendering of
//! tokens puts spaces around every dot and parenthesis, and the source text itself is not to be
//! had.)

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// Operators of more than one sign, in expressions.
const OPERATORS: [&str; 12] = [
    "==", "!=", "<=", ">=", "&&", "||", "::", "..", "..=", "<<", ">>", "=>",
];

/// The expression as one line of text.
pub(crate) fn one_line(tokens: TokenStream) -> String {
    let mut writer = Writer {
        text: String::new(),
        before: Before::Start,
    };
    writer.tokens(tokens);
    writer.text
}

/// What stands before the next token, as far as the space between them depends on it.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    /// The start of the text or of a group, or a sign that binds to what follows: no space.
    Start,
    /// A name, a literal or the end of a group.
    Operand,
    /// An operator that stands between two operands, or a comma.
    Operator,
}

struct Writer {
    text: String,
    before: Before,
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
                    // A call's or an index's own bracket follows its operand without a space.
                    if self.before == Before::Operator {
                        self.text.push(' ');
                    }
                    self.text.push_str(open);
                    self.before = Before::Start;
                    self.tokens(group.stream());
                    self.text.push_str(close);
                    self.before = Before::Operand;
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
        if self.before != Before::Start {
            self.text.push(' ');
        }
        self.text.push_str(text);
        self.before = Before::Operand;
    }

    fn operator(&mut self, operator: &str) {
        match (operator, self.before) {
            ("." | "::" | ".." | "..=", _) => {
                self.text.push_str(operator);
                self.before = Before::Start;
            }
            ("," | ";" | ":", _) => {
                self.text.push_str(operator);
                self.before = Before::Operator;
            }
            ("?", _) => {
                self.text.push('?');
                self.before = Before::Operand;
            }
            // A macro's sign follows its name.
            ("!", Before::Operand) => {
                self.text.push('!');
                self.before = Before::Operand;
            }
            (_, Before::Operand) => {
                self.text.push(' ');
                self.text.push_str(operator);
                self.before = Before::Operator;
            }
            (_, before) => {
                // A sign before its only operand.
                if before == Before::Operator {
                    self.text.push(' ');
                }
                self.text.push_str(operator);
                self.before = Before::Start;
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
    fn spaces_of_the_source_do_not_matter() {
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
