//! Replies in pieces: each message holds as many entries as fit.

use super::kinds::reply_kind;
use super::{begin, finish, flow, group, meter, monitor, nicira, port, queue, switch, table};
use crate::message::flow::FlowStats;
use crate::message::{Kind, Reply};
use crate::version::Version;
use crate::wire::Writer;

/// Bytes of a message after which a new one begins. A single entry may make it longer, up to
/// the most that a message can have.
const FULL: usize = 64_000;

/// Collects entries of a reply into messages.
///
/// ```
/// use thalweg_openflow::{Pieces, Version};
///
/// let mut pieces = Pieces::flows(Version::V13, 7, false).expect("1.3 has the reply");
/// assert!(pieces.take().is_none()); // nothing is full yet
/// let last = pieces.finish();
/// assert_eq!(last.len(), 16); // the headers of an empty reply
/// ```
#[derive(Debug)]
pub struct Pieces {
    version: Version,
    xid: u32,
    kind: Kind,
    is_nicira: bool,
    current: Writer,
    header_bytes: usize,
    full: Option<Vec<u8>>,
}

impl Pieces {
    /// Begins a reply with flow entries; `None` if the version has no such reply.
    pub fn flows(version: Version, xid: u32, is_nicira: bool) -> Option<Pieces> {
        let kind = match is_nicira {
            true => Kind::NxFlowReply,
            false => Kind::FlowReply,
        };
        let mut pieces = Pieces::of(version, xid, kind)?;
        pieces.is_nicira = is_nicira;
        Some(pieces)
    }

    fn of(version: Version, xid: u32, kind: Kind) -> Option<Pieces> {
        let current = begin(version, xid, kind, false)?;
        Some(Pieces {
            version,
            xid,
            kind,
            is_nicira: false,
            header_bytes: current.len(),
            current,
            full: None,
        })
    }

    /// Adds a flow entry. Before the next one, [`Pieces::take`] must be called.
    pub fn add_flow(&mut self, flow: &FlowStats) {
        let (version, is_nicira) = (self.version, self.is_nicira);
        self.add(|writer| flow::put_stats(version, is_nicira, flow, writer));
    }

    fn add(&mut self, put: impl FnOnce(&mut Writer)) {
        let before = self.current.len();
        put(&mut self.current);
        let is_too_long = self.current.len() > usize::from(u16::MAX);
        let entry_bytes = self.current.len() - before;
        if self.header_bytes + entry_bytes > usize::from(u16::MAX) {
            // An entry that no message can hold is left out, as Open vSwitch leaves it out.
            self.current.truncate(before);
        } else if is_too_long {
            let entry = self.current.as_bytes()[before..].to_vec();
            self.current.truncate(before);
            self.turn();
            self.current.put(&entry);
        } else if self.current.len() >= FULL {
            self.turn();
        }
    }

    /// Ends the message and begins the next one.
    fn turn(&mut self) {
        let next = begin(self.version, self.xid, self.kind, false);
        let next = next.expect("the reply was begun before");
        let mut done = std::mem::replace(&mut self.current, next);
        // More follow: the flags stand behind header and type.
        done.patch_u16(10, 1);
        self.full = finish(done);
    }

    /// A message that is full.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        self.full.take()
    }

    /// The last message, which may be without entries.
    pub fn finish(self) -> Vec<u8> {
        finish(self.current).expect("it is not full")
    }
}

/// Writes a reply as one or more messages; `None` if the version has no such reply.
pub fn encode_reply(version: Version, xid: u32, reply: &Reply) -> Option<Vec<Vec<u8>>> {
    let mut pieces = Pieces::of(version, xid, reply_kind(reply))?;
    let mut done = Vec::new();
    each(version, reply, |put| {
        pieces.add(put);
        done.extend(pieces.take());
    });
    done.push(pieces.finish());
    Some(done)
}

/// Writes all entries of a reply.
pub(super) fn put_all(version: Version, reply: &Reply, writer: &mut Writer) {
    each(version, reply, |put| put(writer));
}

/// Calls `take` for each entry of a reply, with what writes it.
fn each(version: Version, reply: &Reply, mut take: impl FnMut(&dyn Fn(&mut Writer))) {
    match reply {
        Reply::Description(description) => {
            take(&|writer| switch::put_description(description, writer));
        }
        Reply::Flow(is_nicira, flows) => flows
            .iter()
            .for_each(|flow| take(&|writer| flow::put_stats(version, *is_nicira, flow, writer))),
        Reply::Aggregate(is_nicira, sums) => {
            let version = if *is_nicira { Version::V10 } else { version };
            take(&|writer| flow::put_aggregate(version, *sums, writer));
        }
        Reply::Table(tables) => tables
            .iter()
            .for_each(|stats| take(&|writer| table::put_stats(version, stats, writer))),
        Reply::Port(ports) => ports
            .iter()
            .for_each(|stats| take(&|writer| port::put_stats(version, stats, writer))),
        Reply::Queue(queues) => queues
            .iter()
            .for_each(|stats| take(&|writer| queue::put_stats(version, stats, writer))),
        Reply::Group(groups) => groups
            .iter()
            .for_each(|stats| take(&|writer| group::put_stats(version, stats, writer))),
        Reply::GroupDesc(groups) => groups
            .iter()
            .for_each(|desc| take(&|writer| group::put_desc(version, desc, writer))),
        Reply::GroupFeatures(features) => take(&|writer| group::put_features(features, writer)),
        Reply::Meter(meters) => meters
            .iter()
            .for_each(|stats| take(&|writer| meter::put_stats(stats, writer))),
        Reply::MeterConfig(meters) => meters
            .iter()
            .for_each(|config| take(&|writer| meter::put_config(config, writer))),
        Reply::MeterFeatures(features) => take(&|writer| meter::put_features(*features, writer)),
        Reply::TableFeatures(tables) => tables
            .iter()
            .for_each(|features| take(&|writer| table::put_features(version, features, writer))),
        Reply::TableDesc(tables) => tables
            .iter()
            .for_each(|desc| take(&|writer| table::put_desc(desc, writer))),
        Reply::PortDesc(ports) => ports
            .iter()
            .for_each(|desc| take(&|writer| port::put_desc(version, desc, writer))),
        Reply::QueueDesc(queues) => queues
            .iter()
            .for_each(|desc| take(&|writer| queue::put_desc(desc, writer))),
        Reply::Monitor(updates) => updates
            .iter()
            .for_each(|update| take(&|writer| monitor::put_update(version, update, writer))),
        Reply::IpfixBridge(stats) => take(&|writer| nicira::put_ipfix(stats, writer)),
        Reply::IpfixFlow(flows) => flows
            .iter()
            .for_each(|stats| take(&|writer| nicira::put_ipfix(stats, writer))),
    }
}
