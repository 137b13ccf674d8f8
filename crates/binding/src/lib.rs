//! A P4 program and its P4Info, bound to each other.
//!
//! A controller speaks P4Info's numbers, a program runs by its own indices. Both sides of a
//! connection translate between the two, so this crate has neither a switch nor a session:
//!
//! ```text
//!   switch:      Operation --Converter--> thalweg_p4::state::Update
//!   controller:  simple_switch command --Messages--> P4Runtime update
//!   without a P4Info of the compiler's: Program --derive--> P4Info
//! ```
//!
//! [`Binding`] joins the names; the rest uses it.

mod binding;
mod convert;
mod derive;
mod messages;

pub use binding::{Binding, BoundTable, open_tables};
pub use convert::{Converter, call_from, key_from, problem_of, value_of};
pub use derive::derive;
pub use messages::{Messages, messages_for};
