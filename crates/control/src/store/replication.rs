//! Writes of multicast groups and clone sessions.

use std::collections::BTreeSet;

use super::matching::number;
use super::rows::Undo;
use super::{Result, Store, Type, owned};
use crate::change::{Change, CloneSession, Operation, Replica};
use crate::problem::{Code, Problem};
use crate::proto::p4::v1 as p4;
use crate::proto::p4::v1::packet_replication_engine_entry::Type as EntryKind;
use crate::proto::p4::v1::replica::PortKind;

/// Maximum multicast group and instance: v1model's `mcast_grp` and `egress_rid` have 16 bits.
const MAX_GROUP: u32 = 0xffff;
/// Maximum clone session: BMv2's mirroring has 15 bits for it.
const MAX_SESSION: u32 = 0x7fff;
/// Maximum copies of one packet.
const MAX_REPLICAS: usize = 1 << 12;
/// The width of a port's number.
const PORT_BITS: u32 = 32;

impl Store {
    pub(super) fn replication(
        &mut self,
        kind: Type,
        message: &p4::PacketReplicationEngineEntry,
        change: &mut Change,
    ) -> Result<()> {
        match &message.r#type {
            Some(EntryKind::MulticastGroupEntry(group)) => {
                let place = format!("multicast group {}", group.multicast_group_id);
                let done = self.multicast(kind, group, change);
                done.map_err(|problem| problem.at(place))
            }
            Some(EntryKind::CloneSessionEntry(session)) => {
                let place = format!("clone session {}", session.session_id);
                let done = self.clone_session(kind, session, change);
                done.map_err(|problem| problem.at(place))
            }
            None => Err(Problem::invalid(
                "it is neither a multicast group nor a clone session",
            )),
        }
    }

    fn multicast(
        &mut self,
        kind: Type,
        message: &p4::MulticastGroupEntry,
        change: &mut Change,
    ) -> Result<()> {
        let group = message.multicast_group_id;
        check_number(group, MAX_GROUP)?;
        check_presence(kind, self.rows.multicast.contains_key(&group))?;
        let row = match kind {
            Type::Delete => None,
            _ => Some(owned(message)),
        };
        let replicas = row.as_ref().map(|row| replicas_of(&row.replicas));
        change.push(Operation::SetMulticast {
            group,
            replicas: replicas.transpose()?,
        });
        self.put(Undo::Multicast(group, row));
        Ok(())
    }

    fn clone_session(
        &mut self,
        kind: Type,
        message: &p4::CloneSessionEntry,
        change: &mut Change,
    ) -> Result<()> {
        let session = message.session_id;
        check_number(session, MAX_SESSION)?;
        check_presence(kind, self.rows.clones.contains_key(&session))?;
        let row = match kind {
            Type::Delete => None,
            _ => Some(owned(message)),
        };
        let clone = row.as_ref().map(clone_of).transpose()?;
        change.push(Operation::SetClone { session, clone });
        self.put(Undo::Clone(session, row));
        Ok(())
    }
}

fn clone_of(message: &p4::CloneSessionEntry) -> Result<CloneSession> {
    if message.class_of_service != 0 {
        return Err(Problem::invalid(format!(
            "a class of service of {}; there is only 0",
            message.class_of_service
        )));
    }
    let Ok(length_bytes) = u32::try_from(message.packet_length_bytes) else {
        return Err(Problem::invalid(format!(
            "a packet length of {}; give 0 to leave packets whole",
            message.packet_length_bytes
        )));
    };
    Ok(CloneSession {
        replicas: replicas_of(&message.replicas)?,
        length_bytes,
    })
}

fn replicas_of(messages: &[p4::Replica]) -> Result<Vec<Replica>> {
    if messages.len() > MAX_REPLICAS {
        let text = format!("more than {MAX_REPLICAS} replicas");
        return Err(Problem::new(Code::ResourceExhausted, text));
    }
    let mut seen = BTreeSet::new();
    let mut replicas = Vec::with_capacity(messages.len());
    for message in messages {
        if !message.backup_replicas.is_empty() {
            return Err(Problem::unsupported(
                "backup replicas are not supported; leave them out",
            ));
        }
        let replica = Replica {
            port: port_of(message)?,
            instance: message.instance,
        };
        if replica.instance > MAX_GROUP {
            return Err(Problem::invalid(format!(
                "an instance of {}; give 0 to {MAX_GROUP}",
                replica.instance
            )));
        }
        if !seen.insert((replica.port, replica.instance)) {
            return Err(Problem::invalid(format!(
                "port {} with instance {} is there twice",
                replica.port, replica.instance
            )));
        }
        replicas.push(replica);
    }
    Ok(replicas)
}

#[allow(deprecated)]
fn port_of(message: &p4::Replica) -> Result<u32> {
    match &message.port_kind {
        Some(PortKind::EgressPort(port)) => Ok(*port),
        Some(PortKind::Port(port)) => {
            let port = number(port, PORT_BITS).map_err(|problem| problem.at("port"))?;
            Ok(port.to_u64().unwrap_or(0) as u32)
        }
        None => Err(Problem::invalid("a replica has no port")),
    }
}

fn check_number(number: u32, most: u32) -> Result<()> {
    if (1..=most).contains(&number) {
        return Ok(());
    }
    Err(Problem::invalid(format!(
        "its number is {number}; give 1 to {most}"
    )))
}

fn check_presence(kind: Type, is_there: bool) -> Result<()> {
    match (kind, is_there) {
        (Type::Insert, true) => Err(Problem::new(
            Code::AlreadyExists,
            "it is already there; modify it",
        )),
        (Type::Modify | Type::Delete, false) => Err(Problem::missing("it is not there")),
        _ => Ok(()),
    }
}
