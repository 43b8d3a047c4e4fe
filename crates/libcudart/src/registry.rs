//! The functions and variables that compiled programs register, and the images that have them.
//!
//! Constructors that nvcc writes pass each fat binary with the addresses that stand for its kernels
//! and variables in the host's code. Nothing is loaded before its first use: an image becomes a
//! library of the driver then, which every context shares.

use std::{
    collections::BTreeMap,
    ffi::CStr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::{
    abi::{Function, Ptr},
    codes::{Answer, INVALID_DEVICE_FUNCTION, INVALID_SYMBOL, NO_KERNEL_IMAGE, SYMBOL_NOT_FOUND},
    driver::cu,
};

/// The number of a registered image.
pub(crate) type ImageNumber = usize;

#[derive(Debug, Default)]
struct Registry {
    images: BTreeMap<ImageNumber, Image>,
    next: ImageNumber,
    functions: BTreeMap<usize, Registered>,
    variables: BTreeMap<usize, Registered>,
    /// The kernels that the program knows, with the addresses of their functions.
    kernels: BTreeMap<usize, usize>,
}

/// A fat binary of the program.
#[derive(Debug, Default)]
struct Image {
    /// The address of the fat binary.
    data: usize,
    /// Those of the objects that were compiled to be linked.
    parts: Vec<usize>,
    /// The driver's library.
    library: Option<Answer<usize>>,
}

/// A function or a variable.
#[derive(Clone, Copy, Debug)]
struct Registered {
    image: ImageNumber,
    name: &'static CStr,
    /// The variable of the host that has the address of a managed one.
    pointer: Option<usize>,
    /// The kernel of a function, once it is known.
    kernel: Option<usize>,
}

impl Registered {
    fn name_address(&self) -> usize {
        self.name.as_ptr().expose_provenance()
    }
}

/// Returns `of_runtime` for the driver's code `of_driver`, and any other code as it is.
fn instead(of_driver: i32, of_runtime: i32, code: i32) -> i32 {
    if code == of_driver { of_runtime } else { code }
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
    images: BTreeMap::new(),
    next: 1,
    functions: BTreeMap::new(),
    variables: BTreeMap::new(),
    kernels: BTreeMap::new(),
});

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The magic number of the structure that refers to a fat binary, and its version for a list of fat
/// binaries (`fatbinary_section.h`).
const WRAPPER: u32 = 0x4662_43b1;
const LIST: u32 = 2;

/// Enters an image by the address of its wrapper.
pub(crate) fn add_image(wrapper: Ptr<usize>) -> Answer<ImageNumber> {
    let magic = wrapper.to::<u32>().get()?;
    let version = wrapper.to::<u32>().at(1).get()?;
    let mut image = Image {
        data: wrapper.at(1).get()?,
        ..Image::default()
    };
    if magic != WRAPPER {
        image.library = Some(Err(NO_KERNEL_IMAGE));
    }
    if version == LIST {
        let mut part = Ptr::<usize>::of(wrapper.at(2).get()?);
        while part.address() != 0 && part.get()? != 0 {
            image.parts.push(part.get()?);
            part = part.at(1);
        }
    }
    let mut registry = registry();
    let number = registry.next;
    registry.next += 1;
    registry.images.insert(number, image);
    Ok(number)
}

/// Forgets an image with its functions and variables, whose addresses may soon be those of others.
/// The driver keeps its library: other threads may still use it, and the process usually ends.
pub(crate) fn remove_image(number: ImageNumber) {
    let mut registry = registry();
    let Registry {
        functions,
        variables,
        kernels,
        ..
    } = &mut *registry;
    functions.retain(|_, it| it.image != number);
    variables.retain(|_, it| it.image != number);
    kernels.retain(|_, function| functions.contains_key(function));
    registry.images.remove(&number);
}

pub(crate) fn add_function(image: ImageNumber, host: usize, name: Ptr<u8>) -> Answer {
    let name = name.text()?;
    let function = Registered {
        image,
        name,
        pointer: None,
        kernel: None,
    };
    registry().functions.insert(host, function);
    Ok(())
}

/// Enters a variable. The key of a managed one is the address of the host's variable that has its
/// address.
pub(crate) fn add_variable(
    image: ImageNumber,
    host: usize,
    name: Ptr<u8>,
    pointer: Option<usize>,
) -> Answer {
    let name = name.text()?;
    let variable = Registered {
        image,
        name,
        pointer,
        kernel: None,
    };
    registry().variables.insert(host, variable);
    Ok(())
}

/// Writes the addresses of the managed variables of an image to the host's variables.
pub(crate) fn place_managed(number: ImageNumber) -> Answer {
    let mut registry = registry();
    let of_image = registry
        .variables
        .iter()
        .filter(|(_, it)| it.image == number);
    let managed: Vec<_> = of_image
        .map(|(_, it)| *it)
        .filter(|it| it.pointer.is_some())
        .collect();
    for variable in managed {
        let (address, _) = registry.global(variable)?;
        if let Some(pointer) = variable.pointer {
            Ptr::of(pointer).set(address)?;
        }
        // From now on, the host's code names the variable by this address.
        registry.variables.insert(address, variable);
    }
    Ok(())
}

