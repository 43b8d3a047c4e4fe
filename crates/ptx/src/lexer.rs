//! Tokens of PTX text.

use super::error::{PtxError, PtxErrorKind};

/// The maximum nesting depth of `{ }` blocks and operand lists.
pub(super) const DEPTH_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A name with all its dotted parts: `%r1`, `%tid.x`, `setp.lt.s32`, `.reg`, `$L__BB0_1`.
    Word,
    /// A number as written: `16`, `0x1F`, `0f3F800000`, `1.5e-3`.
    Number,
    /// A quoted string, without its quotes.
    Text,
    /// One character of punctuation, or one that is invalid in PTX.
    Punctuation,
    /// The end of the text.
    End,
}

/// A token of a PTX text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind,
    /// The token's characters.
    pub(crate) text: &'a str,
    /// The line where it starts, counted from 1.
    pub(crate) line: u32,
}

impl Token<'_> {
    /// Returns whether this is the given punctuation character.
    pub(crate) fn is_punctuation(&self, mark: char) -> bool {
        self.kind == TokenKind::Punctuation && self.text.starts_with(mark)
    }
}

/// A lexer for PTX text. It never fails: an invalid character becomes a
/// [`TokenKind::Punctuation`], which the parser rejects where it parses it. A signature can
/// therefore be parsed although the body after it is invalid.
#[derive(Clone, Debug)]
pub(crate) struct Lexer<'a> {
    source: &'a str,
    rest: &'a str,
    line: u32,
    peeked: Option<Token<'a>>,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(source: &'a str) -> Self {
        Self {
            source,
            rest: source,
            line: 1,
            peeked: None,
        }
    }

    /// Returns the next token without consuming it.
    pub(crate) fn peek(&mut self) -> Token<'a> {
        let token = self.next();
        self.peeked = Some(token);
        token
    }

    /// Consumes the next token. At the end it returns [`TokenKind::End`] every time.
    pub(crate) fn next(&mut self) -> Token<'a> {
        match self.peeked.take() {
            Some(token) => token,
            None => self.scan(),
        }
    }

    /// Returns the text from the next token on, or an empty text if that token is quoted.
    pub(crate) fn rest(&mut self) -> &'a str {
        let token = self.peek();
        if token.kind == TokenKind::Text {
            return "";
        }
        &self.source[self.source.len() - self.rest.len() - token.text.len()..]
    }

    /// Consumes `text`, a prefix of [`Self::rest`].
    pub(crate) fn skip(&mut self, text: &str) {
        let rest = self.rest();
        self.peeked = None;
        self.rest = &rest[text.len()..];
    }

    /// Consumes the next token if it is the given punctuation character.
    pub(crate) fn eat(&mut self, mark: char) -> bool {
        let found = self.peek().is_punctuation(mark);
        if found {
            self.next();
        }
        found
    }

    /// Consumes the next token, which must be the given punctuation character.
    pub(crate) fn expect(&mut self, mark: char) -> Result<(), PtxError> {
        let token = self.next();
        if token.is_punctuation(mark) {
            Ok(())
        } else {
            Err(unexpected(token, &format!("`{mark}`")))
        }
    }

    /// Consumes the next token, which must be a word; an error describes it as `what`.
    pub(crate) fn word(&mut self, what: &str) -> Result<Token<'a>, PtxError> {
        let token = self.next();
        if token.kind == TokenKind::Word {
            Ok(token)
        } else {
            Err(unexpected(token, what))
        }
    }

    fn skip_blanks(&mut self) {
        loop {
            let trimmed = self.rest.trim_start();
            let blanks = &self.rest[..self.rest.len() - trimmed.len()];
            self.line += count_lines(blanks);
            self.rest = trimmed;
            if trimmed.starts_with("//") {
                let end = trimmed.find('\n').unwrap_or(trimmed.len());
                self.rest = &trimmed[end..];
            } else if trimmed.starts_with("/*") {
                let end = trimmed.find("*/").map_or(trimmed.len(), |at| at + 2);
                self.line += count_lines(&trimmed[..end]);
                self.rest = &trimmed[end..];
            } else {
                return;
            }
        }
    }

    fn scan(&mut self) -> Token<'a> {
        self.skip_blanks();
        let line = self.line;
        let Some(first) = self.rest.chars().next() else {
            return Token {
                kind: TokenKind::End,
                text: "",
                line,
            };
        };
        let (kind, len) = if is_number(self.rest) {
            (TokenKind::Number, number_len(self.rest))
        } else if is_word(first) {
            (TokenKind::Word, word_len(self.rest))
        } else if first == '"' {
            let inside = &self.rest[1..];
            let len = inside.find('"').unwrap_or(inside.len());
            let text = &inside[..len];
            self.line += count_lines(text);
            self.rest = inside.get(len + 1..).unwrap_or("");
            return Token {
                kind: TokenKind::Text,
                text,
                line,
            };
        } else {
            (TokenKind::Punctuation, first.len_utf8())
        };
        let (text, rest) = self.rest.split_at(len);
        self.rest = rest;
        Token { kind, text, line }
    }
}

