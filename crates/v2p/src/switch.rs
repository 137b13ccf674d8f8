//! The agent of a switch: handles each passing packet as SwitchV2P prescribes.
//!
//! ```text
//!   handle_packet(packet, from, now, random) ---> the packet, changed, and a verdict
//!   poll_transmit()                          ---> a learning or invalidation packet to send
//! ```
//!
//! A tenant's packet goes through these steps. `rules.rs` says how the profiles differ in
//! each.
//!
//! ```text
//!   1. from a host's port: throw out tags that it had no business to set; tag misdeliveries
//!   2. with a misdelivery tag: throw out the stale mapping, use a better one, blame the switch
//!      that was wrong; done                                             (misdelivery.rs)
//!   3. at a spine of `artifact`, unresolved and known: promote; done
//!   4. learn: one insertion, which depends on the role                  (learning.rs)
//!   5. if unresolved: look up, rewrite the destination, name itself in the hit tag
//!   6. at a gateway's ToR, now and then: tell the sender's ToR       (learning.rs)
//! ```
//!
//! 1. A destination is rewritten only while it is a gateway's (except for tagged packets in
//!    `artifact`), and only to the cached place of the packet's own tenant and address.
//! 2. Each packet causes at most one insertion and at most one control packet.
//! 3. The switch chooses no route, and holds or drops no tenant's packet unless its source is
//!    forged: it forwards as it would without the protocol.
//! 4. With versions, a tagged packet is only sent where a mapping newer than the failed one
//!    points, and to another place. So it is misdelivered at most as often as its destination
//!    moved.
//! 5. A host is believed about its own machines only: their addresses as sources, and "it is
//!    not here" for destinations. A host's hypervisor is trusted that far. Learning and
//!    invalidation packets, carried mappings, and resolved destinations from hosts teach
//!    nothing (section 4).
//! 6. Time and random bits are arguments; nothing is allocated after the start.
//!
//! Cost: a hash and a cache line for each key that is looked up or learned, one or two a
//! packet, and a lookup in a small set of gateways (`benches/hops.rs`).
//!
//! Reference: Zeno, Chen, Silberstein, *In-Network Address Caching for Virtual Networks*, SIGCOMM
//! 2024, sections 3.1 to 3.3.

mod learning;
mod misdelivery;

use std::collections::VecDeque;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use prefetch_index::prefetch_index;
use thalweg_packet::Instant;

use self::misdelivery::TimestampVector;
use crate::Address;
use crate::cache::{Cache, Invalidated, MappingCacheConfig};
use crate::counters::AgentCounters;
use crate::demand::Demand;
use crate::directory::Directory;
use crate::hash::IndexHash;
use crate::mapping::{Key, MapVersion, Mapping, SwitchId};
use crate::packet::{Body, Carried, CarryReason, Data, INITIAL_TTL, Packet};
use crate::partitions::Partitions;
use crate::rules::{BASE_RTT, LEARNING_PROBABILITY, Profile, Role, Rules};

/// The number of control packets that may wait for collection.
const OUTBOX_LEN: u32 = 64;

/// Where a packet entered the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ingress {
    /// The port of the host with this physical address (section 3.3: "ToRs keep a mapping between
    /// the front panel ports and the PIPs of the attached servers").
    Host(Address),
    /// A gateway's port.
    Gateway,
    /// Another switch's port.
    Fabric,
}

/// What happens to the handled packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It goes to its outer destination, which may have changed.
    Forward,
    /// It was addressed to this switch.
    Consumed,
    /// It is dropped.
    Drop(DropReason),
}

/// Why a switch drops a packet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DropReason {
    /// A host sent a learning or invalidation packet.
    ForgedControl,
    /// A host sent a packet with another's physical source, and not to a gateway.
    SpoofedSource,
}

/// The configuration of a switch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AgentConfig {
    /// The switch's identifier, which it puts into hit tags.
    pub id: SwitchId,
    /// The switch's own address, the target of its control packets.
    pub address: Address,
    /// The switch's place in the fabric.
    pub role: Role,
    /// The switch's pod; meaningless for a core.
    pub pod: u32,
    /// The protocol variant.
    pub profile: Profile,
    /// The configuration of its cache.
    pub cache: MappingCacheConfig,
    /// The probability with which a gateway ToR sends a learning packet; 0 to 1.
    pub learning_probability: f64,
    /// Whether invalidation packets are sent; without them only tags invalidate (section 5.2).
    pub sends_invalidations: bool,
    /// Whether the timestamp vector holds invalidation packets back (section 5.2).
    pub has_timestamp_vector: bool,
    /// The least time between two invalidation packets to one switch; not used in `artifact`.
    pub base_rtt: Duration,
}

