//! Messages: what each asks for, and changes that wait together.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thalweg_openflow::message::Message;
use thalweg_openflow::message::connection::{RequestForward, Role};
use thalweg_openflow::message::continuation::PacketContinuation;
use thalweg_openflow::message::nicira::{CtFlush, TlvTable};
use thalweg_openflow::message::packet::PacketIn;
use thalweg_openflow::message::switch::{FRAG_MASK, INVALID_TTL_TO_CONTROLLER, SwitchConfig};
use thalweg_openflow::{ErrorCode, Incoming, Refusal, Version, refuse};

use super::link::Link;
use super::tlv::TlvMaps;
use super::{Agent, ConnectionKind};
use crate::openflow::target::{Change, Target, Transaction};

/// What waits to be done in one go.
pub(super) enum Waiting {
    /// A change, with the message that it came in.
    Change {
        bytes: Bytes,
        xid: u32,
        transaction: Transaction,
    },
    /// A barrier's transaction: the reply follows the changes in front of it.
    Barrier(u32),
}

impl<T: Target> Agent<T> {
    /// Handles a message: a change joins those that wait, anything else is done after them.
    pub(super) fn handle(
        &mut self,
        link: &mut Link,
        incoming: Incoming,
        waiting: &mut Vec<Waiting>,
        now: Duration,
    ) {
        let xid = incoming.xid();
        let bytes = incoming.bytes;
        let message = match incoming.frame {
            Ok(frame) => frame.message,
            Err(refusal) => {
                self.flush(link, waiting, now);
                return link.refuse(&refusal, &bytes);
            }
        };
        if link.role == Role::Secondary && is_for_primaries(&message) {
            self.flush(link, waiting, now);
            let what = "secondaries change nothing";
            return link.refuse(&refuse(ErrorCode::OFPBRC_IS_SECONDARY, what), &bytes);
        }
        if link.config.kind == ConnectionKind::Snooper {
            let what = "those who read along ask for nothing";
            return link.refuse(&refuse(ErrorCode::OFPBRC_EPERM, what), &bytes);
        }
        let message = match change_of(message) {
            Ok(change) => {
                link.changes.take(now);
                let transaction = Transaction {
                    version: link.version(),
                    changes: vec![change],
                };
                return waiting.push(Waiting::Change {
                    bytes,
                    xid,
                    transaction,
                });
            }
            Err(message) => message,
        };
        if matches!(*message, Message::BarrierRequest) {
            return waiting.push(Waiting::Barrier(xid));
        }
        self.flush(link, waiting, now);
        if let Err(refusal) = self.answer(link, xid, &bytes, *message, now) {
            link.refuse(&refusal, &bytes);
        }
    }

    /// Makes the changes that wait, and answers the barriers between them.
    ///
    /// Changes on both sides of a barrier may become one publication: its reply then comes
    /// after both, which is later than it must.
    pub(super) fn flush(&mut self, link: &mut Link, waiting: &mut Vec<Waiting>, now: Duration) {
        if waiting.is_empty() {
            return;
        }
        let mut transactions = Vec::with_capacity(waiting.len());
        let mut replies = Vec::with_capacity(waiting.len());
        for waiting in waiting.drain(..) {
            match waiting {
                Waiting::Change {
                    bytes,
                    xid,
                    transaction,
                } => {
                    transactions.push(transaction);
                    replies.push((xid, Some(bytes)));
                }
                Waiting::Barrier(xid) => replies.push((xid, None)),
            }
        }
        let transactions: Arc<[Transaction]> = transactions.into();
        let results = match transactions.is_empty() {
            true => Vec::new(),
            false => self.target.change(transactions.clone()),
        };
        let mut results = results.into_iter().zip(&*transactions);
        for (xid, bytes) in replies {
            let Some(bytes) = bytes else {
                link.session.send(xid, &Message::BarrierReply);
                continue;
            };
            match results.next() {
                Some((Ok(outcome), transaction)) => {
                    self.changes_done += 1;
                    link.flow_mods.count(&transaction.changes, now);
                    self.tell_flows(Some((link, xid)), &outcome.flows);
                    self.forward(link, xid, transaction);
                }
                Some((Err(failure), _)) => {
                    self.changes_refused += 1;
                    link.refuse(&failure.refusal, &bytes);
                }
                None => link.session.end("the switch gave no answer"),
            }
        }
    }

    /// Tells other controllers of a change of a group or meter, if they want to know.
    pub(super) fn forward(&mut self, _from: &Link, xid: u32, transaction: &Transaction) {
        for change in &transaction.changes {
            let forward = match change {
                Change::Group(group) => RequestForward::Group(xid, group.clone()),
                Change::Meter(meter) => RequestForward::Meter(xid, meter.clone()),
                _ => continue,
            };
            self.tell_forward(&forward);
        }
    }