/// Returns the error for a token found in place of `expected`.
pub(crate) fn unexpected(token: Token<'_>, expected: &str) -> PtxError {
    let expected = expected.to_owned();
    match token.kind {
        TokenKind::End => PtxErrorKind::Truncated { expected },
        _ => PtxErrorKind::Syntax {
            expected,
            // A terminal would obey control characters.
            found: token
                .text
                .chars()
                .take(40)
                .map(|c| if c.is_control() { '\u{fffd}' } else { c })
                .collect(),
        },
    }
    .at(token.line)
}

fn count_lines(text: &str) -> u32 {
    u32::try_from(text.bytes().filter(|byte| *byte == b'\n').count()).unwrap_or(u32::MAX)
}

/// Returns whether `text` starts with a number, possibly with its decimal point.
fn is_number(text: &str) -> bool {
    text.strip_prefix('.')
        .unwrap_or(text)
        .starts_with(|first: char| first.is_ascii_digit())
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '$' | '%' | '.')
}

/// Returns the length of the word at the start of `text`. A double colon joins two parts
/// (`.shared::cta`); a single one ends a label. A word that starts with a dot is a directive, which
/// ends before the next dot: `.param.u64` is two directives.
fn word_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let directive = bytes.first() == Some(&b'.');
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let joins = byte == b':'
            && bytes.get(at + 1) == Some(&b':')
            && bytes
                .get(at + 2)
                .is_some_and(|next| is_word(char::from(*next)));
        if joins {
            at += 2;
        } else if is_word(char::from(byte)) && !(directive && at > 0 && byte == b'.') {
            at += 1;
        } else {
            break;
        }
    }
    at
}

/// Returns the length of the number at the start of `text`, with prefix, fraction, exponent and
/// `U`.
fn number_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let decimal = !matches!(
        bytes.get(1),
        Some(b'x' | b'X' | b'f' | b'F' | b'd' | b'D' | b'b' | b'B')
    );
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let exponent_sign = decimal
            && at > 0
            && matches!(byte, b'+' | b'-')
            && matches!(bytes[at - 1], b'e' | b'E');
        if !(byte.is_ascii_alphanumeric() || byte == b'.' || exponent_sign) {
            break;
        }
        at += 1;
    }
    at
}

/// Skips the directive that comes next, up to the end of its line, as `.loc` and `.file` require.
pub(super) fn skip_line(lexer: &mut Lexer<'_>) {
    rest_of_line(lexer);
}

/// Consumes the next token and returns the tokens after it on the same line.
pub(super) fn rest_of_line<'a>(lexer: &mut Lexer<'a>) -> Vec<Token<'a>> {
    let line = lexer.next().line;
    let mut rest = Vec::new();
    while lexer.peek().line == line && lexer.peek().kind != TokenKind::End {
        rest.push(lexer.next());
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(source: &str) -> Vec<(TokenKind, &str, u32)> {
        let mut lexer = Lexer::new(source);
        std::iter::from_fn(|| Some(lexer.next()))
            .take_while(|token| token.kind != TokenKind::End)
            .map(|token| (token.kind, token.text, token.line))
            .collect()
    }

    #[test]
    fn words_numbers_and_punctuation_are_tokens() {
        use TokenKind::{Number, Punctuation, Text, Word};
        assert_eq!(
            tokens(
                "$L_1: // note\n/* two\nlines */ @!%p1 ld.shared::cta.u32 %r1, [%rd2+-4];\n\
                 \"a b\" 1.5e-3 0f3F800000 7U-1"
            ),
            [
                (Word, "$L_1", 1),
                (Punctuation, ":", 1),
                (Punctuation, "@", 3),
                (Punctuation, "!", 3),
                (Word, "%p1", 3),
                (Word, "ld.shared::cta.u32", 3),
                (Word, "%r1", 3),
                (Punctuation, ",", 3),
                (Punctuation, "[", 3),
                (Word, "%rd2", 3),
                (Punctuation, "+", 3),
                (Punctuation, "-", 3),
                (Number, "4", 3),
                (Punctuation, "]", 3),
                (Punctuation, ";", 3),
                (Text, "a b", 4),
                (Number, "1.5e-3", 4),
                (Number, "0f3F800000", 4),
                (Number, "7U", 4),
                (Punctuation, "-", 4),
                (Number, "1", 4),
            ]
        );
    }

    #[test]
    fn directives_need_no_spaces_between_them() {
        use TokenKind::{Punctuation, Word};
        assert_eq!(
            tokens(".reg.v4.u16 v.x,.shared::cta"),
            [
                (Word, ".reg", 1),
                (Word, ".v4", 1),
                (Word, ".u16", 1),
                (Word, "v.x", 1),
                (Punctuation, ",", 1),
                (Word, ".shared::cta", 1),
            ]
        );
    }

    #[test]
    fn truncated_text_ends_with_its_last_token() {
        assert_eq!(tokens("\"abc"), [(TokenKind::Text, "abc", 1)]);
        assert_eq!(tokens("/* abc"), []);
        assert_eq!(tokens("é"), [(TokenKind::Punctuation, "é", 1)]);
    }
}