impl AgentConfig {
    /// A switch of a profile as evaluated in the paper, with a cache of `capacity_entries`
    /// lines.
    ///
    /// In [`Profile::Plus`] caches have four ways and their own seed.
    pub const fn new(
        id: SwitchId,
        address: Address,
        role: Role,
        profile: Profile,
        capacity_entries: u32,
    ) -> AgentConfig {
        AgentConfig {
            id,
            address,
            role,
            pod: 0,
            profile,
            cache: cache_of(profile, id, capacity_entries),
            learning_probability: LEARNING_PROBABILITY,
            sends_invalidations: true,
            has_timestamp_vector: true,
            base_rtt: BASE_RTT,
        }
    }
}

/// The cache configuration of a profile.
const fn cache_of(profile: Profile, id: SwitchId, capacity_entries: u32) -> MappingCacheConfig {
    let paper = MappingCacheConfig::new(capacity_entries);
    match profile {
        Profile::Artifact => MappingCacheConfig {
            clears_on_refresh: true,
            zero_is_free: true,
            ..paper
        },
        Profile::Paper => paper,
        Profile::Plus => MappingCacheConfig {
            ways: 4,
            hash: IndexHash::Mixed,
            seed: id.0.wrapping_add(1),
            floor_count: 1024,
            ..paper
        },
    }
}

/// The protocol's state in one switch.
///
/// ```
/// use std::net::Ipv4Addr;
/// use std::sync::Arc;
/// use thalweg_packet::Instant;
/// use thalweg_v2p::*;
///
/// let address = |last| Address::from(Ipv4Addr::new(10, 0, 0, last));
/// let directory = Arc::new(Directory::new(vec![address(1)], vec![address(2)], []));
/// let config = AgentConfig::new(SwitchId(0), address(2), Role::Tor, Profile::Paper, 64);
/// let mut switch = SwitchAgent::new(&config, directory);
///
/// let mut packet = Packet {
///     outer_source: address(3),
///     outer_destination: address(1),
///     ttl: INITIAL_TTL,
///     flow: 7,
///     body: Body::Data(Data {
///         vni: Vni::default(),
///         inner_source: address(100),
///         inner_destination: address(101),
///         tags: Tags::default(),
///     }),
/// };
/// let verdict = switch.handle_packet(&mut packet, Ingress::Host(address(3)), Instant::ZERO, || 0);
/// assert_eq!(verdict, Verdict::Forward);
/// assert_eq!(switch.counters().admitted_free, 1); // the source was learned
/// ```
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct SwitchAgent {
    // A simulator has many agents, so a packet's data fits four cache lines of the processor:
    // the cache, the fields after it, and two of counters.
    cache: Cache,
    rules: Rules,
    role: Role,
    id: SwitchId,
    pod: u32,
    /// Packets in the outbox.
    waiting: u32,
    /// A random number below this makes a learning packet.
    learning_threshold: u64,
    directory: Arc<Directory>,
    /// The hits of caches of other sizes, if measured.
    demand: Option<Box<Demand>>,
    counters: AgentCounters,
    outbox: VecDeque<Packet>,
    address: Address,
    sends_invalidations: bool,
    timestamps: Option<TimestampVector>,
}

impl SwitchAgent {
    /// Creates a switch with an empty cache.
    ///
    /// # Panics
    /// If the learning probability is not between 0 and 1.
    pub fn new(config: &AgentConfig, directory: Arc<Directory>) -> SwitchAgent {
        let probability = config.learning_probability;
        assert!(
            (0.0..=1.0).contains(&probability),
            "{probability} is no probability"
        );
        let rules = config.profile.rules();
        let interval = rules.blames_again.then_some(config.base_rtt);
        let timestamps = || TimestampVector::new(directory.switch_count(), interval);
        SwitchAgent {
            cache: Cache::new(&config.cache),
            rules,
            role: config.role,
            id: config.id,
            pod: config.pod,
            waiting: 0,
            timestamps: config.has_timestamp_vector.then(timestamps),
            directory,
            demand: None,
            outbox: VecDeque::with_capacity(OUTBOX_LEN as usize),
            counters: AgentCounters::default(),
            address: config.address,
            learning_threshold: (probability * 2_f64.powi(32)) as u64,
            sends_invalidations: config.sends_invalidations,
        }
    }

