"""`cargo xtask suites FOLDER`: builds and runs other people's programs from a folder of checkouts
(HeCBench, gpu-rodinia, cuda-samples, cutlass, ggml) with `millstream-nvcc` and `millstream run`, and compares
the outcomes with the lists beside this file. `own` are programs of this repository, which CMake
builds in several ways. `program.py` builds one program, and names its outcome.

HeCBench's programs repeat their work only to take times, a hundred or ten thousand times: where a
script finds this number, in the arguments or the sources, it is 1, unless `--given`. A program that
is still slow runs with the smaller sizes that `sizes.txt` lists, or with its large numbers divided
by 16, then by 256, then with all round numbers divided by 16, then by 64. The outcome says so. A
program may refuse what is changed so; it counts if it says what it says on a GPU, or passes its check.
Samples run with their own numbers first.

A program may take 120 s of processor time. Those that need long are stopped and go on when all
others have had their turn, so that a run that ends at its `--deadline` has tried every program.
With `--gpu FOLDER`, the folder of NVIDIA's runtime library, each program first runs on a GPU, and the
two outputs are compared but for times and rates.
"""

import argparse
import json
import os
import pathlib
import queue
import random
import re
import signal
import subprocess
import sys
import threading
import time

import judges
from program import HERE, Program, read, sizes

ROOT = HERE.parent.parent
SUITES = ["own", "ggml", "HeCBench", "gpu-rodinia", "cuda-samples", "cutlass"]
PACKAGES = ["nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88", "nvidia-cuda-crt==13.0.88"]
PACKAGES += ["nvidia-cuda-runtime==13.0.96", "nvidia-cuda-cccl==13.0.85", "cmake==4.4.5"]
GOOD = ["pass", "same", "ends"]
# Ways to run a program that it must not refuse.
GIVEN = ["", "repeat 1", "smaller"]
TICKS = os.sysconf("SC_CLK_TCK")


def tools():
    """Builds the commands, and returns their folder, with a toolkit whose nvcc is ours."""
    # The commands use the libraries beside them, which cargo puts there only if they are named.
    names = ["cli", "libcuda", "libcudart"]
    packages = [word for name in names for word in ("-p", f"millstream-{name}")]
    subprocess.run(["cargo", "build", "--quiet", *packages], cwd=ROOT, check=True)
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "debug"


def installed(folder):
    """Installs nvcc and CMake from the package registry, and uses them. Returns whether it could."""
    wanted = " ".join(PACKAGES)
    stamp = folder / "installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
        if subprocess.run([*pip, "--target", folder, *PACKAGES]).returncode != 0:
            return False
        kit = folder / "nvidia/cu13"
        for link, target in {"lib64": "lib", "lib/libcudart.so": "libcudart.so.13"}.items():
            (kit / link).unlink(missing_ok=True)
            (kit / link).symlink_to(target)
        stamp.write_text(wanted)
    os.environ["PYTHONPATH"] = str(folder)
    os.environ["PATH"] = f"{folder}/bin:{os.environ['PATH']}"
    os.environ["MILLSTREAM_NVCC"] = str(folder / "nvidia/cu13/bin/nvcc")
    return True


def toolkit(target):
    """Makes a toolkit of links in the folder of the commands."""
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


def programs(folder, suite):
    """Returns all programs of a suite."""
    if suite == "own":
        orders = read(folder / "expected.txt").splitlines()[2:]
        return ["plain", "separate", "static", "host", *(f"orders {it.split()[0]}" for it in orders)]
    if suite == "HeCBench":
        return sorted(path.name for path in (folder / "src").glob("*-cuda"))
    if suite == "gpu-rodinia":
        found = (path for path in (folder / "cuda").iterdir() if path.is_dir())
        return sorted(path.name for path in found if path.name != "util")
    if suite == "cutlass":
        # Those for Ampere whose sizes are listed.
        return [name for name in sizes() if (folder / "examples" / f"{name}.cu").exists()]
    if suite == "cuda-samples":
        files = (folder / "Samples").glob("*/*/CMakeLists.txt")
        names = (f"{file.parent.parent.name}/{file.parent.name}" for file in files)
        return sorted(name for name in names if "." not in name)
    tests = pathlib.Path(os.environ["GGML_BUILD"]) / "bin/test-backend-ops"
    said = subprocess.run([tests, "--list-ops"], capture_output=True, text=True).stdout
    return re.findall(r"(?m)^  ([A-Z0-9_]+)$", said)


