"""Measures some of the benchmarks' targets with PyTorch and prints them as JSON.

The exit status is 3 if PyTorch is missing or has no GPU.
"""

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


def median_ns(work, rounds, batch, drain=torch.cuda.synchronize):
    """Returns the median time of one call of `work` in `rounds` batches.

    `drain` runs after each batch, outside the measured time.
    """
    rounds = max(rounds // 8, 1) if QUICK else rounds
    samples = []
    for number in range(rounds + 3):
        start = time.perf_counter_ns()
        for _ in range(batch):
            work()
        took = time.perf_counter_ns() - start
        drain()
        if number >= 3:
            samples.append(took / batch)
    return statistics.median(samples)


def launch_pair():
    """Measures two launches on two streams, the second of which depends on the first."""
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
    """Measures a pageable upload until it is complete."""
    source = torch.ones(256 * MIB, dtype=torch.uint8)
    target = torch.zeros(256 * MIB, dtype=torch.uint8, device="cuda")

    def work():
        target.copy_(source)
        torch.cuda.synchronize()

    return 256 * MIB / median_ns(work, 16, 1)


def download_gb_per_s():
    """Measures a download to pageable memory until it is complete."""
    source = torch.ones(256 * MIB, dtype=torch.uint8, device="cuda")
    target = torch.zeros(256 * MIB, dtype=torch.uint8)

    def work():
        target.copy_(source)
        torch.cuda.synchronize()

    return 256 * MIB / median_ns(work, 16, 1)


def small_upload():
    """Measures the host's time for a small pageable upload, called with `non_blocking`."""
    source = torch.ones(4096, dtype=torch.uint8)
    target = torch.zeros(4096, dtype=torch.uint8, device="cuda")
    return median_ns(lambda: target.copy_(source, non_blocking=True), 160, 100)


def launch_and_download_one():
    """Measures a launch and the download of one number of its result."""
    a, c = (torch.zeros(256, device="cuda") for _ in range(2))

    def work():
        torch.add(a, a, out=c)
        c[0].item()

    return median_ns(work, 400, 1)


def ten_operations(function):
    """Measures the GB/s read and written by `function` on 2^26 elements, eight times in a row."""
    elements, row = 1 << 26, 8
    start = torch.ones(elements, device="cuda")

    def work():
        x = start
        for _ in range(row):
            x = function(x)
        torch.cuda.synchronize()

    return row * 2 * 4 * elements / median_ns(work, 16, 1)


def ten(x):
    """Applies the ten operations."""
    y = ((x * 1.5 + 0.25).abs() * 0.5 - 0.125).relu()
    return -((y + x) * x).clamp(max=100.0) + 1.0


ROWS = [
    ("T3", "two launches, the second on another stream and after the first", "ns", launch_pair),
    ("T6", "upload, pageable, against the driver's", "GB/s", upload_gb_per_s),
    ("T7", "download to a slice, against the driver's", "GB/s", download_gb_per_s),
    ("T8", "upload of 4 KiB, pageable", "ns", small_upload),
    ("T9", "launch, download of one number, .await", "ns", launch_and_download_one),
    ("T15", "ten operations on 2^26 f32", "GB/s", lambda: ten_operations(ten)),
    ("T15", "ten operations on 2^26 f32", "GB/s", lambda: ten_operations(torch.compile(ten)), ", torch.compile"),
]


def figures(who):
    """Yields the rows that can be measured here; torch.compile, for one, needs a compiler."""
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
