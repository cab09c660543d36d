//! Tables of scores: mean and deviation, and Markdown with aligned columns.

/// Mean, sample standard deviation (`None` for a single run) and maximum.
pub(crate) struct Summary {
    pub(crate) mean: f64,
    pub(crate) sd: Option<f64>,
    pub(crate) best: f64,
}

impl Summary {
    /// Summarises some values; `None` if empty.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let square = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        let sd = (values.len() > 1).then(|| (square / (n - 1.0)).sqrt());
        let best = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (!values.is_empty()).then_some(Self { mean, sd, best })
    }

    /// `85.00 ± 7.07`.
    pub(crate) fn words(&self, digits: usize, scale: f64) -> String {
        let mean = format!("{:.digits$}", scale * self.mean);
        self.sd.map_or(mean.clone(), |sd| format!("{mean} ± {:.digits$}", scale * sd))
    }
}

/// Markdown with padded cells; names left-aligned, numbers right-aligned.
pub(crate) fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        for (column, cell) in line.iter().enumerate() {
            let width = widths[column];
            text.push_str(&if column == 0 {
                format!("| {cell:<width$} |")
            } else {
                format!(" {cell:>width$} |")
            });
        }
        text.push('\n');
        if number == 0 {
            let rule = |column: usize| match column {
                0 => format!("| {} |", "-".repeat(widths[0])),
                _ => format!(" {}: |", "-".repeat(widths[column] - 1)),
            };
            text.push_str(&(0..line.len()).map(rule).collect::<String>());
            text.push('\n');
        }
    }
    text
}
