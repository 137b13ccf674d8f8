//! Flow monitors: controllers are told of changes of flow entries.
//!
//! 1. What a monitor has told, applied to what it told first, gives the entries that exist: in a
//!    pause only ended entries are told, and at its end every entry that matches is told again.

use thalweg_openflow::action::{Action, Instructions};
use thalweg_openflow::message::flow::{FlowStats, FlowStatsRequest};
use thalweg_openflow::message::group::ANY_GROUP;
use thalweg_openflow::message::monitor::{
    MonitorCommand, MonitorEvent, MonitorRequest, MonitorUpdate, flags,
};
use thalweg_openflow::message::port::PortNumber;
use thalweg_openflow::message::{Message, Reply};
use thalweg_openflow::{ErrorCode, FieldId, Match, Refusal, Version, encode_reply, refuse};

use super::Agent;
use super::link::Link;
use super::requests::send;
use crate::openflow::target::{FlowEvent, Target};

/// Bytes of output after which a connection's monitors pause.
const PAUSE_BYTES: usize = 512 << 10;
/// Flags that have a connection's own changes told in full. As in Open vSwitch, the second does
/// not leave out those of others: `ovs-ofctl monitor` sets it for the first.
const IN_FULL: u16 = flags::NO_ABBREV | flags::ONLY_OWN;
/// Entries read at a time.
const SLICE: usize = 256;

impl<T: Target> Agent<T> {
    /// Makes, changes or removes monitors; the reply tells the entries that exist.
    pub(super) fn add_monitors(
        &mut self,
        link: &mut Link,
        xid: u32,
        requests: Vec<MonitorRequest>,
    ) -> Result<(), Refusal> {
        for request in &requests {
            let is_known = link.monitors.contains_key(&request.id);
            match request.command {
                MonitorCommand::Add if is_known => {
                    let what = format!("monitor {} exists", request.id);
                    return Err(refuse(ErrorCode::OFPMOFC_MONITOR_EXISTS, what));
                }
                MonitorCommand::Modify | MonitorCommand::Delete if !is_known => {
                    return Err(unknown(request.id));
                }
                MonitorCommand::Add if link.monitors.len() >= self.config.monitors => {
                    let what = format!("{} monitors are the most", self.config.monitors);
                    return Err(refuse(ErrorCode::OFPMOFC_INVALID_MONITOR, what));
                }
                MonitorCommand::Delete => continue,
                MonitorCommand::Add | MonitorCommand::Modify => check_flags(request.flags)?,
            }
        }
        // From here on what follows in the buffer is reported, too.
        if !self.watches {
            self.watches = true;
            self.target.watch_flows(true);
        }
        let mut updates = Vec::new();
        for request in &requests {
            if request.command == MonitorCommand::Delete {
                link.monitors.remove(&request.id);
                continue;
            }
            link.monitors.insert(request.id, request.clone());
            if request.flags & flags::INITIAL != 0 {
                updates.extend(self.entries(request, MonitorEvent::Initial)?);
            }
        }
        send(link, xid, &Reply::Monitor(updates))
    }

    pub(super) fn cancel_monitor(&mut self, link: &mut Link, id: u32) -> Result<(), Refusal> {
        match link.monitors.remove(&id) {
            Some(_) => Ok(()),
            None => Err(unknown(id)),
        }
    }

    /// The entries that a monitor is about.
    fn entries(
        &mut self,
        monitor: &MonitorRequest,
        event: MonitorEvent,
    ) -> Result<Vec<MonitorUpdate>, Refusal> {
        let mut cursor = self.target.flows(&FlowStatsRequest {
            table: monitor.table,
            out_port: monitor.out_port,
            out_group: monitor.out_group,
            matching: monitor.matching.clone(),
            ..FlowStatsRequest::all()
        })?;
        let mut updates = Vec::new();
        loop {
            let entries = cursor.next(SLICE);
            if entries.is_empty() {
                return Ok(updates);
            }
            let told = entries
                .iter()
                .map(|flow| update(monitor.flags, event, 0, flow));
            updates.extend(told);
        }
    }