def chosen(options, suite):
    """Returns the programs to run."""
    folder = HERE / "own" if suite == "own" else options.folder / suite
    if not folder.is_dir():
        return []
    named = [name.partition(":") for name in options.suites]
    named = [program for of, _, program in named if of == suite]
    if options.suites and "" not in named:
        return named
    found = programs(folder, suite)
    if suite == "HeCBench":
        if options.list:
            found = options.list.read_text().split()
        print(f"{suite}: seed {options.seed} of {len(found)}", flush=True)
        found = sorted(random.Random(options.seed).sample(found, min(options.some, len(found))))
    return found


class Clock:
    """The processor time of sessions, which is read at most twice a second."""

    def __init__(self):
        self.lock, self.read_at, self.seconds, self.members = threading.Lock(), 0, {}, {}

    def of(self, session):
        """Returns the processor time of a session."""
        with self.lock:
            if time.monotonic() - self.read_at > 0.5:
                self.seconds, self.members = {}, {}
                for file in pathlib.Path("/proc").glob("[0-9]*/stat"):
                    try:
                        fields = file.read_text().rpartition(")")[2].split()
                    except OSError:
                        continue
                    of, used = int(fields[3]), sum(map(int, fields[11:15])) / TICKS
                    self.seconds[of] = self.seconds.get(of, 0) + used
                    self.members.setdefault(of, []).append(int(file.parent.name))
                self.read_at = time.monotonic()
            return self.seconds.get(session, 0)

    def signal(self, session, number):
        """Sends a signal to the processes of a session."""
        self.read_at = 0
        self.of(session)
        for process in self.members.get(session, []):
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass


CLOCK = Clock()
GPUS = threading.Semaphore(4)


