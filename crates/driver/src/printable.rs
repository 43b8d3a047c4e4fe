//! Texts that a terminal shows as they are.

/// Replaces the control characters of a text with `�`, except line breaks and tabs: a name in a
/// file must not move the cursor of a terminal, or change its colours or its title. Marks that
/// change the direction of writing are replaced, too.
///
/// ```
/// assert_eq!(millstream_driver::printable("a\x1b[2Jb\n\u{202e}c"), "a�[2Jb\n�c");
/// ```
#[must_use]
pub fn printable(text: &str) -> String {
    let is_hidden = |c: char| match c {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    };
    text.replace(is_hidden, "\u{fffd}")
}