    /// Tells monitors of changed entries. `by` is the connection that changed them, with its
    /// transaction.
    pub(super) fn tell_flows(&mut self, by: Option<(&mut Link, u32)>, events: &[FlowEvent]) {
        if events.is_empty() {
            return;
        }
        if let Some((link, xid)) = by {
            link.tell_flow_events(events, Some(xid));
        }
        for link in self.links.values_mut() {
            link.tell_flow_events(events, None);
        }
    }

    /// Ends the pauses of readers that have caught up.
    pub(super) fn resume_monitors(&mut self) {
        let ready = |link: &Link| link.is_paused && link.session.output_bytes() == 0;
        let ids: Vec<_> = self
            .links
            .iter()
            .filter(|(_, link)| ready(link))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            let Some(mut link) = self.links.remove(&id) else {
                continue;
            };
            link.is_paused = false;
            for monitor in link.monitors.clone().into_values() {
                let told = self
                    .entries(&monitor, MonitorEvent::Added)
                    .unwrap_or_default();
                link.tell_updates(told);
            }
            link.tell_pause(false);
            self.links.insert(id, link);
        }
    }

    /// Has the switch report changes of entries if some monitor wants them.
    pub(super) fn watch_flows(&mut self) {
        let wanted = self.links.values().any(|link| !link.monitors.is_empty());
        if wanted != self.watches {
            self.watches = wanted;
            self.target.watch_flows(wanted);
        }
    }
}

fn unknown(id: u32) -> Refusal {
    let what = format!("there is no monitor {id}");
    refuse(ErrorCode::OFPMOFC_UNKNOWN_MONITOR, what)
}

fn check_flags(bits: u16) -> Result<(), Refusal> {
    let known = flags::INITIAL
        | flags::ADD
        | flags::REMOVED
        | flags::MODIFY
        | flags::INSTRUCTIONS
        | flags::NO_ABBREV
        | flags::ONLY_OWN;
    let tells = flags::INITIAL | flags::ADD | flags::REMOVED | flags::MODIFY;
    if bits & !known != 0 || bits & tells == 0 {
        let what = format!("a monitor with flags {bits:#x}");
        return Err(refuse(ErrorCode::OFPMOFC_BAD_FLAGS, what));
    }
    Ok(())
}

/// What monitors with these flags tell of an entry.
fn update(bits: u16, event: MonitorEvent, reason: u8, flow: &FlowStats) -> MonitorUpdate {
    let tells_actions = bits & flags::INSTRUCTIONS != 0;
    MonitorUpdate::Full {
        event,
        reason,
        priority: flow.priority,
        idle_timeout_s: flow.idle_timeout_s,
        hard_timeout_s: flow.hard_timeout_s,
        table: flow.table,
        cookie: flow.cookie,
        matching: flow.matching.clone(),
        instructions: match tells_actions {
            true => flow.instructions.clone(),
            false => Instructions::default(),
        },
    }
}

/// Whether a monitor is about an event.
fn is_about(monitor: &MonitorRequest, event: &FlowEvent) -> bool {
    let flag = match event.event {
        MonitorEvent::Initial => flags::INITIAL,
        MonitorEvent::Added => flags::ADD,
        MonitorEvent::Removed => flags::REMOVED,
        MonitorEvent::Modified => flags::MODIFY,
    };
    let flow = &event.flow;
    let to_port = |action: &Action| sends_to(action, monitor.out_port);
    let to_group =
        |action: &Action| matches!(action, Action::Group(group) if *group == monitor.out_group);
    // An entry that sends packets to another port from now on is of interest, too; not one
    // that sends them to another group (`ofmonitor_report` in Open vSwitch).
    let mut does = event.before.iter().chain([&flow.instructions]);
    monitor.flags & flag != 0
        && (monitor.table == 0xff || monitor.table == flow.table)
        && (monitor.out_port == PortNumber::ANY || does.any(|does| contains(does, &to_port)))
        && (monitor.out_group == ANY_GROUP || contains(&flow.instructions, &to_group))
        && is_within(&flow.matching, &monitor.matching)
}

