//! The device that a user asked for by name.

use crate::{Cpu, Cuda, Error, Memory, Result};

/// How the factors of a matrix product are rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Single precision, from three products of split factors.
    #[default]
    Fp32,
    /// One product of factors rounded to TF32 (10 bits): faster, and coarser.
    Tf32,
}

/// Stores compiled kernels from one run to the next. What another user could have written must not be loaded.
pub trait KernelCache {
    /// The file of this name, if it is there and can be trusted.
    fn load(&self, name: &str) -> Option<Vec<u8>>;
    /// Stores the file. A failure costs time at the next start, nothing else.
    fn store(&self, name: &str, bytes: &[u8]);
}

/// One of the kinds that this program can compute on; [`crate::on_device!`] gives the device itself.
#[derive(Debug)]
pub enum AnyDevice {
    /// The processor.
    Cpu(Cpu),
    /// An NVIDIA device.
    Cuda(Box<Cuda>),
}

/// Evaluates an expression with the device of whichever kind: the code is compiled once per kind.
#[cfg(feature = "cuda")]
#[macro_export]
macro_rules! on_device {
    ($any:expr, $device:ident => $body:expr) => {
        match $any {
            $crate::AnyDevice::Cpu($device) => $body,
            $crate::AnyDevice::Cuda(boxed) => {
                let $device = &**boxed;
                $body
            }
        }
    };
}

/// Evaluates an expression with the device; this build knows the CPU alone.
#[cfg(not(feature = "cuda"))]
#[macro_export]
macro_rules! on_device {
    ($any:expr, $device:ident => $body:expr) => {
        match $any {
            $crate::AnyDevice::Cpu($device) => $body,
            $crate::AnyDevice::Cuda(never) => match **never {},
        }
    };
}

impl AnyDevice {
    /// The device called `wanted`: `auto`, `cpu`, `cuda` or `cuda:N`. `auto` is the first CUDA device
    /// where there is one that works, else the CPU; the reason why one that is there cannot be used is returned, too.
    /// `kernels`, if any, stores what is compiled for a device.
    pub fn open(
        wanted: &str,
        precision: Precision,
        kernels: Option<&dyn KernelCache>,
    ) -> Result<(Self, Option<Error>)> {
        let cuda = |ordinal| Ok(Self::Cuda(Box::new(Cuda::open(ordinal, precision, kernels)?)));
        let device = match wanted.split_once(':').unwrap_or((wanted, "")) {
            ("cpu", "") => Self::Cpu(Cpu::new()),
            ("auto", "") if !Cuda::is_present() => Self::Cpu(Cpu::new()),
            ("auto", "") => match cuda(0) {
                Ok(device) => device,
                Err(reason) => return Ok((Self::Cpu(Cpu::new()), Some(reason))),
            },
            ("cuda", "") => cuda(0)?,
            ("cuda", number) if number.parse::<usize>().is_ok() => cuda(number.parse().unwrap_or(0))?,
            _ => return Err(Error::UnknownDevice { wanted: wanted.to_string() }),
        };
        Ok((device, None))
    }

    /// Its name, for people.
    pub fn name(&self) -> String {
        crate::on_device!(self, device => device.name())
    }
}
