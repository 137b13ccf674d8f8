//! The pipeline: tables, groups, ports and stations, at every version still in use.
//!
//! A [`crate::Change`] is prepared at later versions while readers stay at `v`, then published
//! or undone. Neither touches what a reader at `v` sees: each rule carries the range of
//! versions in which it exists; groups, ports and stations have histories. Once no reader
//! holds an older version, [`Pipeline::reclaim`] drops what only those versions could see. All
//! of it can be done in steps.
//!
//! 1. At most one change is unpublished. Its versions are later than every published one. The
//!    next version is published next, except for a large change, which skips versions
//!    (`prepare`).
//! 2. A change takes effect whole or not at all: if an operation cannot be done, those before
//!    it are undone.
//! 3. In a table at a version, no two rules have the same match and priority.
//! 4. The layout covers every field that a living rule or group matches or reads. A change
//!    that needs more fields makes a new layout and moves all rules to it; the layout never
//!    shrinks. Keys of an older layout mean nothing under the new one. This is why
//!    [`Pipeline::layout`] is shared: a reader that holds another layout starts over.
//! 5. A rule that replaces another in place (a modification, or an equal add) takes over its
//!    age among rules of its priority. It also takes over the counters and later credits of
//!    the old rule, unless it was added to reset them.
//! 6. A group that replaces another starts counting at zero once the former version is
//!    reclaimed. Until then its counters include packets counted by the former group.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use thalweg_classifier::{Classifier, ClassifierKind, Precedence, RuleId, Version};
use thalweg_packet::{FieldDescriptor, FieldId, Instant, Layout, PortId, standard};

use crate::action::{Actions, GroupId, TableId};
use crate::bridge::{BridgeId, PatchCounters};
use crate::change::uses_group;
use crate::flow::{Bucket, Flow, Group, GroupKind, Labels, PortState};
use crate::fragments::FragmentMode;
use crate::history::History;
use crate::limits::Limits;
use crate::mac::{MacTable, Station};
use crate::matching::Match;
use crate::meters::KnownMeters;
use crate::mirror::{MirrorId, Mirrors};
use crate::miss::{Misses, UnmatchedCounters};
use crate::numbered::NumberedGroup;
use crate::prepare::Prepared;
use crate::reclaim::{Leavings, Places};
use crate::table::Table;
use crate::vlan::PortVlans;

/// The most rules that a pipeline can be configured for.
///
/// The rules of one version take half of a classifier's numbers; rules waiting to be reclaimed
/// take the other half.
pub const RULES_MAX: usize = thalweg_classifier::RULES_MAX / 2;

/// What every datapath flow of Open vSwitch compares (`xlate_wc_init`).
pub const OVS_COMPARED: &[FieldId] = &[standard::IN_PORT, standard::ETH_TYPE, standard::IP_FRAG];

/// Limits of a pipeline; see [`Pipeline::set_limits`] for those that may change.
#[derive(Clone, Debug)]
pub struct Config {
    /// Most rules at a version, at most [`RULES_MAX`]. Rules that a change removes or replaces
    /// stay until no reader is at an older version; they have the same amount of room again.
    pub rules: usize,
    /// Most groups.
    pub groups: usize,
    /// Most stations that `normal` remembers.
    pub stations: usize,
    /// Seed of the choice among a select group's buckets; it is part of the answer.
    pub seed: u64,
    /// Seed of the tables' indexes; it does not affect the answer.
    pub index_seed: u64,
    /// How tables find their rules.
    pub classifier: ClassifierKind,
    /// Whether ports and tables belong to bridges ([`crate::BridgeId`]). If not, all ports are
    /// of one switch, whatever their numbers.
    pub bridges: bool,
    /// Whether what the tracker is asked names the rule that asks ([`Pipeline::number_of_rule`])
    /// and the bucket ([`Pipeline::number_of_bucket`]), so that connections can end with them.
    pub names_committing_rules: bool,
    /// Fields that each answer is for one value of, also if nothing that the packet meets reads
    /// them: none, or [`OVS_COMPARED`].
    pub compared: &'static [FieldId],
}

