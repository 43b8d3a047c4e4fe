"""`cargo xtask suites FOLDER judges [SUITE[:CASE]…]`: suites of programs whose races are known.

Each case has a label: `racy`, `clean`, or `fails` for another error than a race. A racy case must
have a report of a race or of a wrong synchronisation, at least as a note, and a clean one no error
of these. `judges.txt` lists cases whose labels are wrong, with the reason, found by reading the
kernel.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import queue
import random
import re
import subprocess
import sys
import threading
import time

from program import HERE, read

OWN = (HERE / "judges").resolve()
# What is a report of a race or of a wrong synchronisation.
RACES = ["SharedMemoryRace", "GlobalMemoryRace", "Race", "HostRace"]
FOUND = frozenset([*RACES, "DivergentBarrier", "SyncOperands"])
STUCK = "deadlock|no block has ended|next to the null pointer"


@dataclasses.dataclass
class Case:
    """A kernel or a program with its label, the arguments of nvcc, and those of the run."""

    suite: str
    name: str
    label: str
    source: pathlib.Path
    flags: list = dataclasses.field(default_factory=list)
    arguments: list = dataclasses.field(default_factory=list)
    excluded: str = ""
    # A kernel's call and dimensions, if the source has no program.
    launch: list = dataclasses.field(default_factory=list)
    # Other arguments, for a case without a report.
    others: list = dataclasses.field(default_factory=list)
    # The kinds of report that tell what is wrong.
    kinds: frozenset = FOUND
    # What the program reads from its standard input.
    given: str = ""


def nvidia(folder):
    """NVIDIA's samples of compute-sanitizer."""
    for folder_name, *kinds in [
        ("Racecheck", *RACES), ("Synccheck", "DivergentBarrier", "SyncOperands"),
        ("Memcheck", "KernelFault"), ("Initcheck", "UninitialisedRead"),
    ]:
        for source in sorted((folder / folder_name).glob("*.cu")):
            name, kinds = "compute-sanitizer-samples", frozenset(kinds)
            yield Case(name, source.stem, "racy", source, kinds=kinds)


def scor(folder):
    """ScoR's programs: races by scopes, locks and fences."""
    for source in sorted((folder / "microbenchmarks/src").glob("*.cu")):
        label = "clean" if source.stem.startswith("norace") else "racy"
        yield Case("ScoR", source.stem, label, source)
    for name, blocks, threads, *given in scor_inputs():
        source, kernels = (folder / "benchmarks" / it for it in name)
        for label, flags in [("clean", []), ("racy", ["-DRACEY"])]:
            flags = [f"-DNBLOCKS={blocks}", f"-DNTHREADS={threads}", *flags]
            flags += ["-I", source.parent, *([kernels] if "red_" not in kernels.name else [])]
            if kernels.name.startswith("mm_"):
                flags += ["-include", OWN / "zeroed.h"]
            text = " ".join(map(str, given))
            name = f"{source.parent.name}-{label}"
            yield Case("ScoR", name, label, source, flags, given=text)


def scor_inputs():
    """Returns ScoR's larger programs, with few blocks and small inputs: sources, blocks, threads and
    the input."""
    some = random.Random(1)
    edges = [sorted(some.sample(range(600), 2)) for _ in range(1200)]
    graph = [600, len(edges), *(end for edge in edges for end in edge)]
    matrices = [some.randrange(9) for _ in range(2 * 80 + 80 * 40)]
    return [
        (sources("1dconv", "1dconv"), 3, 64, 5, 500, *(some.randrange(9) for _ in range(505))),
        (sources("graph-coloring", "gcol"), 4, 64, *graph),
        (sources("graph-connectivity", "gcon"), 4, 64, *graph),
        (sources("matrix-multiplication", "mm"), 4, 64, 2, 80, 40, *matrices),
        (sources("reduction", "red"), 4, 256, 3000, *(it % 7 for it in range(3000))),
        (sources("rule-110", "r110"), 3, 64, 400, 2, *(some.randrange(2) for _ in range(400))),
        (sources("uts", "uts"), 2, 64, 2, 2, 7),
    ]


def sources(folder, name):
    """Returns the two sources of one of ScoR's larger programs."""
    return [f"{folder}/{name}_main.cu", f"{folder}/{name}_kernel.cu"]


