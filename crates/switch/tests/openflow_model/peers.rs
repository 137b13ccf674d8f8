//! Several controllers of one agent, and what each must be answered.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use rand_pcg::Pcg64Mcg;
use thalweg_control::openflow::target::Change;
use thalweg_control::openflow::{
    Agent, ConnectionConfig, ConnectionId, ConnectionKind, Version, Versions,
};
use thalweg_openflow::action::Instructions;
use thalweg_openflow::message::bundle::{BundleAdd, BundleControl, BundleControlType};
use thalweg_openflow::message::connection::{Hello, Role, RoleMessage};
use thalweg_openflow::message::flow::{
    ALL_TABLES, FlowCommand, FlowFlags, FlowMod, FlowStats, FlowStatsRequest,
};
use thalweg_openflow::message::group::{
    ALL_BUCKETS, ALL_GROUPS, ANY_GROUP, GroupCommand, GroupDesc, GroupMod, GroupType,
};
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::message::{Message, Reply, Request};
use thalweg_openflow::{Context, ErrorCode, ErrorMessage, Match, decode, encode, xid_of};
use thalweg_switch::OpenFlowPlane;

use crate::list::{Deeds, Faults, Group, List, PlainBucket, Rule, Wanted, check, conditions};
use crate::random::{self, one_of};

const NOW: Duration = Duration::ZERO;

/// What a connection must be answered next.
#[derive(Debug)]
enum Expected {
    Barrier,
    /// One of these, with the message that it quotes.
    Error(Faults, Bytes),
    Bundle(BundleControlType, u32),
    Role(Role, Option<u64>),
    Flows(Vec<Rule>),
    Groups(Vec<(u32, Group)>),
}

/// Messages that wait for their commit.
#[derive(Default)]
struct Bundle {
    flags: u16,
    is_closed: bool,
    messages: Vec<(Bytes, Change)>,
}

struct Peer {
    id: ConnectionId,
    version: Version,
    context: Context,
    role: Role,
    bundles: BTreeMap<u32, Bundle>,
}

/// What the test has met.
#[derive(Default, Debug)]
pub(crate) struct Counted {
    errors: BTreeMap<&'static str, u64>,
    commits: u64,
    rules: u64,
    packets: u64,
    groups: u64,
}

impl Counted {
    pub(crate) fn check(&self) {
        let wanted = [
            "OFPBAC_BAD_OUT_GROUP",
            "OFPBFC_BAD_ID",
            "OFPBFC_MSG_FAILED",
            "OFPBFC_BUNDLE_CLOSED",
            "OFPBFC_MSG_BAD_XID",
            "OFPBIC_BAD_TABLE_ID",
            "OFPBRC_IS_SECONDARY",
            "OFPFMFC_OVERLAP",
            "OFPFMFC_TABLE_FULL",
            "OFPGMFC_BUCKET_EXISTS",
            "OFPGMFC_GROUP_EXISTS",
            "OFPGMFC_LOOP",
            "OFPGMFC_UNKNOWN_BUCKET",
            "OFPGMFC_UNKNOWN_GROUP",
            "OFPRRFC_STALE",
            "OFPTMFC_EPERM",
        ];
        for name in wanted {
            assert!(self.errors.contains_key(name), "no {name}: {self:?}");
        }
        assert!(self.commits > 100 && self.rules > 1_000, "{self:?}");
        assert!(self.packets > 1_000 && self.groups > 1_000, "{self:?}");
    }
}

/// The connections of one agent, and the list.
pub(crate) struct Peers {
    agent: Agent<OpenFlowPlane>,
    list: List,
    generation: Option<u64>,
    peers: Vec<Peer>,
    /// The connection that reads everything, of the newest version.
    reader: ConnectionId,
    xid: u32,
    seed: u64,
    pub(crate) counted: Counted,
}

fn open(agent: &mut Agent<OpenFlowPlane>, version: Version) -> ConnectionId {
    let config = ConnectionConfig {
        kind: ConnectionKind::Controller,
        versions: Versions::ALL,
        probe_interval: None,
        packet_rate: None,
        change_rate: None,
    };
    let id = agent.open(config, NOW);
    let versions = [version].into_iter().collect();
    let hello = encode(version, 0, &Message::Hello(Hello { versions }));
    agent.receive(id, &hello.expect("every version has it"), NOW);
    while agent.take_output(id).is_some() {}
    id
}

