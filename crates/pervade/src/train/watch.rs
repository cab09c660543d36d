//! A look at the model itself while it is trained, for those who draw or score every epoch.

use super::latents::for_each_block;
use super::run::{Pack, Run};
use crate::Result;
use crate::compute::Device;
use crate::infer::argmax;
use crate::model::Vade;

/// Who looks. An [`Observer`](super::Observer) hears what happened; this sees the numbers, and takes what time it
/// likes. It can change nothing.
pub trait Watch<D: Device> {
    /// The mixture has started (epoch zero), or an epoch of joint training ended.
    fn epoch(&mut self, _run: &Run<'_, D>, _pack: &Pack<D>) -> Result<()> {
        Ok(())
    }

    /// Restarts that were trained side by side are done; these are their models, in order.
    fn finished(&mut self, _models: Vec<Vade>) -> Result<()> {
        Ok(())
    }
}

/// Nobody looks.
#[derive(Debug, Default)]
pub struct Unwatched;

impl<D: Device> Watch<D> for Unwatched {}

/// The cluster of each row in every restart of the pack as it stands: most probable component, grouped as the
/// start's components were.
pub fn clusters<D: Device>(run: &Run<'_, D>, pack: &Pack<D>) -> Result<Vec<Vec<u32>>> {
    let c = run.settings.n_components;
    let mut clusters = vec![Vec::with_capacity(run.data.n_rows()); pack.state.restarts.len()];
    for_each_block(run, &pack.params, |pass| {
        let groups = &pack.state.starts[pass.restart].groups;
        let components = pass.log_joints.chunks_exact(c).map(argmax);
        clusters[pass.restart].extend(components.map(|component| groups[component]));
        Ok(())
    })?;
    Ok(clusters)
}
