//! Edits the kernel of the example `live` while it runs. It needs NVRTC: `cargo xtask ci` runs it.

use std::{
    env,
    error::Error,
    fs,
    io::Read,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use clap::Parser;

use crate::live::{Options, draw};

type Failed = Box<dyn Error>;

/// The last line of the kernel, which stores the brightness.
const LAST: &str = "out[i] = 0.5f + 0.5f * sinf(12.0f * distance - 3.0f * seconds);";

/// The variable with the kernel's file.
const FILE: &str = "MILLSTREAM_TEST_KERNEL";

#[test]
#[ignore = "the example, which the other test starts"]
fn inner_example() -> anyhow::Result<()> {
    let file = env::var(FILE)?;
    draw(&Options::parse_from([
        "live", &file, "--size", "6", "2", "--pause", "0.05",
    ]))
}

/// The example, running on the simulated device with a kernel's file of its own.
struct Live {
    folder: PathBuf,
    process: Child,
    output: Receiver<Vec<u8>>,
    /// The output that has not been looked at yet.
    rest: String,
}

impl Live {
    fn start() -> Result<Self, Failed> {
        let folder = env::temp_dir().join(format!("millstream-edited-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let file = folder.join("shade.cu");
        fs::write(&file, include_str!("../live/kernels/shade.cu"))?;
        let mut process = Command::new(env::current_exe()?)
            .args([
                "--exact",
                "edited::inner_example",
                "--ignored",
                "--nocapture",
            ])
            .env(FILE, &file)
            .env("MILLSTREAM_DEVICE", "sim")
            .env("MILLSTREAM_KERNEL_CACHE", "off")
            .stdout(Stdio::piped())
            .spawn()?;
        let mut stdout = process.stdout.take().expect("it is piped");
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            folder,
            process,
            output,
            rest: String::new(),
        })
    }

    /// Saves the kernel with another last line, as an editor does: a new file takes the place.
    fn save(&self, last: &str) -> Result<(), Failed> {
        let source = include_str!("../live/kernels/shade.cu").replace(LAST, last);
        let new = self.folder.join("new");
        fs::write(&new, source)?;
        fs::rename(new, self.folder.join("shade.cu"))?;
        Ok(())
    }

    /// Waits until the output contains a text, and returns all up to its end.
    fn wait_for(&mut self, text: &str) -> Result<String, Failed> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(at) = self.rest.find(text) {
                let rest = self.rest.split_off(at + text.len());
                return Ok(std::mem::replace(&mut self.rest, rest));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.output.recv_timeout(left) else {
                let start: String = self.rest.chars().take(1000).collect();
                return Err(format!("{text:?} is not in what begins with {start:?}").into());
            };
            self.rest.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Neither a process that has ended nor a temporary file that remains is a failure.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A picture of 6 by 2 equal characters, as it is printed.
fn picture(of: char) -> String {
    let row = String::from(of).repeat(6);
    format!("\x1b[H{row}\n{row}\n\x1b[J")
}

#[test]
#[ignore = "needs NVRTC"]
fn an_edited_kernel_draws_and_a_broken_one_leaves_the_picture() -> Result<(), Failed> {
    let mut live = Live::start()?;
    let first = live.wait_for("\x1b[J")?;
    assert_ne!(first, picture('@'));

    live.save("out[i] = 1.0f;")?;
    live.wait_for("compiled ")?;
    live.wait_for(&picture('@'))?;

    live.save("out[i] = valeu;")?;
    // The column, and the mark below it, are not there in the messages of NVRTC 12.0.
    let shown = live.wait_for("|   out[i] = valeu;\n")?;
    let line = 1 + include_str!("../live/kernels/shade.cu")
        .lines()
        .position(|line| line.contains(LAST))
        .ok_or("the kernel has another last line")?;
    for part in [
        "1 error",
        "error: identifier \"valeu\" is undefined",
        &format!("shade.cu:{line}"),
        &format!("{line} |   out[i] = valeu;"),
    ] {
        assert!(shown.contains(part), "{part:?} is not in {shown:?}");
    }
    // The kernel from before goes on.
    for _ in 0..3 {
        let frame = live.wait_for("\x1b[J")?;
        assert!(frame.ends_with(&picture('@')), "{frame:?}");
    }

    live.save("out[i] = 0.0f;")?;
    live.wait_for("compiled ")?;
    live.wait_for(&picture(' '))?;
    assert!(live.process.try_wait()?.is_none(), "it still runs");
    Ok(())
}