    /// Handles a packet that came in, and changes it.
    ///
    /// Calls `random` at most once, for 32 random bits.
    #[inline]
    pub fn handle_packet(
        &mut self,
        packet: &mut Packet,
        from: Ingress,
        now: Instant,
        random: impl FnOnce() -> u32,
    ) -> Verdict {
        match &mut packet.body {
            Body::Data(data) => {
                let outer = (packet.outer_source, &mut packet.outer_destination);
                self.handle_data(data, outer, from, now, random)
            }
            &mut Body::Learning(mapping) => self.handle_learning(packet, mapping, from),
            &mut Body::Invalidation(stale) => self.handle_invalidation(packet, stale, from),
        }
    }

    /// Prefetches the agent's own data that every packet needs.
    #[inline]
    pub fn prefetch_itself(&self) {
        prefetch_index(slice::from_ref(&self.cache), 0);
        prefetch_index(slice::from_ref(&self.rules), 0);
        prefetch_index(slice::from_ref(&self.counters.packets), 0);
        prefetch_index(slice::from_ref(&self.counters.spilled), 0);
    }

    /// Prefetches the cache lines that a packet will need soon; has no other effect.
    #[inline]
    pub fn prefetch(&self, packet: &Packet) {
        if let Body::Data(data) = &packet.body {
            if self.role == Role::Tor {
                self.cache.prefetch(self.cache.locate(data.source_key()));
            }
            self.cache
                .prefetch(self.cache.locate(data.destination_key()));
        }
    }

    /// The next learning or invalidation packet to send; `None` if there is none.
    ///
    /// Handling a packet adds at most one. Up to 64 wait; further ones are counted and lost.
    #[inline]
    pub fn poll_transmit(&mut self) -> Option<Packet> {
        if self.waiting == 0 {
            return None;
        }
        self.waiting -= 1;
        self.outbox.pop_front()
    }

