//! Rules as text: reads and writes the syntax of `ovs-ofctl`.
//!
//! ```text
//!   text --Parser--> Flow, Group, Match, Operation, PlacedChange --Display--> text
//!   cache entry --print_megaflow, print_effects--> text
//! ```
//!
//! A file of rules may have groups and meters as well.
//!
//! Existing files are read unchanged: files for `ovs-ofctl add-flows`, `add-groups` and
//! `bundle`, the output of `dump-flows` and `dump-groups`, packets for `ofproto/trace`. Syntax
//! and meaning are Open vSwitch's (`ovs-fields(7)`, `ovs-actions(7)`, `ovs-ofctl(8)`).
//! Unsupported features are refused by name ([`TextError::Unsupported`]), never skipped.
//!
//! 1. Every value that was read prints as a text that reads back as the same value.
//! 2. A text is read whole or not at all, and all its faults are reported together.
//! 3. No text makes the parser panic. Its work is linear in the text except for nesting, which
//!    is bounded, as are lines and lists of faults.
//! 4. A rule that cannot mean what it says is refused: a port without a protocol, a value
//!    wider than its field, two conditions that exclude each other. Open vSwitch accepts some
//!    of these and ignores the condition.
//!
//! Ports above 65,279 and the reserved numbers are OpenFlow 1.0's, as in Open vSwitch:
//! [`LOCAL_PORT`] and [`NO_PORT`] are the numbers in `in_port=LOCAL` and
//! `set_field:ANY->in_port`.
//!
//! A line is cut into pairs (`line`), whose keys are looked up (`fields`, `matches`,
//! `actions`). What a rule's match implies about the packet (`shape`) decides which fields it
//! may use.

mod actions;
mod datapath;
mod entry;
mod error;
mod fields;
mod file;
mod flow;
mod group;
mod intern;
mod line;
mod matches;
mod meter;
mod print;
mod shape;
mod value;

pub use error::{Place, ReadError, TextError, TextErrors};
pub use file::{MAX_ERRORS, MAX_LINE_BYTES, Parser, PlacedChange, Rules};
pub use intern::Interner;
pub use print::{
    MegaflowStyle, PortSpelling, print_actions, print_effects, print_match, print_megaflow,
    print_megaflow_with_ports, print_request, print_subfield, print_translation, print_value,
};
pub use value::{LOCAL_PORT, NO_PORT};

use crate::flow::{Flow, Group};
use crate::matching::Match;

/// Reads one rule in the syntax of `ovs-ofctl add-flow`.
///
/// ```
/// use thalweg_pipeline::text::parse_flow;
///
/// let flow = parse_flow("table=1,ip,nw_dst=10.0.0.0/8,actions=dec_ttl,output:2")?;
/// assert_eq!(flow.to_string(), "table=1, ip,nw_dst=10.0.0.0/8 actions=dec_ttl,output:2");
/// # Ok::<(), thalweg_pipeline::text::TextError>(())
/// ```
///
/// # Errors
/// If the text is not a valid rule.
pub fn parse_flow(text: &str) -> Result<Flow, TextError> {
    Parser::new().parse_flow(text)
}

/// Reads conditions, as `ovs-appctl ofproto/trace` takes a packet.
///
/// # Errors
/// If a field is unknown, has no such value, or lacks its prerequisite.
pub fn parse_match(text: &str) -> Result<Match, TextError> {
    Parser::new().parse_match(text)
}

/// Reads the bits of a field: `NXM_OF_IN_PORT[]`, `ip_src[8..31]` or a bare name.
///
/// # Errors
/// If the field is unknown or has no such bits.
pub fn parse_subfield(text: &str) -> Result<crate::Subfield, TextError> {
    Parser::new().parse_subfield(text)
}

/// Reads a cache entry's key and mask, as [`print_megaflow`] prints them in OpenFlow's
/// spelling. Also reads any [`Match`] as it prints itself.
///
/// ```
/// use thalweg_pipeline::text::parse_megaflow;
///
/// let entry = parse_megaflow("recirc_id=0,eth,dl_type=0x0800/0xff00,nw_dst=10.0.0.0/8,present:tcp=0x0")?;
/// assert_eq!(entry.terms().len(), 4);
/// # Ok::<(), thalweg_pipeline::text::TextError>(())
/// ```
///
/// # Errors
/// If a field is unknown or has no such value.
pub fn parse_megaflow(text: &str) -> Result<Match, TextError> {
    Parser::new().parse_megaflow(text)
}

/// Reads a cache entry's key and mask in the datapath's spelling, as printed by
/// [`print_megaflow`] and `ovs-appctl dpctl/dump-flows`.
///
/// ```
/// use thalweg_pipeline::text::parse_datapath_flow;
///
/// let flow = "recirc_id(0),in_port(1),eth_type(0x0800),ipv4(dst=10.0.0.0/255.0.0.0,frag=no)";
/// assert_eq!(parse_datapath_flow(flow)?.terms().len(), 5);
/// # Ok::<(), thalweg_pipeline::text::TextError>(())
/// ```
///
/// # Errors
/// If an attribute is unknown or has no such value.
pub fn parse_datapath_flow(text: &str) -> Result<Match, TextError> {
    Parser::new().parse_datapath_flow(text)
}

/// Reads rules, one per line; `name` stands for the file in messages.
///
/// # Errors
/// All faults of the text, at most [`MAX_ERRORS`]; nothing is loaded then.
pub fn parse_rules(name: &str, text: &str) -> Result<Rules, TextErrors> {
    Parser::new().parse_rules(name, text)
}

/// Reads groups, one per line; `name` stands for the file in messages.
///
/// # Errors
/// All faults of the text, at most [`MAX_ERRORS`]; nothing is loaded then.
pub fn parse_groups(name: &str, text: &str) -> Result<Vec<Group>, TextErrors> {
    Parser::new().parse_groups(name, text)
}

/// Reads a file of changes; `name` stands for the file in messages.
///
/// ```
/// use thalweg_pipeline::text::parse_changes;
///
/// let text = "@10 bundle {\n delete ip\n add arp actions=flood\n}\n@20 delete";
/// let changes = parse_changes("changes", text).expect("is one");
/// assert_eq!((changes[0].position, changes[0].change.operations.len()), (10, 2));
/// assert_eq!(changes[1].position, 20);
/// ```
///
/// # Errors
/// All faults of the text, at most [`MAX_ERRORS`]; nothing is loaded then.
pub fn parse_changes(name: &str, text: &str) -> Result<Vec<PlacedChange>, TextErrors> {
    Parser::new().parse_changes(name, text)
}
