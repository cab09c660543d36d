//! CUDA tests that need no device: the kernels compile, and a machine without CUDA gives a clear error.
//! `pervade doctor --device cuda` compares every operation with the CPU if there is a device.
#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use pervade::compute::cuda::{Program, cached_image, compile_image};
use pervade::compute::{Cuda, Precision};
use pervade::files::KernelFolder;
use xxhash_rust::xxh3::xxh3_128;

/// `scripts/test` fetches NVRTC and sets PERVADE_NVRTC; without it there is nothing to compile with.
#[test]
fn kernels_compile_for_every_supported_architecture() {
    let must = std::env::var_os("PERVADE_NVRTC").is_some();
    // One precision is enough where the other differs in nothing but a constant.
    let (fp32, tf32) = (Precision::Fp32, Precision::Tf32);
    let devices = [
        ("sm_80", fp32),
        ("sm_80", tf32),
        ("sm_90", fp32),
        ("sm_90a", fp32),
        ("sm_90a", tf32),
        ("sm_120", fp32),
    ];
    for (architecture, precision) in devices {
        for program in Program::ALL {
            match compile_image(program, architecture, precision) {
                Ok(image) => assert!(image.starts_with(b"\x7fELF"), "machine code for {architecture}"),
                Err(error) if !must && error.to_string().contains("was not found") => {
                    eprintln!("skipped: {error}");
                    return;
                }
                Err(error) => panic!("{program:?}, {architecture}, {precision:?}: {error}"),
            }
        }
    }
}

/// A second start uses the cached kernels of the first, unless they are damaged or of another version.
#[test]
fn compiled_kernels_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let Ok(image) = compile_image(Program::Others, "sm_80", Precision::Fp32) else {
        return; // The test above says whether that may be.
    };
    assert!(image.starts_with(b"\x7fELF"));
    // Compiled once: whenever the cache asks for it again, it gets the same.
    let compiled = |_: Program, _: &str, _: Precision| Ok(image.clone());
    let cached = |folder| {
        let folder = KernelFolder::new(folder);
        cached_image(Program::Others, "sm_80", Precision::Fp32, Some(&folder), compiled)
    };
    let kept = || cached(folder.path().join("new"));
    assert_eq!(kept().unwrap(), image);
    let path = folder.path().join("new/others-sm_80-fp32.cubin");
    let file = std::fs::read(&path).unwrap();
    assert_eq!(file[32..], image);

    // Another image with a valid checksum is accepted: the file is read.
    let other = [&file[..16], &xxh3_128(b"other").to_le_bytes(), b"other"].concat();
    std::fs::write(&path, other).unwrap();
    assert_eq!(kept().unwrap(), b"other");

    let mut damaged = file.clone();
    damaged[1000] ^= 1;
    let mut older = file.clone();
    older[0] ^= 1;
    for bad in [&damaged[..], &older, &file[..20]] {
        std::fs::write(&path, bad).unwrap();
        assert_eq!(kept().unwrap(), image);
        assert_eq!(std::fs::read(&path).unwrap(), file, "mended");
    }
    // Files that others could have written are rejected: neither the file nor anything in the folder is used.
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let open_to = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let forged = [&file[..16], &xxh3_128(b"forged").to_le_bytes(), b"forged"].concat();
        std::fs::write(&path, &forged).unwrap();
        open_to(&path, 0o666);
        assert_eq!(kept().unwrap(), image);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600, "closed again");
        open_to(&folder.path().join("new"), 0o777);
        assert_eq!(kept().unwrap(), image);
        assert_eq!(
            std::fs::metadata(folder.path().join("new")).unwrap().mode() & 0o777,
            0o700,
            "closed again"
        );
        if std::os::unix::fs::chown(folder.path().join("new"), Some(12345), None).is_ok() {
            std::fs::write(&path, &forged).unwrap();
            assert_eq!(kept().unwrap(), image, "a folder of another user");
            std::os::unix::fs::chown(folder.path().join("new"), Some(0), None).unwrap();
            std::fs::write(&path, &file).unwrap();
        }
    }
    // No folder can be created below a file.
    assert_eq!(cached(path).unwrap(), image);
}

#[test]
fn a_missing_device_is_an_error_with_a_hint() {
    let error = Cuda::open(4711, Precision::Fp32, None).unwrap_err();
    let text = error.to_string();
    if Cuda::is_present() {
        assert!(text.contains("there is no CUDA device 4711"), "{text}");
    } else {
        assert!(text.contains("no CUDA driver was found (looked for libcuda.so"), "{text}");
    }
    assert!(pervade::Error::from(error).hint().is_some());
}