    /// Answers a message that changes no rules; one match, an arm for each message.
    fn answer(
        &mut self,
        link: &mut Link,
        xid: u32,
        bytes: &Bytes,
        message: Message,
        now: Duration,
    ) -> Result<(), Refusal> {
        match message {
            Message::Error(_) => {}
            Message::FeaturesRequest => self.features(link, xid),
            Message::GetConfigRequest => {
                let hears_ttl = link.version() < Version::V13 && link.hears_ttl();
                let ttl = if hears_ttl {
                    INVALID_TTL_TO_CONTROLLER
                } else {
                    0
                };
                let config = SwitchConfig {
                    flags: self.fragments | ttl,
                    miss_send_length: link.miss_send_length,
                };
                link.session.send(xid, &Message::GetConfigReply(config));
            }
            Message::SetConfig(config) => self.set_config(link, config)?,
            Message::RoleRequest(asked) => self.set_role(link, xid, asked)?,
            Message::GetAsyncRequest => {
                let config = link.asynchronous.clone();
                link.session.send(xid, &Message::GetAsyncReply(config));
            }
            Message::SetAsync(_, config) => link.set_async(&config),
            Message::SetPacketInFormat(format) => link.packet_in_format = format,
            Message::SetControllerId(id) => link.controller_id = id,
            Message::SetFlowFormat(format) => {
                link.tells_nicira = match format {
                    0 => false,
                    2 => true,
                    _ => return Err(refuse(ErrorCode::OFPBRC_EPERM, "a flow format")),
                };
            }
            Message::FlowModTableId(is_on) => link.session.context.flow_mod_table_id = is_on,
            // As in Open vSwitch, ages are always told where a form has room for them.
            Message::FlowAge => {}
            Message::MonitorCancel(id) => self.cancel_monitor(link, id)?,
            Message::TlvTableMod(asked) => {
                let target = &mut self.target;
                let mut maps = TlvMaps::new(target.mapped_options());
                maps.change(&asked, |number| target.uses_option(number))?;
                target.map_options(&maps.told());
            }
            Message::TlvTableRequest => {
                let table: TlvTable = TlvMaps::new(self.target.mapped_options()).told();
                link.session.send(xid, &Message::TlvTableReply(table));
            }
            Message::Resume(packet) => self.resume(link.version(), packet)?,
            Message::CtFlushZone(zone) => self.target.flush_connections(&CtFlush {
                zone: Some(zone),
                ..CtFlush::default()
            })?,
            Message::CtFlush(asked) => self.target.flush_connections(&asked)?,
            Message::BundleControl(control) => {
                self.bundle_control(link, xid, bytes, &control, now)?
            }
            Message::BundleAdd(add) => self.bundle_add(link, xid, add, now)?,
            Message::QueueConfigRequest(port) => self.queue_config(link, xid, port)?,
            Message::Request(request, more) => self.request(link, xid, request, more)?,
            _ => {
                let what = "a message that only switches send";
                return Err(refuse(ErrorCode::OFPBRC_BAD_TYPE, what));
            }
        }
        Ok(())
    }

    fn resume(&mut self, version: Version, mut packet: PacketIn) -> Result<(), Refusal> {
        let bytes = packet.continuation.take().unwrap_or_default();
        let continuation = PacketContinuation::decode(version, &bytes)?;
        self.target.resume(packet, continuation)
    }

    fn features(&mut self, link: &mut Link, xid: u32) {
        let mut features = self.target.features();
        if link.version() <= Version::V12 {
            features.ports = self.target.ports();
        }
        link.session.send(xid, &Message::FeaturesReply(features));
    }

    fn set_config(&mut self, link: &mut Link, config: SwitchConfig) -> Result<(), Refusal> {
        link.miss_send_length = config.miss_send_length;
        if link.version() < Version::V13 {
            // Later versions say it by what they want unasked.
            link.set_hears_ttl(config.flags & INVALID_TTL_TO_CONTROLLER != 0);
        }
        let mode = config.flags & FRAG_MASK;
        // How fragments are handled is the switch's, so a secondary may not say it.
        if mode != self.fragments && link.role != Role::Secondary {
            self.target.set_fragments(mode)?;
            self.fragments = mode;
        }
        Ok(())
    }
}

/// Whether a message changes something, which secondaries may not.
fn is_for_primaries(message: &Message) -> bool {
    matches!(
        message,
        Message::FlowMod(_)
            | Message::GroupMod(_)
            | Message::MeterMod(_)
            | Message::PortMod(_)
            | Message::TableMod(_)
            | Message::PacketOut(_)
            | Message::BundleControl(_)
            | Message::BundleAdd(_)
            | Message::TlvTableMod(_)
    )
}

/// The change that a message is, or the message.
pub(super) fn change_of(message: Message) -> Result<Change, Box<Message>> {
    Ok(match message {
        Message::FlowMod(asked) => Change::Flow(asked),
        Message::GroupMod(asked) => Change::Group(asked),
        Message::MeterMod(asked) => Change::Meter(asked),
        Message::PortMod(asked) => Change::Port(asked),
        Message::TableMod(asked) => Change::Table(asked),
        Message::PacketOut(asked) => Change::PacketOut(asked),
        other => return Err(Box::new(other)),
    })
}
