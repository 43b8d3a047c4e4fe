//! Draws a moving picture in the terminal. Its kernel is compiled again whenever
//! `kernels/shade.cu` is saved; a source with errors is shown, and the last picture goes on.
//!
//! ```sh
//! cargo run -p live                      # edit examples/live/kernels/shade.cu meanwhile
//! MILLSTREAM_DEVICE=sim cargo run -p live -- --frames 3
//! ```

mod picture;
mod shader;

use std::{
    io::{self, Write},
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use clap::Parser;
use millstream::{Device, Select};

use shader::{Change, Shader};

/// Draws a moving picture whose kernel can be edited while it runs.
#[derive(Parser)]
pub(crate) struct Options {
    /// The kernel's file.
    #[arg(default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/shade.cu"))]
    file: PathBuf,
    /// Stop after this many pictures.
    #[arg(long)]
    frames: Option<u64>,
    /// The time for which a message about the file stays, in seconds.
    #[arg(long, default_value_t = 2.0)]
    pause: f32,
    /// The characters of a line, and the number of lines.
    #[arg(long, num_args = 2, value_names = ["WIDTH", "HEIGHT"], default_values_t = [72, 24])]
    size: Vec<u16>,
}

fn main() -> Result<()> {
    draw(&Options::parse())
}

/// Draws pictures until the last one, if there is one.
pub(crate) fn draw(options: &Options) -> Result<()> {
    let (width, height) = (options.size[0], options.size[1]);
    let device = Device::open(Select::Auto)?;
    let stream = device.stream()?;
    let pause = Duration::try_from_secs_f32(options.pause)?;
    let mut shader = Shader::new(&device, &options.file)?;
    let start = Instant::now();
    let mut frame = 0;
    while options.frames.is_none_or(|frames| frame < frames) {
        let note = match shader.update(&device) {
            Change::None => None,
            Change::Compiled => Some(format!("compiled {}", options.file.display())),
            Change::Refused(error) => Some(error),
        };
        let levels = shader.draw(&stream, width, height, start.elapsed().as_secs_f32())?;
        let mut out = io::stdout().lock();
        // Moves the cursor to the first line, and clears what is below the picture.
        write!(out, "\x1b[H{}\x1b[J", picture::text(&levels, width))?;
        if let Some(note) = note {
            writeln!(out, "{note}")?;
            out.flush()?;
            thread::sleep(pause);
        }
        out.flush()?;
        thread::sleep(Duration::from_millis(50));
        frame += 1;
    }
    Ok(())
}
