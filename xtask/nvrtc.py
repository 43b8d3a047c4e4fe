"""Compiles one CUDA C++ file to PTX with NVRTC and writes the PTX to standard output. NVRTC needs no GPU.

usage: nvrtc.py WHEELS SOURCE [OPTION...]

WHEELS is the folder into which pip installs NVRTC on first use. OPTIONs are passed to NVRTC, except
--cccl, which adds the include paths of libcu++ and of the CUDA runtime's headers and installs both. The
thousand variables that libcu++ then adds to each module are removed unless the code uses them.
"""

import collections
import ctypes
import os
import re
import subprocess
import sys

PACKAGE = "nvidia-cuda-nvrtc-cu12==12.0.76"

HEADERS = {
    "cuda_cccl": "nvidia-cuda-cccl-cu12==12.9.27",
    "cuda_runtime": "nvidia-cuda-runtime-cu12==12.0.146",
}


def install(folder, package):
    """Installs a package from the registry into a folder of its own."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, package]
    # Standard output is reserved for the PTX.
    subprocess.run(pip, check=True, stdout=sys.stderr)


def header_options(wheels):
    """Returns the include options for the headers, which are installed if they are missing."""
    options = []
    for name, package in HEADERS.items():
        folder = os.path.join(wheels, name)
        path = os.path.join(folder, "nvidia", name, "include")
        if not os.path.exists(path):
            install(folder, package)
        options.append("--include-path=" + path)
    return options


def library(wheels):
    """Loads NVRTC from the folder `wheels`, after installing it if it is missing."""
    folder = os.path.join(wheels, "nvidia", "cuda_nvrtc", "lib")
    path = os.path.join(folder, "libnvrtc.so.12")
    if not os.path.exists(path):
        install(wheels, PACKAGE)
    # NVRTC loads its second library by name, which is found in any folder if it is loaded already.
    ctypes.CDLL(os.path.join(folder, "libnvrtc-builtins.so.12.0"), mode=ctypes.RTLD_GLOBAL)
    nvrtc = ctypes.CDLL(path)
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    return nvrtc


def without_unused_variables(ptx):
    """Removes the variables in global memory whose names occur nowhere else."""
    variable = re.compile(r"^\.global [^;=]*?([\w$]+)(\[\d*\])?( = [^;]*)?;\n", re.MULTILINE)
    names = collections.Counter(re.findall(r"[\w$]+", ptx))
    return variable.sub(lambda found: "" if names[found[1]] == 1 else found[0], ptx)


def check(nvrtc, status, what):
    """Exits with NVRTC's message if `status` is an error."""
    if status != 0:
        sys.exit(f"nvrtc.py: {what}: {nvrtc.nvrtcGetErrorString(status).decode()}")


def text(nvrtc, program, size_of, contents_of):
    """Reads a text that NVRTC returns as a size and then the bytes: its log, or the PTX."""
    size = ctypes.c_size_t()
    check(nvrtc, size_of(program, ctypes.byref(size)), "size of a result")
    contents = ctypes.create_string_buffer(size.value)
    check(nvrtc, contents_of(program, contents), "a result")
    return contents.value.decode()


def compiled(nvrtc, source, name, options):
    """Compiles the CUDA C++ text `source` to PTX."""
    program = ctypes.c_void_p()
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), 0, None, None)
    check(nvrtc, status, "nvrtcCreateProgram")
    arguments = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    status = nvrtc.nvrtcCompileProgram(program, len(options), arguments)
    # Warnings are printed, because they may mean that the kernel is not the intended one.
    sys.stderr.write(text(nvrtc, program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog))
    check(nvrtc, status, name)
    return text(nvrtc, program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    wheels, source, *options = sys.argv[1:]
    libraries = "--cccl" in options
    if libraries:
        options.remove("--cccl")
        options += header_options(wheels)
    with open(source, "rb") as file:
        contents = file.read()
    ptx = compiled(library(wheels), contents, os.path.basename(source), options)
    sys.stdout.write(without_unused_variables(ptx) if libraries else ptx)


main()
