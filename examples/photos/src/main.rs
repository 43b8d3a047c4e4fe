//! Finds the edges and the brightness histogram of photographs, several at a time on several
//! streams.
//!
//! The program enqueues uploads, kernels and downloads in the order in which it would run them one
//! by one. The library works out which of them wait for which: there is no event and no
//! synchronisation here.

mod cli;
mod cpu;
mod gpu;
mod picture;

use std::{fmt::Display, fs, path::Path};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use millstream::{Device, Select, Trace};

use cli::Arguments;
use gpu::{Analyser, InFlight, Job};
use picture::input::Source;

/// The most bytes of decoded pictures in a batch, its last picture not counted.
const BATCH_BYTES_MAX: usize = 256 << 20;

fn main() -> Result<()> {
    let failed = run(&Arguments::parse())?;
    ensure!(failed == 0, "{failed} inputs failed");
    Ok(())
}

/// Analyses all pictures; returns the number of inputs that failed.
///
/// The work is a pipeline of batches: while the device works on one, the host writes the results of
/// the one before and decodes the next.
fn run(arguments: &Arguments) -> Result<usize> {
    let device = Device::open(Select::Auto)?;
    announce(&device);
    let (sources, bad) = picture::gather(&arguments.paths, &arguments.out);
    let mut failures = Failures { count: 0 };
    bad.iter().for_each(|input| failures.note(input));

    let mut analyser = Analyser::new(&device, usize::from(arguments.streams))?;
    let timeline = device.timeline()?;
    let mut left = sources.as_slice();
    let mut before = Vec::new();
    while !left.is_empty() {
        let batch = take_batch(&mut left, &analyser, &mut failures);
        let flights = start(batch, &mut analyser, &mut failures);
        finish_all(arguments, before, &mut failures);
        before = flights;
    }
    finish_all(arguments, before, &mut failures);
    let trace = timeline.finish()?;
    report(&device, &trace, &arguments.out)?;
    Ok(failures.count)
}

/// Prints which device computes, and why that one.
fn announce(device: &Device) {
    if device.is_simulated() {
        println!("Device: a simulated GPU, which is software on this computer's processor.");
    } else {
        println!("Device: {}, a GPU.", device.name());
    }
    println!("Reason: {}", device.selection_reason());
}

/// Decodes the next pictures into page-locked memory, as many as keep a device busy.
fn take_batch<'a>(
    left: &mut &'a [Source],
    analyser: &Analyser,
    failures: &mut Failures,
) -> Vec<(&'a Source, Job)> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    while batch.len() < 2 * analyser.streams() && bytes < BATCH_BYTES_MAX {
        let Some((source, rest)) = left.split_first() else {
            break;
        };
        *left = rest;
        let picture = match source.load() {
            Ok(picture) => picture,
            Err(input) => {
                failures.note(input);
                continue;
            }
        };
        bytes += picture.rgb.len();
        batch.extend(failures.keep(source, analyser.prepare(&picture)));
    }
    batch
}

/// Enqueues all work on a batch: first every upload, so that they follow each other without a gap,
/// then the kernels and the downloads of each picture.
fn start<'a>(
    batch: Vec<(&'a Source, Job)>,
    analyser: &mut Analyser,
    failures: &mut Failures,
) -> Vec<(&'a Source, InFlight)> {
    let mut uploads = Vec::with_capacity(batch.len());
    for (source, job) in batch {
        uploads.extend(failures.keep(source, analyser.upload(job)));
    }
    let mut flights = Vec::with_capacity(uploads.len());
    for (source, upload) in uploads {
        flights.extend(failures.keep(source, analyser.analyse(upload)));
    }
    flights
}

/// Waits for the results of a batch and writes them.
fn finish_all(arguments: &Arguments, flights: Vec<(&Source, InFlight)>, failures: &mut Failures) {
    for (source, flight) in flights {
        match finish(arguments, source, flight) {
            Ok(line) => println!("{line}"),
            Err(error) => failures.note(format_args!("{}: {error:#}", source.name)),
        }
    }
}

/// Waits for a picture's results and writes them; returns the line to print.
fn finish(arguments: &Arguments, source: &Source, flight: InFlight) -> Result<String> {
    let (job, analysis) = flight.wait()?;
    if arguments.check && job.analyse_on_host()? != analysis {
        bail!("the device's results differ from those of plain Rust");
    }
    let (name, width, height) = (&source.name, job.width, job.height);
    picture::write(&arguments.out, name, (width, height), &analysis)?;
    let checksum = picture::checksum(&analysis);
    Ok(format!(
        "{name:<24} {width:>6} × {height:<6} checksum {checksum:016x}"
    ))
}

/// Prints how much ran at the same time, and writes the timeline.
fn report(device: &Device, trace: &Trace, out: &Path) -> Result<()> {
    let path = out.join("timeline.svg");
    fs::create_dir_all(out).with_context(|| format!("cannot make the folder {}", out.display()))?;
    fs::write(&path, trace.to_svg()).with_context(|| format!("cannot write {}", path.display()))?;
    println!("{}: {}", device.name(), trace.overlap());
    println!("The pictures and timeline.svg are in {}.", out.display());
    Ok(())
}

/// The inputs that failed, each reported in one line as it is found.
struct Failures {
    count: usize,
}

impl Failures {
    fn note(&mut self, problem: impl Display) {
        self.count += 1;
        eprintln!("{problem}");
    }

    /// The value with its source, or none if there is an error, which is reported.
    fn keep<'a, T>(
        &mut self,
        source: &'a Source,
        result: millstream::Result<T>,
    ) -> Option<(&'a Source, T)> {
        match result {
            Ok(value) => Some((source, value)),
            Err(error) => {
                self.note(format_args!("{}: {error}", source.name));
                None
            }
        }
    }
}