impl Peers {
    pub(crate) fn new(mut agent: Agent<OpenFlowPlane>) -> Peers {
        let reader = open(&mut agent, Version::V15);
        Peers {
            agent,
            list: List::default(),
            generation: None,
            peers: Vec::new(),
            reader,
            xid: 0,
            seed: 0,
            counted: Counted::default(),
        }
    }

    /// Replaces the controllers with new ones; every second time rules and groups stay.
    pub(crate) fn begin(&mut self, seed: u64, chance: &mut Pcg64Mcg) {
        self.seed = seed;
        for peer in self.peers.drain(..) {
            self.agent.close(peer.id);
        }
        for _ in 0..3 {
            let version = one_of(chance, &Version::ALL);
            let id = open(&mut self.agent, version);
            self.peers.push(Peer {
                id,
                version,
                context: Context::default(),
                role: Role::Equal,
                bundles: BTreeMap::new(),
            });
        }
        for peer in 0..self.peers.len() {
            if self.peers[peer].version == Version::V10 {
                let names_table = encode(Version::V10, 1, &Message::FlowModTableId(true));
                self.send(peer, &[names_table.expect("1.0 has it")], usize::MAX);
            }
        }
        if seed.is_multiple_of(2) || !self.has_metadata() {
            self.empty();
        }
        let tables = random::limits(chance);
        let limits = tables.iter().map(|(table, known)| {
            let limit = &known.limit;
            let most = limit.rules.expect("each has a limit");
            (*table, (most as usize, limit.evicts))
        });
        self.list.limit(limits.collect());
        let plane = self.agent.target();
        plane.set_tables(tables).expect("the switch runs");
    }

    fn empty(&mut self) {
        self.list.rules.clear();
        self.list.groups.clear();
        let all_flows = FlowMod {
            is_nicira: false,
            command: FlowCommand::Delete,
            table: ALL_TABLES,
            new_cookie: u64::MAX,
            cookie: 0,
            cookie_mask: 0,
            idle_timeout_s: 0,
            hard_timeout_s: 0,
            priority: 0,
            buffer: None,
            out_port: PortNumber::ANY,
            out_group: ANY_GROUP,
            flags: FlowFlags(0),
            importance: 0,
            matching: Match::default(),
            instructions: Instructions::default(),
        };
        let all_groups = GroupMod {
            command: GroupCommand::Delete,
            kind: GroupType::All,
            group: ALL_GROUPS,
            command_bucket: ALL_BUCKETS,
            buckets: Vec::new(),
            selection: None,
        };
        for asked in [
            Message::FlowMod(Box::new(all_flows)),
            Message::GroupMod(all_groups),
        ] {
            let bytes = encode(Version::V15, 0, &asked).expect("1.5 has it");
            self.agent.receive(self.reader, &bytes, NOW);
        }
    }

    /// Whether all connections can read rules that write metadata.
    pub(crate) fn has_metadata(&self) -> bool {
        self.peers.iter().all(|peer| peer.version > Version::V10)
    }

    /// Rules that went for others.
    pub(crate) fn evicted(&self) -> u64 {
        self.list.evicted
    }

    pub(crate) fn count(&self) -> usize {
        self.peers.len()
    }

    pub(crate) fn version(&self, peer: usize) -> Version {
        self.peers[peer].version
    }

    pub(crate) fn next_xid(&mut self) -> u32 {
        self.xid += 1;
        self.xid
    }

    /// Sends messages in pieces of some bytes, and compares the answers with the list's.
    pub(crate) fn send(&mut self, peer: usize, sent: &[Vec<u8>], piece: usize) {
        let mut expected = Vec::new();
        for bytes in sent {
            let answers = self.answers(peer, &Bytes::copy_from_slice(bytes));
            let xid = xid_of(bytes);
            expected.extend(answers.into_iter().map(|answer| (xid, answer)));
        }
        let (id, version) = (self.peers[peer].id, self.peers[peer].version);
        let stream = sent.concat();
        let mut told = Vec::new();
        for piece in stream.chunks(piece) {
            self.agent.receive(id, piece, NOW);
            told.extend(self.drain(id));
        }
        self.compare(version, expected, told);
    }

    /// All output of a connection, as far as it was asked for.
    fn drain(&mut self, id: ConnectionId) -> Vec<Bytes> {
        let mut told = Vec::new();
        loop {
            while let Some(bytes) = self.agent.take_output(id) {
                told.push(bytes);
            }
            if !self.agent.has_work(id) {
                return told;
            }
            self.agent.work(id, NOW);
        }
    }