impl Default for Config {
    fn default() -> Config {
        Config {
            rules: 1_000_000,
            groups: 65_536,
            stations: 8_192,
            seed: 0,
            index_seed: 0,
            classifier: ClassifierKind::Auto,
            bridges: false,
            names_committing_rules: false,
            compared: &[],
        }
    }
}

/// Packets and bytes that a rule has matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Counters {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: Counters) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// A rule in a table.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The table it is in.
    pub table: TableId,
    /// Priority and age.
    pub precedence: Precedence,
    /// Identifier chosen by the controller.
    pub cookie: u64,
    /// Seconds without a packet after which it is removed; 0 for never.
    pub idle_timeout_s: u16,
    /// Seconds after which it is removed; 0 for never.
    pub hard_timeout_s: u16,
    /// Whether the controller is told when the rule ends.
    pub reports_removal: bool,
    /// What a dump tells of how the rule was asked for.
    pub labels: Labels,
    /// What it does.
    pub actions: Actions,
    /// When the rule was added.
    pub created_at: Instant,
    /// When it was added or last modified; the hard timeout counts from then.
    pub modified_at: Instant,
    /// When the rule last matched a packet; its creation time if never.
    pub used_at: Instant,
    /// Packets and bytes it has matched.
    pub counters: Counters,
    pub(crate) born: Version,
    /// How the rule ends; boxed, as few rules are ending at any time.
    pub(crate) end: Option<Box<End>>,
}

/// The end of a rule.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// The first version without the rule.
    died: Version,
    /// The rule that replaced it.
    pub(crate) successor: Option<RuleId>,
    /// Whether late counts go to the successor.
    pub(crate) hands_on_counts: bool,
}

impl End {
    /// Creates an end without a successor.
    pub(crate) fn at(died: Version) -> Box<End> {
        Box::new(End {
            died,
            successor: None,
            hands_on_counts: false,
        })
    }
}

impl Rule {
    /// Whether the rule has ended by `version`.
    fn is_dead_at(&self, version: Version) -> bool {
        self.end.as_ref().is_some_and(|end| end.died <= version)
    }

    /// The rule that replaced this one.
    pub(crate) fn successor(&self) -> Option<RuleId> {
        self.end.as_ref()?.successor
    }
}

/// The tables under one layout.
pub(crate) struct Generation {
    pub(crate) layout: Arc<Layout>,
    /// Indexed by table number.
    pub(crate) tables: Vec<Option<Table>>,
    classifier: ClassifierKind,
}

/// How many lookups a table has had.
#[derive(Clone, Copy, Debug, Default)]
struct TableCounters {
    lookups: u64,
    matches: u64,
}

/// Counters of a group and its buckets.
#[derive(Clone, Debug, Default)]
pub struct GroupCounters {
    /// Counts of the whole group.
    pub group: Counters,
    /// Counts of each bucket.
    pub buckets: Vec<Counters>,
}

impl GroupCounters {
    /// Creates counters at zero for `buckets` buckets.
    pub(crate) fn zero(buckets: usize) -> GroupCounters {
        GroupCounters {
            group: Counters::default(),
            buckets: vec![Counters::default(); buckets],
        }
    }
}

