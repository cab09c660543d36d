//! Selection of a device by name.

use crate::{Cpu, Cuda, Error, Exchange, KernelCache, Memory, Precision, Result, RowsOn};

/// A device of any supported kind; [`crate::on_device!`] gives access to the concrete type.
#[derive(Debug)]
pub enum AnyDevice {
    /// The CPU.
    Cpu(Cpu),
    /// An NVIDIA device.
    Cuda(Box<Cuda>),
}

/// Evaluates an expression with the concrete device: the code is compiled once per kind.
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

/// Evaluates an expression with the concrete device; this build supports only the CPU.
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
    /// Opens the device called `wanted`: `auto`, `cpu`, `cuda` or `cuda:N`. `auto` is the first CUDA device
    /// if one works, else the CPU; if a CUDA device is present but unusable, the reason is returned too.
    /// `kernels`, if any, stores compiled kernels.
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
            ("cuda", ordinal) if ordinal.parse::<usize>().is_ok() => cuda(ordinal.parse().unwrap_or(0))?,
            _ => return Err(Error::UnknownDevice { wanted: wanted.to_string() }),
        };
        Ok((device, None))
    }

    /// Keeps the rows of tables where `rows_on` says; the CPU has them in the host's memory in any case.
    pub fn keep_rows_on(&mut self, rows_on: RowsOn) {
        if let Self::Cuda(device) = self {
            device.keep_rows_on(rows_on);
        }
    }

    /// Lets ranks on the same CUDA device exchange gradients on it, which NCCL must have been told to allow.
    pub fn share_device(&mut self) {
        if let Self::Cuda(device) = self {
            device.share_device();
        }
    }

    /// The library that moves gradients from device to device, if ranks use one.
    pub fn device_exchange(&self) -> Option<&str> {
        crate::on_device!(self, device => device.device_exchange())
    }

    /// The device's human-readable name.
    pub fn name(&self) -> String {
        crate::on_device!(self, device => device.name())
    }
}
