//! B-Cache as a program: puts the cache table and the detector before a P4 program's ingress.
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
//! The output is again BMv2's JSON, for any target that runs v1model; it uses no extension of
//! ours. A controller reads the digests and fills the table; [`Keeper`] tells it what to write.
//!
//! A compound action sets every output from its data. In the paper, an output that a path did
//! not write is set to the reported packet's value. Here an output outside the key has a bit
//! beside its value that says whether to set it. Odd primitives are replicated: there is one
//! compound action for each set of counts, and of headers added or removed. Registers are read
//! into the key, at indices that the packet gives. What the path wrote to them is written from
//! the entry's data, each write with a bit and a jump (`state`). Tables whose entries count are
//! looked up again (`recount`).
//!
//! Everything else ends the path: it is never reported, and its packets run the program as
//! before. This concerns registers at other indices, meters, time and chance, clones,
//! resubmission and recirculation, truncation, and stacks and unions as a whole. It concerns
//! digests too: a packet has only one, so a report would replace the program's.
//!
//! Egress is unchanged: v1model sends digests at the end of ingress, so a detector after egress
//! could not report.
//!
//! 1. With any entries that the keeper installs, and its barrier around each change, packets,
//!    the program's digests, counters, registers and meters equal those of the original
//!    program.
//! 2. Key fields of an invalid header are 0 in the entry, as in the lookup: the validity of
//!    each such header is in the key, too.
//!
//! References: Zhang et al., *B-Cache*, sections III and IV, figures 1 and 6; the JSON format
//! of BMv2, version 2.23 (`docs/JSON_format.md` of the behavioral model).

mod build;
mod entries;
mod instrument;
mod keeper;
mod make;
mod node;
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

/// The name of everything that is added, before a dot.
pub const PREFIX: &str = "bcache";

/// Maximum compound actions of a cache table.
pub const MAX_COMPOUND_ACTIONS: usize = 64;

/// A program with a cache in front.
#[derive(Clone, Debug)]
pub struct Transformed {
    /// The new program, as BMv2's JSON.
    pub json: Value,
    /// The layout of its digests and entries.
    pub plan: Plan,
}

/// Puts a cache table of `entries` entries, and the detector, before a program's ingress.
///
/// # Errors
/// Fails if the text is no program, if its ingress is empty, or if it has a name that begins
/// with `bcache`. Also fails if ingress depends on no field, or begins at a node that ends every
/// path.
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
    // Our output is readable, unless the key exceeds a table's maximum width.
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
