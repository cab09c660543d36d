//! The kernels' sources, and their compilation by NVRTC for the device in use.

use std::ffi::CString;
use std::panic::resume_unwind;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaModule};
use cudarc::nvrtc::{Ptx, result as nvrtc, sys as nvrtc_sys};
use xxhash_rust::xxh3::xxh3_128;

use super::driver::failed;
use crate::{Advice, Error, KernelCache, Precision, Result};

/// A part of the kernels that is compiled on its own. The parts are compiled at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Matrix products, which take as long as all others together.
    Products,
    /// All other operations.
    Others,
}

impl Program {
    /// All programs.
    pub const ALL: [Self; 2] = [Self::Products, Self::Others];

    /// Its sources, in the order in which they build on each other.
    fn source(self) -> String {
        let own: &[Source] = match self {
            Self::Products => &PRODUCTS,
            Self::Others => &OTHERS,
        };
        let part = |(name, text): &Source| format!("#line 1 \"{name}\"\n{text}");
        SHARED.iter().chain(own).map(part).collect::<Vec<_>>().concat()
    }
}

/// The name and text of a source.
type Source = (&'static str, &'static str);

const SHARED: [Source; 2] = [
    ("common.cu", include_str!("kernels/common.cu")),
    ("asynchronous.cu", include_str!("kernels/asynchronous.cu")),
];

const PRODUCTS: [Source; 4] = [
    ("product.cu", include_str!("kernels/product.cu")),
    ("thin.cu", include_str!("kernels/thin.cu")),
    ("hopper.cu", include_str!("kernels/hopper.cu")),
    ("weights.cu", include_str!("kernels/weights.cu")),
];

const OTHERS: [Source; 15] = [
    ("rows.cu", include_str!("kernels/rows.cu")),
    ("layers.cu", include_str!("kernels/layers.cu")),
    ("latents.cu", include_str!("kernels/latents.cu")),
    ("likelihood.cu", include_str!("kernels/likelihood.cu")),
    ("typed.cu", include_str!("kernels/typed.cu")),
    ("convolution.cu", include_str!("kernels/convolution.cu")),
    ("batch_norm.cu", include_str!("kernels/batch_norm.cu")),
    ("prior.cu", include_str!("kernels/prior.cu")),
    ("neighbour_term.cu", include_str!("kernels/neighbour_term.cu")),
    ("soft_clusters.cu", include_str!("kernels/soft_clusters.cu")),
    ("codes.cu", include_str!("kernels/codes.cu")),
    ("stick_breaking.cu", include_str!("kernels/stick_breaking.cu")),
    ("mixture_posterior.cu", include_str!("kernels/mixture_posterior.cu")),
    ("points.cu", include_str!("kernels/points.cu")),
    ("neighbours.cu", include_str!("kernels/neighbours.cu")),
];

/// Checks that NVRTC can be loaded.
fn check_library() -> Result<()> {
    // SAFETY: only loads the library, which runs its start-up code.
    if !unsafe { nvrtc_sys::is_culib_present() } {
        return Err(Error::Failed {
            problem: "CUDA's run-time compiler was not found (looked for libnvrtc.so, libnvrtc.so.13 and \
                      libnvrtc.so.12)"
                .to_string(),
            advice: Advice::InstallCompiler,
        });
    }
    Ok(())
}

