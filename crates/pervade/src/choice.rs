//! One model from several restarts: the consensus of all, or the one with the best label-free score.

use crate::Result;
use crate::compute::Device;
use crate::config::Choice;
use crate::graph::PreparedGraph;
use crate::interrupt::Interrupt;
use crate::metrics::{self, Vote};
use crate::model::{ConsensusSummary, RestartSummary, Vade};
use crate::plain::{Comparison, PlainSummary, compared, density_of_rows};
use crate::record::{Finished, RestartRecord};
use crate::train::{Observer, Pack, Run, Stage, interrupt_check};

/// The agreement of each pair is kept for at most so many restarts: its size grows with the square of them.
const MOST_COMPARED: usize = 100;

/// The result of a fit.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fit {
    /// The model: the consensus of the restarts, or the chosen one.
    pub model: Vade,
    /// Clusters of the rows by the model.
    pub clusters: Vec<u32>,
    /// The history of every restart.
    pub restarts: Vec<RestartRecord>,
    /// Clusters of the rows, one list per restart.
    pub assignments: Vec<Vec<u32>>,
    /// Index of the chosen restart; of a consensus, the restart that agrees most with the others.
    pub chosen: usize,
    /// The vote of the restarts, if there is more than one.
    pub vote: Option<Vote>,
}

impl Fit {
    /// Mean pairwise ARI of the restarts' clusters, if there is more than one.
    pub fn stability(&self) -> Option<f64> {
        self.vote.as_ref().map(|vote| vote.stability)
    }

    /// Whether the model was trained towards the vote of the restarts.
    pub fn is_consensus(&self) -> bool {
        self.model.metadata().consensus.is_some()
    }

    /// The share of restarts that agree on the cluster of each row. Of a consensus it is that of the vote; where the clusters
    /// are those of a plain method, the restarts' clusters are matched to them. None if one restart was chosen.
    pub fn agreement(&self) -> Result<Option<Vec<f32>>> {
        let is_plain = self.model.metadata().plain.as_ref().is_some_and(|plain| plain.method.is_some());
        match &self.vote {
            Some(vote) if self.is_consensus() => Ok(Some(vote.agreement.clone())),
            Some(_) if is_plain => metrics::agreement(&self.assignments, &self.clusters).map(Some),
            _ => Ok(None),
        }
    }

    /// Remarks for the user: those of every restart, and about anything unusual in the model.
    pub fn remarks(&self) -> Vec<String> {
        let several = self.restarts.len() > 1;
        let remarks = |record: &RestartRecord| -> Vec<String> {
            let name = if several { format!("restart {}: ", record.restart) } else { String::new() };
            record.remarks.iter().map(|remark| format!("{name}{remark}")).collect()
        };
        let mut all: Vec<String> = self.restarts.iter().flat_map(remarks).collect();
        let record = &self.model.metadata().record;
        if record.reference.is_some() {
            all.extend(record.remarks.iter().map(|remark| format!("last training: {remark}")));
        }
        all.extend(self.model.metadata().plain.iter().flat_map(PlainSummary::remarks));
        let Some(kept) = record.kept_state() else { return all };
        if kept.epoch == 0 && !record.joint.is_empty() && record.reference.is_none() {
            all.push(
                "the model is the mixture start: no state of joint training had a better label-free score"
                    .to_string(),
            );
        }
        all.extend(self.model.metadata().kmeans_remark());
        if kept.live_clusters < kept.clusters {
            all.push(format!(
                "only {} of the model's {} clusters hold half a percent of the rows or more: \
                 ask for fewer clusters, or try more restarts",
                kept.live_clusters, kept.clusters
            ));
        }
        all
    }
}

