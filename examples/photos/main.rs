//! Finds the edges and the brightness histogram of photographs, several of them at a time on
//! several streams.
//!
//! The program calls for uploads, kernels and downloads as if each were done at once. What must
//! wait for what, on which stream and how, is the library's business: there is no event and no
//! synchronisation here.

mod cli;
mod cpu;
mod gpu;
mod picture;

use std::{fmt::Display, fs, path::Path, process::ExitCode};

use anyhow::{Context, Result, bail};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use millstream::{Device, Recording, Select};

use cli::Arguments;
use gpu::{Analyser, InFlight};
use picture::{Picture, input::Source};

/// Decoded pictures that are held at a time, in bytes: enough to keep a device busy.
const BATCH_BYTES_MAX: usize = 512 << 20;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Does everything; gives the number of inputs that came to nothing.
fn run(arguments: &Arguments) -> Result<usize> {
    let device = Device::open(Select::Auto)?;
    println!("{device}: {}", device.selection_reason());
    let (sources, bad) = picture::gather(&arguments.paths, &arguments.out);
    let mut failures = Failures {
        count: 0,
        progress: progress(sources.len()),
    };
    bad.iter().for_each(|input| failures.note(input));

    let mut analyser = Analyser::new(&device, usize::from(arguments.streams))?;
    let timeline = device.timeline()?;
    let mut left = sources.as_slice();
    while !left.is_empty() {
        let batch = take_batch(&mut left, 2 * analyser.streams(), &mut failures);
        // Everything is called for before anything is waited for.
        let mut flights = Vec::with_capacity(batch.len());
        for (source, picture) in batch {
            match analyser.start(&picture) {
                Ok(flight) => flights.push((source, picture, flight)),
                Err(error) => failures.note(format_args!("{}: {error}", source.name)),
            }
        }
        for (source, picture, flight) in flights {
            if let Err(error) = finish(arguments, source, &picture, flight, &failures.progress) {
                failures.note(format_args!("{}: {error:#}", source.name));
            }
        }
    }
    failures.progress.finish_and_clear();
    let recording = timeline.finish()?;
    report(&device, &recording, &arguments.out)?;
    Ok(failures.count)
}

/// Decodes the next pictures, as many as are worth having on their way at a time.
fn take_batch<'a>(
    left: &mut &'a [Source],
    count_max: usize,
    failures: &mut Failures,
) -> Vec<(&'a Source, Picture)> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    while batch.len() < count_max && bytes < BATCH_BYTES_MAX {
        let Some((source, rest)) = left.split_first() else {
            break;
        };
        *left = rest;
        match source.load() {
            Ok(picture) => {
                bytes += picture.rgb.len();
                batch.push((source, picture));
            }
            Err(input) => failures.note(input),
        }
    }
    batch
}

/// Waits for a picture's results and writes them.
fn finish(
    arguments: &Arguments,
    source: &Source,
    picture: &Picture,
    flight: InFlight,
    progress: &ProgressBar,
) -> Result<()> {
    let analysis = flight.wait()?;
    let &Picture {
        width,
        height,
        ref rgb,
    } = picture;
    if arguments.check && cpu::analyse(rgb, width as usize, height as usize) != analysis {
        bail!("the device's answer differs from that of plain Rust");
    }
    picture::write(&arguments.out, &source.name, picture, &analysis)?;
    let checksum = picture::checksum(&analysis);
    progress.suspend(|| {
        println!(
            "{:<24} {width:>6} × {height:<6} checksum {checksum:016x}",
            source.name
        )
    });
    progress.inc(1);
    Ok(())
}

/// Says what ran where and how much of it at the same time, and draws it.
fn report(device: &Device, recording: &Recording, out: &Path) -> Result<()> {
    let path = out.join("timeline.svg");
    fs::create_dir_all(out).with_context(|| format!("cannot make the folder {}", out.display()))?;
    fs::write(&path, recording.to_svg())
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}: {}", device.name(), recording.overlap());
    println!("the pictures and timeline.svg are in {}", out.display());
    Ok(())
}

/// The inputs that came to nothing, each told in one line as it is found.
struct Failures {
    count: usize,
    progress: ProgressBar,
}

impl Failures {
    fn note(&mut self, problem: impl Display) {
        self.count += 1;
        self.progress.suspend(|| eprintln!("{problem}"));
        self.progress.inc(1);
    }
}

/// A bar that shows on a terminal alone.
fn progress(pictures: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} pictures, {eta} left");
    ProgressBar::new(pictures as u64)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
