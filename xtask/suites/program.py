"""One program of a suite: what excludes it, how it is built and run, and what its output says."""

import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import threading

HERE = pathlib.Path(__file__).parent

# What a script finds in the sources of a program, with the reason for which it is left out.
EXCLUDED = {
    r"cublas|CUBLAS": "links cuBLAS",
    r"cufft|CUFFT": "links cuFFT",
    r"cusparse|CUSPARSE": "links cuSPARSE",
    r"lcurand|curand\w*\.h[>\"]|CUDA::curand": "links cuRAND",
    r"cusolver|CUSOLVER": "links cuSOLVER",
    r"lnccl|nccl\.h": "links NCCL",
    r"cudnn|nvjpeg|CUDA::npp|lnpp|lcutensor|cutlass/|nvJitLink": "links another library of NVIDIA",
    r"\bmpi\.h[>\"]": "needs MPI",
    r"GL/gl|GL/glew|glut|freeglut|vulkan|EGL/|DirectX|d3d1|GLFW": "needs a graphics library",
    r"cudaIpc|cuIpc|MemExportToShareable": "refused by name: memory shared by IPC",
    r"cudaMipmapped|cudaMallocMipmapped|cudaArrayCubemap|texCubemap": (
        "refused by name: cube maps and mipmaps"
    ),
    r"lcudadevrt|cudaStreamTailLaunch|cudaStreamFireAndForget|CUDA_SEPARABLE_COMPILATION ON[^#]*cdp": (
        "refused by name: dynamic parallelism"
    ),
}
CODE = {".cu", ".cuh", ".h", ".hpp", ".cpp", ".c", ".config"}
KINDS = {".cu", ".cuh", ".h", ".hpp", ".cpp", ".c", ".cc", ".txt", ".mk", ".inc"}
REFUSED = "is not supported by the simulated device|cannot run on the simulated device"
REFUSED += "|the image is machine code"
MISSING = "No such file|(annot|not able to|ould not|ailed to|nable to) (open|find|access)|rror opening"
MISSING += "|not found|input file|not opened for reading"
FAILED = r"\bFAIL(ED|URE)?\b|[Mm]ismatch|MISMATCH|erification failed|Test failed|INCORRECT"
PASSED = r"\bPASS(ED)?\b|[Pp]assed|[Ss]uccess|SUCCESS|\bOK\b|[Cc]orrect|VALID"
# What counts repetitions of the same work, which a program does only to take times.
REPEATS = r"\b(?i:\w*(?:repeat|repetition|iteration|niter|num_iter|reps|loops|nruns|num_runs|passes|trials|runs)\w*)"
# Lines that differ from run to run, or from device to device.
UNSTEADY = (
    r"(?i)time|second|done in|memcopy:|\(s\)|efficiency|memory usage|\b\d*\.?\d+(e[+-]\d+)? ?[mun]?s\b|/s\b|/sec|took|[GM]?flop|bandwidth|throughput|elapsed|speed"
    r"|\brate|perf|device|gpu|clock|cycle|driver|compute capability|\bSMs?\b|multiprocessor|latency"
    r"|LAUNCHER|millstream|make(\[\d\])?:|ns\b|pid|0x[0-9a-f]+"
)
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


# The programs of this repository share a folder.
BUILDS = threading.Lock()