/// The graph on which restarts are compared; none if their ELBO is.
pub(crate) fn judge<D: Device>(
    run: &Run<'_, D>,
    observer: &mut dyn Observer,
) -> Result<Option<PreparedGraph>> {
    let settings = run.settings;
    if settings.settings.choose == Choice::Elbo || run.data.n_rows() < 2 {
        return Ok(None);
    }
    let mut check_interrupt = interrupt_check(observer, Stage::Pretrain, 0);
    let seed = settings.settings.seed;
    PreparedGraph::on_ranks(
        run.device,
        run.ranks,
        run.data,
        &settings.preparation,
        seed,
        &mut check_interrupt,
    )
    .map(Some)
}

/// The model of a finished restart.
pub(crate) fn model_of<D: Device>(
    run: &Run<'_, D>,
    checksum: &str,
    finished: Finished,
    values: Vec<f32>,
) -> Vade {
    Vade::assemble(run.data, checksum.to_string(), run.settings, &run.architecture, values, finished)
}

/// Finished restarts, compared without labels.
pub(crate) struct Compared {
    /// The clusters of the rows, per restart.
    assignments: Vec<Vec<u32>>,
    /// The vote of the restarts, if there is more than one.
    vote: Option<Vote>,
    /// Modularity of each restart on the graph of the prepared rows.
    modularity: Vec<f64>,
    /// Clusters that one more model is trained towards, if any.
    target: Option<Vote>,
    /// How plain methods compare with the restarts, on small tables.
    plain: Option<PlainSummary>,
    /// Modularity of the clusters of k-means, if they are among those.
    kmeans_modularity: Option<f64>,
}

impl Compared {
    pub(crate) fn new<D: Device>(
        run: &Run<'_, D>,
        finished: &[(Finished, Vec<f32>)],
        observer: &mut dyn Observer,
    ) -> Result<Self> {
        let mut check_interrupt = interrupt_check(observer, Stage::Joint, run.settings.epochs);
        let mut assignments = Vec::new();
        for (finished, values) in finished {
            let model = model_of(run, "", finished.clone(), values.clone());
            let found = model.assign_with_interrupt(run.device, run.data, &mut check_interrupt)?;
            assignments.push(found.clusters);
        }
        let vote = if assignments.len() > 1 { Some(metrics::vote(&assignments)?) } else { None };
        let modularity = match &run.judge {
            Some(judge) => {
                assignments.iter().map(|clusters| judge.modularity(clusters)).collect::<Result<_>>()?
            }
            None => Vec::new(),
        };
        let mut compared =
            Self { assignments, vote, modularity, target: None, plain: None, kmeans_modularity: None };
        compared.find_target(run, finished, &mut check_interrupt)?;
        Ok(compared)
    }

    /// Clusters that one more model is trained towards: those of a method without networks, if they are preferred to the
    /// restarts', or else of their vote.
    fn find_target<D: Device>(
        &mut self,
        run: &Run<'_, D>,
        finished: &[(Finished, Vec<f32>)],
        interrupt: Interrupt<'_>,
    ) -> Result<()> {
        let voted = self.vote.clone().filter(|_| run.settings.is_consensus());
        let chosen = self.chosen(run, finished);
        let own = voted.as_ref().map_or(&self.assignments[chosen], |vote| &vote.clusters);
        let plain = match &run.judge {
            Some(judge) => compared(run.device, judge, own, interrupt)?,
            None => None,
        };
        self.target = voted;
        if let Some(Comparison { clusters, summary, kmeans_modularity }) = plain {
            (self.plain, self.kmeans_modularity) = (Some(summary), kmeans_modularity);
            if let Some(clusters) = clusters {
                self.target = Some(Vote::for_clusters(clusters, chosen));
            }
        }
        Ok(())
    }

    /// The pack that is trained towards the target: the one that is resumed, or a new one. None without a target.
    pub(crate) fn last_pack<D: Device>(
        &self,
        run: &Run<'_, D>,
        resumed: Option<Pack<D>>,
        finished: &[(Finished, Vec<f32>)],
        observer: &mut dyn Observer,
    ) -> Result<Option<Pack<D>>> {
        let (Some(vote), Some(judge)) = (&self.target, &run.judge) else { return Ok(None) };
        let reference = &finished[vote.reference];
        Ok(Some(match resumed {
            Some(pack) => Pack { vote: Some(vote.clone()), ..pack },
            None => {
                let graph = judge.graph.clone();
                Pack::for_vote(run, vote, reference, graph, self.is_plain(), observer)?
            }
        }))
    }

