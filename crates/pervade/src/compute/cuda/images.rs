//! Windows of images, images from windows, and what bends a layer's output.

use super::driver::{Arg, Kernel, Launch};
use super::{Cuda, Curve, M, Result, Windows, blocks};

/// What `kernels/images.cu` calls `Windows`.
#[repr(C)]
struct Raw {
    height: u32,
    width: u32,
    channels: u32,
    size: u32,
    stride: u32,
    padding: u32,
    down: u32,
    across: u32,
}

impl From<&Windows> for Raw {
    fn from(windows: &Windows) -> Self {
        let [down, across] = windows.places().map(|n| n as u32);
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

/// The kernel's number of a curve, and its slope.
fn numbered(curve: Curve) -> (u32, f32) {
    match curve {
        Curve::Leaky { slope } => (0, slope),
        Curve::Logistic => (1, 0.0),
    }
}

/// Threads of a block where each works for itself.
const THREADS: u32 = 256;

/// A thread for each of `n` numbers.
pub(super) fn one_each(kernel: Kernel, n: usize) -> Launch {
    Launch { kernel, grid: (blocks(n, THREADS), 1, 1), threads: THREADS, shared: 0 }
}

impl Cuda {
    pub(super) fn unfold_images(&self, windows: &Windows, x: &M, y: &mut M) -> Result<()> {
        windows.n_images(x, y);
        self.move_windows(Kernel::Unfold, windows, x, y)
    }

    pub(super) fn fold_images(&self, windows: &Windows, x: &M, y: &mut M) -> Result<()> {
        windows.n_images(y, x);
        self.move_windows(Kernel::Fold, windows, x, y)
    }

    fn move_windows(&self, kernel: Kernel, windows: &Windows, x: &M, y: &mut M) -> Result<()> {
        let (raw, n) = (Raw::from(windows), y.restarts * y.stride());
        let args = [Arg::of(&raw), x.data.address(0).into(), y.data.address(0).into(), n.into()];
        self.driver.launch(one_each(kernel, n), &args)
    }

    pub(super) fn bend_numbers(&self, curve: Curve, x: &mut M) -> Result<()> {
        let ((curve, slope), n) = (numbered(curve), x.restarts * x.stride());
        let args = [curve.into(), slope.into(), Arg::from(x.data.address(0)), n.into()];
        self.driver.launch(one_each(Kernel::Bend, n), &args)
    }

    pub(super) fn bend_numbers_backward(&self, curve: Curve, y: &M, dy: &mut M) -> Result<()> {
        let ((curve, slope), n) = (numbered(curve), y.restarts * y.stride());
        assert_eq!(n, dy.restarts * dy.stride(), "a gradient for each number");
        let addresses = [y.data.address(0), dy.data.address(0)].map(Arg::from);
        let args: Vec<Arg<'_>> =
            [curve.into(), slope.into()].into_iter().chain(addresses).chain([n.into()]).collect();
        self.driver.launch(one_each(Kernel::BendBackward, n), &args)
    }
}
