//! Extracts the windows of images (`unfold`), and adds windows up to images (`fold`).

use super::driver::{Arg, Kernel};
use super::{Cuda, M, elementwise};
use crate::{Convolution, Result, Windows};

/// `Windows` in `kernels/convolution.cu`.
#[repr(C)]
struct RawWindows {
    height: u32,
    width: u32,
    channels: u32,
    size: u32,
    stride: u32,
    padding: u32,
    down: u32,
    across: u32,
}

impl From<&Windows> for RawWindows {
    fn from(windows: &Windows) -> Self {
        let [down, across] = windows.count().map(|n| n as u32);
        Self {
            height: windows.height as u32,
            width: windows.width as u32,
            channels: windows.channels as u32,
            size: windows.size as u32,
            stride: windows.stride as u32,
            padding: windows.padding as u32,
            down,
            across,
        }
    }
}

impl Cuda {
    fn launch_windows(&self, kernel: Kernel, windows: &Windows, x: &M, y: &mut M) -> Result<()> {
        let (raw, n) = (RawWindows::from(windows), y.restarts * y.stride());
        let args = [Arg::of(&raw), x.data.address(0).into(), y.data.address(0).into(), n.into()];
        self.driver.launch(elementwise(kernel, n), &args)
    }
}

impl Convolution for Cuda {
    fn unfold(&self, windows: &Windows, x: &M, y: &mut M) -> Result<()> {
        windows.n_images(x, y);
        self.launch_windows(Kernel::Unfold, windows, x, y)
    }

    fn fold(&self, windows: &Windows, x: &M, y: &mut M) -> Result<()> {
        windows.n_images(y, x);
        self.launch_windows(Kernel::Fold, windows, x, y)
    }
}
