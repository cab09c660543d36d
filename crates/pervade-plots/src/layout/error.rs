//! Why there is no layout.

use std::fmt;

use super::LayoutInput;

/// Why there is no layout.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// A part of the input has the wrong length.
    Shape(String),
    /// A row has a value that is infinite or not a number.
    NotFinite {
        /// The row.
        row: usize,
    },
    /// A neighbour is not a row.
    NoSuchNeighbour {
        /// The row whose neighbour it is.
        row: usize,
    },
    /// The caller's progress function stopped the layout.
    Interrupted,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape(message) => f.write_str(message),
            Self::NotFinite { row } => write!(f, "the latents of row {row} are not finite"),
            Self::NoSuchNeighbour { row } => write!(f, "a neighbour of row {row} is not a row"),
            Self::Interrupted => f.write_str("the layout was interrupted"),
        }
    }
}

impl std::error::Error for LayoutError {}

impl LayoutInput<'_> {
    /// The number of rows, if the parts fit together.
    pub(super) fn check(&self) -> Result<usize, LayoutError> {
        let j = self.n_latents;
        if j == 0 || !self.latents.len().is_multiple_of(j) {
            let found = self.latents.len();
            return Err(LayoutError::Shape(format!("{found} latents are not a number of rows of {j}")));
        }
        let n = self.latents.len() / j;
        if n >= u32::MAX as usize {
            return Err(LayoutError::Shape(format!("{n} rows are too many")));
        }
        if !self.components.is_empty() && self.components.len() != n {
            let found = self.components.len();
            return Err(LayoutError::Shape(format!("components of {found} rows, expected {n}")));
        }
        let k = self.neighbours.len().checked_div(n).unwrap_or(0);
        if self.neighbours.len() != k * n {
            let found = self.neighbours.len();
            return Err(LayoutError::Shape(format!(
                "{found} neighbours are not as many for each of {n} rows"
            )));
        }
        if let Some(at) = self.latents.iter().position(|x| !x.is_finite()) {
            return Err(LayoutError::NotFinite { row: at / j });
        }
        match self.neighbours.iter().position(|&row| row as usize >= n) {
            Some(at) => Err(LayoutError::NoSuchNeighbour { row: at / k }),
            None => Ok(n),
        }
    }
}
