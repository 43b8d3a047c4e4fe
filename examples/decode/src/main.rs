//! Decodes tokens with a small transformer of random weights: launch by launch, as a graph that is
//! replayed for each token, and as one graph with a loop that runs on the device.
//!
//! The loop ends when a flag in device memory is cleared. Without it, the host has to look at the
//! flag: after each token, or only after several, so that the device has work meanwhile. The
//! program measures that too, and prints from how many tokens between two looks on launches are as
//! fast as the loop.
//!
//! The step is written once, in `model.rs`; the graphs are recordings of it. All ways give the same
//! tokens and the same logits, to the bit.

mod chart;
mod kernels;
mod model;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};
use millstream::{Buffer, Device, Select, Stream};

use model::{Decoding, Model, Shape};

/// Decodes tokens launch by launch, as a graph and as a loop on the device, compares the results,
/// and draws how long a token takes.
///
/// The environment variable MILLSTREAM_DEVICE chooses the device: `cuda:0` or `sim`. Without it,
/// the first GPU is used, or the simulated device if there is none. Times on the simulated device
/// are those of its virtual clock.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The sizes of the transformer; the smallest on a simulated device by default.
    #[arg(long)]
    size: Option<Size>,
    /// The number of tokens; 8 on a simulated device by default, and otherwise 200.
    #[arg(long)]
    tokens: Option<usize>,
    /// The numbers of tokens between two looks of the host at the flag.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16])]
    looks: Vec<usize>,
    /// The chart to write.
    #[arg(long, default_value = "out/decode.svg")]
    out: PathBuf,
}

/// Sizes of transformers that were trained on short stories.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Size {
    /// 0.3 million weights.
    Tiny,
    /// 15 million weights.
    Small,
    /// 110 million weights.
    Large,
}

impl Size {
    fn shape(self) -> Shape {
        let shape = |width, layers, heads, hidden, vocabulary, context| Shape {
            width,
            layers,
            heads,
            hidden,
            vocabulary,
            context,
        };
        match self {
            Self::Tiny => shape(64, 5, 8, 172, 512, 512),
            Self::Small => shape(288, 6, 6, 768, 32_000, 256),
            Self::Large => shape(768, 12, 12, 2048, 32_000, 1024),
        }
    }
}

fn main() -> Result<()> {
    let agrees = run(&Arguments::parse())?;
    ensure!(agrees, "two ways give different tokens or logits");
    Ok(())
}

/// Decodes in all ways; returns whether they agree.
fn run(arguments: &Arguments) -> Result<bool> {
    let device = Device::open(Select::Auto)?;
    let is_simulated = device.is_simulated();
    let (size, tokens) = match is_simulated {
        true => (Size::Tiny, 8),
        false => (Size::Small, 200),
    };
    let shape = arguments.size.unwrap_or(size).shape();
    let count = arguments.tokens.unwrap_or(tokens);
    ensure!(
        (1..=shape.context).contains(&count),
        "between 1 and {} tokens can be decoded",
        shape.context
    );
    ensure!(
        !arguments.looks.contains(&0),
        "there is at least one token between two looks"
    );
    println!("device: {}, {}", device.name(), device.selection_reason());
    println!(
        "{:.1} million weights, {count} tokens, {} launches for each",
        shape.weights() as f64 / 1e6,
        shape.launches()
    );
    let ways = decode(&device, shape, count, &arguments.looks)?;
    for way in &ways {
        // The time of the simulation on the host says nothing of a GPU.
        let clock = match is_simulated {
            true => String::from(" (virtual time)"),
            false => format!("; the host is busy for {:.1} µs of it", way.host_us),
        };
        println!("{:<27} {:>9.1} µs a token{clock}", way.name, way.token_us);
    }
    println!("{}", break_even(&ways));
    chart::write(&arguments.out, &ways)?;
    println!("drawn to {}", arguments.out.display());
    let agree = ways.iter().all(|way| way.results == ways[0].results);
    if agree {
        println!("all give the same tokens and the same logits, to the bit");
    }
    Ok(agree)
}

/// Returns from how many tokens between two looks on launches are as fast as a loop on the device.
fn break_even(ways: &[Way]) -> String {
    let looping = ways.iter().find(|way| way.is_loop);
    let token_us = looping.map_or(0.0, |way| way.token_us);
    let enough = |way: &&Way| way.between_looks.is_some() && way.token_us <= token_us;
    let fewest = ways
        .iter()
        .filter(enough)
        .filter_map(|way| way.between_looks);
    match fewest.min() {
        Some(tokens) => format!(
            "launches with {tokens} tokens between two looks are as fast as the loop on the device"
        ),
        None => String::from("the loop on the device is faster than launches with looks"),
    }
}

/// The outcome of decoding in one way.
struct Way {
    name: String,
    /// The number of tokens between two looks of the host at the flag, if it looks.
    between_looks: Option<usize>,
    /// True if the device loops.
    is_loop: bool,
    /// The time of a token, from event to event.
    token_us: f64,
    /// The time of the calls that enqueue a token and look at the flag.
    host_us: f64,
    /// The tokens, and the bits of the last logits.
    results: (Vec<u32>, Vec<u32>),
}

