//! Access to the model during training, to plot or score every epoch.

use super::latents::for_each_block;
use super::run::{Pack, Run};
use crate::Result;
use crate::compute::Device;
use crate::infer::argmax;
use crate::model::Vade;

/// Callback with access to the model after each epoch.
///
/// An [`Observer`](super::Observer) receives events; this also reads the parameters. It cannot change them, and
/// training waits until it returns.
pub trait EpochCallback<D: Device> {
    /// Called after the mixture start (epoch zero) and after each epoch of joint training.
    fn on_epoch_end(&mut self, _run: &Run<'_, D>, _pack: &Pack<D>) -> Result<()> {
        Ok(())
    }

    /// Called with the models of restarts that were trained in parallel, in order, once they are finished.
    fn on_models(&mut self, _models: Vec<Vade>) -> Result<()> {
        Ok(())
    }
}

/// A callback that does nothing.
#[derive(Debug, Default)]
pub struct NoCallback;

impl<D: Device> EpochCallback<D> for NoCallback {}

/// Current cluster of each row, per restart: that of its most probable component, as grouped at the mixture start.
pub fn clusters<D: Device>(run: &Run<'_, D>, pack: &Pack<D>) -> Result<Vec<Vec<u32>>> {
    let c = run.settings.n_components;
    let mut clusters = vec![Vec::with_capacity(run.data.n_rows()); pack.state.restarts.len()];
    for_each_block(run, &pack.params, |pass| {
        let groups = &pack.state.start_groupings[pass.restart].groups;
        let components = pass.log_joints.chunks_exact(c).map(argmax);
        clusters[pass.restart].extend(components.map(|component| groups[component]));
        Ok(())
    })?;
    Ok(clusters)
}