/// Tables, groups, ports and stations, at every version in use.
///
/// ```
/// use thalweg_packet::Instant;
/// use thalweg_pipeline::{Change, Config, Flow, Pipeline};
///
/// let mut pipeline = Pipeline::new(Config::default());
/// let delta = pipeline.apply(&Change::adding([Flow::default()]), Instant::ZERO)?;
/// assert_eq!(delta.inserted.len(), 1);
/// assert_eq!(pipeline.version(), delta.version);
/// # Ok::<(), thalweg_pipeline::ChangeError>(())
/// ```
pub struct Pipeline {
    pub(crate) config: Config,
    pub(crate) fields: Arc<Vec<FieldDescriptor>>,
    pub(crate) generation: Generation,
    pub(crate) rules: Vec<Option<Rule>>,
    pub(crate) places: Places,
    /// Rules that exist at the newest version, published or not.
    pub(crate) living: usize,
    pub(crate) next_age: u64,
    pub(crate) groups: BTreeMap<GroupId, History<NumberedGroup>>,
    /// The last number given to a bucket.
    pub(crate) last_bucket: u64,
    pub(crate) group_counters: BTreeMap<GroupId, GroupCounters>,
    /// By end of a patch.
    pub(crate) patch_counters: BTreeMap<PortId, PatchCounters>,
    /// What mirrors were sent.
    pub(crate) mirror_counters: BTreeMap<MirrorId, Counters>,
    /// By bridge.
    pub(crate) unmatched: BTreeMap<BridgeId, UnmatchedCounters>,
    /// Includes tables that have no rules.
    table_counters: BTreeMap<TableId, TableCounters>,
    pub(crate) ports: BTreeMap<PortId, History<PortState>>,
    /// By port; those that are not listed carry all VLANs.
    pub(crate) vlans: BTreeMap<PortId, History<Arc<PortVlans>>>,
    /// By bridge.
    pub(crate) mirrors: BTreeMap<BridgeId, History<Arc<Mirrors>>>,
    /// The bridges that forward to reserved addresses.
    pub(crate) bpdus: BTreeMap<BridgeId, History<()>>,
    /// By bridge; those that are not listed drop.
    pub(crate) misses: BTreeMap<BridgeId, History<Arc<Misses>>>,
    /// By bridge, where it is not the default.
    pub(crate) fragments: BTreeMap<BridgeId, History<FragmentMode>>,
    pub(crate) meters: KnownMeters,
    pub(crate) limits: Limits,
    pub(crate) macs: MacTable,
    pub(crate) version: Version,
    pub(crate) prepared: Option<Prepared>,
    /// Rules that died before the layout grew, and the version that outlives their last reader.
    pub(crate) left_behind: VecDeque<(Version, RuleId)>,
    pub(crate) leavings: Leavings,
}

impl Pipeline {
    /// Most rules at a version, at most [`RULES_MAX`]. Rules that a change removes or replaces
    /// stay until no reader is at an older version; they have the same amount of room again.
    pub fn new(config: Config) -> Pipeline {
        assert!(config.rules <= RULES_MAX, "{RULES_MAX} rules are the most");
        let fields = Arc::new(standard::fields());
        let compared = config.compared.iter().copied();
        let used = compared.chain([standard::IN_PORT]).collect();
        let layout = Layout::new(fields.clone(), &used).expect("a few fields fit");
        let layout = Arc::new(layout);
        let generation = Generation::new(layout, config.classifier);
        Pipeline {
            config,
            fields,
            generation,
            rules: Vec::new(),
            places: Places::default(),
            living: 0,
            next_age: 0,
            groups: BTreeMap::new(),
            last_bucket: 0,
            group_counters: BTreeMap::new(),
            patch_counters: BTreeMap::new(),
            mirror_counters: BTreeMap::new(),
            unmatched: BTreeMap::new(),
            table_counters: BTreeMap::new(),
            ports: BTreeMap::new(),
            vlans: BTreeMap::new(),
            mirrors: BTreeMap::new(),
            bpdus: BTreeMap::new(),
            misses: BTreeMap::new(),
            fragments: BTreeMap::new(),
            meters: KnownMeters::default(),
            limits: Limits::default(),
            macs: MacTable::default(),
            version: Version::FIRST,
            prepared: None,
            left_behind: VecDeque::new(),
            leavings: Leavings::default(),
        }
    }

