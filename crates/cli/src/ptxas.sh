#!/bin/sh
# Takes the place of CUDA's ptxas for Triton: the simulated device runs PTX, so the "machine code" is
# the PTX itself. Named by TRITON_PTXAS_PATH.
case " $* " in *" --version "*)
    echo "Cuda compilation tools, release 12.9, V12.9.0 (PTX for Millstream's simulated device)"
    exit 0 ;;
esac
while [ $# -gt 0 ]; do
    case "$1" in -o) output=$2; shift ;; *.ptx) input=$1 ;; esac
    shift
done
cp "$input" "$output"
