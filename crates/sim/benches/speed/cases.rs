//! The cases of the benchmark: kernels with their launches.

use super::Result;

/// A launch of a kernel.
pub(crate) struct Case {
    /// The PTX file, without its extension, from the folder of the benchmark or of `kernels`.
    pub(crate) file: &'static str,
    pub(crate) kernel: &'static str,
    /// The number of launches timed together.
    pub(crate) repeats: u32,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// Types and values; the value of an `array` is its number of bytes.
    pub(crate) args: Vec<(&'static str, &'static str)>,
}

impl Case {
    /// Returns the name of the kernel in its module.
    pub(crate) fn entry(&self) -> &'static str {
        match self.kernel {
            "vecadd_32" | "launch" | "start" => "vecadd",
            kernel => kernel.trim_end_matches("_long"),
        }
    }
}

/// Returns the benchmarked launches, each of some millions of thread-instructions.
pub(crate) fn cases() -> Result<Vec<Case>> {
    let sizes = |word: &str| -> Result<[u32; 3]> {
        let mut sizes = [0; 3];
        for (size, number) in sizes.iter_mut().zip(word.split('x')) {
            *size = number.parse()?;
        }
        Ok(sizes)
    };
    let case = |line: &'static str| {
        let mut words = line.split(' ');
        let mut word = || words.next().ok_or("a launch is not complete");
        Ok(Case {
            file: word()?,
            kernel: word()?,
            repeats: word()?.parse()?,
            grid: sizes(word()?)?,
            block: sizes(word()?)?,
            args: words.filter_map(|word| word.split_once(':')).collect(),
        })
    };
    let lines = include_str!("cases.txt").lines();
    lines
        .filter(|line| !line.starts_with('#'))
        .map(case)
        .collect()
}
