//! The kernels' sources, and their compilation by NVRTC for the device at hand.

use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaModule};
use cudarc::nvrtc::{Ptx, result as nvrtc, sys as nvrtc_sys};
use xxhash_rust::xxh3::xxh3_128;

use super::Precision;
use super::driver::failed;
use crate::files::{close_to_others, is_private, make_private_folder, write_atomically};
use crate::{Error, Result};

/// The sources, in the order in which they build on each other.
const SOURCES: [(&str, &str); 17] = [
    ("common.cu", include_str!("kernels/common.cu")),
    ("asynchronous.cu", include_str!("kernels/asynchronous.cu")),
    ("batch.cu", include_str!("kernels/batch.cu")),
    ("heads.cu", include_str!("kernels/heads.cu")),
    ("images.cu", include_str!("kernels/images.cu")),
    ("batch_norm.cu", include_str!("kernels/batch_norm.cu")),
    ("drawn_codes.cu", include_str!("kernels/drawn_codes.cu")),
    ("prior.cu", include_str!("kernels/prior.cu")),
    ("soft_clusters.cu", include_str!("kernels/soft_clusters.cu")),
    ("codes.cu", include_str!("kernels/codes.cu")),
    ("sticks.cu", include_str!("kernels/sticks.cu")),
    ("product.cu", include_str!("kernels/product.cu")),
    ("thin.cu", include_str!("kernels/thin.cu")),
    ("hopper.cu", include_str!("kernels/hopper.cu")),
    ("weights.cu", include_str!("kernels/weights.cu")),
    ("points.cu", include_str!("kernels/points.cu")),
    ("neighbours.cu", include_str!("kernels/neighbours.cu")),
];

/// NVRTC can be opened.
fn check_library() -> Result<()> {
    // SAFETY: opens the library, which runs its start-up code and nothing else.
    if !unsafe { nvrtc_sys::is_culib_present() } {
        return Err(Error::Device {
            problem: "CUDA's run-time compiler was not found (looked for libnvrtc.so, libnvrtc.so.13 and \
                      libnvrtc.so.12)"
                .to_string(),
            hint: "install the CUDA toolkit or the package nvidia-cuda-nvrtc, put its folder into \
                   LD_LIBRARY_PATH, or use `--device cpu`"
                .to_string(),
        });
    }
    Ok(())
}

/// The version of NVRTC, which must be there.
pub(super) fn nvrtc_version() -> String {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two numbers.
    unsafe { nvrtc_sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    format!("{major}.{minor}")
}

/// The kernels for the device at hand.
pub(super) fn load(
    context: &Arc<CudaContext>,
    (major, minor): (i32, i32),
    precision: Precision,
    folder: Option<&Path>,
) -> Result<Arc<CudaModule>> {
    if major < 8 {
        return Err(Error::Device {
            problem: format!("this CUDA device has compute capability {major}.{minor}; 8.0 is the least"),
            hint: "use `--device cpu`".to_string(),
        });
    }
    // What is Hopper's own has a name of its own.
    let hopper = if (major, minor) == (9, 0) { "a" } else { "" };
    let image = kept_image(&format!("sm_{major}{minor}{hopper}"), precision, folder)?;
    context.load_module(Ptx::from_binary(image)).map_err(|e| failed("load the kernels", e))
}

/// Machine code of all kernels as `folder` keeps it from an earlier time; else compiled, which takes seconds, and
/// left there.
pub fn kept_image(architecture: &str, precision: Precision, folder: Option<&Path>) -> Result<Vec<u8>> {
    check_library()?;
    let Some(folder) = folder else { return compile_image(architecture, precision) };
    let what = format!("{:?} {} {}", options(architecture, precision), nvrtc_version(), source());
    let made_of = xxh3_128(what.as_bytes()).to_le_bytes();
    let path = folder.join(format!("kernels-{architecture}-{precision:?}.cubin").to_lowercase());
    // What another user could have put there is not loaded into the device.
    let may_keep = make_private_folder(folder);
    let kept = std::fs::read(&path).ok().filter(|_| may_keep && is_private(&path));
    if let Some(image) = kept.and_then(|kept| image_in(&kept, made_of)) {
        return Ok(image);
    }
    let image = compile_image(architecture, precision)?;
    if !may_keep {
        return Ok(image);
    }
    // A folder that cannot be written to costs time at the next start, nothing else.
    let _ = write_atomically(&path, |file| {
        use std::io::Write;
        [&made_of[..], &xxh3_128(&image).to_le_bytes(), &image]
            .iter()
            .try_for_each(|part| file.write_all(part))
    });
    close_to_others(&path, 0o600);
    Ok(image)
}

/// What a kept file holds after two checksums: of what it was made of, and of itself.
fn image_in(kept: &[u8], made_of: [u8; 16]) -> Option<Vec<u8>> {
    let (sums, image) = kept.split_at_checked(32)?;
    (sums == [made_of, xxh3_128(image).to_le_bytes()].concat()).then(|| image.to_vec())
}

fn source() -> String {
    SOURCES.map(|(name, text)| format!("#line 1 \"{name}\"\n{text}")).concat()
}

fn options(architecture: &str, precision: Precision) -> [String; 3] {
    let terms = if precision == Precision::Fp32 { 3 } else { 1 };
    [format!("--gpu-architecture={architecture}"), format!("-DTERMS={terms}"), "--std=c++17".to_string()]
}

/// Machine code of all kernels for `architecture`, such as `sm_90`; needs NVRTC and no device.
pub fn compile_image(architecture: &str, precision: Precision) -> Result<Vec<u8>> {
    check_library()?;
    let broken = |what: &str| Error::Device {
        problem: format!("the CUDA kernels could not be compiled for {architecture}: {what}"),
        hint: "a newer NVRTC may know this device; `--device cpu` always works".to_string(),
    };
    let source = CString::new(source()).map_err(|_| broken("a zero byte in the source"))?;
    let program = nvrtc::create_program(&source, None).map_err(|e| broken(&format!("{e:?}")))?;
    // SAFETY: the program was just created and is destroyed once, below.
    let image = unsafe {
        match nvrtc::compile_program(program, &options(architecture, precision)) {
            Ok(()) => cubin(program).map_err(|e| broken(&e)),
            Err(_) => {
                let log = nvrtc::get_program_log(program).unwrap_or_default();
                let log: String = log.iter().map(|&c| char::from(c as u8)).collect();
                Err(broken(log.trim_matches(['\0', '\n'])))
            }
        }
    };
    // SAFETY: as above.
    let destroyed = unsafe { nvrtc::destroy_program(program) };
    image.and_then(|image| destroyed.map(|()| image).map_err(|e| broken(&format!("{e:?}"))))
}

/// # Safety
/// The program was compiled.
unsafe fn cubin(program: nvrtc_sys::nvrtcProgram) -> std::result::Result<Vec<u8>, String> {
    let mut size = 0;
    // SAFETY: a compiled program, and room for the size.
    let result = unsafe { nvrtc_sys::nvrtcGetCUBINSize(program, &raw mut size) };
    result.result().map_err(|e| format!("{e:?}"))?;
    let mut image = vec![0u8; size];
    // SAFETY: the image has the size that was asked for.
    let result = unsafe { nvrtc_sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()) };
    result.result().map_err(|e| format!("{e:?}")).map(|()| image)
}
