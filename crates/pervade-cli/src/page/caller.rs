//! Whoever asked for the page: calls are named as their users type them.

/// Whoever asked for the page.
pub enum Caller {
    /// The command.
    Command {
        /// The model file.
        model: String,
        /// Arguments that name the data.
        data: String,
    },
    /// The Python package.
    Python,
}

impl Caller {
    /// The call that made the page.
    pub(super) fn report(&self) -> String {
        match self {
            Self::Command { model, data } => format!("pervade report {model} {data}"),
            Self::Python => "vade.report(X)".to_string(),
        }
    }

    /// An option, as it is typed.
    pub(super) fn option(&self, name: &str) -> String {
        match (self, name) {
            (Self::Command { .. }, _) => format!("`--{name}`"),
            (Self::Python, "restarts") => "`n_init`".to_string(),
            (Self::Python, _) => format!("`{name}`"),
        }
    }

    /// What to do next; `settled` if there were enough restarts for a consensus, `unnamed` if columns lack names.
    pub(super) fn next_steps(&self, settled: bool, is_image: bool, unnamed: bool) -> Vec<String> {
        let (own, restarts, generate) = match self {
            Self::Command { model, data } => (
                vec![
                    format!("`pervade assign {model} {data} --out clusters.csv` writes the cluster of every row."),
                    format!("`pervade describe {model} {data} --out columns.csv` writes how the clusters differ."),
                ],
                "The same `pervade fit` with `--restarts 10`",
                format!(
                    "`pervade generate {model} --out new.{}` makes new rows of every cluster.",
                    if is_image { "png" } else { "csv" }
                ),
            ),
            Self::Python => (
                vec![
                    "`vade.predict(X)` gives the cluster of every row, `vade.predict_proba(X)` all probabilities."
                        .to_string(),
                    "`vade.describe(X)` gives how the clusters differ as a data frame.".to_string(),
                ],
                "The same fit with `n_init=10`",
                "`vade.sample(100)` makes new rows.".to_string(),
            ),
        };
        let more =
            format!("{restarts} says how stable the clusters are, and takes the consensus of ten restarts.");
        let names = "The columns have no names: `pervade fit` with `--column-names FILE` takes them from a text file, and this \
                     page then speaks of terms or features.";
        let names = (unnamed && matches!(self, Self::Command { .. })).then(|| names.to_string());
        own.into_iter().chain((!settled).then_some(more)).chain(names).chain([generate]).collect()
    }
}
