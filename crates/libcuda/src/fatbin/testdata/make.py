"""Makes the fat binaries of this folder from scale.ptx and scale.cu, with NVIDIA's own tools.

usage: make.py WHEELS

WHEELS is the folder into which pip installs the tools on first use. No GPU is needed, but nvcc calls
gcc. The tools are the library nvFatbin, from 12.4 on, the program fatbinary, and nvcc, which calls
fatbinary. The Python package index has the two programs for CUDA 13 only.
"""

import ctypes
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

# The place of each tool, and the packages that it needs.
LIBRARIES = {
    "12.4": ("nvidia/nvfatbin/lib/libnvfatbin.so.12", ["nvidia-nvfatbin-cu12==12.4.127"]),
    "12.9": ("nvidia/nvfatbin/lib/libnvfatbin.so.12", ["nvidia-nvfatbin-cu12==12.9.82"]),
}
PROGRAMS = {
    "13.0": (
        "nvidia/cu13/bin",
        [
            "nvidia-cuda-nvcc==13.0.88",
            "nvidia-cuda-crt==13.0.88",
            "nvidia-nvvm==13.0.88",
            "nvidia-cuda-runtime==13.0.96",
        ],
    ),
    "13.5": ("nvidia/cu13/bin", ["nvidia-cuda-nvcc==13.5.37"]),
}


def tool(wheels, path, packages):
    """Returns the path of a tool, after installing its packages if they are missing."""
    folder = os.path.join(wheels, packages[0])
    found = os.path.join(folder, path)
    if not os.path.exists(found):
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder]
        subprocess.run(pip + packages, check=True)
        # The packages do not mark all programs as such.
        for place, _, files in os.walk(folder):
            for file in files:
                if os.path.basename(place) == "bin":
                    os.chmod(os.path.join(place, file), 0o755)
    return found


def ptx(target):
    """Returns the kernel for a target, as `90a`."""
    with open(os.path.join(HERE, "scale.ptx")) as file:
        return file.read().replace("sm_52", "sm_" + target)


def check(status, name):
    """Exits if a call of nvFatbin failed."""
    if status != 0:
        sys.exit(f"make.py: {name} returned {status}")


def by_library(path, options, targets):
    """Returns a fat binary of the kernel for these targets, made by nvFatbin."""
    library = ctypes.CDLL(path)
    handle = ctypes.c_void_p()
    texts = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    count = ctypes.c_size_t(len(options))
    check(library.nvFatbinCreate(ctypes.byref(handle), texts, count), "nvFatbinCreate")
    for target in targets:
        text = ptx(target).encode() + b"\0"
        size = ctypes.c_size_t(len(text))
        arguments = (handle, text, size, target.encode(), b"scale", None)
        check(library.nvFatbinAddPTX(*arguments), "nvFatbinAddPTX")
    size = ctypes.c_size_t()
    check(library.nvFatbinSize(handle, ctypes.byref(size)), "nvFatbinSize")
    contents = ctypes.create_string_buffer(size.value)
    check(library.nvFatbinGet(handle, contents), "nvFatbinGet")
    check(library.nvFatbinDestroy(ctypes.byref(handle)), "nvFatbinDestroy")
    return contents.raw


def source(work, target):
    """Returns the path of a file with the kernel for a target."""
    path = os.path.join(work, target + ".ptx")
    with open(path, "w") as file:
        file.write(ptx(target))
    return path


def by_program(folder, work, options, targets, machine_code):
    """Returns a fat binary made by fatbinary: PTX for `targets`, machine code for the others."""
    images = []
    for target in targets:
        images.append(f"--image3=kind=ptx,sm={target},file={source(work, target)}")
    for target in machine_code:
        code = os.path.join(work, target + ".cubin")
        ptxas = [os.path.join(folder, "ptxas"), "-arch=sm_" + target, source(work, target)]
        subprocess.run(ptxas + ["-o", code], check=True)
        images.append(f"--image3=kind=elf,sm={target},file={code}")
    result = os.path.join(work, "result.fatbin")
    fatbinary = [os.path.join(folder, "fatbinary"), "-64", "--create=" + result]
    subprocess.run(fatbinary + options + images, check=True)
    with open(result, "rb") as file:
        return file.read()


def by_compiler(folder, work, options):
    """Returns a fat binary that nvcc makes of the CUDA C++ kernel."""
    result = os.path.join(work, "result.fatbin")
    nvcc = [os.path.join(folder, "nvcc"), "-fatbin", "-o", result, *options]
    # The name of the source is in the fat binary, so it must not depend on the folder.
    subprocess.run(nvcc + ["scale.cu"], cwd=HERE, check=True)
    with open(result, "rb") as file:
        return file.read()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    wheels = sys.argv[1]
    work = os.path.join(wheels, "work")
    os.makedirs(work, exist_ok=True)
    for name, version, options, targets, machine_code in [
        ("nvfatbin-12.4-none", "12.4", ["-compress=false"], ["75", "90"], []),
        ("nvfatbin-12.4-lz4", "12.4", ["-compress=true"], ["75", "90"], []),
        ("nvfatbin-12.9-lz4", "12.9", ["-compress-mode=speed"], ["75", "90"], []),
        ("nvfatbin-12.9-zstd", "12.9", ["-compress-mode=size"], ["75", "90"], []),
        ("fatbinary-13.0-none", "13.0", ["--compress-mode=none"], ["75", "90a", "100f"], ["75"]),
        ("fatbinary-13.0-lz4", "13.0", ["--compress-mode=speed"], ["75", "90a", "100f"], []),
        ("fatbinary-13.0-zstd", "13.0", [], ["75", "90a", "100f"], []),
        ("fatbinary-13.0-debug", "13.0", ["-g", "--ident=a.cu", "--cmdline=-O1"], ["90"], []),
        ("fatbinary-13.0-code", "13.0", ["--compress-all"], [], ["75", "90a"]),
        ("fatbinary-13.5-concat", "13.5", ["--concat"], ["75", "90"], []),
    ]:
        if version in LIBRARIES:
            contents = by_library(tool(wheels, *LIBRARIES[version]), options, targets)
        else:
            folder = tool(wheels, *PROGRAMS[version])
            contents = by_program(folder, work, options, targets, machine_code)
        with open(os.path.join(HERE, name + ".fatbin"), "wb") as file:
            file.write(contents)
        print(f"{name}.fatbin: {len(contents)} bytes")
    for name, options in [
        ("nvcc-13.0-default", []),
        ("nvcc-13.0-code", ["-gencode", "arch=compute_90a,code=sm_90a"]),
    ]:
        contents = by_compiler(tool(wheels, *PROGRAMS["13.0"]), work, options)
        with open(os.path.join(HERE, name + ".fatbin"), "wb") as file:
            file.write(contents)
        print(f"{name}.fatbin: {len(contents)} bytes")


main()
