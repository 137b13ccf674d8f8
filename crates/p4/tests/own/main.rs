//! Tests on small programs of our own, which need no other files.

mod bed;
mod behaviors;
mod cached;
mod commands;
mod examples;
#[path = "../cache/lab.rs"]
mod lab;
mod origins;
#[path = "../pair/mod.rs"]
mod pair;
mod profiles;
mod remembered;
mod resting;
mod router;
mod semantics;
mod stateful;
mod tables;
mod transformed;
mod work;
