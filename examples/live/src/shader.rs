//! The kernel of the picture, compiled again when its file changes.

#![allow(unsafe_code, reason = "declares and launches the kernel")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use millstream::{Cuda, Device, Kernel, Ptx, Result, Stream, signature};

millstream::kernels! {
    // SAFETY: the signature is that of shade.cu, whose threads write one element each of the first
    // width * height.
    unsafe mod built_in from cuda include_str!("../kernels/shade.cu"),
        ptx include_str!("../kernels/shade.ptx")
    {
        safe fn shade(out: &mut [f32], width: i32, height: i32, seconds: f32)
            requires width >= 0, height >= 0, out.len() >= width * height,
                grid.blocks.y * grid.blocks.z * grid.block.y * grid.block.z == 1;
    }
}

type Shade = Kernel<signature!(&mut [f32], i32, i32, f32)>;

/// The result of looking at the file.
pub(crate) enum Change {
    /// The file is as it was.
    None,
    /// The file was compiled, and its kernel draws from now on.
    Compiled,
    /// The file was changed, but not to something that can be drawn.
    Refused(String),
}

/// The kernel that draws: that of the file, or the one that is a part of this program.
pub(crate) struct Shader {
    file: PathBuf,
    /// The contents of the file when it was last compiled, or tried. Its time would be the same for
    /// two changes within a few milliseconds.
    seen: Option<Vec<u8>>,
    built_in: built_in::Kernels,
    edited: Option<Shade>,
}

impl Shader {
    /// Creates a shader that draws with the program's own kernel until the file changes.
    pub(crate) fn new(device: &Device, file: &Path) -> Result<Self> {
        Ok(Self {
            file: file.to_path_buf(),
            seen: fs::read(file).ok(),
            built_in: built_in::load(device)?,
            edited: None,
        })
    }

    /// Compiles the file if it has changed.
    pub(crate) fn update(&mut self, device: &Device) -> Change {
        let contents = fs::read(&self.file).ok();
        if contents.is_none() || contents == self.seen {
            return Change::None;
        }
        self.seen = contents;
        match load(device, &self.file) {
            Ok(kernel) => {
                self.edited = Some(kernel);
                Change::Compiled
            }
            Err(error) => Change::Refused(error.to_string()),
        }
    }

    /// Draws a picture: the level of each character, line by line.
    pub(crate) fn draw(
        &self,
        stream: &Stream,
        width: u16,
        height: u16,
        seconds: f32,
    ) -> Result<Vec<f32>> {
        let n = usize::from(width) * usize::from(height);
        let mut out = stream.zeros::<f32>(n)?;
        let (width, height) = (i32::from(width), i32::from(height));
        match &self.edited {
            None => self
                .built_in
                .shade(stream, n, &mut out, width, height, seconds)?,
            Some(kernel) => {
                // SAFETY: the author of the file keeps to the elements of the picture. On the
                // simulated device an access beyond them is an error; on a GPU it may be anything.
                unsafe { kernel.launch(stream, n, (&mut out, width, height, seconds)) }?
            }
        }
        stream.download(&out)?.wait()
    }
}

/// Loads the kernel of a file of CUDA C++, or of PTX.
fn load(device: &Device, file: &Path) -> Result<Shade> {
    let module = if file.extension().is_some_and(|extension| extension == "ptx") {
        device.module(Ptx::file(file)?)?
    } else {
        device.compile(Cuda::file(file)?)?
    };
    module.function("shade")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(file: &Path, text: &str) {
        fs::write(file, text).expect("a file is written");
    }

    #[test]
    fn the_program_has_a_kernel_of_its_own() {
        let device = Device::simulated().expect("it opens");
        let stream = device.stream().expect("a stream");
        let shader = Shader::new(&device, Path::new("nowhere.cu")).expect("it loads");
        let levels = shader.draw(&stream, 8, 4, 0.0).expect("it draws");
        // The middle of the picture: sin(0) at the distance 0.
        assert_eq!((levels.len(), levels[2 * 8 + 4]), (32, 0.5));
        assert!(levels.iter().all(|level| (0.0..=1.0).contains(level)));
    }

    #[test]
    fn a_changed_file_draws_and_a_wrong_one_leaves_the_picture() {
        let device = Device::simulated().expect("it opens");
        let stream = device.stream().expect("a stream");
        let name = format!("millstream-live-{}.ptx", std::process::id());
        let file = std::env::temp_dir().join(name);
        let ptx = include_str!("../kernels/shade.ptx");
        write(&file, ptx);
        let mut shader = Shader::new(&device, &file).expect("it loads");
        assert!(matches!(shader.update(&device), Change::None));
        let before = shader.draw(&stream, 4, 4, 1.0).expect("it draws");

        // 12 waves, in the hexadecimal form of PTX, become 6.
        let slower = ptx.replace("0f41400000", "0f40C00000");
        assert_ne!(slower, ptx);
        write(&file, &slower);
        assert!(matches!(shader.update(&device), Change::Compiled));
        assert!(matches!(shader.update(&device), Change::None));
        let after = shader.draw(&stream, 4, 4, 1.0).expect("it draws");
        assert_ne!(before, after);

        write(&file, "no PTX");
        let Change::Refused(error) = shader.update(&device) else {
            panic!("it is no PTX");
        };
        assert!(error.contains("line 1"), "{error}");
        assert_eq!(shader.draw(&stream, 4, 4, 1.0).expect("it draws"), after);
        fs::remove_file(&file).expect("a file is removed");
    }
}
