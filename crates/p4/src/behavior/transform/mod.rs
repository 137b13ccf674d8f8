//! B-Cache as a program: the cache table and the detector, put in front of a P4 program's ingress.
//!
//! ```text
//!   begin     keep what the key reads and ingress may change; the epoch, from the table's default
//!   cache     exact over the sound vector; hit: one compound action, and ingress is over
//!     | miss
//!   the program's ingress, which notes what it writes that no key has, what it counts, and
//!     | whether it does what no table can remember (`stop`)
//!   whole?    nothing of that kind was done
//!   count     two rows of 65,536 counters of 16 bits, by two hashes of the key
//!   hot?      both above the threshold, which is a register
//!   report    clear both; a digest with epoch, key and outputs
//! ```
//!
//! What comes out is BMv2's JSON again, for any target that runs v1model: nothing in it is ours
//! alone. Who fills the table is a controller that reads the digests: [`Keeper`] says with what.
//!
//! A compound action sets every output from its data. The paper's would set one that this way did
//! not write to what the reported packet had; here an output that is not in the key has a bit beside
//! its value that says whether to set it. Odd primitives are replicated: one compound action for
//! each set of counts, and of headers that come or go. Registers are read into the key, at indices
//! that the packet gives, and what the way wrote to them is written from the entry's data, each with
//! a bit and a jump (`state`). Tables whose entries count are asked again (`recount`).
//!
//! What can be none of these ends the way, so that it is never reported, and its packets go through
//! the program as before: registers at other indices, meters, time and chance, digests (a packet has
//! one, so a report would take the place of the program's), clones, packets that begin anew,
//! truncation, stacks and unions as a whole.
//!
//! Egress stays as it is: v1model sends digests at the end of ingress, so a detector behind egress
//! has no way to report.
//!
//! 1. With any entries that the keeper installs, and its barrier around each change, packets,
//!    digests of the program, counters, registers and meters are those of the program before.
//! 2. Fields of the key whose header is invalid are 0 in the entry, as in the lookup: the validity
//!    of each such header is in the key, too.
//!
//! References: Zhang et al., *B-Cache*, sections III and IV, figures 1 and 6; the JSON format of
//! BMv2, version 2.23 (`docs/JSON_format.md` of the behavioral model).

mod build;
mod entries;
mod instrument;
mod keeper;
mod make;
mod plan;
mod recount;
mod state;
mod value;

pub use entries::{CacheEntries, report_of};
pub use keeper::{Changed, Keeper, KeeperCounts, Operation, changed_by};
pub use plan::{CacheAction, Count, FieldPart, Output, Plan, Recount, Write};

use serde_json::Value;

use crate::error::LoadError;
use crate::program::Program;

/// What everything that is added is called, before a dot.
pub const PREFIX: &str = "bcache";

/// Compound actions that a cache table has at most.
pub const MAX_COMPOUND_ACTIONS: usize = 64;

/// A program with a cache in front.
#[derive(Clone, Debug)]
pub struct Transformed {
    /// The new program, as BMv2's JSON.
    pub json: Value,
    /// What its digests and entries are made of.
    pub plan: Plan,
}

/// Puts a cache table of so many entries, and the detector, in front of a program.
///
/// # Errors
/// If the text is no program; if its ingress is empty, it has a name that begins with `bcache`, or
/// its behaviours are decided by what no table can have as a key from the first table on.
pub fn transform(text: &str, entries: u32) -> Result<Transformed, LoadError> {
    let program = Program::from_json(text)?;
    let mut json: Value = serde_json::from_str(text).map_err(|error| LoadError::Syntax {
        line: error.line(),
        column: error.column(),
        what: error.to_string(),
    })?;
    let plan = make::make(&program, &json, entries)?;
    instrument::instrument(&program, &plan, &mut json);
    build::build(&program, &plan, &mut json);
    // What we write can be read, unless the key is wider than a table's may be.
    if let Err(error) = Program::from_value(&json) {
        return Err(LoadError::Refused {
            pointer: String::new(),
            source_location: None,
            what: format!(
                "the sound match vector has {} bits, more than a table's key can have ({error})",
                plan.key_bits()
            ),
        });
    }
    Ok(Transformed { json, plan })
}