def divided(text, by, least=0):
    """Returns a number divided, with its factors of two as far as they go up to 4096 / `by`. With
    `least`, smaller numbers stay, and those that are not round."""
    base, _, shift = text.partition("<<")
    number = int(base) << int(shift or 0)
    is_round = number % 100 == 0 or number % 32 == 0
    if number < least or (least and not is_round) or number >= 1 << 30:
        return text
    unit = min(number & -number, max(4096 // by, 32))
    return str(max(number // by // unit, 1) * unit)


def sizes():
    """Returns the programs that `sizes.txt` lists, with their arguments."""
    lines = (line.partition(" ") for line in read(HERE / "sizes.txt").splitlines())
    return {name: arguments for name, _, arguments in lines if name != "#"}


def large(by, text):
    """Returns the arguments of a command with its large numbers divided."""
    return re.sub(r"(?<![\w.])\d{4,}(?![\w.])", lambda it: divided(it[0], by), text)


def read(path, limit=200_000):
    """Returns the text of a file, at most its first and last bytes."""
    if not path.exists():
        return ""
    data = path.read_bytes()
    if len(data) > limit:
        data = data[: limit // 2] + b"\n...\n" + data[-limit // 2 :]
    return data.replace(b"\0", b"").decode(errors="replace")


def steady(text):
    """Returns the lines that do not tell times, rates or devices."""
    lines = (re.sub(r"\s+", " ", re.sub(r"\x1b\[[\d;]*m", "", line)).strip() for line in text.split("\n"))
    return [line for line in lines if line and not re.search(UNSTEADY, line)]


def difference(ours, theirs):
    """Returns nothing if two outputs are the same, "" if only digits of rounding differ, or the
    first lines that do."""
    ours, theirs = steady(ours), steady(theirs)
    # Blocks print in any order.
    if sorted(ours) == sorted(theirs):
        return None
    found = None
    for one, other in zip(ours + [""] * len(theirs), theirs + [""] * len(ours)):
        if one == other:
            continue
        numbers, others = re.findall(NUMBER, one), re.findall(NUMBER, other)
        near = re.sub(NUMBER, "#", one) == re.sub(NUMBER, "#", other) and all(
            abs(float(a) - float(b)) <= 1e-3 * max(abs(float(a)), abs(float(b)), 1e-3)
            for a, b in zip(numbers, others)
        )
        if not near:
            return f"{one[:150]} | {other[:150]}"
        found = ""
    return found


class Program:
    """A program of a suite. `logs` is a folder of its own."""

    def __init__(self, options, suite, name):
        self.options, self.suite, self.name = options, suite, name
        root = HERE / "own" if suite == "own" else options.folder / suite
        inside = {"HeCBench": "src", "gpu-rodinia": "cuda", "cuda-samples": "Samples"}
        inside["cutlass"] = "examples"
        self.folder = root / inside[suite] / name if suite in inside else root
        if suite == "cutlass":
            self.folder = self.folder.parent
        self.logs = options.logs / f"{suite}-{re.sub('[/ ]', '-', name)}"
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir(parents=True)
        self.command = self.on_gpu = None
        self.tools, self.is_managed = options.tools, False
        path = f"{self.tools}:{self.tools}/toolkit/bin:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path}
        self.environment |= {"MAKEFLAGS": "", "TERM": "dumb"}
        # Where a toolkit has `libcuda.so` for the linker.
        self.environment["LIBRARY_PATH"] = str(self.tools / "toolkit/lib64/stubs")
        # Each program is one of several, and has one core.
        self.environment |= {"RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

    def sources(self):
        """Returns the text of all sources."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        chosen = (path for path in files if path.suffix in KINDS or path.name.startswith("Makefile"))
        return "\n".join(read(path, 1_000_000) for path in chosen)

    def excluded(self):
        """Returns why a script leaves the program out, if it does."""
        if self.suite in ("own", "ggml", "cutlass"):
            return None
        if not self.folder.is_dir():
            return "no such folder"
        text = self.sources()
        self.is_managed = bool(re.search(r"cudaMallocManaged|__managed__", text))
        for pattern, reason in EXCLUDED.items():
            if reason and re.search(pattern, text):
                return reason
        if self.suite == "cuda-samples" and re.search(r"\bcdp|CDP", text) and "cdp" in self.name:
            return "refused by name: dynamic parallelism"
        if self.suite == "gpu-rodinia":
            script = next((path for path in self.folder.glob("run*") if path.is_file()), None)
            if script is None:
                return "no script that runs it"
            self.command = ["bash", f"./{script.name}"]
            lines = (line for line in script.read_text().split("\n") if not line.startswith("#"))
            for file in re.findall(r"(?:\.\./)+data/\S+", "\n".join(lines)):
                if not (self.folder / file).exists():
                    return f"missing input {file}"
        return None

    def steps(self, architecture, folder):
        """Returns the commands that build it in a folder."""
        tools, toolkit = self.tools, self.tools / "toolkit"
        if self.suite == "HeCBench":
            variables = ["CC=millstream-nvcc", "NVCC=millstream-nvcc", f"ARCH={architecture}"]
            self.command = ["make", "run", *variables]
            return [["make", "clean"], ["make", *variables]]
        if self.suite == "gpu-rodinia":
            # CUDA 13 has the older names no more.
            renamed = ["cudaThreadSynchronize=cudaDeviceSynchronize", "cudaThreadExit=cudaDeviceReset"]
            self.environment["NVCC_PREPEND_FLAGS"] = " ".join(f"-D{name}" for name in renamed)
            nvcc = toolkit / "bin/nvcc"
            folders = {"CUDA_DIR": toolkit, "SDK_DIR": toolkit, "CUDA_LIB_DIR": toolkit / "lib64"}
            names = {**folders, "CC": nvcc, "NVCC": nvcc, "LINKER": nvcc}
            return [["make", *(f"{name}={value}" for name, value in names.items())]]
        if self.suite == "ggml":
            build = os.environ["GGML_BUILD"]
            self.command = [f"{build}/bin/test-backend-ops", "test", "-b", "CUDA0", "-o", self.name]
            return []
        if self.suite == "cutlass":
            root, program = self.folder.parent.parent, self.logs / "program"
            self.command = [program, *sizes().get(self.name, "").split()]
            folders = [f"-I{root / it}" for it in ("include", "tools/util/include", "examples/common")]
            source = f"{self.name.rpartition('/')[2]}.cu"
            nvcc = ["millstream-nvcc", "-std=c++17", "-arch=sm_80", "--expt-relaxed-constexpr"]
            return [[*nvcc, *folders, source, "-o", program]]
        library = [tools / "millstream-nvcc", "--millstream-library"]
        library = subprocess.run(library, capture_output=True, text=True, check=True).stdout.strip()
        # Samples look for their data beside the folder that they are built in.
        build = (self.options.logs if self.suite == "own" else folder) / "build"
        first = ["cmake", "-S", ".", "-B", build]
        first += [f"-DCMAKE_CUDA_COMPILER={tools}/millstream-nvcc"]
        first += [f"-DCUDA_cudart_static_LIBRARY={library}"]
        second = ["cmake", "--build", build]
        if self.suite == "own":
            name, *arguments = self.name.split()
            self.command = [build / name, *arguments]
            return [first, [*second, "--target", name]]
        name = self.name.rpartition("/")[2]
        known = self.options.folder / "cuda-samples/test_args.json"
        known = json.loads(known.read_text()).get(name, {})
        arguments = known.get("args") or known.get("runs", [{}])[0].get("args", [])
        self.command = [f"./{name}", *arguments]
        return [first, second]

    def variants(self):
        """Returns the ways to run it, largest first, each with a name, a folder and a command: as its
        authors do; unless a script finds numbers of repetitions, in its arguments or its sources; and
        with smaller sizes, those of `sizes.txt` or large numbers divided."""
        self.steps("sm_75", self.folder)
        given = ("", self.folder, self.command)
        if self.suite not in ("HeCBench", "cuda-samples", "gpu-rodinia") or self.options.given:
            return [given]
        if self.suite == "gpu-rodinia":
            script = read(self.folder / self.command[1])
            smaller = self.smaller(self.folder, lambda by: ["bash", "-c", large(by, script)], [given])
            return [given, *smaller]
        once = self.copied("once", self.single)
        if self.suite == "cuda-samples":
            values = sizes().get(self.name)
            if values:
                folder = self.copied("smaller", functools.partial(self.assigned, values), once)
                return [("smaller", folder, self.command)]
            found = [given] if once == self.folder else [given, ("repeat 1 in sources", once, self.command)]
            return found + self.smaller(once, lambda by: self.command, found)
        given_lines = self.lines()
        lines = [self.once(line) for line in given_lines]
        command = ["sh", "-ec", "\n".join(lines)]
        found = [given] if lines == given_lines else [("repeat 1", self.folder, command)]
        last = []
        if once != self.folder:
            found, last = [("repeat 1 in sources", once, command)], [given]
        arguments = sizes().get(self.name)
        if arguments is not None:
            folder = self.copied("smaller", functools.partial(self.assigned, arguments), once)
            arguments = re.sub(r"\w+:=\S+ ?", "", arguments)
            command = lines if arguments == "..." else [f"./main {arguments}"]
            return [*found, ("smaller", folder, ["sh", "-ec", "\n".join(command)]), *last]

        def commands(by):
            return ["sh", "-ec", "\n".join(self.divided_arguments(by, line) for line in lines)]

        return found + self.smaller(once, commands, [*found, ("", once, command)]) + last

    def smaller(self, folder, command, known):
        """Returns the ways to run it with smaller sizes, from a folder and a command for a divisor."""
        found = []
        for name, by, change in [
            ("sizes / 16", 16, self.divided_sizes),
            ("sizes / 256", 256, self.divided_sizes),
            ("all numbers / 16", 16, self.divided_numbers),
            ("all numbers / 64", 64, self.divided_numbers),
        ]:
            copy = self.copied(name.replace(" / ", "-").replace(" ", "-"), change(by), folder)
            way = (copy, command(by))
            if way not in [one[1:] for one in [*known, *found]]:
                found.append((name, *way))
        return found

    def lines(self):
        """Returns the commands of `make run`."""
        make = [*self.command, "-n", "LAUNCHER="]
        said = subprocess.run(make, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        lines = (" ".join(line.split()) for line in said.stdout.replace("\\\n", " ").splitlines())
        return [line for line in lines if not re.match(r"(\S*nvcc|g\+\+|gcc|make\S*)\s", line)]

    def copied(self, kind, change, source=None):
        """Returns a folder beside the program's with changed sources, or `source`, the program's own
        or another like it, if none changes."""
        source = source or self.folder
        texts = {path: read(path, 10**7) for path in source.rglob("*") if path.suffix in CODE}
        changed = {path: change(text) for path, text in texts.items()}
        if changed == texts:
            return source
        folder = self.folder.with_name(f"{self.folder.name}.{kind}")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder, symlinks=True, ignore=shutil.ignore_patterns("build"))
        for path, text in changed.items():
            if text != texts[path]:
                (folder / path.relative_to(source)).write_text(text)
        return folder

    def single(self, text):
        """Returns a source with 1 in the place of constants that count repetitions."""
        before = rf"[ \t]*#[ \t]*define[ \t]+{REPEATS}[ \t]+|.*{REPEATS}[ \t]*=[ \t]*|{REPEATS} "
        text = re.sub(rf"(?m)^({before})(\d{{2,}})\b", r"\g<1>1", text)
        # A loop that only launches the same kernel again.
        loop = r"(for \(\w+ (\w+) = 0; \2 < )\d{2,}(; (?:\2\+\+|\+\+\2)\)\s*\{?\s*\w+(?:<[^<>]*>)?\s*<<<)"
        return re.sub(loop, r"\g<1>1\3", text)

    def assigned(self, arguments, text):
        """Returns a source with other values for constants: `NAME:=VALUE` among the arguments."""
        for name, value in re.findall(r"(\w+):=(\S+)", arguments):
            text = re.sub(rf"(?m)^([ \t]*#[ \t]*define[ \t]+{name}[ \t]+)[^/\n]+", rf"\g<1>{value} ", text)
            text = re.sub(rf"(\b{name}[ \t]*=[ \t]*|\b{name}\()[^;)\n]+", rf"\g<1>{value}", text)
        return text

    def divided_arguments(self, by, text):
        """Returns a command with its large numbers divided."""
        head, main, rest = text.partition("./main")
        return head + main + large(by, rest)

    def divided_sizes(self, by):
        """Returns what divides the large constants of a source: round numbers, since others are
        constants of a generator, or bits of a floating-point number."""
        before = r"[ \t]*#[ \t]*define[ \t]+\w+[ \t]+|[ \t]*(?:const\w*[ \t]+)?(?:unsigned[ \t]+)?"
        before += r"(?:int|long|size_t|uint|unsigned)[ \t]+\w+[ \t]*=[ \t]*"
        constant = rf"(?m)^({before})(\d{{5,9}}|1[ \t]*<<[ \t]*[12]\d)\b"
        return lambda text: re.sub(constant, lambda it: it[1] + divided(it[2], by, 1 << 16), text)

    def divided_numbers(self, by):
        """Returns what divides all round numbers of a source from 300, but for those of its blocks."""
        other = r"#\s*if|0x|(?i:block|thread|seed|time|printf|rand|char|copyright)|%|^\s*(//|\*)"

        def change(line):
            if re.search(other, line):
                return line
            return re.sub(r"(?<![\w.])\d{3,9}(?![\w.])", lambda it: divided(it[0], by, 300), line)

        return lambda text: "\n".join(map(change, text.split("\n")))

    def once(self, line):
        """Returns a command with 1 in the place of a number of repetitions."""
        words = line.split()
        places = [index for index, word in enumerate(words) if re.search(r"(^|/)main$", word)]
        if not places:
            return line
        start, text = places[0], re.sub(r'"\s*"', "", self.sources())
        converted = REPEATS + r"\s*=\s*[\w:<>()]*\(\s*argv\[(\d)\]"
        found = {int(it) for it in re.findall(converted, text)}
        for usage in re.findall(r"(?i)usage[^\"<]*((?:<[^>\"]+>[^<\"]*)+)", text):
            names = re.findall(r"<([^>]+)>", usage)
            if len(names) == len(words) - start - 1:
                found |= {index for index, name in enumerate(names, 1) if re.search(REPEATS, name)}
        for index in found:
            if start + index < len(words) and words[start + index].isdigit():
                words[start + index] = "1"
        return re.sub(r"(-runs|--repeat|--iterations) \d+", r"\1 1", " ".join(words))

    def build(self, folder):
        """Builds the program in a folder, where it will run. Returns why it cannot be, if so."""
        with BUILDS if self.suite == "own" else contextlib.nullcontext():
            return self.built(folder)

    def built(self, folder):
        for architecture in ["sm_75", "sm_90"]:
            said = ""
            for step in self.steps(architecture, folder):
                with open(self.logs / "build.txt", "wb") as log:
                    try:
                        done = subprocess.run(
                            step, cwd=folder, env=self.environment, stdout=log, stderr=log,
                            stdin=subprocess.DEVNULL, timeout=self.options.build_seconds,
                        ).returncode
                    except subprocess.TimeoutExpired:
                        return f"compiling takes more than {self.options.build_seconds} s"
                    except OSError as error:
                        return f"does not compile: {error}"
                if done != 0 and step[-1] != "clean":
                    text = read(self.logs / "build.txt")
                    first = re.search(f"(?m)^.*({MISSING}|cannot find).*$", text)
                    first = first or re.search(r"(?mi)^.*(error|fatal).*$", text)
                    said = f"does not compile: {first[0].strip()[:160] if first else done}"
                    break
            if not said or self.suite != "HeCBench" or "No such file" in said:
                break
        self.place = folder
        if not said and self.suite == "cuda-samples":
            self.place = folder / "build"
            if not (self.place / self.command[0]).exists():
                said = "does not compile: its build makes no program"
        return said or None

    def start(self, name, command):
        """Starts the program in a session of its own, and returns it. `name` is that of its output:
        `run` is on the simulated device."""
        command, environment = list(map(str, command)), self.environment
        if name == "run":
            options = ["--quiet", "--annotate=never", "--exit-code=0", f"--json={self.logs}/reports"]
            options += [f"--memory={os.environ.get('MEMORY', '64G')}"]
            command = [self.tools / "millstream", "run", *options, "--", *command]
        else:
            folder = self.options.gpu
            environment = {**environment, "LD_LIBRARY_PATH": folder}
            if self.options.gpus > 1:
                environment["CUDA_VISIBLE_DEVICES"] = str(hash(self.name) % self.options.gpus)
        with open(self.logs / name, "wb") as out, open(self.logs / f"{name}.err", "wb") as err:
            return subprocess.Popen(
                command, cwd=self.place, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            )

    def is_steady(self):
        """Returns whether the program says once more on a GPU what it has said there."""
        try:
            self.start("again", self.on_gpu).wait(30)
        except subprocess.TimeoutExpired:
            return True
        return difference(self.said("again")[0], self.said("gpu")[0]) is None

    def said(self, name):
        """Returns the output of a run."""
        return read(self.logs / name), read(self.logs / f"{name}.err")

    def operation(self, out, err, code):
        """Returns the outcome of one operation of ggml's tests."""
        out = re.sub(r"\x1b\[[\d;]*m", "", out)
        fine, wrong = (len(re.findall(f": {end}$", out, re.M)) for end in ["OK", "FAIL"])
        # The last lines name the backend and the whole.
        fine -= len(re.findall("Backend .*: OK$", out, re.M))
        counts = f"{fine} right, {out.count('not supported [')} not supported by ggml"
        if wrong:
            return f"fail: {wrong} wrong, {counts}"
        if code == 0:
            return f"pass: {counts}" if fine else f"ends: {counts}"
        needs = {"wmma|\\bmma\\b|ldmatrix": "matrix instructions", "cublas|cuBLAS|CUBLAS": "cuBLAS"}
        for pattern, reason in needs.items():
            line = re.search(f"(?m)^.*({pattern}).*$", err)
            if line:
                return f"excluded: needs {reason}, {counts} before: {line[0].strip()[:120]}"
        return f"fail: status {code}, {counts}: {err.strip()[-200:]!r}"

    def own(self, said):
        """Returns the outcome of a program of this repository."""
        said += read(self.logs / "reports")
        lines = read(self.folder / "expected.txt").splitlines()
        expected = {line.split()[0]: line.split()[1:] for line in lines}
        mark = self.name.split()[-1]
        wanted = expected.get(mark, ["PASSED"])
        source = enumerate(read(self.folder / "orders.cu").splitlines(), 1)
        wanted = wanted + [f"orders.cu:{number} " for number, line in source if f"// {mark}" in line]
        missing = [text for text in wanted if text not in said]
        unwanted = len(wanted) == 1 and "problem" in self.said("run")[1]
        return f"fail: {missing}, {said.strip()[-300:]!r}" if missing or unwanted else "pass"

    def judged(self, code, reference):
        """Returns the outcome of a run that ended with `code`; `reference` is that on a GPU."""
        out, err = self.said("run")
        both = out + "\n" + err

        def first(pattern):
            line = re.search(f"(?m)^.*({pattern}).*$", both)
            return line[0].strip()[:160] if line else ""

        if self.suite == "ggml":
            return self.operation(out, err, code)
        if self.suite == "own":
            return self.own(both)
        theirs = "\n".join(self.said("gpu")) if reference is not None else ""
        if re.search(REFUSED, both):
            return f"excluded: refused by name: {first(REFUSED)}"
        if code != 0 and reference != 0 and re.search(MISSING, both + theirs):
            return f"excluded: missing input: {first(MISSING)}"
        if code == 2 and self.suite == "cuda-samples" and re.search("[Ww]aiv|not support", both):
            return f"excluded: the program waives: {first('[Ww]aiv|not support')}"
        same = difference(out, self.said("gpu")[0]) if reference == 0 else "not run"
        is_steady = not same or reference != 0 or self.is_steady()
        if code != 0:
            if reference not in (None, 0):
                return f"excluded: fails on a GPU, too: status {reference}"
            return f"fail: status {code}: {first('millstream:|rror|FAIL|ssert|what|ismatch')}"
        if reference not in (None, 0):
            return f"ends: status {reference} on a GPU"
        if same is None:
            return "pass: same output" if re.search(PASSED, both) else "same"
        if re.search(FAILED, both):
            if theirs and re.search(FAILED, theirs):
                return "same: its check fails on a GPU, too"
            return f"fail: its check: {first(FAILED)}"
        if re.search(PASSED, both):
            return "pass"
        if same == "":
            return "same: but for rounding"
        if not is_steady:
            return "ends: two runs on a GPU differ, too"
        return "ends" if reference is None else f"differs: {same}"