def indigo(folder):
    """Indigo's patterns of graphs, as HiRace's authors generated them, but for wrong bounds."""
    for source in sorted((folder / "indigo/indigo_sources").glob("*/*.cu")):
        if "boundsBug" not in source.stem:
            label = "racy" if "Bug" in source.stem else "clean"
            graph = folder / "indigo/input/counterDAG_200n_1000e.egr"
            flags = ["-I", folder / "indigo/indigo_include"]
            yield Case("HiRace", source.stem, label, source, flags, [graph, 64, 200])


def indigo3(folder):
    """Algorithms of graphs, generated: those without a fault and those with races alone."""
    for source in sorted(folder.glob("gen*/CUDA/*/*.cu")):
        bugs = (it for it in source.stem.split("_") if it.endswith("Bug"))
        wrong = {it for it in bugs if not it.startswith("No")}
        if wrong <= {"RaceBug", "SyncBug"}:
            # The larger one needs several blocks.
            graphs = ["uniform_degree_250n_2000e", "4max_degree_750n_2356e"]
            weighted = [1, 0] if re.search("^(BFS|SSSP)", source.stem) else [1]
            arguments = [[folder / f"inputs/undirect_{it}.egr", *weighted] for it in graphs]
            label = "racy" if wrong else "clean"
            # CUDA 13 has these members no more, which are only printed.
            flags = ["-I", folder / "lib", "-DclockRate=major", "-DmemoryClockRate=major"]
            first, *others = arguments
            yield Case("Indigo3", source.stem, label, source, flags, first, others=others)


def gpuverify(folder):
    """GPUVerify's kernels, which name their grid."""
    root = folder / "testsuite/CUDA"
    for source in sorted(root.glob("**/*.cu")):
        name = str(source.parent.relative_to(root))
        yield annotated("gpuverify", name, source)


def annotated(suite, name, source, blocks=1, threads=1):
    """Returns a kernel with the grid that its comments name, at most 1,024 threads in 16 blocks."""
    text = read(source)
    head = text.split("\n")[0].strip()
    label = "clean" if re.search("pass", head, re.I) else "racy"
    excluded = ""
    if label == "racy" and "NOT_ALL_VERIFIED" not in head.upper():
        excluded = f"expects {head[2:]}"
    expected = "\n".join(line for line in text.split("\n") if line.startswith("//"))
    other = "assert|requires|invariant|null|constant memory|0-sized|array bound|function pointer"
    if label == "racy" and re.search(other, expected) and "race" not in expected:
        excluded = "expects an error that is no race"
    if label == "racy" and "__assert(" in text and "race" not in expected:
        excluded = "expects a failed assertion"
    if "__axiom" in text:
        excluded = "assumes axioms"
    if "curand" in text:
        excluded = "needs cuRAND"

    def dimension(option, default):
        found = re.search(rf"--{option}=\[?([\d,]+)", text)
        return [int(it) for it in found[1].split(",")] if found else [default]

    grid, block = dimension("gridDim", blocks), dimension("blockDim", threads)
    while product(block) > 1024:
        block[block.index(max(block))] //= 2
    while product(grid) > 16:
        grid[grid.index(max(grid))] //= 2
    call = "cuLaunchCooperativeKernel" if "grid_group" in text else "cuLaunchKernel"
    grid, block = (",".join(map(str, it)) for it in (grid, block))
    numbers = {int(it) for it in re.findall(r"(?<![\w.])\d{1,4}(?![\w.])", text)}
    values = [1, *sorted({0, 2, 64, *numbers} - {1})][:12]
    defines = re.findall(r"-D\w+(?:=\w+)?", expected)
    launch = [call, grid, block, *values]
    flags = ["-include", OWN / "annotations.h", *defines]
    return Case(suite, name, label, source, flags, [], excluded, launch)


def product(numbers):
    """Returns the product of dimensions."""
    whole = 1
    for one in numbers:
        whole *= one
    return whole


def esbmc(folder):
    """ESBMC's programs after PUG's and GPUVerify's. Most that fail have a wrong assertion."""
    for file in sorted((folder / "regression/cuda").glob("**/test.desc")):
        text, name = read(file), str(file.parent.relative_to(folder / "regression/cuda"))
        label, source = "clean" if "SUCCESSFUL" in text else "fails", file.parent / "main.cu"
        if label == "fails" and "data-racer" in name:
            label = "racy"
        excluded = "needs cuRAND" if "curand" in read(source) else ""
        flags = ["-include", OWN / "call_kernel.h", "-I", OWN]
        # Where a kernel fails first, its race is not reached.
        kinds = FOUND | {"KernelFault"} if label == "racy" else FOUND
        yield Case("esbmc-gpu", name, label, source, flags, [], excluded, kinds=kinds)