    /// Whether the target is that of a plain method.
    fn is_plain(&self) -> bool {
        self.plain.as_ref().is_some_and(|plain| plain.method.is_some())
    }

    /// The restart with the best score; the vote's reference if all become one model.
    fn chosen<D: Device>(&self, run: &Run<'_, D>, finished: &[(Finished, Vec<f32>)]) -> usize {
        if let Some(vote) = self.vote.as_ref().filter(|_| run.settings.is_consensus()) {
            return vote.reference;
        }
        let score = |i: usize| match self.modularity.get(i) {
            Some(&modularity) => modularity,
            None => finished[i].0.record.elbo().unwrap_or(f64::NEG_INFINITY),
        };
        (1..self.assignments.len()).fold(0, |best, i| if score(i) > score(best) { i } else { best })
    }

    /// The result of the fit; `finished` has the consensus after the restarts, if they voted.
    pub(crate) fn finish<D: Device>(
        self,
        run: &Run<'_, D>,
        checksum: &str,
        mut finished: Vec<(Finished, Vec<f32>)>,
        observer: &mut dyn Observer,
    ) -> Result<Fit> {
        let (n_restarts, chosen) = (self.assignments.len(), self.chosen(run, &finished));
        let restarts: Vec<RestartRecord> =
            finished[..n_restarts].iter().map(|(finished, _)| finished.record.clone()).collect();
        let (is_consensus, is_plain) = (finished.len() > n_restarts, self.is_plain());
        let (done, values) = finished.swap_remove(if is_consensus { n_restarts } else { chosen });
        let mut model = model_of(run, checksum, done, values);
        let clusters = if is_consensus {
            let mut check_interrupt = interrupt_check(observer, Stage::Joint, run.settings.epochs);
            model.assign_with_interrupt(run.device, run.data, &mut check_interrupt)?.clusters
        } else {
            self.assignments[chosen].clone()
        };
        let Self { assignments, vote, modularity, plain, kmeans_modularity, .. } = self;
        let explained = model.explained(run.device, run.data)?;
        let metadata = model.metadata_mut();
        metadata.explained = explained;
        metadata.occupancy = metrics::occupancy(&clusters, metadata.n_clusters)?;
        let pairs = vote.as_ref().map_or(&[][..], |vote| &vote.pairs);
        let pairs = if pairs.len() > MOST_COMPARED { &[] } else { pairs };
        let summary = |(i, record): (usize, &RestartRecord)| RestartSummary {
            restart: record.restart,
            elbo: record.elbo(),
            scores: record.kept_state().cloned(),
            prepared_modularity: modularity.get(i).copied(),
            agreement: pairs.get(i).cloned().unwrap_or_default(),
        };
        metadata.restarts = restarts.iter().enumerate().map(summary).collect();
        metadata.stability = vote.as_ref().map(|vote| vote.stability);
        let voted = vote.as_ref().filter(|_| is_consensus && !is_plain);
        metadata.plain = plain;
        metadata.consensus = voted.map(|vote| ConsensusSummary::new(vote, metadata.n_clusters));
        if let Some(judge) = &run.judge {
            metadata.prepared_modularity = Some(judge.modularity(&clusters)?);
            metadata.kmeans_modularity = match kmeans_modularity {
                Some(known) => Some(known),
                None => judge.kmeans_modularity(run.device, metadata.n_clusters)?,
            };
            if run.settings.preparation.is_all_gaussian() {
                let mut check_interrupt = interrupt_check(observer, Stage::Joint, run.settings.epochs);
                model.set_density(density_of_rows(run.device, judge, &mut check_interrupt)?);
            }
        }
        Ok(Fit { model, clusters, restarts, assignments, chosen, vote })
    }
}
