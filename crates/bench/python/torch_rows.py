"""Times a few of the benchmarks' targets through PyTorch and prints them as JSON; exit status 3 if there is no PyTorch with a GPU."""

import json
import statistics
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(3)
if not torch.cuda.is_available():
    sys.exit(3)

QUICK = "--quick" in sys.argv
MIB = 1 << 20


def median_ns(work, rounds, batch, rest=torch.cuda.synchronize):
    """The median time of `work` once, of `rounds` batches; `rest` follows each batch and is not counted."""
    rounds = max(rounds // 8, 1) if QUICK else rounds
    samples = []
    for number in range(rounds + 3):
        start = time.perf_counter_ns()
        for _ in range(batch):
            work()
        took = time.perf_counter_ns() - start
        rest()
        if number >= 3:
            samples.append(took / batch)
    return statistics.median(samples)


def launch_pair():
    """Two launches on two streams, the second of which needs the first."""
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    a, b, c, d = (torch.zeros(256, device="cuda") for _ in range(4))

    def work():
        with torch.cuda.stream(first):
            torch.add(a, b, out=c)
        second.wait_stream(first)
        with torch.cuda.stream(second):
            torch.add(c, b, out=d)

    return median_ns(work, 160, 100)


def upload_gb_per_s():
    """A pageable upload, until it is complete."""
    source = torch.ones(256 * MIB, dtype=torch.uint8)
    target = torch.zeros(256 * MIB, dtype=torch.uint8, device="cuda")

    def work():
        target.copy_(source)
        torch.cuda.synchronize()

    return 256 * MIB / median_ns(work, 16, 1)


def download_gb_per_s():
    """A download to pageable memory, until it is complete."""
    source = torch.ones(256 * MIB, dtype=torch.uint8, device="cuda")
    target = torch.zeros(256 * MIB, dtype=torch.uint8)

    def work():
        target.copy_(source)
        torch.cuda.synchronize()

    return 256 * MIB / median_ns(work, 16, 1)


def small_upload():
    """A small pageable upload, host time of the call, which PyTorch asks for without a wait."""
    source = torch.ones(4096, dtype=torch.uint8)
    target = torch.zeros(4096, dtype=torch.uint8, device="cuda")
    return median_ns(lambda: target.copy_(source, non_blocking=True), 160, 100)


def launch_and_number_back():
    """A launch and one number of its result."""
    a, c = (torch.zeros(256, device="cuda") for _ in range(2))

    def work():
        torch.add(a, a, out=c)
        c[0].item()

    return median_ns(work, 400, 1)


def ten_operations(function):
    """GB/s read and written by ten operations on each of 2^26 elements, eight times in a row."""
    elements, row = 1 << 26, 8
    start = torch.ones(elements, device="cuda")

    def work():
        x = start
        for _ in range(row):
            x = function(x)
        torch.cuda.synchronize()

    return row * 2 * 4 * elements / median_ns(work, 16, 1)


def ten(x):
    """The ten operations."""
    y = ((x * 1.5 + 0.25).abs() * 0.5 - 0.125).relu()
    return -((y + x) * x).clamp(max=100.0) + 1.0


ROWS = [
    ("T3", "two launches, the second on another stream and after the first", "ns", launch_pair),
    ("T6", "upload, pageable, against the driver's", "GB/s", upload_gb_per_s),
    ("T7", "download to a slice, against the driver's", "GB/s", download_gb_per_s),
    ("T8", "upload of 4 KiB, pageable", "ns", small_upload),
    ("T9", "launch, a number back, .await", "ns", launch_and_number_back),
    ("T15", "ten operations on 2^26 f32", "GB/s", lambda: ten_operations(ten)),
    ("T15", "ten operations on 2^26 f32", "GB/s", lambda: ten_operations(torch.compile(ten)), ", torch.compile"),
]


def figures(who):
    """What can be measured here: torch.compile needs a compiler."""
    for target, what, unit, measure, *how in ROWS:
        if target not in only:
            continue
        try:
            figure = measure()
        except Exception as error:
            print(f"{target} {what}{''.join(how)}: {error}", file=sys.stderr)
            continue
        yield {"target": target, "what": what, "unit": unit, "figure": figure, "who": who + "".join(how)}


only = [word for word in sys.argv[1:] if word.startswith("T")]
who = f"PyTorch {torch.__version__.split('+')[0]}"
print(json.dumps({"who": who, "rows": list(figures(who))}))
