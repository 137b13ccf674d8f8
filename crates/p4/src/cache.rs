//! Remembers walks in two caches: whole behaviours of a pipeline, and its parts (traversals).
//!
//! [`traversal`] remembers what happens from a node to a stop point, under the bits that decided
//! the walk. [`behavior`] remembers what a whole pipeline does to a packet with an exact key.
//! A target may have either, both or neither; the outcome is the same.

pub mod behavior;
pub mod traversal;
