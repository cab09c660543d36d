//! A fitted model in, files of other tools out.
//!
//! - [`onnx`]: a graph from raw rows to clusters, probabilities, latents and score, with the preparation inside.
//! - [`tensorboard`]: curves of training as event files, latents as files of the projector.
//! - [`card`]: a model card in Markdown.
//!
//! The same model gives the same bytes; nothing here prints or reads the clock.

pub mod card;
pub mod onnx;
mod protobuf;
pub mod tensorboard;