/// Whether one of the actions of instructions is as wanted.
fn contains(instructions: &Instructions, wanted: &dyn Fn(&Action) -> bool) -> bool {
    fn any(actions: &[Action], wanted: &dyn Fn(&Action) -> bool) -> bool {
        actions.iter().any(|action| match action {
            Action::Clone(nested) => any(nested, wanted),
            action => wanted(action),
        })
    }
    any(&instructions.apply, wanted) || instructions.write.iter().any(|set| any(set, wanted))
}

/// Whether an action sends packets to a port.
fn sends_to(action: &Action, port: PortNumber) -> bool {
    match action {
        Action::Output { port: to, .. } | Action::Enqueue { port: to, .. } => *to == port,
        Action::Controller(_) => port == PortNumber::CONTROLLER,
        _ => false,
    }
}

/// Whether a match is at least as narrow as another.
fn is_within(narrow: &Match, wide: &Match) -> bool {
    let mut conditions = wide.conditions.iter();
    conditions.all(|wanted| {
        let field = wanted.field;
        match field {
            FieldId::IN_PORT | FieldId::IN_PORT_OXM => narrow.in_port() == wide.in_port(),
            FieldId::VLAN_TCI | FieldId::VLAN_VID | FieldId::VLAN_PCP => {
                let (value, mask) = wide.vlan().unwrap_or((0, 0));
                let (has, has_mask) = narrow.vlan().unwrap_or((0, 0));
                has_mask & mask == mask && (has ^ value) & mask == 0
            }
            _ => narrow.get(field).is_some_and(|known| {
                let ones = u128::MAX >> (128 - u32::from(field.width_bits()).clamp(1, 128));
                let bits = |mask: &Option<thalweg_openflow::Value>| {
                    mask.as_ref().map_or(ones, |mask| mask.number())
                };
                let mask = bits(&wanted.mask);
                bits(&known.mask) & mask == mask
                    && (known.value.number() ^ wanted.value.number()) & mask == 0
            }),
        }
    })
}

impl Link {
    /// Tells this connection's monitors; with the transaction if the changes are its own.
    fn tell_flow_events(&mut self, events: &[FlowEvent], own: Option<u32>) {
        if self.monitors.is_empty() || self.session.version().is_none() {
            return;
        }
        if !self.is_paused && self.session.output_bytes() > PAUSE_BYTES {
            self.tell_pause(true);
            self.is_paused = true;
        }
        let mut updates = Vec::new();
        for event in events {
            if self.is_paused && event.event != MonitorEvent::Removed {
                continue;
            }
            let about = self
                .monitors
                .values()
                .filter(|monitor| is_about(monitor, event));
            let Some(bits) = about
                .map(|monitor| monitor.flags)
                .reduce(|one, other| one | other)
            else {
                continue;
            };
            match own {
                Some(xid) if bits & IN_FULL == 0 => {
                    if updates.last() != Some(&MonitorUpdate::Abbreviated(xid)) {
                        updates.push(MonitorUpdate::Abbreviated(xid));
                    }
                }
                _ => updates.push(update(bits, event.event, event.reason, &event.flow)),
            }
        }
        self.tell_updates(updates);
    }

    fn tell_updates(&mut self, updates: Vec<MonitorUpdate>) {
        if updates.is_empty() {
            return;
        }
        let reply = Reply::Monitor(updates);
        for piece in encode_reply(self.version(), 0, &reply).unwrap_or_default() {
            self.session.send_bytes(piece);
        }
    }

    /// Tells that monitors pause, or that they go on.
    fn tell_pause(&mut self, is_paused: bool) {
        if self.version() >= Version::V14 {
            return self.tell_updates(vec![match is_paused {
                true => MonitorUpdate::Paused,
                false => MonitorUpdate::Resumed,
            }]);
        }
        let message = match is_paused {
            true => Message::MonitorPaused,
            false => Message::MonitorResumed,
        };
        self.session.send(0, &message);
    }
}