    fn compare(&mut self, version: Version, expected: Vec<(u32, Expected)>, told: Vec<Bytes>) {
        let mut told = told.into_iter().filter_map(|bytes| {
            let frame = decode(&bytes, Context::default());
            let frame = frame.unwrap_or_else(|refusal| panic!("{refusal}: {bytes:02x?}"));
            let is_unasked = matches!(
                frame.message,
                Message::RoleStatus(_) | Message::FlowRemoved(_) | Message::PacketIn(_)
            );
            (!is_unasked).then_some(frame)
        });
        for (xid, expected) in expected {
            let place = format!("sequence {}, OpenFlow {version}, xid {xid}", self.seed);
            let frame = told.next();
            let frame = frame.unwrap_or_else(|| panic!("{place}: no answer, but {expected:?}"));
            let quoted = match &expected {
                Expected::Error(_, offending) => xid_of(offending),
                _ => xid,
            };
            assert_eq!(frame.xid, quoted, "{place}: {frame:?}");
            self.compare_one(&place, version, expected, frame.message);
        }
        if let Some(frame) = told.next() {
            let seed = self.seed;
            panic!("sequence {seed}, OpenFlow {version}: {frame:?} too much");
        }
    }

    fn compare_one(&mut self, place: &str, version: Version, expected: Expected, told: Message) {
        match (expected, told) {
            (Expected::Barrier, Message::BarrierReply) => {}
            (Expected::Error(faults, offending), Message::Error(error)) => {
                let fits =
                    |code: &&ErrorCode| error == ErrorMessage::new(version, **code, &offending);
                let code = faults.iter().find(fits);
                let code = code.unwrap_or_else(|| {
                    panic!("{place}: {:?} instead of {faults:?}", error.code(version))
                });
                *self.counted.errors.entry(code.name()).or_default() += 1;
            }
            (Expected::Bundle(kind, bundle), Message::BundleControl(reply)) => {
                assert_eq!((reply.kind, reply.bundle), (kind, bundle), "{place}");
            }
            (Expected::Role(role, generation), Message::RoleReply(reply)) => {
                assert_eq!(reply.role, role, "{place}");
                // Nicira's message has none.
                let known = generation.or(Some(u64::MAX));
                assert!(
                    reply.is_nicira || reply.generation == known,
                    "{place}: {reply:?}"
                );
            }
            (Expected::Flows(rules), Message::Reply(Reply::Flow(_, flows), false)) => {
                self.counted.rules += rules.len() as u64;
                self.counted.packets += rules.iter().map(|rule| rule.packets).sum::<u64>();
                let told = flows.iter().map(|flow| rule_of(version, flow)).collect();
                let known = rules.into_iter().map(|rule| as_told(version, rule));
                assert_same(place, known.collect(), told);
            }
            (Expected::Groups(known), Message::Reply(Reply::GroupDesc(told), false)) => {
                self.counted.groups += known.len() as u64;
                let as_told = |(id, group)| (id, as_told_group(version, group));
                let told: Vec<_> = told.iter().map(group_of).map(as_told).collect();
                let known: Vec<_> = known.into_iter().map(as_told).collect();
                assert_eq!(told, known, "{place}");
            }
            (expected, told) => panic!("{place}: {told:?} instead of {expected:?}"),
        }
    }

    /// Reads all rules and groups in the newest version, and asks for what happened unasked.
    pub(crate) fn compare_all(&mut self) {
        let version = Version::V15;
        let asked = FlowStatsRequest::all();
        let (flows, groups) = (self.next_xid(), self.next_xid());
        let expected = vec![
            (flows, Expected::Flows(self.list.rules.clone())),
            (groups, Expected::Groups(self.all_groups())),
        ];
        let asked = [
            encode(
                version,
                flows,
                &Message::Request(Request::Flow(asked), false),
            ),
            encode(
                version,
                groups,
                &Message::Request(Request::GroupDesc(ALL_GROUPS), false),
            ),
        ];
        for bytes in asked {
            self.agent
                .receive(self.reader, &bytes.expect("1.5 has it"), NOW);
        }
        self.agent.handle_events(NOW);
        let told = self.drain(self.reader);
        self.compare(version, expected, told);
    }

    fn all_groups(&self) -> Vec<(u32, Group)> {
        let groups = self.list.groups.iter();
        groups.map(|(id, group)| (*id, group.clone())).collect()
    }

