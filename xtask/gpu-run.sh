#!/usr/bin/env bash
# Runs the programs beside this script on a GPU, one after the other, and prints a summary.
#
#   run.sh [tests] [benches] [examples]    (default: all three)
#
# MILLSTREAM_DEVICE  the device (default cuda:0)
# LIMIT_S            the time limit of one program, in seconds (default 900)
# MILLSTREAM_NVRTC   the file or folder of NVRTC; without it the tests that compile are left out
# OUT                the folder for logs, figures and pictures (default ./gpu-out)
#
# The exit status is 0 only if every program succeeded.
set -uo pipefail

bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export MILLSTREAM_DEVICE=${MILLSTREAM_DEVICE:-cuda:0}
limit_s=${LIMIT_S:-900}
out=${OUT:-gpu-out}
mkdir -p "$out/logs" || exit 2
out=$(cd "$out" && pwd)

# The programs are compressed, and decompressed in place once.
find "$bundle" -name '*.gz' -exec gunzip --force {} + || exit 2

# Calls on a stream that another thread captures end in libcuda by SIGSEGV (driver 580):
# docs/measurements/threads_and_captures.c.
crashing=(--skip a_capture_that_begins_during_a_call --skip captures_that_another_thread_begins)
echo "==== SKIPPED because libcuda crashes: all tests named *a_capture_that_begins_during_a_call* and" \
  "*captures_that_another_thread_begins*"

# Scenarios for two devices are skipped, by name, on a machine without two.
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
skip=()
if [ "${gpus:-0}" -lt 2 ]; then
  skip=(--skip two_devices:: --skip peers:: --skip peers_kernels:: --skip of_two_devices
    --skip on_two_devices)
  echo "==== SKIPPED because there is no second GPU: all tests named two_devices::*, peers::*," \
    "peers_kernels::*, *of_two_devices* and *on_two_devices*"
fi

# Tests that read the repository or run its compiler, and tests of simulated devices alone.
without_device=(--skip compile_fail:: --skip documented_limits:: --skip fusion:: --skip mesh::)

failed=0
summary=()
[ $# -gt 0 ] || set -- tests benches examples
programs=()
for folder in "$@"; do
  programs+=("$bundle/$folder"/*)
done

# Runs a program of the bundle with arguments, under a name of its own.
run() {
  local name=$1 program=$2 status verdict
  shift 2
  echo "==== $name $*"
  SECONDS=0
  timeout --kill-after=10 "$limit_s" "$program" "$@" 2>&1 | tee "$out/logs/$name.log"
  status=${PIPESTATUS[0]}
  case $status in
    0) verdict=ok ;;
    124 | 137) verdict="FAILED (over $limit_s s, or killed)" ;;
    *) verdict="FAILED (status $status)" ;;
  esac
  [ "$status" -eq 0 ] || failed=$((failed + 1))
  summary+=("$(printf '%-48s %6d s  %s' "$name" "$SECONDS" "$verdict")")
}

for program in "${programs[@]}"; do
  [ -x "$program" ] || continue
  name=$(basename "$program")
  case $program in
    "$bundle"/benches/*-nvidia) run "$name" "$program" --json "$out/$name.json" ;;
    "$bundle"/benches/*) run "$name" "$program" --json "$out/$name.json" --svg "$out/$name.svg" ;;
    "$bundle"/examples/photos) run "$name" "$program" --out "$out/$name" ;;
    */millstream-all)
      # Random programs limit the memory of the GPU, and the regressions count all driver calls.
      run "$name" "$program" "${skip[@]}" "${crashing[@]}" "${without_device[@]}" \
        --skip programs:: --skip regressions::
      run "$name-programs" "$program" programs::
      run "$name-regressions" "$program" regressions::
      run "$name-long" "$program" --ignored b15_
      # An NVRTC that is newer than the driver has a test of its own.
      [ -z "${MILLSTREAM_NVRTC:-}" ] || run "$name-nvrtc" "$program" --ignored compiled:: \
        --skip inner_ --skip k02_an_nvrtc_newer_than_the_driver
      ;;
    */millstream-region-all)
      # Kernels that spin until a scenario ends them would hold up what the other tests free.
      run "$name" "$program" "${without_device[@]}" --skip scenarios::
      run "$name-scenarios" "$program" "${skip[@]}" scenarios::
      run "$name-cublas" "$program" --ignored product::cublas
      ;;
    */millstream-collective-all)
      # Ranks that are all told one device are refused by NCCL.
      run "$name" env -u MILLSTREAM_DEVICE "$program"
      [ "${gpus:-0}" -lt 2 ] || run "$name-gpus" "$program" --ignored nccl::gpu
      ;;
    */sim-tests-devices)
      # Two counters of one pool are read, one after the other.
      run "$name" "$program" --skip pool_counters
      run "$name-pools" "$program" --exact pool_counters
      ;;
    */millstream-cli-all) run "$name" "$program" --test-threads=1 hand_overs:: "${crashing[@]}" ;;
    *) run "$name" "$program" ;;
  esac
done

echo
echo "==== on $MILLSTREAM_DEVICE"
[ ${#summary[@]} -gt 0 ] || { echo "nothing to run"; exit 2; }
printf '%s\n' "${summary[@]}"
echo "${#summary[@]} programs, $failed failed"
[ "$failed" -eq 0 ]