    /// Counts since the start.
    pub fn counters(&self) -> &AgentCounters {
        &self.counters
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Divides the cache among tenants, or shares it (`None`); empties it (section 4,
    /// "multitenancy support").
    pub fn set_partitions(&mut self, partitions: Option<Partitions>) {
        self.cache.set_partitions(partitions);
    }

    /// Starts to record what caches of up to `most_entries` lines would have hit.
    ///
    /// # Panics
    /// If `most_entries` is 0 or more than 2^30.
    pub fn measure_demand(&mut self, most_entries: usize) {
        self.demand = Some(Box::new(Demand::new(most_entries)));
    }

    /// The record since [`SwitchAgent::measure_demand`]; `None` if it was not called.
    pub fn demand(&self) -> Option<&Demand> {
        self.demand.as_deref()
    }

    /// The role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Gives the switch another role (section 4, "gateway migration"); the cache stays.
    pub fn set_role(&mut self, role: Role) {
        self.role = role;
    }

    /// Replaces the directory of gateways, switches and hosts.
    pub fn set_directory(&mut self, directory: Arc<Directory>) {
        if let Some(timestamps) = &mut self.timestamps {
            timestamps.grow(directory.switch_count());
        }
        self.directory = directory;
    }

    fn handle_data(
        &mut self,
        data: &mut Data,
        (source, destination): (Address, &mut Address),
        from: Ingress,
        now: Instant,
        random: impl FnOnce() -> u32,
    ) -> Verdict {
        self.counters.packets += 1;
        let is_unresolved = self.directory.is_gateway(*destination);
        let mut is_returned = false;
        if let Ingress::Host(host) = from
            && self.rules.tor_tags
        {
            if source != host && !is_unresolved {
                self.counters.spoofed_sources += 1;
                return Verdict::Drop(DropReason::SpoofedSource);
            }
            // Only the marks of the way show that a host returns its own packet.
            is_returned = source != host || is_unresolved && data.tags.was_resolved();
            self.admit_tags(&mut data.tags, host, source, is_returned);
        }
        if let Some(stale) = data.tags.misdelivery {
            let blames = is_returned || !self.rules.tor_tags && self.role == Role::Tor;
            let blamed = if blames { data.tags.hit.take() } else { None };
            self.handle_tagged(data, destination, is_unresolved, stale);
            if let Some(switch) = blamed {
                self.blame(switch, stale.of(data.destination_key()), now);
            }
        } else if !(is_unresolved && self.promotes_unresolved(data)) {
            let inserted = self.learn(data, source, *destination, is_unresolved, from);
            if is_unresolved {
                self.resolve(data, destination);
            }
            let lesson = inserted.or_else(|| self.destination_to_teach(data, *destination));
            if let Some(lesson) = lesson {
                self.teach(data, source, lesson, random);
            }
        }
        self.take_carried_before_host(data, *destination);
        Verdict::Forward
    }

    /// Step 5: looks up the destination and rewrites it.
    fn resolve(&mut self, data: &mut Data, destination: &mut Address) {
        let key = data.destination_key();
        self.note_question(key);
        let Some(found) = self.cache.lookup(self.cache.locate(key), key) else {
            self.counters.misses += 1;
            return;
        };
        self.counters.hits += 1;
        *destination = found.place;
        data.tags.hit = Some(self.id);
        data.tags.resolved_version = found.version;
        let is_popular = self.role == Role::Spine && found.was_active;
        if is_popular && self.rules.spine_resolves && self.leaves_pod(found.place) {
            self.promote(data, key, found.place, found.version);
        }
    }

    /// Step 3: whether an unresolved packet goes on with a promotion.
    #[inline]
    fn promotes_unresolved(&mut self, data: &mut Data) -> bool {
        if self.role != Role::Spine || self.rules.spine_resolves {
            return false;
        }
        let key = data.destination_key();
        let Some(found) = self.cache.lookup(self.cache.locate(key), key) else {
            return false;
        };
        self.note_question(key);
        self.promote(data, key, found.place, found.version);
        true
    }

    #[inline]
    fn note_question(&mut self, key: Key) {
        if let Some(demand) = &mut self.demand {
            demand.note_question(key);
        }
    }

    fn promote(&mut self, data: &mut Data, key: Key, place: Address, version: MapVersion) {
        let mapping = Mapping {
            key,
            place,
            version,
        };
        let reason = CarryReason::Promoted;
        let displaced = data.tags.carried.replace(Carried { mapping, reason });
        self.counters.carried_lost += u64::from(displaced.is_some());
        self.counters.promoted += 1;
    }

    fn leaves_pod(&self, place: Address) -> bool {
        let attachment = self.directory.attachment(place);
        attachment.is_none_or(|attachment| attachment.pod != self.pod)
    }

    /// Removes the carried mapping before a host: it may be another tenant's, and hosts have
    /// no use for it.
    #[inline]
    fn take_carried_before_host(&mut self, data: &mut Data, destination: Address) {
        if data.tags.carried.is_none() || !self.role.is_tor() {
            return;
        }
        let attachment = self.directory.attachment(destination);
        if attachment.is_some_and(|attachment| attachment.tor == self.id) {
            data.tags.carried = None;
            self.counters.carried_lost += 1;
        }
    }

    fn handle_learning(&mut self, packet: &mut Packet, mapping: Mapping, from: Ingress) -> Verdict {
        if matches!(from, Ingress::Host(_)) {
            return self.refuse_control();
        }
        if packet.outer_destination != self.address {
            return self.pass_control_on(packet);
        }
        self.counters.learned += 1;
        self.insert(mapping, crate::cache::Admission::Always);
        Verdict::Consumed
    }

    fn handle_invalidation(
        &mut self,
        packet: &mut Packet,
        stale: Mapping,
        from: Ingress,
    ) -> Verdict {
        if matches!(from, Ingress::Host(_)) {
            return self.refuse_control();
        }
        let set = self.cache.locate(stale.key);
        let removed = self.cache.invalidate(set, stale) == Invalidated::Removed;
        self.counters.invalidated_by_packet += u64::from(removed);
        match packet.outer_destination == self.address {
            true => Verdict::Consumed,
            false => self.pass_control_on(packet),
        }
    }

    fn refuse_control(&mut self) -> Verdict {
        self.counters.forged_control += 1;
        Verdict::Drop(DropReason::ForgedControl)
    }

    fn pass_control_on(&self, packet: &mut Packet) -> Verdict {
        if self.rules.renews_control {
            packet.outer_source = self.address;
            packet.ttl = INITIAL_TTL;
        }
        Verdict::Forward
    }

    /// Sends a control packet to a switch; nothing is sent if that is this switch.
    fn send_control(&mut self, switch: SwitchId, body: Body) {
        if switch == self.id {
            return;
        }
        let Some(outer_destination) = self.directory.switch_address(switch) else {
            self.counters.unknown_targets += 1;
            return;
        };
        if self.waiting == OUTBOX_LEN {
            self.counters.control_overflow += 1;
            return;
        }
        self.waiting += 1;
        self.outbox.push_back(Packet {
            outer_source: self.address,
            outer_destination,
            ttl: INITIAL_TTL,
            flow: 0,
            body,
        });
    }
}
