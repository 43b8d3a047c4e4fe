//! The directives in a PTX file's comments: the launches, and the expected results.
//!
//! ```text
//! // RUN name grid=2 block=64 shared=256
//! //   a u32[128] = i * 3              a buffer that starts with these values
//! //   n u32 = 128                     a number
//! //   m u32(4) = {1, 2, 3, 4}         an array by value
//! //   p u64 = @a                      a buffer's address
//! //   out f32[128] => a[i] + 0.5      a buffer of zeros that must end with these values
//! //   c f32[1] = 0 => 7 within 2 ulp  one that must end close to them; `within 1e-6` is relative
//! //   PRINTS "text\n"                 what `printf` must print, after the text of earlier lines
//! //   FAULTS text                     the kernel must fail with a report that contains this
//! // REFUSED text                      the simulated device must fail to load it, or its kernel
//! //                                   `k`; a GPU may not
//! // MALFORMED text                    every device must fail to load it, or its kernel `k`
//! ```
//!
//! An expression gives the value at index `i`; `a[k]` in it is the element of a buffer as it was
//! before the launch.

use super::values::ElementType;

#[derive(Debug, Default)]
pub(crate) struct Directives {
    pub(crate) runs: Vec<Run>,
    pub(crate) refused: Option<LoadRefusal>,
}

#[derive(Debug)]
pub(crate) struct LoadRefusal {
    pub(crate) text: String,
    pub(crate) by_everyone: bool,
}

/// A launch, with its arguments and expectations.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) kernel: String,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) prints: String,
    pub(crate) faults: Option<String>,
    pub(crate) line: usize,
}

#[derive(Debug)]
pub(crate) struct Argument {
    pub(crate) name: String,
    pub(crate) ty: ElementType,
    pub(crate) kind: ArgumentKind,
    pub(crate) initial: Option<String>,
    pub(crate) expected: Option<Expected>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ArgumentKind {
    Scalar,
    /// A buffer of this many elements in device memory.
    Buffer(usize),
    /// An array of this many elements passed by value.
    Array(usize),
}

impl ArgumentKind {
    pub(crate) fn elements(self) -> usize {
        match self {
            Self::Scalar => 1,
            Self::Buffer(count) | Self::Array(count) => count,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) expression: String,
    pub(crate) within: Tolerance,
}

/// The permitted error of a result.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Tolerance {
    Exact,
    Ulp(u64),
    /// Relative to the expected value, or absolute where the expected value is below 1.
    Relative(f64),
}

pub(crate) fn read(source: &str) -> Result<Directives, String> {
    let mut directives = Directives::default();
    let mut in_run = false;
    for (index, line) in source.lines().enumerate() {
        let at = |problem: String| format!("line {}: {problem}", index + 1);
        let Some(comment) = line.strip_prefix("//") else {
            in_run = false;
            continue;
        };
        let text = comment.trim();
        let refused = |by_everyone| {
            move |text: &str| LoadRefusal {
                text: text.trim().to_owned(),
                by_everyone,
            }
        };
        if let Some(text) = text.strip_prefix("REFUSED ") {
            directives.refused = Some(refused(false)(text));
        } else if let Some(text) = text.strip_prefix("MALFORMED ") {
            directives.refused = Some(refused(true)(text));
        } else if let Some(text) = text.strip_prefix("RUN ") {
            directives.runs.push(run(text, index + 1).map_err(at)?);
            in_run = true;
        } else if in_run && comment.starts_with("   ") {
            let run = directives
                .runs
                .last_mut()
                .ok_or_else(|| at("no RUN".into()))?;
            continued(run, text).map_err(at)?;
        } else {
            in_run = false;
        }
    }
    if directives.runs.is_empty() && directives.refused.is_none() {
        return Err("there is neither `// RUN` nor `// REFUSED` nor `// MALFORMED`".into());
    }
    Ok(directives)
}

fn run(text: &str, line: usize) -> Result<Run, String> {
    let mut words = text.split_whitespace();
    let mut run = Run {
        kernel: words.next().ok_or("a kernel's name is missing")?.to_owned(),
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        arguments: Vec::new(),
        prints: String::new(),
        faults: None,
        line,
    };
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("`{word}`"))?;
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("`{word}`"));
        match key {
            "grid" | "block" => {
                let shape = if key == "grid" {
                    &mut run.grid
                } else {
                    &mut run.block
                };
                for (axis, text) in value.split(',').enumerate() {
                    *shape.get_mut(axis).ok_or_else(|| format!("`{word}`"))? = number(text)?;
                }
            }
            "shared" => run.shared_bytes = number(value)?,
            _ => return Err(format!("`{word}`")),
        }
    }
    Ok(run)
}

fn continued(run: &mut Run, text: &str) -> Result<(), String> {
    if let Some(text) = text.strip_prefix("PRINTS ") {
        let inside = text
            .trim()
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'));
        let inside = inside.ok_or("the printed text stands between quotes")?;
        run.prints += &inside
            .replace("\\n", "\n")
            .replace("\\t", "\t")
            .replace("\\\"", "\"");
        return Ok(());
    }
    if let Some(text) = text.strip_prefix("FAULTS ") {
        run.faults = Some(text.trim().to_owned());
        return Ok(());
    }
    run.arguments.push(argument(text)?);
    Ok(())
}

fn argument(text: &str) -> Result<Argument, String> {
    let (head, expected) = match text.split_once("=>") {
        Some((head, expected)) => (head, Some(expected.trim())),
        None => (text, None),
    };
    let (head, initial) = match head.split_once('=') {
        Some((head, initial)) => (head, Some(initial.trim().to_owned())),
        None => (head, None),
    };
    let mut words = head.split_whitespace();
    let (Some(name), Some(ty), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!("`{text}` is not `name type`"));
    };
    let count = |text: &str| {
        text.parse::<usize>()
            .map_err(|_| format!("`{ty}` has no length"))
    };
    let (ty_name, kind) = if let Some(inside) = ty.strip_suffix(']') {
        let (ty, length) = inside.split_once('[').ok_or_else(|| format!("`{ty}`"))?;
        (ty, ArgumentKind::Buffer(count(length)?))
    } else if let Some(inside) = ty.strip_suffix(')') {
        let (ty, length) = inside.split_once('(').ok_or_else(|| format!("`{ty}`"))?;
        (ty, ArgumentKind::Array(count(length)?))
    } else {
        (ty, ArgumentKind::Scalar)
    };
    let ty = ElementType::from_name(ty_name).ok_or_else(|| format!("no type `{ty_name}`"))?;
    let expected = expected.map(expectation).transpose()?;
    if expected.is_some() && !matches!(kind, ArgumentKind::Buffer(_)) {
        return Err(format!("`{name}` is no buffer"));
    }
    Ok(Argument {
        name: name.to_owned(),
        ty,
        kind,
        initial,
        expected,
    })
}

fn expectation(text: &str) -> Result<Expected, String> {
    let (expression, within) = match text.split_once(" within ") {
        None => (text, Tolerance::Exact),
        Some((expression, within)) => {
            let wrong = || format!("`within {within}`");
            let within = match within.trim().strip_suffix("ulp") {
                Some(count) => Tolerance::Ulp(count.trim().parse().map_err(|_| wrong())?),
                None => Tolerance::Relative(within.trim().parse().map_err(|_| wrong())?),
            };
            (expression, within)
        }
    };
    Ok(Expected {
        expression: expression.trim().to_owned(),
        within,
    })
}