    /// What a message must be answered; the list follows it.
    fn answers(&mut self, peer: usize, bytes: &Bytes) -> Vec<Expected> {
        let error = |code| vec![Expected::Error(vec![code], bytes.clone())];
        let message = match decode(bytes, self.peers[peer].context) {
            Ok(frame) => frame.message,
            Err(refusal) => return error(refusal.code),
        };
        let is_secondary = self.peers[peer].role == Role::Secondary;
        let answered = match message {
            Message::FlowModTableId(is_on) => {
                self.peers[peer].context.flow_mod_table_id = is_on;
                return Vec::new();
            }
            Message::BarrierRequest => Ok(vec![Expected::Barrier]),
            Message::RoleRequest(asked) => self.elect(peer, asked),
            Message::Request(Request::Flow(asked), _) => Ok(vec![self.flows(&asked)]),
            Message::Request(Request::GroupDesc(id), _) => {
                let mut groups = self.all_groups();
                groups.retain(|(known, _)| id == ALL_GROUPS || id == *known);
                Ok(vec![Expected::Groups(groups)])
            }
            _ if is_secondary => return error(ErrorCode::OFPBRC_IS_SECONDARY),
            Message::BundleControl(asked) => return self.control(peer, bytes, &asked),
            Message::BundleAdd(asked) => self.keep(peer, xid_of(bytes), &asked),
            message => {
                let change = change_of(message).expect("the test sends nothing else");
                let version = self.peers[peer].version;
                let done = self.list.change(version, &[change]);
                return match done {
                    Ok(()) => Vec::new(),
                    Err((_, faults)) => vec![Expected::Error(faults, bytes.clone())],
                };
            }
        };
        answered.unwrap_or_else(error)
    }

    fn flows(&self, asked: &FlowStatsRequest) -> Expected {
        let wanted = Wanted {
            table: (asked.table != ALL_TABLES).then_some(asked.table),
            matching: conditions(&asked.matching),
            priority: None,
            cookie: (asked.cookie, asked.cookie_mask),
            port: asked.out_port,
            group: asked.out_group,
        };
        let rules = self.list.selected(&wanted).into_iter();
        Expected::Flows(rules.cloned().collect())
    }

    fn elect(&mut self, peer: usize, asked: RoleMessage) -> Result<Vec<Expected>, ErrorCode> {
        if matches!(asked.role, Role::Primary | Role::Secondary)
            && let Some(generation) = asked.generation
        {
            let is_older = |known: u64| (generation.wrapping_sub(known) as i64) < 0;
            if self.generation.is_some_and(is_older) {
                return Err(ErrorCode::OFPRRFC_STALE);
            }
            self.generation = Some(generation);
        }
        if asked.role == Role::Primary {
            for other in &mut self.peers {
                if other.role == Role::Primary {
                    other.role = Role::Secondary;
                }
            }
        }
        if asked.role != Role::NoChange {
            self.peers[peer].role = asked.role;
        }
        Ok(vec![Expected::Role(self.peers[peer].role, self.generation)])
    }

    fn control(&mut self, peer: usize, bytes: &Bytes, asked: &BundleControl) -> Vec<Expected> {
        use BundleControlType as Kind;
        let error = |code| vec![Expected::Error(vec![code], bytes.clone())];
        let version = self.peers[peer].version;
        let bundles = &mut self.peers[peer].bundles;
        let id = asked.bundle;
        let reply = match asked.kind {
            Kind::OpenRequest => {
                if bundles.remove(&id).is_some() {
                    return error(ErrorCode::OFPBFC_BAD_ID);
                }
                let bundle = Bundle {
                    flags: asked.flags,
                    ..Bundle::default()
                };
                bundles.insert(id, bundle);
                Kind::OpenReply
            }
            Kind::CloseRequest => {
                let Some(bundle) = bundles.get_mut(&id) else {
                    return error(ErrorCode::OFPBFC_BAD_ID);
                };
                if bundle.is_closed || bundle.flags != asked.flags {
                    let is_closed = bundle.is_closed;
                    bundles.remove(&id);
                    return error(match is_closed {
                        true => ErrorCode::OFPBFC_BUNDLE_CLOSED,
                        false => ErrorCode::OFPBFC_BAD_FLAGS,
                    });
                }
                bundle.is_closed = true;
                Kind::CloseReply
            }
            Kind::DiscardRequest => match bundles.remove(&id) {
                Some(_) => Kind::DiscardReply,
                None => return error(ErrorCode::OFPBFC_BAD_ID),
            },
            _ => {
                let Some(bundle) = bundles.remove(&id) else {
                    return error(ErrorCode::OFPBFC_BAD_ID);
                };
                if bundle.flags != asked.flags {
                    return error(ErrorCode::OFPBFC_BAD_FLAGS);
                }
                let (messages, changes): (Vec<_>, Vec<_>) = bundle.messages.into_iter().unzip();
                if let Err((index, faults)) = self.list.change(version, &changes) {
                    let mut errors = vec![Expected::Error(faults, messages[index].clone())];
                    errors.extend(error(ErrorCode::OFPBFC_MSG_FAILED));
                    return errors;
                }
                self.counted.commits += u64::from(!changes.is_empty());
                Kind::CommitReply
            }
        };
        vec![Expected::Bundle(reply, id)]
    }