    /// The newest published version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The layout of keys: where each field lies.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.generation.layout
    }

    /// The catalogue of fields.
    pub fn fields(&self) -> &Arc<Vec<FieldDescriptor>> {
        &self.fields
    }

    /// The seed of all hashing.
    pub fn seed(&self) -> u64 {
        self.config.seed
    }

    /// Most rules at a version, at most [`RULES_MAX`]. Rules that a change removes or replaces
    /// stay until no reader is at an older version; they have the same amount of room again.
    pub fn set_limits(&mut self, rules: usize, groups: usize, stations: usize) {
        assert!(rules <= RULES_MAX, "{RULES_MAX} rules are the most");
        let config = &mut self.config;
        (config.rules, config.groups, config.stations) = (rules, groups, stations);
    }

    /// Looks up a rule by id; `None` once it is reclaimed.
    pub fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.rules.get(id.0 as usize)?.as_ref()
    }

    /// A number that a rule has and the rules that replace it, and no others ever; not 0. `None` if
    /// the rule is not known any more.
    pub fn number_of_rule(&self, id: RuleId) -> Option<u64> {
        self.rule(id).map(|rule| rule.precedence.age())
    }

    /// A number that a bucket of a group has at a version, and no other bucket or rule ever; not 0.
    ///
    /// A bucket keeps it while changes of its group leave its id. `bucket` is a place in the group.
    pub fn number_of_bucket(&self, id: GroupId, bucket: usize, version: Version) -> Option<u64> {
        let known = self.groups.get(&id)?.at(version)?;
        known.numbers.get(bucket).copied()
    }

    /// The buckets of a group that were there before a version and are not at that version, as
    /// long as an earlier state is known: number and bucket.
    pub fn buckets_gone(
        &self,
        id: GroupId,
        version: Version,
    ) -> impl Iterator<Item = (u64, &Bucket)> {
        let history = self.groups.get(&id);
        let now = history.and_then(|history| history.at(version));
        let earlier = history
            .into_iter()
            .flat_map(move |history| history.before(version));
        earlier
            .flat_map(|known| known.numbers.iter().copied().zip(&known.group.buckets))
            .filter(move |(number, _)| now.is_none_or(|now| !now.numbers.contains(number)))
    }

    /// Whether another rule has replaced this one, so that it has not ended.
    pub fn is_succeeded(&self, id: RuleId) -> bool {
        self.successor_of(id).is_some()
    }

    /// The rule that holds this rule's place at `version`: the rule itself, or one with the
    /// same table, match and precedence that has replaced it; `None` if the place is empty.
    pub fn heir_of(&self, id: RuleId, version: Version) -> Option<RuleId> {
        let mut id = id;
        loop {
            let rule = self.rule(id)?;
            if !rule.is_dead_at(version) {
                return (rule.born <= version).then_some(id);
            }
            id = rule.successor()?;
        }
    }

    /// The rule that replaced a modified one: same table, match and precedence.
    pub fn successor_of(&self, id: RuleId) -> Option<RuleId> {
        let rule = self.rule(id)?;
        rule.successor().filter(|_| rule.is_dead_at(self.version))
    }

    /// A rule's value and mask, in the words of the layout.
    pub fn words_of(&self, id: RuleId) -> Option<(Vec<u64>, Vec<u64>)> {
        self.table(self.rule(id)?.table)?.pattern(id)
    }

    /// The conditions of a rule.
    pub fn match_of(&self, id: RuleId) -> Option<Match> {
        let table = self.table(self.rule(id)?.table)?;
        let (value, mask) = table.pattern(id)?;
        Some(Match::from_rule_words(self.layout(), &value, &mask))
    }

    /// The rule as a flow that could be added again.
    pub fn flow_of(&self, id: RuleId) -> Option<Flow> {
        let rule = self.rule(id)?;
        Some(Flow {
            table: rule.table,
            priority: rule.precedence.priority(),
            cookie: rule.cookie,
            idle_timeout_s: rule.idle_timeout_s,
            hard_timeout_s: rule.hard_timeout_s,
            reports_removal: rule.reports_removal,
            resets_counts: false,
            labels: rule.labels,
            matching: self.match_of(id)?,
            actions: rule.actions.clone(),
        })
    }

    /// The rules that exist at `version`, by id.
    pub fn rules(&self, version: Version) -> impl Iterator<Item = (RuleId, &Rule)> {
        let numbered = self.rules.iter().enumerate();
        let known = numbered.filter_map(|(id, rule)| Some((RuleId(id as u32), rule.as_ref()?)));
        known.filter(move |(_, rule)| rule.born <= version && !rule.is_dead_at(version))
    }

    /// Whether a rule exists at `version`.
    pub fn is_rule_at(&self, id: RuleId, version: Version) -> bool {
        self.rule(id)
            .is_some_and(|rule| rule.born <= version && !rule.is_dead_at(version))
    }

    /// How many rules use a group at the newest version.
    pub fn users_of(&self, group: GroupId) -> u32 {
        let rules = self.rules(self.version);
        rules
            .filter(|(_, rule)| uses_group(&rule.actions, group))
            .count() as u32
    }

    /// How many rules exist at `version`.
    pub fn rule_count(&self, version: Version) -> usize {
        self.tables().map(|(_, table)| table.len(version)).sum()
    }

    /// Every table with lookups, with its lookups and matches so far.
    pub fn table_counters(&self) -> impl Iterator<Item = (TableId, u64, u64)> {
        let known = self.table_counters.iter();
        known.map(|(id, table)| (*id, table.lookups, table.matches))
    }

    /// Lets the tables of a bridge count from zero.
    pub fn reset_table_counters(&mut self, bridge: BridgeId) {
        self.unmatched.remove(&bridge);
        self.table_counters
            .retain(|table, _| table.bridge() != bridge);
    }

    /// A group at a version.
    pub fn group(&self, id: GroupId, version: Version) -> Option<&Arc<Group>> {
        Some(&self.groups.get(&id)?.at(version)?.group)
    }

    /// The groups at a version.
    pub fn groups(&self, version: Version) -> impl Iterator<Item = &Arc<Group>> {
        self.groups
            .values()
            .filter_map(move |history| Some(&history.at(version)?.group))
    }

    /// The counters of a group.
    pub fn group_counters(&self, id: GroupId) -> Option<&GroupCounters> {
        self.group_counters.get(&id)
    }

    /// A port at a version.
    pub fn port(&self, id: PortId, version: Version) -> Option<PortState> {
        self.ports.get(&id)?.at(version).copied()
    }

    /// The ports at a version, in the order of their numbers.
    pub fn ports(&self, version: Version) -> impl Iterator<Item = (PortId, PortState)> {
        let known = self.ports.iter();
        known.filter_map(move |(id, history)| Some((*id, *history.at(version)?)))
    }

    /// Where a station was last seen, at a version.
    pub fn station(&self, station: Station, version: Version) -> Option<PortId> {
        self.macs.lookup(station, version)
    }

    /// The stations that `normal` has learned.
    pub fn macs(&self) -> &MacTable {
        &self.macs
    }

    /// Finds the best rule of a table, and adds the bits that decided it to `examined`.
    pub(crate) fn lookup(
        &self,
        table: TableId,
        key: &[u64],
        version: Version,
        examined: &mut [u64],
    ) -> Option<RuleId> {
        let table = self.table(table)?;
        let best = table.classifier.lookup_examined(key, version, examined);
        self.with_clauses(table, best, key, version, Some(examined))
    }

    /// Finds the best rule of a table, without examined bits.
    pub(crate) fn lookup_bare(
        &self,
        table: TableId,
        key: &[u64],
        version: Version,
    ) -> Option<RuleId> {
        let table = self.table(table)?;
        let best = table.classifier.lookup(key, version);
        self.with_clauses(table, best, key, version, None)
    }

    /// Finds the best rules of a table for several keys. `keys` holds them one after another,
    /// each with all words of the layout.
    pub fn lookup_batch(
        &self,
        table: TableId,
        keys: &[u64],
        version: Version,
        answers: &mut [Option<RuleId>],
    ) {
        let Some(table) = self.table(table) else {
            return answers.fill(None);
        };
        table.classifier.lookup_batch(keys, version, answers);
        if table.clauses().is_some() {
            let keys = keys.chunks_exact(self.layout().words());
            for (key, answer) in keys.zip(answers) {
                *answer = self.with_clauses(table, *answer, key, version, None);
            }
        }
    }

    /// Credits packets to a rule, and updates when it was last used. A successor that counts
    /// from zero gets only the latter.
    pub fn credit_rule(&mut self, id: RuleId, mut counters: Counters, used_at: Instant) {
        let published = self.version;
        let mut id = id;
        while let Some(Some(rule)) = self.rules.get_mut(id.0 as usize) {
            let end = rule.end.as_deref();
            let heir = end.and_then(|end| end.successor);
            let hands_on_counts = end.is_some_and(|end| end.hands_on_counts);
            // If the successor's change is not published yet, the successor holds a copy of
            // the counts.
            if heir.is_none() || !rule.is_dead_at(published) {
                rule.counters.add(counters);
                rule.used_at = rule.used_at.max(used_at);
            }
            let Some(heir) = heir else { return };
            if !hands_on_counts {
                counters = Counters::default();
            }
            id = heir;
        }
    }

    /// Lets the hard timeout of a rule, or of the one that replaced it, begin again.
    pub fn refresh_rule(&mut self, id: RuleId, now: Instant) {
        if let Some(rule) = self.current_rule_mut(id) {
            rule.modified_at = rule.modified_at.max(now);
        }
    }

    /// Shortens the timeouts of a rule, or of the one that replaced it, to at most these seconds;
    /// 0 leaves one. Returns the rule if one was changed.
    pub fn shorten_timeouts(&mut self, id: RuleId, idle_s: u16, hard_s: u16) -> Option<RuleId> {
        let id = self.heir_of(id, self.version)?;
        let rule = self.current_rule_mut(id)?;
        let shorter = |timeout_s: u16, most_s: u16| match (timeout_s, most_s) {
            (_, 0) => timeout_s,
            (0, most_s) => most_s,
            (timeout_s, most_s) => timeout_s.min(most_s),
        };
        let before = (rule.idle_timeout_s, rule.hard_timeout_s);
        rule.idle_timeout_s = shorter(before.0, idle_s);
        rule.hard_timeout_s = shorter(before.1, hard_s);
        (before != (rule.idle_timeout_s, rule.hard_timeout_s)).then_some(id)
    }

    fn current_rule_mut(&mut self, id: RuleId) -> Option<&mut Rule> {
        let id = self.heir_of(id, self.version)?;
        self.rules.get_mut(id.0 as usize)?.as_mut()
    }

    /// Credits packets to a table: `lookups` in all, `matches` of them found a rule.
    pub fn credit_table(&mut self, id: TableId, lookups: u64, matches: u64) {
        let table = self.table_counters.entry(id).or_default();
        table.lookups += lookups;
        table.matches += matches;
    }

    /// Credits packets to a group and to one of its buckets.
    pub fn credit_bucket(&mut self, id: GroupId, bucket: Option<u32>, counters: Counters) {
        // In a group that uses all its buckets, only the first bucket's packets count for the
        // group.
        let group = self.group(id, self.version());
        let is_first = bucket.is_none_or(|bucket| bucket == 0);
        let counts = is_first || group.is_none_or(|group| group.kind != GroupKind::All);
        let Some(group) = self.group_counters.get_mut(&id) else {
            return;
        };
        if counts {
            group.group.add(counters);
        }
        if let Some(bucket) = bucket.and_then(|bucket| group.buckets.get_mut(bucket as usize)) {
            bucket.add(counters);
        }
    }

    /// Bytes of memory that the rules and their indexes take.
    pub fn memory_bytes(&self) -> usize {
        let indexes: usize = self.tables().map(|(_, table)| table.memory_bytes()).sum();
        indexes + self.rules.capacity() * std::mem::size_of::<Option<Rule>>()
    }

    pub(crate) fn table(&self, id: TableId) -> Option<&Table> {
        self.generation.tables.get(id.index())?.as_ref()
    }

    fn tables(&self) -> impl Iterator<Item = (TableId, &Table)> {
        let numbered = self.generation.tables.iter().enumerate();
        numbered.filter_map(|(id, table)| Some((TableId(id as u32), table.as_ref()?)))
    }

    /// The fields in the layout.
    pub(crate) fn used_fields(&self) -> BTreeSet<FieldId> {
        self.layout().used().iter().copied().collect()
    }
}

impl Generation {
    /// Creates a generation without tables.
    pub(crate) fn new(layout: Arc<Layout>, classifier: ClassifierKind) -> Generation {
        Generation {
            layout,
            tables: Vec::new(),
            classifier,
        }
    }

    /// Where a new rule goes; creates its table if needed.
    pub(crate) fn classifier_for_new(&mut self, rule: &Rule, seed: u64) -> &mut dyn Classifier {
        let index = rule.table.index();
        if self.tables.len() <= index {
            self.tables.resize_with(index + 1, || None);
        }
        let (layout, kind) = (&self.layout, self.classifier);
        let table = self.tables[index].get_or_insert_with(|| Table::new(kind, layout, seed));
        table.classifier_for_new(&rule.actions, layout, seed)
    }
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rules = self.rule_count(self.version);
        write!(f, "Pipeline({}, {rules} rules)", self.version)
    }
}
