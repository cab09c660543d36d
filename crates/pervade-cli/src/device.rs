//! The device that was asked for.

use pervade::compute::{Cpu, Cuda, Device, Precision};
use pervade::{Error, Result};

use crate::console::Console;

/// One of the kinds that this program can compute on.
pub(crate) enum AnyDevice {
    Cpu(Cpu),
    Cuda(Box<Cuda>),
}

/// Evaluates an expression with the device of whichever kind: the code is compiled once a kind.
macro_rules! on_device {
    ($any:expr, $device:ident => $body:expr) => {
        match $any {
            $crate::device::AnyDevice::Cpu($device) => $body,
            $crate::device::AnyDevice::Cuda(boxed) => {
                let $device = &**boxed;
                $body
            }
        }
    };
}
pub(crate) use on_device;

impl AnyDevice {
    /// `auto` is the first CUDA device where there is one that works, else the CPU.
    pub(crate) fn open(wanted: &str, precision: &str, console: &Console) -> Result<Self> {
        let precision = if precision == "tf32" { Precision::Tf32 } else { Precision::Fp32 };
        match wanted.split_once(':').unwrap_or((wanted, "")) {
            ("cpu", "") => Ok(Self::Cpu(Cpu::new())),
            ("auto", "") => Ok(Self::auto(precision, console)),
            ("cuda", "") => Self::cuda(0, precision),
            ("cuda", number) if number.parse::<usize>().is_ok() => {
                Self::cuda(number.parse().unwrap_or(0), precision)
            }
            _ => Err(Error::setting("device", wanted, "must be `auto`, `cpu`, `cuda` or `cuda:N`")),
        }
    }

    fn cuda(ordinal: usize, precision: Precision) -> Result<Self> {
        Ok(Self::Cuda(Box::new(Cuda::open(ordinal, precision)?)))
    }

    fn auto(precision: Precision, console: &Console) -> Self {
        if !Cuda::is_present() {
            return Self::Cpu(Cpu::new());
        }
        Self::cuda(0, precision).unwrap_or_else(|error| {
            console.say(&format!("note: using the CPU, because {error}"));
            Self::Cpu(Cpu::new())
        })
    }

    pub(crate) fn name(&self) -> String {
        on_device!(self, device => device.name())
    }
}
