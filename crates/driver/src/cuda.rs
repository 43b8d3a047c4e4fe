//! libcuda behind the seam.
