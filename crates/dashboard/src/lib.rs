//! A dashboard of a running switch, for a browser on the same machine.
//!
//! ```text
//!   browser --HTTP--> DashboardServer, on its thread --asks--> DashboardDesk, at the switch's owner
//!                       |  files of the page              <--text--      |
//!                       +- guard: who may ask                            +-- counts, entries, why
//! ```
//!
//! [`DashboardServer::start`] gives both ends. The owner takes questions from
//! [`DashboardDesk::next_question`] in its loop and answers them; the server wakes it. What an
//! answer says is the owner's matter: this crate knows no switch.
//!
//! 1. The server listens on loopback only, unless it is told otherwise.
//! 2. A request must name the server by an address or as `localhost`, so that a page of another
//!    site whose name leads here gets no answer. Nor does a page of another site that asks by
//!    itself.
//! 3. No request changes anything.
//! 4. Connections, their time, the bytes of a request and the questions that wait are bounded.
//! 5. A page needs no file but those of this server.

mod desk;
mod files;
mod guard;
mod query;
mod server;

pub use desk::{
    DashboardAnswer, DashboardDesk, DashboardQuestion, Explanation, ExplanationKind,
    WaitingQuestion,
};
pub use server::{DashboardConfig, DashboardError, DashboardServer};