class Job:
    """A program with its state: what it has used of its processor time so far."""

    def __init__(self, options, suite, name):
        self.options, self.suite, self.name = options, suite, name
        self.turn, self.process, self.reference, self.found = 0, None, None, None
        self.facts, self.started = {}, time.monotonic()

    def prepare(self):
        """Builds the program, runs it on a GPU if there is one, and starts it."""
        self.program = Program(self.options, self.suite, self.name)
        reason = self.program.excluded()
        if reason:
            self.found = f"excluded: {reason}"
            return
        self.left = self.program.variants()
        self.next_variant()

    def next_variant(self):
        """Builds and starts the program in the next way, first on a GPU if there is one."""
        self.turn, self.facts["cpu"], self.reference = 0, 0, None
        is_first = "variant" not in self.facts
        name, folder, command = self.left.pop(0)
        start = time.monotonic()
        reason = self.program.build(folder)
        self.facts["build"] = round(time.monotonic() - start, 1)
        if reason and not is_first and self.left:
            # The program may need the numbers that a script has changed.
            return self.next_variant()
        if reason:
            self.process = None
            self.found = f"excluded: {reason}" if is_first else f"slow: {name}: {reason}"
            return
        self.facts["variant"] = name
        if self.options.gpu and not self.program.is_managed:
            with GPUS:
                self.on_gpu(command)
        # The program may refuse what a script has changed.
        if self.left and name not in GIVEN and self.reference not in (None, 0):
            self.facts["refused"] = f"{name}: status {self.reference} on a GPU"
            return self.next_variant()
        self.process = self.program.start("run", command)

    def on_gpu(self, command):
        """Runs the program on a GPU."""
        self.program.on_gpu = command
        start, process = time.monotonic(), self.program.start("gpu", command)
        while time.monotonic() - start < 20:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                self.reference = os.waitstatus_to_exitcode(status)
                self.facts["gpu_cpu"] = round(usage.ru_utime + usage.ru_stime, 1)
                break
            time.sleep(0.02)
        else:
            CLOCK.signal(process.pid, signal.SIGKILL)
            os.wait4(process.pid, 0)
        self.facts["gpu"] = round(time.monotonic() - start, 1)
        self.facts["gpu_status"] = self.reference

    def run(self):
        """Lets the program run for a turn. Returns whether it has ended."""
        if self.process is None and not self.found:
            self.prepare()
        elif self.process:
            CLOCK.signal(self.process.pid, signal.SIGCONT)
        if self.found:
            return True
        limit = self.options.turns[self.turn]
        self.turn += 1
        begun, before = time.monotonic(), self.facts.get("cpu", 0)
        while True:
            ended, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            if ended:
                self.facts["cpu"] = round(usage.ru_utime + usage.ru_stime, 1)
                code = os.waitstatus_to_exitcode(status)
                self.found = self.judged(code)
                if self.found:
                    return True
                self.next_variant()
                return self.run()
            used = self.facts["cpu"] = CLOCK.of(self.process.pid)
            idle = time.monotonic() - begun > 60 + 4 * (limit - before)
            late = time.monotonic() > self.options.until
            if used > limit or late or idle:
                if self.left and self.left[0][0] and self.turn > 1 and not late:
                    self.kill()
                    self.facts["too slow"] = [*self.facts.get("too slow", []), self.facts["variant"]]
                    self.next_variant()
                    return self.run()
                if self.turn < len(self.options.turns) and not late and not idle:
                    CLOCK.signal(self.process.pid, signal.SIGSTOP)
                    return False
                self.stop(f"more than {used:.0f} s of processor time" if not idle else "idle")
                return True
            time.sleep(0.05 if time.monotonic() - begun < 2 else 0.3)

    def judged(self, code):
        """Returns the outcome, or nothing if the program is to be tried with other sizes."""
        found, variant = self.program.judged(code, self.reference), self.facts["variant"]
        if not variant:
            return found
        is_good = code == 0 and kind(found) in GOOD
        is_changed = variant not in GIVEN and self.reference != 0
        is_changed |= variant == "smaller" and self.reference not in (None, 0)
        if is_changed and not is_good and "missing input" not in found:
            self.facts["refused"] = f"{variant}: {found}"
            return None if self.left else f"slow: but with {variant}: {found}"
        return f"{found} ({variant})"

    def stop(self, reason):
        """Ends the program."""
        self.kill()
        self.found = f"slow: {reason}"

    def kill(self):
        """Kills all processes of the program."""
        if self.process:
            CLOCK.signal(self.process.pid, signal.SIGKILL)
            os.wait4(self.process.pid, 0)

    def report(self):
        """Returns what is written of the program."""
        line = {"suite": self.suite, "program": self.name, "found": self.found, **self.facts}
        for name in ["run", "gpu"]:
            for file in [name, f"{name}.err"]:
                line[file] = read(self.program.logs / file, 900).strip()
        line["reports"] = read(self.program.logs / "reports", 6000)
        if self.found.startswith("excluded: does not compile"):
            line["log"] = read(self.program.logs / "build.txt", 1500)
        return line


