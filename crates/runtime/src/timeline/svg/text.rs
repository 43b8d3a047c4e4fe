//! Text in a picture: XML escaping, and truncation to a width.

use std::{
    borrow::Cow,
    fmt::{self, Display, Write},
};

/// Text escaped for XML elements and attributes.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&apos;")?,
                '\t' | '\n' | '\r' => f.write_char(character)?,
                // XML cannot represent these characters.
                '\0'..' ' | '\u{fffe}' | '\u{ffff}' => f.write_char(char::REPLACEMENT_CHARACTER)?,
                _ => f.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// Returns the text if it fits into the width, else its beginning with an ellipsis, or `None` if
/// not even two characters fit.
///
/// The viewer's font is unknown, so the character widths assumed are those of a wide font.
pub(super) fn fit(text: &str, width: f64, font_size: f64) -> Option<Cow<'_, str>> {
    let character_width = |c: char| font_size * if c < '\u{1100}' { 0.6 } else { 1.05 };
    let needed: f64 = text.chars().map(character_width).sum();
    if needed <= width {
        return (!text.is_empty()).then_some(text.into());
    }
    let mut left = width - character_width('…');
    let fits = |c: &char| {
        left -= character_width(*c);
        left >= 0.0
    };
    let beginning: String = text.chars().take_while(fits).collect();
    (beginning.chars().count() >= 2).then(|| (beginning + "…").into())
}

/// Writes a line of text that is already escaped.
pub(super) fn line(
    f: &mut fmt::Formatter<'_>,
    class: &str,
    x: f64,
    y: f64,
    text: &dyn Display,
) -> fmt::Result {
    match class {
        "" => writeln!(f, r#"<text x="{x:.2}" y="{y:.1}">{text}</text>"#),
        _ => writeln!(
            f,
            r#"<text class="{class}" x="{x:.2}" y="{y:.1}">{text}</text>"#
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped_and_invalid_characters_are_replaced() {
        assert_eq!(
            Escaped("<a b=\"c\" d='e'> & µ\t").to_string(),
            "&lt;a b=&quot;c&quot; d=&apos;e&apos;&gt; &amp; µ\t"
        );
        assert_eq!(
            Escaped("\0a\u{1b}\u{ffff}").to_string(),
            "\u{fffd}a\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn text_is_truncated_to_the_width() {
        let fit = |text, width| fit(text, width, 10.0);
        assert_eq!(fit("upload", 36.5).as_deref(), Some("upload"));
        assert_eq!(fit("upload", 35.5).as_deref(), Some("uplo…"));
        assert_eq!(fit("upload", 23.0).as_deref(), Some("up…"));
        assert_eq!(fit("upload", 22.0), None);
        assert_eq!(fit("到达的图片", 36.0).as_deref(), Some("到达…"));
        assert_eq!(fit("", 36.0), None);
    }
}
