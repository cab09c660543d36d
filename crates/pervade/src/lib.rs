//! Clustering by Variational Deep Embedding (VaDE; Jiang et al., IJCAI 2017): a variational
//! auto-encoder whose prior is a mixture of Gaussians. It learns a representation, gives every row a
//! cluster and a probability for each cluster, and generates new rows of any cluster. Labels score a
//! result; no training function accepts them.
//!
//! ```
//! use pervade::compute::Cpu;
//! use pervade::config::{Clusters, Recipe, Settings};
//! use pervade::data::Dataset;
//! use pervade::train::Silent;
//!
//! // Two bands of rows, told apart by the sign of their columns.
//! let rows = (0..200).flat_map(|i| {
//!     let side = if i % 2 == 0 { 1.0 } else { -1.0 };
//!     [side, side + (i as f32 * 0.37).sin() * 0.2, -side + (i as f32 * 0.73).cos() * 0.2]
//! });
//! let data = Dataset::from_rows(200, 3, rows.collect())?;
//! let settings = Settings {
//!     hidden: vec![16, 16],
//!     latents: 2,
//!     pretrain_epochs: Some(20),
//!     epochs: Some(2),
//!     ..Settings::recipe(Recipe::Robust, Clusters::Fixed(2))
//! };
//! let device = Cpu::new();
//! let fit = pervade::fit(&data, &settings.check(&data)?, &device, &mut Silent, None)?;
//! let clusters = fit.model.assign(&device, &data)?.clusters;
//! assert!((0..200).all(|i| clusters[i] == clusters[i % 2]));
//! let new_rows = fit.model.generate(&device, Some(0), 5, 7)?.rows;
//! assert_eq!(new_rows.len(), 5 * 3);
//! # Ok::<(), pervade::Error>(())
//! ```

mod clusterer;
pub mod config;
pub mod data;
mod error;
pub mod files;
mod fit;
pub mod graph;
pub mod infer;
mod interrupt;
pub mod memory;
pub mod metrics;
pub mod mixture;
pub mod model;
pub mod nn;
mod quiet;
pub mod record;
mod rows;
pub mod seed;
pub mod train;
mod units;

/// The devices and their operations: the crate `pervade-compute`.
pub use pervade_compute as compute;
pub use pervade_compute::on_device;

pub use clusterer::{Clusterer, Clustering};
pub use error::{Error, Result};
pub use fit::{Fit, fit, fit_restarts};
