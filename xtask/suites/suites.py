"""`cargo xtask suites FOLDER`: builds and runs other people's programs from a folder of checkouts
(HeCBench, gpu-rodinia, cuda-samples, ggml) with `millstream-nvcc` and `millstream run`, and compares
the outcomes with the lists beside this file. `own` are programs of this repository, which CMake
builds in several ways. `program.sh` builds and runs one program, and names its outcome.
"""

import argparse
import os
import pathlib
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
SUITES = ["own", "HeCBench", "gpu-rodinia", "cuda-samples", "ggml"]
FINE = ["pass", "ends", "excluded"]


def tools():
    """Builds the commands, and returns their folder, with a toolkit whose nvcc is ours."""
    subprocess.run(["cargo", "build", "--quiet", "-p", "millstream-cli"], cwd=ROOT, check=True)
    target = ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug"
    nvcc = os.environ.get("MILLSTREAM_NVCC")
    if not nvcc:
        sys.exit("MILLSTREAM_NVCC must name nvcc")
    real = pathlib.Path(nvcc).resolve().parent.parent
    kit = target / "toolkit"
    (kit / "bin").mkdir(parents=True, exist_ok=True)
    links = {name: real / name for name in ["include", "lib64", "nvvm"]}
    for name, file in {**links, "bin/nvcc": target / "millstream-nvcc"}.items():
        (kit / name).unlink(missing_ok=True)
        (kit / name).symlink_to(file)
    return target


def programs(folder, suite):
    """Returns all programs of a suite."""
    if suite == "own":
        return ["plain", "separate", "static", "host"]
    if suite == "HeCBench":
        return sorted(path.name for path in (folder / "src").glob("*-cuda"))
    if suite == "gpu-rodinia":
        found = (path for path in (folder / "cuda").iterdir() if path.is_dir())
        return sorted(path.name for path in found if path.name != "util")
    if suite == "cuda-samples":
        files = (folder / "Samples").glob("*/*/CMakeLists.txt")
        return sorted(f"{file.parent.parent.name}/{file.parent.name}" for file in files)
    source = (folder / "tests/test-backend-ops.cpp").read_text()
    return sorted(set(re.findall(r"\bGGML_OP_([A-Z0-9_]+)", source)))


def chosen(options, suite):
    """Returns the programs to run."""
    folder = HERE if suite == "own" else options.folder / suite
    if not folder.is_dir():
        return []
    named = [name.partition(":") for name in options.suites]
    named = [program for of, _, program in named if of == suite]
    if options.suites and "" not in named:
        return named
    found = programs(folder, suite)
    if suite == "HeCBench" and options.some < len(found):
        print(f"{suite}: seed {options.seed}", flush=True)
        found = sorted(random.Random(options.seed).sample(found, options.some))
    return found


def outcome(options, suite, program):
    """Builds and runs a program."""
    command = [HERE / "program.sh", options.folder, suite, program, options.tools]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace")
    found = (done.stdout.strip().splitlines() or ["fail: the script ended"])[-1]
    print(f"{suite} {program}: {found}", flush=True)
    return program, found


def kind(found):
    """Returns what is in front of the reason."""
    return found.partition(":")[0]


def main():
    parser = argparse.ArgumentParser(prog="cargo xtask suites")
    parser.add_argument("folder", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("suites", nargs="*", help="SUITE or SUITE:PROGRAM")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--some", type=int, default=150, help="of HeCBench's programs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tools", type=pathlib.Path, help="the folder of built commands")
    parser.add_argument("--record", action="store_true", help="write the lists")
    options = parser.parse_args()
    options.tools = options.tools or tools()
    differences = []
    for suite in SUITES:
        names = chosen(options, suite)
        if not names:
            continue
        with ThreadPoolExecutor(options.jobs) as pool:
            found = dict(pool.map(lambda name: outcome(options, suite, name), names))
        counts = {}
        for one in found.values():
            counts[kind(one)] = counts.get(kind(one), 0) + 1
        print(f"{suite}: {len(found)} programs: {counts}", flush=True)
        file = HERE / f"{suite}.txt"
        lines = file.read_text().splitlines() if file.exists() else []
        listed = dict(line.split(" ", 1) for line in lines if line and line[0] != "#")
        if options.record:
            merged = sorted({**listed, **found}.items())
            head = "# Programs and their outcomes, which `cargo xtask suites` compares.\n"
            file.write_text(head + "".join(f"{name} {one}\n" for name, one in merged))
            continue
        for name, one in found.items():
            # A program that is not listed must end well, unless it is excluded.
            fine = kind(one) in FINE if name not in listed else kind(one) == kind(listed[name])
            if not fine:
                known = listed.get(name, "not listed")
                differences.append(f"{suite} {name}: {one} ({known})")
    print("\n".join(differences))
    sys.exit(1 if differences else 0)


main()
