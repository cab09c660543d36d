//! Answers questions about the rows and the model.

use pervade::compute::Device;
use pervade::data::Table;
use pervade::describe::{ColumnTexts, Description};
use pervade::model::Vade;
use pervade::names::ClusterNames;
use pervade::{Error, Result};
use pervade_report::{Example, ExplorerPage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::row_set::{Group, RowSet};
use super::{Endpoint, NamesFile, Refusal, compare, filter, names, rows, search, walk};
use crate::console::Console;
use crate::page::cards::shown_columns;
use crate::page::{self, Caller, Examples, Gathered, Subject};
use crate::shell;

/// What `pervade explore` was asked to show.
pub(crate) struct Explored<'a> {
    pub(crate) model: &'a Vade,
    pub(crate) table: &'a Table,
    pub(crate) model_name: String,
    pub(crate) data: String,
    pub(crate) title: String,
    pub(crate) points: usize,
}

/// The model, the rows, and everything that is known about them.
pub(crate) struct Worker<'a, D: Device> {
    pub(super) explored: Explored<'a>,
    pub(super) device: &'a D,
    pub(super) names: ClusterNames,
    pub(super) names_file: NamesFile,
    /// The model with merged clusters.
    pub(super) model: Vade,
    pub(super) gathered: Gathered,
    pub(super) found: Description,
    pub(super) texts: ColumnTexts,
    page: ExplorerPage,
}

impl<'a, D: Device> Worker<'a, D> {
    /// Passes all rows through the model and makes the page.
    pub(crate) fn new(
        explored: Explored<'a>,
        device: &'a D,
        names: ClusterNames,
        names_file: NamesFile,
        console: &Console,
    ) -> Result<Self> {
        let model = names.applied_to(explored.model)?;
        let subject = subject(&explored, &model, &names);
        let gathered = Gathered::new(&subject, device, console)?;
        let (content, found) = page::content(&subject, device, &gathered)?;
        let texts = ColumnTexts::new(&model);
        let page = ExplorerPage::new(&content);
        Ok(Self { explored, device, names, names_file, model, gathered, found, texts, page })
    }

    /// The page as it is now.
    pub(super) fn html(&self) -> String {
        self.page.html(&self.state())
    }

    /// Takes over other names and merges. Merging changes what is known about the rows.
    pub(super) fn rename(&mut self, names: ClusterNames) -> Result<()> {
        if names.merged_into() != self.names.merged_into() {
            let model = names.applied_to(self.explored.model)?;
            let assignments = model.assign(self.device, &self.explored.table.data)?;
            let before = std::mem::replace(&mut self.gathered.results.assignments, assignments);
            let subject = subject(&self.explored, &model, &names);
            match page::content(&subject, self.device, &self.gathered) {
                Ok((content, found)) => {
                    (self.found, self.page, self.model) = (found, ExplorerPage::new(&content), model);
                }
                Err(error) => {
                    self.gathered.results.assignments = before;
                    return Err(error);
                }
            }
        }
        self.names = names;
        Ok(())
    }

    pub(super) fn answer(&mut self, endpoint: Endpoint, body: &[u8]) -> super::Reply {
        let answer = match endpoint {
            Endpoint::Compare => compare::answer(self, parsed(body)?),
            Endpoint::Filter => filter::answer(self, parsed(body)?),
            Endpoint::Names => names::answer(self, parsed(body)?),
            Endpoint::Row => rows::answer(self, parsed(body)?),
            Endpoint::Search => search::answer(self, parsed(body)?),
            Endpoint::Walk => walk::answer(self, parsed(body)?),
        }?;
        self.explored.table.data.check_unchanged()?;
        serde_json::to_vec(&answer).map_err(|e| Error::device(format!("the answer is no JSON: {e}")).into())
    }

    pub(super) fn n_rows(&self) -> usize {
        self.explored.table.data.n_rows()
    }

    pub(super) fn examples(&self) -> Examples<'_> {
        Examples::new(&self.model, self.explored.table.into(), &self.texts)
    }

    /// The cluster of a row.
    pub(super) fn cluster(&self, row: usize) -> usize {
        self.gathered.results.assignments.clusters[row] as usize
    }

    /// The columns that examples of these clusters show.
    pub(super) fn columns_of(&self, clusters: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut clusters: Vec<usize> = clusters.collect();
        clusters.sort_unstable();
        clusters.dedup();
        let described: Vec<_> = clusters.iter().map(|&k| &self.found.clusters[k]).collect();
        shown_columns(self.model.n_columns(), &described)
    }

    /// Rows as the page shows them, with their clusters.
    pub(super) fn listed(&self, rows: &[usize]) -> Value {
        let columns = self.columns_of(rows.iter().map(|&row| self.cluster(row)));
        let examples = self.examples();
        let example = |&row: &usize| Example {
            confidence: Some(f64::from(self.gathered.results.confidence(row))),
            ..examples.of_row(row, &columns)
        };
        let made: Vec<Example> = rows.iter().map(example).collect();
        let clusters: Vec<usize> = rows.iter().map(|&row| self.cluster(row)).collect();
        json!({
            "examples": pervade_report::examples_json(&made, self.model.n_clusters()),
            "clusters": clusters,
        })
    }

    /// The rows of a group; the rest is none by itself.
    pub(super) fn rows_of(&self, group: &Group) -> std::result::Result<Option<RowSet>, Refusal> {
        let k = self.model.n_clusters();
        match group {
            Group::Rows(hex) => RowSet::from_hex(hex, self.n_rows()).map(Some),
            Group::Clusters(clusters) => match clusters.iter().find(|&&cluster| cluster as usize >= k) {
                Some(cluster) => Err(Refusal::bad(format!("there is no cluster {cluster}"))),
                None => {
                    let is_in = |row: usize| clusters.contains(&(self.cluster(row) as u32));
                    Ok(Some(RowSet::new(self.n_rows(), is_in)))
                }
            },
            Group::Rest => Ok(None),
        }
    }

    /// What the page must know beside the report.
    fn state(&self) -> Value {
        let table = self.explored.table;
        let column = |j: usize| json!({"name": self.texts.name(j), "levels": self.texts.levels(j)});
        let is_picture = self.model.image().is_some();
        let columns: Vec<Value> =
            if is_picture { Vec::new() } else { (0..self.model.n_columns()).map(column).collect() };
        json!({
            "n_rows": self.n_rows(),
            "columns": columns,
            "kept": table.kept.as_ref().map_or(&[][..], |kept| &kept.names),
            "labels": table.labels.as_ref().map_or(&[][..], |labels| labels.names()),
            "names": self.names.clusters(),
            "names_file": self.names_file.name(),
            "read_only": self.names_file.read_only(),
            "longest_name": pervade::names::LONGEST_NAME,
            "command": format!("pervade explore {} {}", self.explored.model_name, self.explored.data),
            "assign": format!(
                "pervade assign {} {} --names {}",
                self.explored.model_name, self.explored.data, shell::word(&self.names_file.name())
            ),
        })
    }
}

fn subject<'a>(explored: &'a Explored<'_>, model: &'a Vade, names: &'a ClusterNames) -> Subject<'a> {
    Subject {
        model,
        table: explored.table.into(),
        caller: Caller::Command { model: explored.model_name.clone(), data: explored.data.clone() },
        title: explored.title.clone(),
        points: explored.points,
        // The page takes names from its state, which changes faster; merges change its content.
        names: Some(names),
    }
}

fn parsed<'b, T: Deserialize<'b>>(body: &'b [u8]) -> std::result::Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|e| Refusal::bad(format!("the question cannot be read: {e}")))
}
