//! Graph.
