//! The slow twin: rules and groups in plain lists, changed as OpenFlow says.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_control::openflow::target::Change;
use thalweg_openflow::action::{Action, Instructions};
use thalweg_openflow::message::flow::{ALL_TABLES, FlowCommand, FlowFlags, FlowMod};
use thalweg_openflow::message::group::{
    ALL_BUCKETS, ALL_GROUPS, ANY_GROUP, Bucket, FIRST_BUCKET, GroupCommand, GroupMod, GroupType,
    LAST_BUCKET, MAX_GROUP,
};
use thalweg_openflow::message::packet::PacketOut;
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::message::switch::{TableMod, table_config};
use thalweg_openflow::{ErrorCode, FieldId, Match, Version};

/// Value and mask, by field.
pub(crate) type Conditions = BTreeMap<FieldId, (u128, u128)>;

/// The conditions of a match. The input port has one name.
pub(crate) fn conditions(matching: &Match) -> Conditions {
    let mut found = Conditions::new();
    for condition in &matching.conditions {
        if matches!(condition.field, FieldId::IN_PORT | FieldId::IN_PORT_OXM) {
            let port = matching.in_port().expect("it is there");
            found.insert(FieldId::IN_PORT_OXM, (port.0.into(), u32::MAX.into()));
            continue;
        }
        let ones = u128::MAX >> (128 - condition.field.width_bits());
        let mask = condition.mask.as_ref().map_or(ones, |mask| mask.number());
        found.insert(condition.field, (condition.value.number(), mask));
    }
    found
}

/// Whether every packet that `narrow` matches is one that `wide` matches.
fn is_within(narrow: &Conditions, wide: &Conditions) -> bool {
    wide.iter().all(|(field, (value, mask))| {
        let known = narrow.get(field);
        known.is_some_and(|(has, bits)| bits & mask == *mask && (has ^ value) & mask == 0)
    })
}

/// Whether some packet could match both.
fn overlaps(one: &Conditions, other: &Conditions) -> bool {
    one.iter().all(|(field, (value, mask))| {
        let known = other.get(field);
        known.is_none_or(|(has, bits)| (has ^ value) & mask & bits == 0)
    })
}

/// An action, in the same words whatever version it came in.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Deed {
    Output(u32),
    Group(u32),
    EthDst(u128),
    Other(String),
}

pub(crate) fn deeds(actions: &[Action]) -> Vec<Deed> {
    let deed = |action: &Action| match action {
        Action::Output { port, .. } => Deed::Output(port.0),
        Action::Group(group) => Deed::Group(*group),
        Action::SetDlDst(mac) => Deed::EthDst(number(mac)),
        Action::SetField { field, value, .. } if *field == FieldId::ETH_DST => {
            Deed::EthDst(value.number())
        }
        other => Deed::Other(format!("{other:?}")),
    };
    actions.iter().map(deed).collect()
}

fn number(bytes: &[u8]) -> u128 {
    let fold = |number: u128, byte: &u8| number << 8 | u128::from(*byte);
    bytes.iter().fold(0, fold)
}

/// What a rule does.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Deeds {
    apply: Vec<Deed>,
    clear: bool,
    write: Option<Vec<Deed>>,
    metadata: Option<(u64, u64)>,
    goto: Option<u8>,
}

impl Deeds {
    pub(crate) fn of(told: &Instructions) -> Deeds {
        Deeds {
            apply: deeds(&told.apply),
            clear: told.clear,
            write: told.write.as_deref().map(deeds),
            metadata: told.metadata,
            goto: told.goto,
        }
    }

    fn all(&self) -> impl Iterator<Item = &Deed> {
        self.apply.iter().chain(self.write.iter().flatten())
    }

