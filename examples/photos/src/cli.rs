//! The command line of the photos example.

use std::path::PathBuf;

use clap::Parser;

/// Finds the edges and the brightness histogram of photographs on a GPU, several of them at a time.
///
/// For each picture, OUT gets edges-NAME.png and histogram-NAME.svg.
#[derive(Parser, Debug)]
#[command(name = "photos", version, after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Pictures (PNG or JPEG), or folders of pictures; without any, three photographs that come
    /// with the program
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    /// The folder for the results, made if it is not there
    #[arg(long, value_name = "DIR", default_value = "./out")]
    pub(crate) out: PathBuf,

    /// The number of streams that the pictures are spread over
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) streams: u8,

    /// Also compute every picture in plain Rust, and fail if the results differ
    #[arg(long)]
    pub(crate) check: bool,
}

/// The end of `--help`.
const EXAMPLES: &str = "\
Examples:
  photos                                   the photographs that come with the program
  photos holiday.jpg scans/ --out results  one picture and a folder of them
  photos --streams 1 scans/                one picture after the other
  MILLSTREAM_DEVICE=sim photos             on the simulated GPU, even where there is a real one
  MILLSTREAM_DEVICE=cuda:1 photos          on the second GPU";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_has_defaults_and_limits() {
        let arguments = Arguments::try_parse_from(["photos"]).unwrap();
        assert!(arguments.paths.is_empty());
        assert_eq!(
            (arguments.out, arguments.streams),
            (PathBuf::from("./out"), 4)
        );
        assert!(!arguments.check);
        let arguments =
            Arguments::try_parse_from(["photos", "a.png", "--streams", "64", "b", "--out", "x"])
                .unwrap();
        assert_eq!(
            arguments.paths,
            [PathBuf::from("a.png"), PathBuf::from("b")]
        );
        assert_eq!((arguments.out, arguments.streams), (PathBuf::from("x"), 64));
        for wrong in [
            ["--streams", "0"],
            ["--streams", "65"],
            ["--streams", "many"],
            ["--speed", "1"],
        ] {
            assert!(
                Arguments::try_parse_from([["photos"].as_slice(), &wrong].concat()).is_err(),
                "{wrong:?}"
            );
        }
    }
}
