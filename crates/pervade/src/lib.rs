//! Clustering by Variational Deep Embedding (VaDE; Jiang et al., IJCAI 2017): a variational
//! auto-encoder whose prior is a mixture of Gaussians. It learns a representation, gives every row a
//! cluster and a probability for each cluster, and generates new rows of any cluster. Labels score a
//! result; no training function accepts them.
//!
//! # Start here
//! - [`Dataset`]: the rows, [read](Dataset::read) from a file or [made of numbers](Dataset::from_rows).
//! - [`Settings`]: a [`Recipe`] and a number of clusters, with what you [change](Settings::with);
//!   [`Settings::check`] compares them with the data.
//! - [`Cpu`] and [`Cuda`]: where to compute.
//! - [`fit`]: trains. An [`Observer`] hears how it goes and can stop it; [`Silent`] does neither.
//! - [`Vade`]: the model. It [assigns](Vade::assign), [embeds](Vade::embed), [generates](Vade::generate),
//!   [scores](Vade::score), and is [saved](Vade::save) and [loaded](Vade::load).
//! - [`Error`] and [`Result`]: what went wrong and where; [`Error::hint`] says what to do.
//!
//! ```
//! use pervade::{Cpu, Dataset, Recipe, Settings, Silent, fit};
//!
//! // Two bands of rows, told apart by the sign of their columns.
//! let rows = (0..200).flat_map(|i| {
//!     let side = if i % 2 == 0 { 1.0 } else { -1.0 };
//!     [side, side + (i as f32 * 0.37).sin() * 0.2, -side + (i as f32 * 0.73).cos() * 0.2]
//! });
//! let data = Dataset::from_rows(200, 3, rows.collect())?;
//! let settings = Settings::recipe(Recipe::Robust, 2).with(|s| {
//!     s.hidden = vec![16, 16];
//!     s.latents = 2;
//!     s.pretrain_epochs = Some(20);
//!     s.epochs = Some(2);
//! });
//! let device = Cpu::new();
//! let model = fit(&data, &settings.check(&data)?, &device, &mut Silent, None)?.model;
//! let clusters = model.assign(&device, &data)?.clusters;
//! assert!((0..200).all(|i| clusters[i] == clusters[i % 2]));
//! let new_rows = model.generate(&device, Some(0), 5, 7)?.rows;
//! assert_eq!(new_rows.len(), 5 * 3);
//! # Ok::<(), pervade::Error>(())
//! ```
//!
//! # Features
//! `cuda` (NVIDIA devices, opened at run time: nothing of CUDA is needed to build), `parquet`, `images`, `text` (CSV and
//! TSV) and `matlab` (readers) are all on by default. Without a reader, such files are refused by name.
//!
//! # Further
//! [`data`] reads tables with labels and writes results, [`metrics`] scores clusters, [`config`] has every setting,
//! [`train`] the events and checkpoints of a fit, [`record`] what happened in one, [`mixture`] and [`graph`] the mixture
//! and the neighbour graph by themselves. [`internals`] is what methods other than VaDE are made of.

mod clusterer;
pub mod config;
pub mod data;
mod error;
#[doc(hidden)]
pub mod files;
mod fit;
pub mod graph;
pub mod infer;
pub mod internals;
mod interrupt;
#[doc(hidden)]
pub mod memory;
pub mod metrics;
pub mod mixture;
pub mod model;
#[doc(hidden)]
pub mod nn;
#[cfg(any(feature = "images", feature = "parquet"))]
mod quiet;
pub mod record;
mod rows;
#[doc(hidden)]
pub mod seed;
pub mod train;
mod units;

/// The devices and their operations: the crate `pervade-compute`.
pub use pervade_compute as compute;
pub use pervade_compute::on_device;

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use clusterer::{Clusterer, Clustering};
#[doc(inline)]
pub use compute::{Cpu, Cuda};
#[doc(inline)]
pub use config::{Clusters, Recipe, Settings};
#[doc(inline)]
pub use data::Dataset;
pub use error::{Error, Hint, Result, Term};
pub use fit::{Fit, fit, fit_restarts};
#[doc(inline)]
pub use model::Vade;
#[doc(inline)]
pub use train::{Observer, Silent};