/// The version of NVRTC, which must be present.
pub(super) fn nvrtc_version() -> String {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: writes two integers.
    unsafe { nvrtc_sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    format!("{major}.{minor}")
}

/// Loads the kernels for a device of this compute capability, a module for each program.
pub(super) fn load(
    context: &Arc<CudaContext>,
    (major, minor): (i32, i32),
    precision: Precision,
    kernels: Option<&dyn KernelCache>,
) -> Result<Vec<Arc<CudaModule>>> {
    if major < 8 {
        return Err(Error::Failed {
            problem: format!(
                "this CUDA device has compute capability {major}.{minor}; at least 8.0 is needed"
            ),
            advice: Advice::UseCpu,
        });
    }
    // Hopper's special instructions need the architecture-specific target.
    let hopper = if (major, minor) == (9, 0) { "a" } else { "" };
    let architecture = format!("sm_{major}{minor}{hopper}");
    let images: Vec<Result<Vec<u8>>> = std::thread::scope(|scope| {
        let image = |program| cached_image(program, &architecture, precision, kernels, compile_image);
        let threads = Program::ALL.map(|program| scope.spawn(move || image(program)));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let load =
        |image| context.load_module(Ptx::from_binary(image)).map_err(|e| failed("load the kernels", e));
    images.into_iter().map(|image| load(image?)).collect()
}

/// Machine code of a program, from the cache or else from `compile` ([`compile_image`], which takes seconds), and stored
/// there.
pub fn cached_image(
    program: Program,
    architecture: &str,
    precision: Precision,
    cache: Option<&dyn KernelCache>,
    compile: impl FnOnce(Program, &str, Precision) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    check_library()?;
    let Some(cache) = cache else { return compile(program, architecture, precision) };
    let inputs = format!("{:?} {} {}", options(architecture, precision), nvrtc_version(), program.source());
    let inputs_hash = xxh3_128(inputs.as_bytes()).to_le_bytes();
    let name = format!("{program:?}-{architecture}-{precision:?}.cubin").to_lowercase();
    if let Some(image) = cache.load(&name).and_then(|file| image_in(&file, inputs_hash)) {
        return Ok(image);
    }
    let image = compile(program, architecture, precision)?;
    cache.store(&name, &[&inputs_hash[..], &xxh3_128(&image).to_le_bytes(), &image].concat());
    Ok(image)
}

/// The image in a cached file, if the two hashes before it, of the compiler's inputs and of the image, match.
fn image_in(file: &[u8], inputs_hash: [u8; 16]) -> Option<Vec<u8>> {
    let (hashes, image) = file.split_at_checked(32)?;
    (hashes == [inputs_hash, xxh3_128(image).to_le_bytes()].concat()).then(|| image.to_vec())
}

fn options(architecture: &str, precision: Precision) -> [String; 4] {
    let terms = if precision == Precision::Fp32 { 3 } else { 1 };
    // The compiler's optimiser uses all cores.
    let parallel = "--split-compile=0".to_string();
    [
        format!("--gpu-architecture={architecture}"),
        format!("-DTERMS={terms}"),
        "--std=c++17".to_string(),
        parallel,
    ]
}

/// Machine code of a program for `architecture`, such as `sm_90`; needs NVRTC and no device.
pub fn compile_image(program: Program, architecture: &str, precision: Precision) -> Result<Vec<u8>> {
    check_library()?;
    let compile_error = |what: &str| Error::Failed {
        problem: format!("the CUDA kernels could not be compiled for {architecture}: {what}"),
        advice: Advice::UpdateCompiler,
    };
    let source = CString::new(program.source()).map_err(|_| compile_error("a zero byte in the source"))?;
    let compiled = nvrtc::create_program(&source, None).map_err(|e| compile_error(&format!("{e:?}")))?;
    // SAFETY: the program was just created and is destroyed once, below.
    let image = unsafe {
        match nvrtc::compile_program(compiled, &options(architecture, precision)) {
            Ok(()) => cubin(compiled).map_err(|e| compile_error(&e)),
            Err(_) => {
                let log = nvrtc::get_program_log(compiled).unwrap_or_default();
                let log: String = log.iter().map(|&c| char::from(c as u8)).collect();
                Err(compile_error(log.trim_matches(['\0', '\n'])))
            }
        }
    };
    // SAFETY: as above.
    let destroyed = unsafe { nvrtc::destroy_program(compiled) };
    image.and_then(|image| destroyed.map(|()| image).map_err(|e| compile_error(&format!("{e:?}"))))
}

/// # Safety
/// The program was compiled.
unsafe fn cubin(program: nvrtc_sys::nvrtcProgram) -> std::result::Result<Vec<u8>, String> {
    let mut size = 0;
    // SAFETY: a compiled program, and a valid pointer to the size.
    let result = unsafe { nvrtc_sys::nvrtcGetCUBINSize(program, &raw mut size) };
    result.result().map_err(|e| format!("{e:?}"))?;
    let mut image = vec![0u8; size];
    // SAFETY: the image has the size that NVRTC reported.
    let result = unsafe { nvrtc_sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()) };
    result.result().map_err(|e| format!("{e:?}")).map(|()| image)
}
