//! Clustering by Variational Deep Embedding (VaDE; Jiang et al., IJCAI 2017): a variational auto-encoder whose prior is
//! a mixture of Gaussians. It learns a representation, assigns every row to a cluster with a probability for each
//! cluster, and generates new rows of any cluster. Labels can score a result; no training function accepts them.
//!
//! # Getting started
//! - [`Dataset`]: the rows, [read](Dataset::read) from a file or [created from numbers](Dataset::from_rows).
//! - [`Settings`]: a [`Recipe`] and a number of clusters, with your [changes](Settings::with); [`Settings::check`]
//!   checks them against the data.
//! - [`Cpu`] and [`Cuda`]: the devices.
//! - [`fit`]: trains a model. An [`Observer`] follows the training and can stop it; [`Silent`] does neither.
//! - [`Vade`]: the model. It can [assign](Vade::assign), [embed](Vade::embed), [generate](Vade::generate) and
//!   [score](Vade::score), and be [saved](Vade::save) and [loaded](Vade::load).
//! - [`Error`] and [`Result`]: what went wrong and where; [`Error::hint`] says what to do.
//!
//! ```
//! use pervade::{Cpu, Dataset, Recipe, Settings, Silent, fit};
//!
//! // Two bands of rows, which differ in the sign of their columns.
//! let rows = (0..200).flat_map(|i| {
//!     let side = if i % 2 == 0 { 1.0 } else { -1.0 };
//!     [side, side + (i as f32 * 0.37).sin() * 0.2, -side + (i as f32 * 0.73).cos() * 0.2]
//! });
//! let data = Dataset::from_rows(200, 3, rows.collect())?;
//! let settings = Settings::recipe(Recipe::Robust, 2).with(|s| {
//!     s.hidden = Some(vec![16, 16]);
//!     s.latents = Some(2);
//!     s.pretrain_epochs = Some(20);
//!     s.epochs = Some(2);
//! });
//! let device = Cpu::new();
//! let model = fit(&data, &settings.check(&data)?, &device, &mut Silent, None)?.model;
//! let clusters = model.assign(&device, &data)?.clusters;
//! assert!((0..200).all(|i| clusters[i] == clusters[i % 2]));
//! let new_rows = model.generate(&device, Some(0), 5, 7, pervade::model::Cells::Auto)?.rows;
//! assert_eq!(new_rows.len(), 5 * 3);
//! # Ok::<(), pervade::Error>(())
//! ```
//!
//! # Features
//! `cuda` (NVIDIA devices; the driver is loaded at run time, CUDA is not needed to build), and the readers `parquet`,
//! `images`, `text` (CSV and TSV) and `matlab` are all on by default. Without a reader, such files give an error.
//!
//! # Modules
//! [`data`] reads tables with labels and writes results, [`metrics`] scores clusters, [`describe`] says what is in them, [`names`] has the names that people give them, [`config`] has every setting,
//! [`train`] the events and checkpoints of a fit, [`record`] its history, [`mixture`] and [`graph`] the mixture and the
//! neighbour graph on their own. [`internals`] has the building blocks for other methods.

mod choice;
mod clusterer;
pub mod config;
pub mod data;
pub mod describe;
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
pub mod names;
#[doc(hidden)]
pub mod nn;
mod origin;
mod plain;
#[cfg(any(feature = "images", feature = "parquet"))]
mod quiet;
mod ranks;
pub mod record;
mod rows;
#[doc(hidden)]
pub mod seed;
pub mod train;
mod units;

/// The devices and their operations: the crate `pervade-compute`.
pub use pervade_compute as compute;
pub use pervade_compute::on_device;

/// Tests the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use choice::Fit;
pub use clusterer::{Clusterer, Clustering};
#[doc(inline)]
pub use compute::{Cpu, Cuda};
#[doc(inline)]
pub use config::{Clusters, Recipe, Settings};
#[doc(inline)]
pub use data::Dataset;
pub use error::{Error, Hint, Result, Term};
pub use fit::{fit, fit_from_restarts, fit_on_ranks, fit_restarts, train_restart};
#[doc(inline)]
pub use model::Vade;
#[doc(inline)]
pub use train::{Observer, Silent, TrainedRestart};
