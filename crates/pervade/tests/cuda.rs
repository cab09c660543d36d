//! What of CUDA can be tested without a device: the kernels compile, and a machine without CUDA is told so.
//! `pervade doctor --device cuda` compares every operation with the CPU where there is one.
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use pervade::compute::cuda::compile_image;
use pervade::compute::{Cuda, Precision};

/// `scripts/test` fetches NVRTC and sets PERVADE_NVRTC; without it there is nothing to compile with.
#[test]
fn kernels_compile_for_every_architecture_that_is_supported() {
    let must = std::env::var_os("PERVADE_NVRTC").is_some();
    for architecture in ["sm_80", "sm_90", "sm_90a"] {
        for precision in [Precision::Fp32, Precision::Tf32] {
            match compile_image(architecture, precision) {
                Ok(image) => assert!(image.starts_with(b"\x7fELF"), "machine code for {architecture}"),
                Err(error) if !must && error.to_string().contains("was not found") => {
                    eprintln!("skipped: {error}");
                    return;
                }
                Err(error) => panic!("{architecture}, {precision:?}: {error}"),
            }
        }
    }
}

#[test]
fn a_device_that_is_not_there_is_an_error_with_advice() {
    let error = Cuda::open(4711, Precision::Fp32).unwrap_err();
    let text = error.to_string();
    if Cuda::is_present() {
        assert!(text.contains("there is no CUDA device 4711"), "{text}");
    } else {
        assert!(text.contains("no CUDA driver was found (looked for libcuda.so"), "{text}");
    }
    assert!(error.hint().is_some());
}
