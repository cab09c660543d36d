//! The consensus of restarts: a model like any other, trained towards their vote.

use crate::common::{planted, tiny};
use pervade::Fit;
use pervade::compute::Cpu;
use pervade::config::{Choice, Clusters, Recipe, Settings};
use pervade::data::Dataset;
use pervade::graph::PreparedGraph;
use pervade::metrics::{accuracy, ari, stability, vote};
use pervade::model::{Cells, Vade};

const ROWS: usize = 600;

fn data() -> (Dataset<'static>, Vec<u32>) {
    let (rows, labels) = planted(ROWS, 8, 4);
    (Dataset::from_rows(ROWS, 8, rows).unwrap(), labels)
}

fn settings(restarts: usize) -> Settings {
    tiny(Recipe::Robust, Clusters::Fixed(4)).with(|s| {
        s.restarts = restarts;
        s.pretrain_epochs = Some(10);
        s.epochs = Some(8);
    })
}

fn fitted(settings: Settings) -> Fit {
    crate::common::fit(&data().0, settings)
}

/// How well the model's clusters agree with the vote of its restarts.
fn agreement_with_vote(fit: &Fit) -> f64 {
    ari(&fit.clusters, &fit.vote.as_ref().unwrap().clusters).unwrap()
}

#[test]
fn the_model_is_trained_towards_the_vote() {
    let fit = fitted(settings(5));
    let (found, expected) = (fit.vote.as_ref().unwrap(), vote(&fit.assignments).unwrap());
    assert_eq!(*found, expected);
    assert_eq!(fit.stability(), stability(&fit.assignments).unwrap());
    assert!(fit.is_consensus());
    let reference = ari(&fit.assignments[found.reference], &found.clusters).unwrap();
    let model = agreement_with_vote(&fit);
    assert!(model >= reference && model > 0.95, "model {model}, its start {reference}");
    let record = &fit.model.metadata().record;
    assert_eq!((record.restart, record.reference), (5, Some(found.reference)));
    assert!(record.joint.iter().all(|epoch| epoch.terms.neighbour != 0.0));
    assert!(accuracy(&fit.clusters, &data().1).unwrap() > 0.9);
}

/// Also without the neighbour term in the restarts.
#[test]
fn the_vote_has_a_weight_of_its_own() {
    let fit = fitted(settings(3).with(|s| s.neighbour_weight = Some(0.0)));
    assert!(fit.restarts.iter().all(|record| record.joint.iter().all(|epoch| epoch.terms.neighbour == 0.0)));
    assert!(fit.model.metadata().record.joint.iter().all(|epoch| epoch.terms.neighbour != 0.0));
    assert!(agreement_with_vote(&fit) > 0.9);
}

#[test]
fn the_model_assigns_and_is_saved_like_any_other() {
    let ((data, _), cpu, fit) = (data(), Cpu::new(), fitted(settings(3)));
    let about = fit.model.metadata();
    assert_eq!(about.occupancy.iter().sum::<u64>(), ROWS as u64);
    let consensus = about.consensus.as_ref().unwrap();
    let mean = fit.vote.as_ref().unwrap().agreement.iter().map(|&share| f64::from(share)).sum::<f64>();
    assert!((consensus.agreement - mean / ROWS as f64).abs() < 1e-9);
    let read = Vade::from_bytes(&fit.model.to_bytes().unwrap(), "model".as_ref()).unwrap();
    assert_eq!(read.metadata().consensus.as_ref(), Some(consensus));
    assert_eq!(read.assign(&cpu, &data).unwrap().clusters, fit.clusters);
    assert_eq!(read.generate(&cpu, Some(1), 5, 0, Cells::Auto).unwrap().clusters, [1; 5]);
}

/// One or two restarts cannot outvote each other, and other choices keep one of the restarts.
#[test]
fn without_a_majority_one_restart_is_chosen_on_the_graph_of_the_rows() {
    let (data, _) = data();
    for settings in [settings(2), settings(4).with(|s| s.choose = Choice::Modularity)] {
        let preparation = settings.clone().check(&data).unwrap().preparation().clone();
        let graph = PreparedGraph::new(&Cpu::new(), &data, &preparation, settings.seed).unwrap();
        let fit = fitted(settings);
        assert!(!fit.is_consensus() && fit.model.metadata().consensus.is_none());
        assert_eq!(fit.clusters, fit.assignments[fit.chosen]);
        let scores: Vec<f64> = fit.assignments.iter().map(|c| graph.modularity(c).unwrap()).collect();
        assert!(scores.iter().all(|score| *score <= scores[fit.chosen]), "{scores:?}, chosen {}", fit.chosen);
        let summaries = &fit.model.metadata().restarts;
        assert!(summaries.iter().map(|s| s.prepared_modularity).eq(scores.iter().map(|&q| Some(q))));
    }
}

#[test]
fn a_paper_model_says_nothing_of_votes_and_graphs_of_rows() {
    let fit = fitted(tiny(Recipe::Paper, Clusters::Fixed(4)).with(|s| s.restarts = 3));
    let bytes = fit.model.to_bytes().unwrap();
    for key in ["consensus", "prepared_modularity", "kmeans_modularity", "reference"] {
        let key = format!("\\\"{key}\\\"");
        assert!(!bytes.windows(key.len()).any(|window| window == key.as_bytes()), "{key}");
    }
}

/// The graph of the rows knows the planted clusters better than a shuffled copy, and k-means nearly as well.
#[test]
fn the_graph_of_the_rows_prefers_the_planted_clusters() {
    let (data, labels) = data();
    let preparation = settings(1).check(&data).unwrap().preparation().clone();
    let graph = PreparedGraph::new(&Cpu::new(), &data, &preparation, 0).unwrap();
    let planted = graph.modularity(&labels).unwrap();
    let wrong: Vec<u32> =
        labels.iter().enumerate().map(|(i, &k)| if i % 3 == 0 { (k + 1) % 4 } else { k }).collect();
    assert!(planted > graph.modularity(&wrong).unwrap() + 0.1);
    let kmeans = graph.kmeans_modularity(&Cpu::new(), 4).unwrap().unwrap();
    assert!((planted - kmeans).abs() < 0.1, "planted {planted}, k-means {kmeans}");
    assert_eq!(graph.kmeans_modularity(&Cpu::new(), ROWS + 1).unwrap(), None);
}