    /// A message for a bundle.
    fn keep(
        &mut self,
        peer: usize,
        xid: u32,
        asked: &BundleAdd,
    ) -> Result<Vec<Expected>, ErrorCode> {
        let context = self.peers[peer].context;
        let bundles = &mut self.peers[peer].bundles;
        let bundle = bundles.entry(asked.bundle).or_insert_with(|| Bundle {
            flags: asked.flags,
            ..Bundle::default()
        });
        if bundle.is_closed || bundle.flags != asked.flags {
            let is_closed = bundle.is_closed;
            bundles.remove(&asked.bundle);
            return Err(match is_closed {
                true => ErrorCode::OFPBFC_BUNDLE_CLOSED,
                false => ErrorCode::OFPBFC_BAD_FLAGS,
            });
        }
        if xid_of(&asked.message) != xid {
            return Err(ErrorCode::OFPBFC_MSG_BAD_XID);
        }
        let frame = decode(&asked.message, context).map_err(|refusal| refusal.code)?;
        let change = change_of(frame.message).expect("the test sends nothing else");
        if let Change::Flow(asked) = &change {
            check(asked)?;
        }
        bundle.messages.push((asked.message.clone(), change));
        Ok(Vec::new())
    }
}

fn change_of(message: Message) -> Option<Change> {
    match message {
        Message::FlowMod(asked) => Some(Change::Flow(asked)),
        Message::GroupMod(asked) => Some(Change::Group(asked)),
        Message::PacketOut(asked) => Some(Change::PacketOut(asked)),
        Message::TableMod(asked) => Some(Change::Table(asked)),
        _ => None,
    }
}

fn rule_of(version: Version, told: &FlowStats) -> Rule {
    let rule = Rule {
        table: told.table,
        priority: told.priority,
        matching: conditions(&told.matching),
        cookie: told.cookie,
        timeouts_s: (told.idle_timeout_s, told.hard_timeout_s),
        importance: told.importance,
        flags: told.flags.0,
        does: Deeds::of(&told.instructions),
        packets: told.counts.packets,
    };
    as_told(version, rule)
}

/// A rule as far as a version can say it.
fn as_told(version: Version, mut rule: Rule) -> Rule {
    if version < Version::V14 {
        rule.importance = 0;
    }
    if version < Version::V13 {
        rule.flags = 0;
    }
    if version < Version::V12 {
        // OpenFlow 1.0 has one list of actions, and 1.1 other words for them.
        rule.does = Deeds::default();
    }
    rule
}

fn group_of(told: &GroupDesc) -> (u32, Group) {
    let buckets = told.buckets.iter();
    let buckets = buckets.map(|bucket| PlainBucket::of(told.kind, bucket));
    let group = Group {
        kind: told.kind,
        buckets: buckets.collect(),
    };
    (told.group, group)
}

/// A group as far as a version can say it: buckets have numbers from OpenFlow 1.5 on.
fn as_told_group(version: Version, mut group: Group) -> Group {
    if version < Version::V15 {
        for (number, bucket) in group.buckets.iter_mut().enumerate() {
            bucket.id = number as u32;
        }
    }
    group
}

fn assert_same(place: &str, mut known: Vec<Rule>, mut told: Vec<Rule>) {
    known.sort();
    told.sort();
    let lacking: Vec<_> = known.iter().filter(|rule| !told.contains(rule)).collect();
    let wrong: Vec<_> = told.iter().filter(|rule| !known.contains(rule)).collect();
    assert!(
        lacking.is_empty() && wrong.is_empty(),
        "{place}:\nlacking {lacking:#?}\nbut told {wrong:#?}"
    );
    assert_eq!(told.len(), known.len(), "{place}");
}