def faial(folder):
    """The kernels of Faial's tutorial: the names tell."""
    for source in sorted(folder.glob("**/*.cu")):
        case = annotated("faial", str(source.relative_to(folder).with_suffix("")), source, 4, 64)
        case.label = "racy" if re.match("racy|.*buggy|read-index$", source.stem) else "clean"
        case.excluded = ""
        yield case


def faial_drf(folder):
    """Faial's own tests, whose names tell what is so within a block."""
    unclear = {
        "macro": "is one test for each macro",
        "parse-gv": "is free of races within a block alone",
        "racy-device": "its array is a null pointer",
        "racy-2d": "its shared array has 4 MiB",
        "drf-field-in-param": "indexes by a field of a structure, which holds pointers here",
    }
    for source in sorted((folder / "examples/drf").glob("*.cu")):
        threads = {"drf-warp": 32, "racy-warp": 32, "drf-2d": 256}.get(source.stem, 64)
        case = annotated("faial-drf", source.stem, source, 1, threads)
        case.label = "clean" if source.stem.startswith("drf") else "racy"
        case.excluded = unclear.get(source.stem, "")
        if source.stem == "drf-enum-constraint":
            # The values of its enumeration.
            case.launch[3:] = [0, 1, 2]
        yield case


def algorithms(_folder):
    """This repository's uses of CUB, Thrust and cooperative groups: no false error."""
    for source in sorted((OWN / "algorithms").glob("*.cu")):
        yield Case("algorithms", source.stem, "clean", source, ["-std=c++17", "--extended-lambda"])


SUITES = {
    "compute-sanitizer-samples": nvidia, "ScoR": scor, "Indigo3": indigo3, "HiRace": indigo,
    "gpuverify": gpuverify, "esbmc-gpu": esbmc, "faial": faial, "faial-drf": faial_drf,
    "algorithms": algorithms,
}