def run_all(options, jobs):
    """Runs all programs, those first that have had the fewest turns."""
    waiting, left, lock = queue.PriorityQueue(), [len(jobs)], threading.Lock()
    for number, job in enumerate(jobs):
        waiting.put((0, number, job))

    def work():
        while left[0]:
            try:
                turn, number, job = waiting.get(timeout=0.3)
            except queue.Empty:
                continue
            try:
                if time.monotonic() > options.until:
                    job.stop(f"not ended: {job.facts.get('cpu', 0):.0f} s of processor time")
                elif not job.run():
                    waiting.put((job.turn, number, job))
                    continue
            except Exception as error:  # noqa: BLE001, the others go on
                job.found = f"fail: the script: {error!r}"
            with lock:
                left[0] -= 1
                print(f"{job.suite} {job.name}: {job.found} {job.facts}", flush=True)
                if options.results and hasattr(job, "program"):
                    with open(options.results, "a") as file:
                        file.write(json.dumps(job.report()) + "\n")

    threads = [threading.Thread(target=work) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def kind(found):
    """Returns what is in front of the reason."""
    return re.split(r":| \(", found)[0]


def compared(options, suite, found):
    """Writes the list of a suite, or returns where the outcomes differ from it."""
    file = HERE / f"{suite}.txt"
    lines = file.read_text().splitlines() if file.exists() else []
    listed = dict(line.split(" ", 1) for line in lines if line and line[0] != "#")
    if options.record:
        merged = sorted({**listed, **found}.items())
        head = "# Programs and their outcomes, which `cargo xtask suites` compares.\n"
        file.write_text(head + "".join(f"{name} {one}\n" for name, one in merged))
        return []
    differences = []
    for name, one in found.items():
        # A program that is not listed must end well, unless it is excluded.
        known = listed.get(name, "excluded")
        # Without a GPU, a program that fails on one, too, fails here.
        is_expected = name in listed and kind(known) == "excluded"
        fine = kind(one) in GOOD or kind(one) == kind(known) or is_expected
        if not fine:
            differences.append(f"{suite} {name}: {one} (listed: {listed.get(name, 'nothing')})")
    return differences


def main():
    parser = argparse.ArgumentParser(prog="cargo xtask suites")
    parser.add_argument(
        "folder", type=lambda text: pathlib.Path(text).resolve(), help="the folder of the checkouts"
    )
    parser.add_argument("suites", nargs="*", help="SUITE or SUITE:PROGRAM")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="chooses HeCBench's programs")
    parser.add_argument("--some", type=int, default=150, help="of HeCBench's programs")
    parser.add_argument("--given", action="store_true", help="repeat as often as given")
    parser.add_argument("--list", type=pathlib.Path, help="a file of all HeCBench's programs")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--tools", type=pathlib.Path, help="the folder of built commands")
    parser.add_argument("--install", type=pathlib.Path, help="install nvcc and CMake here")
    parser.add_argument("--gpu", help="the folder of NVIDIA's runtime library; each runs on a GPU")
    parser.add_argument("--gpus", type=int, default=1, help="how many GPUs there are")
    parser.add_argument("--deadline", type=int, default=10**6, help="seconds for all")
    turns = [10, 40, 120]
    parser.add_argument("--turns", type=int, nargs=3, default=turns, help="processor time of each turn")
    parser.add_argument("--build-seconds", type=int, default=900, help="for each program")
    parser.add_argument("--logs", type=pathlib.Path, default=ROOT / "target/suites")
    parser.add_argument("--results", type=pathlib.Path, help="a file for lines of JSON")
    parser.add_argument("--seconds", type=int, default=60, help="for each run of a judge's case")
    parser.add_argument("--record", action="store_true", help="write the lists")
    options = parser.parse_args()
    options.until = time.monotonic() + options.deadline
    for _ in range(4 * options.gpus - 4):
        GPUS.release()
    if options.install and not installed(options.install.resolve()):
        print("nvcc cannot be installed, so its programs are left out")
        return
    options.tools = (options.tools or tools()).resolve()
    toolkit(options.tools)
    if options.suites[:1] == ["judges"]:
        sys.exit(judges.run(options))
    jobs = [Job(options, suite, name) for suite in SUITES for name in chosen(options, suite)]
    run_all(options, jobs)
    differences = []
    for suite in SUITES:
        found = {job.name: job.found for job in jobs if job.suite == suite}
        if found:
            counts = {}
            for one in found.values():
                counts[kind(one)] = counts.get(kind(one), 0) + 1
            print(f"{suite}: {len(found)} programs: {counts}", flush=True)
            differences += compared(options, suite, found)
    print("\n".join(differences))
    sys.exit(1 if differences else 0)


main()
