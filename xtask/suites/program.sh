#!/bin/bash
# Builds and runs one program of a suite with millstream-nvcc and `millstream run`, and prints its
# outcome as the last line: `pass` if it passes its own check, `ends` if it ends well without one,
# or `excluded`, `fail` or `slow` with a reason behind a colon.
#
#   program.sh SUITES SUITE PROGRAM TOOLS
#
# SUITES is the folder of the checkouts, TOOLS that of `millstream` and `millstream-nvcc`. The
# environment variable SECONDS_MAX is the limit of processor time of a run.
set -u
suites=$1 suite=$2 program=$3 tools=$4
limit=${SECONDS_MAX:-120}
here=$(cd "$(dirname "$0")" && pwd)
[ "$suite" = own ] || cd "$suites/$suite" || exit 1
case $suite in
own) folder=$here/own ;;
HeCBench) folder=src/$program ;;
gpu-rodinia) folder=cuda/$program ;;
cuda-samples) folder=Samples/$program ;;
ggml) folder=. ;;
esac
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT

finish() {
    [ -n "${KEEP:-}" ] && cat "$log"/* >"$KEEP/$suite-${program//\//-}.log" 2>/dev/null
    echo "$1"
    exit 0
}

# Exclusions that a script finds.
files() {
    grep -rlE "$1" "$folder" --include=*.cu --include=*.cuh --include=*.h --include=*.hpp \
        --include=*.cpp --include=*.c --include=Makefile* --include=CMakeLists.txt >/dev/null 2>&1
}
if [ "$suite" != ggml ] && [ "$suite" != own ]; then
    files 'cublas|CUBLAS' && finish 'excluded: links cuBLAS'
    files 'cufft|CUFFT' && finish 'excluded: links cuFFT'
    files 'cusparse|CUSPARSE' && finish 'excluded: links cuSPARSE'
    files 'lcurand|curand\.h[>"]|CUDA::curand' && finish 'excluded: links cuRAND'
    files 'cusolver|CUSOLVER' && finish 'excluded: links cuSOLVER'
    files 'lnccl|nccl\.h' && finish 'excluded: links NCCL'
    files 'cudnn|nvjpeg|CUDA::npp|lnpp' && finish 'excluded: links another library of NVIDIA'
    files 'mma\.h|nvcuda::wmma' && finish 'excluded: includes mma.h'
    files 'mpi\.h[>"]' && finish 'excluded: needs MPI'
    files 'GL/gl|GL/glew|glut|freeglut|vulkan|EGL/|DirectX|d3d1|GLFW' &&
        finish 'excluded: needs a graphics library'
    files 'cudaIpc|cuIpc|MemExportToShareable' && finish 'excluded: shares memory by IPC'
    files 'cudaMipmapped|cudaMallocMipmapped|cudaArrayCubemap|texCubemap' &&
        finish 'excluded: cube maps and mipmaps'
    files 'cudadevrt|cudaStreamTailLaunch|cudaStreamFireAndForget|\(dynamic parallelism\)' &&
        files '<<<.*>>>' && files 'cdp|Cdp' && finish 'excluded: dynamic parallelism'
fi

run=("$tools/millstream" run --quiet --annotate=never --exit-code 0 --memory "${MEMORY:-64G}" --)
export PATH=$tools:$PATH
ran() { # COMMAND…
    (ulimit -t "$limit" && exec timeout $((limit * 30)) "${run[@]}" "$@") >"$log/run" 2>&1 </dev/null
}
built() { # COMMAND…
    timeout 900 "$@" >"$log/build" 2>&1 </dev/null || {
        grep -qE 'No such file|cannot find -l|not found' "$log/build" &&
            finish "excluded: does not compile: $(grep -m1 -E 'No such file|cannot find -l|not found' "$log/build")"
        finish "excluded: does not compile: $(grep -m1 -iE 'error|fatal' "$log/build")"
    }
}

cd "$folder" || finish 'fail: no such folder'
toolkit=$tools/toolkit
case $suite in
HeCBench)
    [ -f Makefile ] || finish 'excluded: no Makefile'
    make clean >/dev/null 2>&1
    built make CC=millstream-nvcc ARCH=sm_75
    printf '#!/bin/sh\nexec %s "$@"\n' "${run[*]}" >"$log/launcher"
    (ulimit -t "$limit" && exec timeout $((limit * 30)) \
        make run CC=millstream-nvcc ARCH=sm_75 LAUNCHER="sh $log/launcher") >"$log/run" 2>&1 </dev/null
    ;;
gpu-rodinia)
    built make CUDA_DIR="$toolkit" SDK_DIR="$toolkit" CUDA_LIB_DIR="$toolkit/lib64" \
        CC="$toolkit/bin/nvcc" NVCC="$toolkit/bin/nvcc" LINKER="$toolkit/bin/nvcc"
    [ -f run ] || finish 'excluded: no script that runs it'
    grep -v '^#' run | grep -oE '(\.\./)+data/[^ ]+' | while read -r file; do [ -e "$file" ] || echo "$file"; done \
        >"$log/missing"
    [ -s "$log/missing" ] && finish "excluded: missing input $(head -1 "$log/missing")"
    ran bash ./run
    ;;
own)
    built cmake -S . -B "$log/b" -DCMAKE_CUDA_COMPILER="$tools/millstream-nvcc" \
        -DCUDA_cudart_static_LIBRARY="$("$tools/millstream-nvcc" --millstream-library)"
    built cmake --build "$log/b" --target "$program"
    ran "$log/b/$program"
    ;;
cuda-samples)
    built cmake -S . -B "$log/b" -DCMAKE_CUDA_COMPILER="$tools/millstream-nvcc" \
        -DCUDA_cudart_static_LIBRARY="$("$tools/millstream-nvcc" --millstream-library)"
    built cmake --build "$log/b"
    cd "$log/b" || exit 1
    [ -x "./${program##*/}" ] || finish 'fail: no program'
    ran "./${program##*/}"
    ;;
ggml)
    # The program is an operation of test-backend-ops, which is built once.
    built true
    ran "${GGML_BUILD:?}/bin/test-backend-ops" test -b CUDA0 -o "$program"
    ;;
esac
code=$?
first() { grep -m1 -aE "$1" "$log/run" | tr -d '\000-\010\033' | cut -c1-160; }
said='is not supported by the simulated device|cannot run on the simulated device'
case $code in
0) ;;
*)
    grep -qaE 'Killed|CPU time limit|SIGXCPU|Error (137|143|152)' "$log/run" || [ $code = 124 ] || [ $code = 137 ] ||
        [ $code = 152 ] || {
        grep -qaE 'No such file|annot open|could not open|ailed to open|nable to open|readFile' "$log/run" &&
            finish "excluded: missing input: $(first 'No such file|annot open|ailed to open|nable to open|could not open|readFile')"
        grep -qaE "$said" "$log/run" && finish "fail: refused: $(first "$said")"
        finish "fail: status $code: $(first 'millstream:|rror|FAIL|ssert')"
    }
    finish "slow: more than $limit s of processor time"
    ;;
esac
grep -qaE '\bFAIL(ED)?\b|[Mm]ismatch|MISMATCH|verification failed|Test failed|INCORRECT' "$log/run" &&
    finish "fail: its check: $(first '\bFAIL(ED)?\b|[Mm]ismatch|MISMATCH|verification failed|Test failed|INCORRECT')"
grep -qaE "$said" "$log/run" && finish "ends: refused: $(first "$said")"
grep -qaE '\bPASS(ED)?\b|[Pp]assed|[Ss]uccess|\bOK\b|[Cc]orrect' "$log/run" && finish pass
finish ends