/// Decodes launch by launch, without looks and with these numbers of tokens between two looks, as a
/// graph for each token, and as a graph of a loop.
fn decode(device: &Device, shape: Shape, count: usize, looks: &[usize]) -> Result<Vec<Way>> {
    let stream = device.stream()?;
    let model = Model::random(device, &stream, shape)?;
    let mut decoding = model.begin(&stream)?;
    let mut running = stream.upload(&[1_u32])?;
    let mut ways = Vec::new();

    let mut timed = Timed {
        stream: &stream,
        count,
    };
    ways.push(timed.way(
        "launch by launch",
        (&mut decoding, &mut running),
        |decoding, running| {
            (0..count).try_for_each(|_| model.step(&stream, decoding, running, count))
        },
    )?);

    for &tokens in looks {
        let name = format!("launches, a look every {tokens}");
        let mut way = timed.way(&name, (&mut decoding, &mut running), |decoding, running| {
            let mut left = count;
            while left > 0 {
                let several = left.min(tokens);
                for _ in 0..several {
                    model.step(&stream, decoding, running, count)?;
                }
                left -= several;
                if stream.download(&*running)?.wait()? == [0] {
                    break;
                }
            }
            Ok(())
        })?;
        way.between_looks = Some(tokens);
        ways.push(way);
    }

    let step = device.record("step", |r| {
        model.step(&r.stream()?, &mut decoding, &mut running, count)
    })?;
    ways.push(timed.way(
        "graph for each token",
        (&mut decoding, &mut running),
        |_, _| (0..count).try_for_each(|_| step.replay(&stream)),
    )?);

    let most = u32::try_from(count)?;
    let all = device.record("all", |r| {
        r.while_loop(&mut running, most, |body, running| {
            model.step(&body.stream()?, &mut decoding, running, count)
        })
    })?;
    let mut looping = timed.way(
        "loop on the device",
        (&mut decoding, &mut running),
        |_, _| all.replay(&stream),
    )?;
    looping.is_loop = true;
    ways.push(looping);
    println!(
        "the graph holds {} bytes besides weights and caches",
        step.figures().body_bytes
    );
    Ok(ways)
}

/// Measures ways of decoding on a stream.
struct Timed<'a> {
    stream: &'a Stream,
    count: usize,
}

impl Timed<'_> {
    /// Decodes twice, and measures the second time.
    fn way(
        &mut self,
        name: &str,
        (decoding, running): (&mut Decoding, &mut Buffer<u32>),
        mut enqueue: impl FnMut(&mut Decoding, &mut Buffer<u32>) -> millstream::Result<()>,
    ) -> Result<Way> {
        let Self { stream, count } = *self;
        let mut times = (Duration::ZERO, Duration::ZERO);
        for _ in 0..2 {
            decoding.rewind(stream, running)?;
            stream.synchronize()?;
            let (start, host) = (stream.record()?, Instant::now());
            enqueue(decoding, running)?;
            let host = host.elapsed();
            let end = stream.record()?;
            end.wait()?;
            times = (end.elapsed_since(&start)?, host);
        }
        let for_each = |time: Duration| 1e6 * time.as_secs_f64() / count as f64;
        Ok(Way {
            name: name.to_owned(),
            between_looks: None,
            is_loop: false,
            token_us: for_each(times.0),
            host_us: for_each(times.1),
            results: decoding.results(stream, count)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_of_decoding_give_the_same_bits_and_are_drawn() {
        let out = std::env::temp_dir().join(format!("decode-{}.svg", std::process::id()));
        let arguments = Arguments {
            size: Some(Size::Tiny),
            tokens: Some(3),
            looks: vec![1, 2],
            out: out.clone(),
        };
        assert!(run(&arguments).unwrap());
        let drawn = std::fs::read_to_string(&out).unwrap();
        std::fs::remove_file(&out).unwrap();
        for text in [
            "loop on the device",
            "a look every 2",
            "prefers-color-scheme: dark",
        ] {
            assert!(drawn.contains(text), "{text}: {drawn}");
        }
    }

    #[test]
    fn the_break_even_is_the_fewest_tokens_that_are_as_fast_as_the_loop() {
        let way = |between_looks, token_us| Way {
            name: String::new(),
            between_looks,
            is_loop: between_looks.is_none(),
            token_us,
            host_us: 0.0,
            results: (Vec::new(), Vec::new()),
        };
        let mut ways = vec![way(Some(1), 9.0), way(Some(4), 5.0), way(None, 4.0)];
        assert!(break_even(&ways).contains("is faster"));
        ways.extend([way(Some(16), 3.0), way(Some(8), 4.0)]);
        assert!(break_even(&ways).contains("with 8 tokens"));
    }

    #[test]
    fn the_tokens_depend_on_those_before() {
        let device = Device::simulated().unwrap();
        let ways = decode(&device, Size::Tiny.shape(), 4, &[]).unwrap();
        let (tokens, logits) = &ways[0].results;
        assert!(tokens.iter().any(|token| token != &tokens[0]), "{tokens:?}");
        assert!(logits.iter().any(|&bits| bits != 0));
    }
}