class Judge:
    """Builds and runs cases."""

    def __init__(self, options):
        # Programs write files where they run.
        self.options, self.logs = options, (options.logs / "judges").resolve()
        self.logs.mkdir(parents=True, exist_ok=True)
        path = f"{options.tools}:{os.environ['PATH']}"
        self.environment = {**os.environ, "PATH": path, "RAYON_NUM_THREADS": "1"}

    def said(self, command, seconds, given=""):
        """Runs a command with an input. Returns its status, or none if it takes too long, and its output."""
        process = subprocess.Popen(
            list(map(str, command)), cwd=self.logs, env=self.environment, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        try:
            out, _ = process.communicate(given.encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return None, process.communicate()[0].decode(errors="replace")
        return process.returncode, out.decode(errors="replace")

    def outcome(self, case):
        """Returns the outcome of a case, and what was reported."""
        if case.excluded:
            return f"excluded: {case.excluded}", []
        random_order = [["--schedule=random", f"--seed={seed}"] for seed in [1, 2]]
        found = self.runs(case, "", "kernels", [[], *random_order])
        if case.label != "racy" or found[0] != "silent":
            return found
        for case.arguments in case.others:
            found = self.runs(case, "", "kernels", [[]])
            if found[0] != "silent":
                return found
        # A race without an effect on values is a note. The compiler may remove another.
        for debug, kind in [("", "reported as a note"), ("-G", "excluded: only in a debug build")]:
            other = self.runs(case, debug, "notes", [[]])
            if other[0].startswith("reported"):
                return f"{kind}: {other[0].partition(': ')[2]}", other[1]
        return found

    def built(self, case, debug):
        """Builds a case, unless it is built. Returns its file, and why it cannot be, if so."""
        logs = self.logs / case.suite
        logs.mkdir(exist_ok=True)
        built = logs / (re.sub(r"\W", "-", case.name) + debug)
        stamp = hashlib.sha1(f"{read(case.source)}{case.flags}".encode()).hexdigest()
        if read(built.with_suffix(".stamp")) != stamp:
            nvcc = [os.environ["MILLSTREAM_NVCC"], "-ptx"] if case.launch else ["millstream-nvcc"]
            flags = [debug or "-lineinfo", "-w", "-arch=sm_75", *case.flags]
            status, said = self.said([*nvcc, *flags, "-o", built, case.source], 300)
            if status != 0:
                first = re.search("(?mi)^.*error.*$", said)
                return built, f"does not compile: {first[0][-120:] if first else said[-120:]}"
            if case.launch and ".entry" not in read(built):
                return built, "has no kernel, or one that is a template"
            built.with_suffix(".stamp").write_text(stamp)
        return built, None

    def runs(self, case, debug, race, schedules):
        """Builds a case, and runs it with several schedules until there is a report."""
        built, reason = self.built(case, debug)
        if reason:
            return f"excluded: {reason}", []
        report = built.with_suffix(".json")
        command = [built, *case.arguments]
        if case.launch:
            command = [sys.executable, OWN / "launch.py", built, *case.launch]
        options = [f"--race={race}", "--annotate=never", "--exit-code=0", f"--json={report}"]
        options += [f"--steps={200_000 if case.launch else 1 << 22}"]
        found, problems = "silent", []
        for schedule in schedules:
            report.unlink(missing_ok=True)
            run = ["millstream", "run", *options, *schedule, "--", *command]
            status, said = self.said(run, self.options.seconds, case.given)
            built.with_suffix(".txt").write_text(said)
            lines = map(json.loads, read(report, 10**8).splitlines())
            problems = [one for line in lines for one in line["problems"]]
            if race != "notes":
                problems = [one for one in problems if one["severity"] == "error"]
            kinds = {one["kind"] for one in problems}
            if case.kinds & kinds or re.search(STUCK, said):
                return f"reported: {' '.join(sorted(kinds))}", problems
            if status is None:
                return f"slow: more than {self.options.seconds} s", problems
            if status != 0 or "KernelFault" in kinds:
                if re.search("undefined name|call through the pointer", said):
                    return "excluded: calls a function that it does not have", problems
                first = re.search("(?m)Assertion.*$", said)
                first = first or re.search("(?m)^.*(KernelFault|millstream:).*$", said)
                found = f"fails: {first[0][:160] if first else status}"
        return found, problems


def judged(label, outcome):
    """Returns whether the outcome is what the label says: right, excluded or wrong."""
    kind = outcome.split(":")[0]
    # A program's own assertion says nothing about races.
    if kind in ("excluded", "slow") or (label == "clean" and "fails: Assertion" in outcome):
        return "excluded"
    if label == "fails":
        return "right" if kind.startswith("reported") else "excluded"
    return "right" if kind.startswith("silent" if label == "clean" else "reported") else "wrong"


def chosen(options):
    """Returns the cases to run: at most `--some` of each suite and label."""
    named = [name.partition(":") for name in options.suites[1:]]
    cases = []
    for suite, list_cases in SUITES.items():
        folder = options.folder / suite
        if named and suite not in [it[0] for it in named]:
            continue
        if suite != "algorithms" and not folder.is_dir():
            continue
        found = list(list_cases(folder))
        only = [pattern for of, _, pattern in named if of == suite and pattern]
        if only:
            found = [case for case in found if any(re.fullmatch(it, case.name) for it in only)]
        for label in ["racy", "clean", "fails"]:
            those = [case for case in found if case.label == label]
            cases += random.Random(options.seed).sample(those, min(options.some, len(those)))
    return cases


def run(options):
    """Runs the suites, and returns an error status if an outcome is wrong and not listed."""
    lines = read(HERE / "judges.txt").splitlines()
    fields = (line.split(" ", 2) for line in lines if line and line[0] != "#")
    listed = {(suite, name): reason for suite, name, reason in fields}
    judge, results, waiting, lock = Judge(options), {}, queue.Queue(), threading.Lock()
    for case in chosen(options):
        waiting.put(case)

    def work():
        while time.monotonic() < options.until:
            try:
                case = waiting.get_nowait()
            except queue.Empty:
                return
            outcome, problems = judge.outcome(case)
            verdict, reason = judged(case.label, outcome), listed.get((case.suite, case.name), "")
            if verdict == "wrong" and reason:
                verdict = "disputed"
            with lock:
                results[case.suite, case.label, case.name] = verdict
                where = f"{case.suite} {case.name} ({case.label})"
                print(f"{verdict}: {where}: {outcome} {reason}", flush=True)
                if options.results:
                    line = {"suite": case.suite, "case": case.name, "label": case.label}
                    line |= {"verdict": verdict, "outcome": outcome, "problems": problems[:3]}
                    with open(options.results, "a") as file:
                        file.write(json.dumps(line) + "\n")

    threads = [threading.Thread(target=work) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for suite, label in sorted({key[:2] for key in results}):
        verdicts = [verdict for key, verdict in results.items() if key[:2] == (suite, label)]
        counts = {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))}
        print(f"{suite}, {label}: {counts}", flush=True)
    return 1 if "wrong" in results.values() else 0
