//! The blocks of code of pages in Markdown.

/// A block of code of a page: the contents of a file, commands, or what they print.
#[derive(Debug, PartialEq)]
pub(crate) struct Block {
    /// The file that the line before the block names.
    pub(crate) file: Option<String>,
    pub(crate) language: String,
    pub(crate) text: String,
}

/// Returns the blocks of code of a page.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut before = "";
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let file = before
                .strip_prefix('`')
                .and_then(|rest| rest.strip_suffix("`:"));
            let text = lines.by_ref().take_while(|line| *line != "```");
            blocks.push(Block {
                file: file.map(str::to_owned),
                language: language.to_owned(),
                text: text.map(|line| format!("{line}\n")).collect(),
            });
            before = "";
        } else if !line.is_empty() {
            before = line;
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_after_the_name_of_a_file_is_its_contents() {
        let page = "`src/a.rs`:\n\n```rust\nlet a;\n```\n\nThen `b`:\n\n```sh\nls\nls b\n```\n";
        let block = |file: Option<&str>, language: &str, text: &str| Block {
            file: file.map(str::to_owned),
            language: language.into(),
            text: text.into(),
        };
        assert_eq!(
            blocks(page),
            [
                block(Some("src/a.rs"), "rust", "let a;\n"),
                block(None, "sh", "ls\nls b\n")
            ]
        );
    }
}
