//! log p(x|z) with its gradient.

use super::driver::{Arg, Kernel, Launch, MOST_RESTARTS};
use super::{Cuda, CudaSums, M};
use crate::{Likelihood, Likelihoods, Result};

/// What `kernels/likelihood.cu` calls by the same name.
#[repr(C)]
struct Families {
    kind: [u32; MOST_RESTARTS],
    variance: [f32; MOST_RESTARTS],
}

impl Families {
    fn new(families: &[Likelihood]) -> Self {
        let mut all = Self { kind: [0; MOST_RESTARTS], variance: [1.0; MOST_RESTARTS] };
        for (i, family) in families.iter().enumerate() {
            (all.kind[i], all.variance[i]) = family.kernel_code();
        }
        all
    }
}

impl Cuda {
    /// With weights of the samples, and their gradient, or with equal ones.
    pub(super) fn log_likelihood(
        &self,
        families: &[Likelihood],
        x: &M,
        shares: Option<(&M, &mut M)>,
        output: &mut M,
        sums: &mut CudaSums,
    ) -> Result<()> {
        assert!(output.rows == sums.n_samples, "sums made for batches of this size");
        let fits = |(shares, d): &(&M, &mut M)| shares.stride() == output.rows && d.stride() == output.rows;
        assert!(shares.as_ref().is_none_or(fits), "a share for each sample of each row");
        let (shares, d_shares) =
            shares.map_or((0, 0), |(shares, d)| (shares.data.address(0), d.data.address(0)));
        let n_multinomial = families.iter().filter(|family| **family == Likelihood::Multinomial).count();
        assert!([0, families.len()].contains(&n_multinomial), "all families are multinomial, or none");
        let is_multinomial = n_multinomial > 0;
        let families = Families::new(families);
        let launch = Launch {
            kernel: if is_multinomial { Kernel::Multinomial } else { Kernel::Likelihood },
            grid: (output.rows as u32, output.restarts as u32, 1),
            threads: if x.columns > 128 { 128 } else { 64 },
            shared: 0,
        };
        let args = [
            Arg::of(&families),
            x.data.address(0).into(),
            shares.into(),
            d_shares.into(),
            output.data.address(0).into(),
            sums.address().into(),
            sums.n_rows.into(),
            x.rows.into(),
            output.rows.into(),
            x.columns.into(),
            output.columns.into(),
        ];
        // The families and the width of the output say nothing about multinomial rows.
        self.driver.launch(launch, if is_multinomial { &args[1..args.len() - 1] } else { &args })
    }
}

impl Likelihoods for Cuda {
    fn likelihood(&self, families: &[Likelihood], x: &M, output: &mut M, sums: &mut CudaSums) -> Result<()> {
        self.log_likelihood(families, x, None, output, sums)
    }
}