/// Returns the address and the size of a variable in the current context.
pub(crate) fn variable(host: usize) -> Answer<(usize, usize)> {
    let mut registry = registry();
    let variable = registry.variables.get(&host).copied();
    registry.global(variable.ok_or(INVALID_SYMBOL)?)
}

/// Returns the kernel of a function, which may be a kernel already.
pub(crate) fn kernel(function: Function) -> Answer<usize> {
    let mut registry = registry();
    let Some(&known) = registry.functions.get(&function.0) else {
        let is_kernel = registry.kernels.contains_key(&function.0);
        return is_kernel
            .then_some(function.0)
            .ok_or(INVALID_DEVICE_FUNCTION);
    };
    if let Some(kernel) = known.kernel {
        return Ok(kernel);
    }
    let library = registry.library(known.image)?;
    let mut kernel = 0_usize;
    let found = cu! { cuLibraryGetKernel, &mut kernel, library, known.name_address() };
    found.map_err(|code| instead(SYMBOL_NOT_FOUND, INVALID_DEVICE_FUNCTION, code))?;
    registry.kernels.insert(kernel, function.0);
    let entered = Registered {
        kernel: Some(kernel),
        ..known
    };
    registry.functions.insert(function.0, entered);
    Ok(kernel)
}

/// Returns the kernel of a function for a launch. An unknown address is passed on: the driver says
/// that it is no kernel.
pub(crate) fn launched(function: Function) -> Answer<usize> {
    let is_known = registry().functions.contains_key(&function.0);
    if is_known {
        kernel(function)
    } else {
        Ok(function.0)
    }
}

/// Returns the function of a kernel of the driver in the current context.
pub(crate) fn function_of(kernel: usize) -> Answer<usize> {
    let mut found = 0_usize;
    cu!(cuKernelGetFunction, &mut found, kernel)?;
    Ok(found)
}

/// Returns the function of a kernel in the current context.
pub(crate) fn function(function: Function) -> Answer<usize> {
    function_of(kernel(function)?)
}

/// Enters a kernel of a library that the program loads itself.
pub(crate) fn add_kernel(kernel: usize) {
    registry().kernels.entry(kernel).or_insert(kernel);
}

/// Returns what the program knows a kernel by, which the driver names as a kernel or as a function
/// of the current context.
pub(crate) fn host_of(handle: usize) -> usize {
    let registry = registry();
    let is_meant = |kernel: usize| {
        let mut function = 0_usize;
        let found = cu!(cuKernelGetFunction, &mut function, kernel);
        kernel == handle || found.is_ok() && function == handle
    };
    let mut known = registry.kernels.iter();
    let found = known.find(|(kernel, _)| is_meant(**kernel));
    found.map_or(handle, |(_, host)| *host)
}

impl Registry {
    fn library(&mut self, number: ImageNumber) -> Answer<usize> {
        let image = self
            .images
            .get_mut(&number)
            .ok_or(INVALID_DEVICE_FUNCTION)?;
        if let Some(known) = image.library {
            return known;
        }
        let loaded = image.load();
        image.library = Some(loaded);
        loaded
    }

    fn global(&mut self, variable: Registered) -> Answer<(usize, usize)> {
        let library = self.library(variable.image)?;
        let (mut address, mut bytes) = (0_usize, 0_usize);
        let name = variable.name_address();
        let found = cu!(cuLibraryGetGlobal, &mut address, &mut bytes, library, name);
        found.map_err(|code| instead(SYMBOL_NOT_FOUND, INVALID_SYMBOL, code))?;
        Ok((address, bytes))
    }
}

/// `CU_JIT_INPUT_FATBINARY`
const FATBINARY: u32 = 2;

impl Image {
    /// Loads the image. Objects that were compiled to be linked are linked first.
    fn load(&self) -> Answer<usize> {
        let mut library = 0_usize;
        if self.parts.is_empty() {
            cu!(cuLibraryLoadData, &mut library, self.data, 0, 0, 0, 0, 0, 0)?;
            return Ok(library);
        }
        let mut linker = 0_usize;
        cu!(cuLinkCreate_v2, 0, 0, 0, &mut linker)?;
        let linked = self.link(linker).and_then(|code| {
            cu!(cuLibraryLoadData, &mut library, code, 0, 0, 0, 0, 0, 0)?;
            Ok(library)
        });
        let _ = cu!(cuLinkDestroy, linker);
        linked
    }

    fn link(&self, linker: usize) -> Answer<usize> {
        for &part in &self.parts {
            // The header of a fat binary has 16 bytes, the last 8 of them the size of the rest.
            let bytes = Ptr::<usize>::of(part).at(1).get()? + 16;
            cu!(cuLinkAddData_v2, linker, FATBINARY, part, bytes, 0, 0, 0, 0)?;
        }
        let (mut code, mut bytes) = (0_usize, 0_usize);
        cu!(cuLinkComplete, linker, &mut code, &mut bytes)?;
        Ok(code)
    }
}
