//! The picture of the crates and their layers, drawn from `xtask/layers.txt` and the manifests.
//!
//! Crates are placed below those that depend on them. Of the dependencies, those that follow from
//! others are left out.

use std::{collections::BTreeSet, fmt::Write};

use anyhow::{Context, Result};

use super::layers::Layers;
use crate::process;

/// The path of the picture.
pub(super) const PATH: &str = "docs/layers.svg";

/// The width of a crate, and the distance between two, in pixels.
const WIDTH: usize = 276;
const GAP: usize = 32;
/// The height of a line of text, and the maximum number of its letters.
const LINE: usize = 15;
const LETTERS_MAX: usize = 36;

struct Crate {
    /// The name of its folder, and of the package.
    folder: String,
    package: String,
    /// The names of the packages of this repository on which it depends.
    dependencies: Vec<String>,
    /// The modules in lines, the highest first.
    lines: Vec<String>,
}

impl Crate {
    fn new(layers: &Layers, manifest: &str) -> Result<Self> {
        let mut lines = vec![String::new()];
        for module in layers.modules.iter().rev() {
            let last = lines.last_mut().expect("lines are never empty");
            if last.len() + 2 + module.len() > LETTERS_MAX {
                lines.push(module.clone());
            } else {
                let gap = if last.is_empty() { "" } else { "  " };
                last.push_str(&format!("{gap}{module}"));
            }
        }
        let folder = folder(layers);
        let name = manifest.split("\nname = \"").nth(1);
        let package = name.and_then(|name| name.split('"').next());
        let sections = manifest.split("\n[").filter(|section| {
            let title = section.split(']').next().unwrap_or("");
            title == "dependencies"
                || title.starts_with("target.") && title.ends_with(".dependencies")
        });
        let keys = sections.flat_map(|section| {
            let keys = section.lines().map(|line| line.split(['.', ' ']).next());
            keys.flatten().filter(|key| key.starts_with("millstream"))
        });
        Ok(Self {
            folder: folder.to_owned(),
            package: package
                .with_context(|| format!("{folder} has no name"))?
                .to_owned(),
            dependencies: keys.map(str::to_owned).collect(),
            lines,
        })
    }

    fn height(&self) -> usize {
        LINE * (self.lines.len() + 2)
    }
}

/// Returns the name of a crate's folder.
fn folder(layers: &Layers) -> &str {
    layers.folder.split('/').nth(1).unwrap_or_default()
}

pub(super) fn draw(layers: &[Layers]) -> Result<String> {
    let crates = layers.iter().map(|layers| {
        let manifest = process::read(&format!("crates/{}/Cargo.toml", folder(layers)))?;
        Crate::new(layers, &manifest)
    });
    Ok(svg(&crates.collect::<Result<Vec<_>>>()?))
}

fn svg(crates: &[Crate]) -> String {
    let used = |user: &Crate| {
        let names = user.dependencies.iter();
        let used = names.filter_map(|name| crates.iter().position(|one| one.package == *name));
        used.collect::<BTreeSet<usize>>()
    };
    // The crates below each crate, directly or not, and its distance from the lowest row.
    let mut below: Vec<BTreeSet<usize>> = crates.iter().map(used).collect();
    let mut rows = vec![0; crates.len()];
    for _ in crates {
        for at in 0..crates.len() {
            for other in below[at].clone() {
                let further = below[other].clone();
                below[at].extend(further);
                rows[at] = rows[at].max(rows[other] + 1);
            }
        }
    }
    let highest = rows.iter().max().copied().unwrap_or(0);
    let (mut places, mut bottom, mut right) = (vec![(0, 0); crates.len()], GAP, 0);
    for row in (0..=highest).rev() {
        let members = (0..crates.len()).filter(|&at| rows[at] == row);
        let mut height = 0;
        for (column, at) in members.enumerate() {
            places[at] = (GAP + column * (WIDTH + GAP), bottom);
            height = height.max(crates[at].height());
            right = right.max(places[at].0 + WIDTH + GAP);
        }
        bottom += height + GAP;
    }
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {right} {bottom}\" \
         font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"{right}\" height=\"{bottom}\" fill=\"white\"/>\n"
    );
    for (at, user) in crates.iter().enumerate() {
        let direct = used(user);
        for &other in &direct {
            if direct
                .iter()
                .any(|between| below[*between].contains(&other))
            {
                continue;
            }
            let ((x, y), (to_x, to_y)) = (places[at], places[other]);
            let (x, to_x) = (x + WIDTH / 2, to_x + WIDTH / 2);
            let y = y + user.height();
            let _ = writeln!(
                svg,
                "<path d=\"M{x} {y}L{to_x} {to_y}\" stroke=\"#888\"/>\
                 <circle cx=\"{to_x}\" cy=\"{to_y}\" r=\"3\" fill=\"#888\"/>"
            );
        }
    }
    for (one, &(x, y)) in crates.iter().zip(&places) {
        let height = one.height();
        let _ = writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\" \
             fill=\"#f4f7fb\" stroke=\"#456\"/>\n\
             <text x=\"{}\" y=\"{}\" font-weight=\"bold\">{}</text>",
            x + 8,
            y + LINE,
            one.folder
        );
        for (line, text) in (2..).zip(&one.lines) {
            let (x, y) = (x + 8, y + LINE * line + 4);
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" xml:space=\"preserve\">{text}</text>"
            );
        }
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_drawn_above_those_that_they_use_with_their_highest_module_first() {
        let manifest = |name: &str, rest: &str| format!("[package]\nname = \"{name}\"\n{rest}");
        let list = "crates/low/src/:\n  c\ncrates/high/src/:\n  a b\ncrates/mid/src/:\n  d\n";
        let layers = Layers::parse("layers.txt", list).unwrap();
        let manifests = [
            manifest(
                "millstream-low",
                "[dev-dependencies]\nmillstream-high = \"1\"\n",
            ),
            manifest(
                "high",
                "[dependencies]\nmillstream-low.workspace = true\n\
                 [target.'cfg(unix)'.dependencies]\nmillstream-mid = \"1\"\n",
            ),
            manifest("millstream-mid", "[dependencies]\nmillstream-low = \"1\"\n"),
        ];
        let crates = layers.iter().zip(&manifests);
        let crates = crates.map(|(layers, manifest)| Crate::new(layers, manifest).unwrap());
        let svg = svg(&crates.collect::<Vec<_>>());
        assert!(svg.contains(">b  a</text>"), "{svg}");
        let place = |name: &str| svg.find(&format!(">{name}</text>")).unwrap();
        assert!(place("low") < place("high"));
        let edges: Vec<_> = svg.lines().filter(|line| line.contains("<path")).collect();
        assert_eq!(edges.len(), 2, "{edges:?}");
        for (name, y) in [("high", 47), ("mid", 124), ("low", 201)] {
            assert!(
                svg.contains(&format!("y=\"{y}\" font-weight=\"bold\">{name}<")),
                "{svg}"
            );
        }
    }
}
