"""Launches each kernel of a PTX file: `launch.py FILE CALL GRID BLOCK VALUE…`.

Each pointer is the middle of an array of its own, of zeros and then of its indices; each integer is
one of the values after the other; a structure is filled with pointers. A kernel may fail: the next
launch starts with a fresh context.
"""

import ctypes
import itertools
import re
import struct
import subprocess
import sys

ROOM = 2 << 20
cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    if status != 0:
        raise RuntimeError(f"{name}: {status}")


class Device:
    """A device with a module and its arrays."""

    def __init__(self, ptx):
        self.context, self.module = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), 0)
        call("cuCtxSetCurrent", self.context)
        call("cuModuleLoadData", ctypes.byref(self.module), ptx)
        self.arrays = {}

    def array(self, number, pattern):
        """Returns the middle of an array with a pattern."""
        if number not in self.arrays:
            at = ctypes.c_uint64()
            call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(ROOM))
            self.arrays[number] = at.value
        at = self.arrays[number]
        call("cuMemcpyHtoD_v2", ctypes.c_uint64(at), pattern, ctypes.c_size_t(ROOM))
        return at + ROOM // 4


def kinds(name, parameters):
    """Returns the kind of each parameter: "pointer", "float", "integer", or a structure's size."""
    demangled = subprocess.run(["c++filt", name], capture_output=True, text=True).stdout
    types = re.split(r", (?![^<(]*[>)])", demangled.strip().partition("(")[2][:-1])
    for index, one in enumerate(parameters):
        size = re.search(r"\[(\d+)\]", one)
        known = types[index] if len(types) == len(parameters) else ""
        if size:
            yield int(size[1])
        elif ".u64" in one and known[-1:] in ("", "*", "&", ")", "]"):
            yield "pointer"
        else:
            yield "float" if ".f" in one else "integer"


def argument(device, kind, declared, pattern, value, number):
    """Returns the bytes of an argument; its arrays have numbers from `number` on."""
    if kind == "float":
        return struct.pack("<d" if ".f64" in declared else "<f", 1.5)
    if kind == "integer":
        return int(value).to_bytes(8, "little")
    count = 1 if kind == "pointer" else -(-kind // 8)
    arrays = [device.array(number + it % 4, pattern) + it // 4 * 4096 for it in range(count)]
    return struct.pack(f"<{count}Q", *arrays)


def main():
    file, launch, grid, block, *values = sys.argv[1:]
    text = open(file).read()
    grid, block = ([int(it) for it in (one + ",1,1").split(",")[:3]] for one in (grid, block))
    half = ROOM // 4
    numbers = b"".join(struct.pack("<i", it // 4) for it in range(-half, ROOM - half, 4))
    call("cuInit", 0)
    device = Device(text.encode() + b"\0")
    shared = 8192 if ".extern .shared" in text else 0
    for name, parameters in re.findall(r"\.entry (\w+)\(([^)]*)\)", text):
        declared = [it.strip() for it in parameters.split(",") if it.strip()]
        wanted = list(kinds(name, declared))
        patterns = (bytes(ROOM), numbers) if set(wanted) - {"float", "integer"} else [b""]
        some = values if "integer" in wanted else values[:1]
        for pattern, value in itertools.product(patterns, some):
            kept = [
                argument(device, kind, one, pattern, value, 4 * number)
                for number, (kind, one) in enumerate(zip(wanted, declared))
            ]
            kept = [ctypes.create_string_buffer(it) for it in kept]
            pointers = (ctypes.c_void_p * max(len(kept), 1))(*map(ctypes.addressof, kept))
            last = [pointers] + [None] * (launch == "cuLaunchKernel")
            function = ctypes.c_void_p()
            try:
                entry = [ctypes.byref(function), device.module, name.encode()]
                call("cuModuleGetFunction", *entry)
                call(launch, function, *grid, *block, shared, None, *last)
                call("cuCtxSynchronize")
            except RuntimeError as error:
                print(f"{name}: {error}")
                cuda.cuDevicePrimaryCtxReset_v2(0)
                device = Device(text.encode() + b"\0")


main()
