//! Functions by which a program asks whether it may give memory of GPUs to MPI. It may not
//! (`upper_half::device_buffer`). They have no state and no pointers; they are exported under the library's own names.
#![allow(unsafe_code)]
#![allow(non_snake_case)]

/// Extension of Open MPI for NVIDIA's GPUs.
#[no_mangle]
pub extern "C" fn MPIX_Query_cuda_support() -> i32 {
    0
}

/// Extension of Open MPI 5 for AMD's GPUs.
#[no_mangle]
pub extern "C" fn MPIX_Query_rocm_support() -> i32 {
    0
}
