//! Pictures of characters.

/// Characters from dark to bright.
const LEVELS: &[u8] = b" .:-=+*#%@";

/// Returns the lines of a picture, from levels between 0 and 1.
pub(crate) fn text(levels: &[f32], width: u16) -> String {
    let mut text = String::new();
    for row in levels.chunks(usize::from(width).max(1)) {
        text.extend(row.iter().map(|&level| character(level)));
        text.push('\n');
    }
    text
}

/// Returns the character of a level. Levels that are no numbers are dark.
fn character(level: f32) -> char {
    let last = LEVELS.len() - 1;
    let index = (level.clamp(0.0, 1.0) * last as f32).round() as usize;
    char::from(LEVELS[index.min(last)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_a_character() {
        assert_eq!(text(&[0.0, 0.5, 1.0, -3.0, 7.0, f32::NAN], 3), " +@\n @ \n");
        assert_eq!(text(&[], 0), "");
    }
}