    fn leads_to(&self, port: PortNumber, group: u32) -> bool {
        let has = |deed: &Deed| self.all().any(|known| known == deed);
        (port == PortNumber::ANY || has(&Deed::Output(port.0)))
            && (group == ANY_GROUP || has(&Deed::Group(group)))
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Rule {
    pub(crate) table: u8,
    pub(crate) priority: u16,
    pub(crate) matching: Conditions,
    pub(crate) cookie: u64,
    pub(crate) timeouts_s: (u16, u16),
    pub(crate) importance: u16,
    pub(crate) flags: u16,
    pub(crate) does: Deeds,
    pub(crate) packets: u64,
}

/// Which rules are meant, by a flow-mod or a request.
pub(crate) struct Wanted {
    pub(crate) table: Option<u8>,
    pub(crate) matching: Conditions,
    pub(crate) priority: Option<u16>,
    pub(crate) cookie: (u64, u64),
    pub(crate) port: PortNumber,
    pub(crate) group: u32,
}

impl Wanted {
    fn has(&self, rule: &Rule) -> bool {
        let conditions = match self.priority {
            Some(priority) => rule.priority == priority && rule.matching == self.matching,
            None => is_within(&rule.matching, &self.matching),
        };
        let (cookie, mask) = self.cookie;
        self.table.is_none_or(|table| table == rule.table)
            && conditions
            && (rule.cookie ^ cookie) & mask == 0
            && rule.does.leads_to(self.port, self.group)
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    pub(crate) kind: GroupType,
    pub(crate) buckets: Vec<PlainBucket>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PlainBucket {
    pub(crate) id: u32,
    pub(crate) weight: Option<u16>,
    pub(crate) watches: (u32, u32),
    pub(crate) does: Vec<Deed>,
}

impl PlainBucket {
    pub(crate) fn of(kind: GroupType, bucket: &Bucket) -> PlainBucket {
        let is_select = kind == GroupType::Select;
        PlainBucket {
            id: bucket.id,
            weight: is_select.then(|| bucket.weight.unwrap_or(1)),
            watches: (bucket.watch_port.0, bucket.watch_group),
            does: deeds(&bucket.actions),
        }
    }

    fn leads_to(&self) -> impl Iterator<Item = u32> {
        let named = self.does.iter().filter_map(|deed| match deed {
            Deed::Group(group) => Some(*group),
            _ => None,
        });
        named.chain((self.watches.1 != ANY_GROUP).then_some(self.watches.1))
    }
}

/// The errors that a message may have; one of them is told.
pub(crate) type Faults = Vec<ErrorCode>;

/// Rules and groups.
#[derive(Clone, Default)]
pub(crate) struct List {
    pub(crate) rules: Vec<Rule>,
    pub(crate) groups: BTreeMap<u32, Group>,
    /// By table: the most rules, and whether the configuration has it evict.
    pub(crate) limits: BTreeMap<u8, (usize, bool)>,
    /// Tables that controllers told to evict.
    pub(crate) evicting: BTreeSet<u8>,
    /// Rules that went for others.
    pub(crate) evicted: u64,
}

impl List {
    /// Sets the limits of tables; rules beyond them go as far as they may.
    pub(crate) fn limit(&mut self, limits: BTreeMap<u8, (usize, bool)>) {
        let former = std::mem::replace(&mut self.limits, limits.clone());
        for (table, (most, evicts)) in limits {
            if former.get(&table) == Some(&(most, evicts)) {
                continue;
            }
            while self.count_in(table) > most && self.evict_from(table) {}
        }
    }

    fn count_in(&self, table: u8) -> usize {
        let rules = self.rules.iter();
        rules.filter(|rule| rule.table == table).count()
    }

    /// Removes the rule of a table that goes first; returns whether there is one.
    fn evict_from(&mut self, table: u8) -> bool {
        let configured = self.limits.get(&table).is_some_and(|limit| limit.1);
        if !configured && !self.evicting.contains(&table) {
            return false;
        }
        let rules = self.rules.iter().enumerate();
        let candidates = rules.filter_map(|(place, rule)| {
            let timeouts = [rule.timeouts_s.0, rule.timeouts_s.1];
            let end = timeouts.into_iter().filter(|timeout| *timeout > 0).min()?;
            (rule.table == table).then_some((rule.importance, end, place))
        });
        let Some((_, _, place)) = candidates.min() else {
            return false;
        };
        self.rules.remove(place);
        self.evicted += 1;
        true
    }

    fn set_up(&mut self, asked: &TableMod) -> Result<(), Faults> {
        let tables = match asked.table {
            254 => return Err(vec![ErrorCode::OFPTMFC_EPERM]),
            ALL_TABLES => 0..=253,
            table => table..=table,
        };
        let evicts = asked.config.bits & table_config::EVICTION != 0;
        for table in tables {
            match evicts {
                true => self.evicting.insert(table),
                false => self.evicting.remove(&table),
            };
        }
        Ok(())
    }

    /// Does changes, all or none. Faults that do not depend on the rules are told first.
    pub(crate) fn change(
        &mut self,
        version: Version,
        changes: &[Change],
    ) -> Result<(), (usize, Faults)> {
        let mut ahead = self.clone();
        for (index, change) in changes.iter().enumerate() {
            let checked = match change {
                Change::Flow(asked) => check(asked).map_err(|fault| vec![fault]),
                Change::Group(asked) => ahead.group(asked),
                Change::Table(asked) => ahead.set_up(asked),
                Change::PacketOut(asked) => none(ahead.unknown_groups_of(&asked.actions)),
                _ => Ok(()),
            };
            checked.map_err(|faults| (index, faults))?;
        }
        let mut after = self.clone();
        for (index, change) in changes.iter().enumerate() {
            let done = match change {
                Change::Flow(asked) => after.flow(version, asked),
                Change::Group(asked) => after.group(asked).and_then(|()| after.follow(asked)),
                Change::Table(asked) => after.set_up(asked),
                _ => Ok(()),
            };
            done.map_err(|faults| (index, faults))?;
        }
        *self = after;
        // Packets follow all changes of their transaction.
        for change in changes {
            if let Change::PacketOut(asked) = change {
                self.count(asked);
            }
        }
        Ok(())
    }

    pub(crate) fn selected(&self, wanted: &Wanted) -> Vec<&Rule> {
        let rules = self.rules.iter();
        rules.filter(|rule| wanted.has(rule)).collect()
    }

    fn flow(&mut self, version: Version, asked: &FlowMod) -> Result<(), Faults> {
        let is_strict = matches!(
            asked.command,
            FlowCommand::ModifyStrict | FlowCommand::DeleteStrict
        );
        let deletes = matches!(
            asked.command,
            FlowCommand::Delete | FlowCommand::DeleteStrict
        );
        let wanted = Wanted {
            table: (asked.table != ALL_TABLES).then_some(asked.table),
            matching: conditions(&asked.matching),
            priority: is_strict.then_some(asked.priority),
            cookie: (asked.cookie, asked.cookie_mask),
            port: match deletes {
                true => asked.out_port,
                false => PortNumber::ANY,
            },
            group: match deletes {
                true => asked.out_group,
                false => ANY_GROUP,
            },
        };
        if deletes {
            self.rules.retain(|rule| !wanted.has(rule));
            return Ok(());
        }
        if asked.command == FlowCommand::Add {
            return self.add(version, asked);
        }
        let does = Deeds::of(&asked.instructions);
        let mut faults = self.unknown_groups(&does);
        let names_cookie = asked.new_cookie != u64::MAX;
        let changes_cookie = version == Version::V10 || asked.is_nicira;
        let is_there = self.rules.iter().any(|rule| wanted.has(rule));
        if !is_there && names_cookie && asked.cookie_mask == 0 {
            return self.add(version, asked);
        }
        let groups_are_known = faults.is_empty();
        for rule in self.rules.iter_mut().filter(|rule| wanted.has(rule)) {
            if does.goto.is_some_and(|to| to <= rule.table) {
                faults.push(ErrorCode::OFPBIC_BAD_TABLE_ID);
            } else if groups_are_known {
                rule.does = does.clone();
                rule.cookie = match names_cookie && changes_cookie {
                    true => asked.new_cookie,
                    false => rule.cookie,
                };
                if version >= Version::V12 && asked.flags.has(FlowFlags::RESET_COUNTS) {
                    rule.packets = 0;
                }
            }
        }
        none(faults)
    }

    fn add(&mut self, version: Version, asked: &FlowMod) -> Result<(), Faults> {
        let mut rule = Rule {
            table: match asked.table {
                ALL_TABLES => 0,
                table => table,
            },
            priority: asked.priority,
            matching: conditions(&asked.matching),
            cookie: match asked.new_cookie {
                u64::MAX => 0,
                cookie => cookie,
            },
            timeouts_s: (asked.idle_timeout_s, asked.hard_timeout_s),
            importance: asked.importance,
            flags: match version {
                // Their additions count from zero, which later versions tell.
                Version::V10 | Version::V11 if asked.command == FlowCommand::Add => {
                    asked.flags.0 | FlowFlags::RESET_COUNTS
                }
                _ => asked.flags.0,
            },
            does: Deeds::of(&asked.instructions),
            packets: 0,
        };
        let mut faults = self.unknown_groups(&rule.does);
        if rule.does.goto.is_some_and(|to| to <= rule.table) {
            faults.push(ErrorCode::OFPBIC_BAD_TABLE_ID);
        }
        let (table, priority) = (rule.table, rule.priority);
        let is_beside = |known: &Rule| (known.table, known.priority) == (table, priority);
        let mut beside = self.rules.iter().filter(|known| is_beside(known));
        if asked.flags.has(FlowFlags::CHECK_OVERLAP)
            && beside.any(|known| overlaps(&known.matching, &rule.matching))
        {
            faults.push(ErrorCode::OFPFMFC_OVERLAP);
        }
        none(faults)?;
        let mut beside = self.rules.iter().filter(|known| is_beside(known));
        let is_new = !beside.any(|known| known.matching == rule.matching);
        let most = self.limits.get(&rule.table).map(|limit| limit.0);
        let is_full = most.is_some_and(|most| self.count_in(rule.table) >= most);
        if is_new && is_full && !self.evict_from(rule.table) {
            return Err(vec![ErrorCode::OFPFMFC_TABLE_FULL]);
        }
        let mut beside = self.rules.iter_mut().filter(|known| is_beside(known));
        match beside.find(|known| known.matching == rule.matching) {
            Some(known) => {
                let resets = version < Version::V12 || asked.flags.has(FlowFlags::RESET_COUNTS);
                rule.packets = if resets { 0 } else { known.packets };
                *known = rule;
            }
            None => self.rules.push(rule),
        }
        Ok(())
    }

    fn unknown_groups(&self, does: &Deeds) -> Faults {
        match does.all().any(|deed| self.is_unknown(deed)) {
            true => vec![ErrorCode::OFPBAC_BAD_OUT_GROUP],
            false => Vec::new(),
        }
    }

    fn unknown_groups_of(&self, actions: &[Action]) -> Faults {
        match deeds(actions).iter().any(|deed| self.is_unknown(deed)) {
            true => vec![ErrorCode::OFPBAC_BAD_OUT_GROUP],
            false => Vec::new(),
        }
    }

    fn is_unknown(&self, deed: &Deed) -> bool {
        match deed {
            Deed::Group(group) => !self.groups.contains_key(group),
            _ => false,
        }
    }

    /// Changes groups, apart from what that does to rules.
    fn group(&mut self, asked: &GroupMod) -> Result<(), Faults> {
        let id = asked.group;
        let new = || Group {
            kind: asked.kind,
            buckets: asked
                .buckets
                .iter()
                .map(|bucket| PlainBucket::of(asked.kind, bucket))
                .collect(),
        };
        let fault = |code| Err(vec![code]);
        let is_known = self.groups.contains_key(&id);
        let mut group = match asked.command {
            GroupCommand::Delete if id == ALL_GROUPS => {
                self.groups.clear();
                return Ok(());
            }
            GroupCommand::Delete => {
                self.groups.remove(&id);
                return Ok(());
            }
            GroupCommand::Add | GroupCommand::AddOrModify if id > MAX_GROUP => {
                return fault(ErrorCode::OFPGMFC_INVALID_GROUP);
            }
            GroupCommand::Add if is_known => return fault(ErrorCode::OFPGMFC_GROUP_EXISTS),
            GroupCommand::Add | GroupCommand::AddOrModify => new(),
            _ if !is_known => return fault(ErrorCode::OFPGMFC_UNKNOWN_GROUP),
            GroupCommand::Modify => new(),
            GroupCommand::InsertBucket | GroupCommand::RemoveBucket => self.groups[&id].clone(),
        };
        match asked.command {
            GroupCommand::InsertBucket => {
                let place = match asked.command_bucket {
                    FIRST_BUCKET => 0,
                    LAST_BUCKET => group.buckets.len(),
                    bucket => place_of(&group, bucket)? + 1,
                };
                let kind = group.kind;
                for (offset, bucket) in asked.buckets.iter().enumerate() {
                    group
                        .buckets
                        .insert(place + offset, PlainBucket::of(kind, bucket));
                }
            }
            GroupCommand::RemoveBucket => match asked.command_bucket {
                ALL_BUCKETS => group.buckets.clear(),
                FIRST_BUCKET if group.buckets.is_empty() => {}
                FIRST_BUCKET => drop(group.buckets.remove(0)),
                LAST_BUCKET => drop(group.buckets.pop()),
                bucket => drop(group.buckets.remove(place_of(&group, bucket)?)),
            },
            _ => {}
        }
        let mut ids: Vec<u32> = group.buckets.iter().map(|bucket| bucket.id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return fault(ErrorCode::OFPGMFC_BUCKET_EXISTS);
        }
        if group.kind == GroupType::Indirect && group.buckets.len() != 1 {
            return fault(ErrorCode::OFPGMFC_INVALID_GROUP);
        }
        self.groups.insert(id, group);
        Ok(())
    }

    /// Rules that use a removed group go too; a group that leads to itself is refused.
    fn follow(&mut self, asked: &GroupMod) -> Result<(), Faults> {
        let groups = &self.groups;
        let is_gone = |deed: &Deed| match deed {
            Deed::Group(group) => !groups.contains_key(group),
            _ => false,
        };
        self.rules.retain(|rule| !rule.does.all().any(is_gone));
        let mut reached = Vec::new();
        let mut next = vec![asked.group];
        while let Some(id) = next.pop() {
            let buckets = groups.get(&id).map(|group| &group.buckets);
            for to in buckets
                .into_iter()
                .flatten()
                .flat_map(PlainBucket::leads_to)
            {
                if to == asked.group {
                    return Err(vec![ErrorCode::OFPGMFC_LOOP]);
                }
                if !reached.contains(&to) {
                    reached.push(to);
                    next.push(to);
                }
            }
        }
        Ok(())
    }

    /// Counts a packet at the rules that it meets, from the first table on.
    fn count(&mut self, asked: &PacketOut) {
        let to_tables = Deed::Output(PortNumber::TABLE.0);
        if !deeds(&asked.actions).contains(&to_tables) {
            return;
        }
        let port = asked.in_port().expect("the test says it");
        let mut packet = BTreeMap::from([
            (FieldId::IN_PORT_OXM, u128::from(port.0)),
            (FieldId::ETH_DST, number(&asked.data[..6])),
            (FieldId::ETH_TYPE, number(&asked.data[12..14])),
            (FieldId::IP_DST, number(&asked.data[30..34])),
        ]);
        let mut table = Some(0);
        while let Some(number) = table {
            let meets = |rule: &&mut Rule| {
                let mut conditions = rule.matching.iter();
                rule.table == number
                    && conditions.all(|(field, (value, mask))| (packet[field] ^ value) & mask == 0)
            };
            // Of equal priorities the oldest counts.
            let found = self.rules.iter_mut().filter(meets);
            let Some(rule) = found.reduce(|best, rule| match rule.priority > best.priority {
                true => rule,
                false => best,
            }) else {
                return;
            };
            rule.packets += 1;
            for deed in &rule.does.apply {
                if let Deed::EthDst(mac) = deed {
                    packet.insert(FieldId::ETH_DST, *mac);
                }
            }
            table = rule.does.goto;
        }
    }
}

/// Finds faults that do not depend on the rules.
pub(crate) fn check(asked: &FlowMod) -> Result<(), ErrorCode> {
    let deletes = matches!(
        asked.command,
        FlowCommand::Delete | FlowCommand::DeleteStrict
    );
    let leads_back = |to: u8| asked.table != ALL_TABLES && to <= asked.table;
    if !deletes && asked.instructions.goto.is_some_and(leads_back) {
        return Err(ErrorCode::OFPBIC_BAD_TABLE_ID);
    }
    match asked.table {
        254 => Err(ErrorCode::OFPBRC_EPERM),
        _ => Ok(()),
    }
}

fn none(faults: Faults) -> Result<(), Faults> {
    match faults.is_empty() {
        true => Ok(()),
        false => Err(faults),
    }
}

fn place_of(group: &Group, bucket: u32) -> Result<usize, Faults> {
    let place = group.buckets.iter().position(|known| known.id == bucket);
    place.ok_or_else(|| vec![ErrorCode::OFPGMFC_UNKNOWN_BUCKET])
}
