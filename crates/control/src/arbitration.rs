//! Decides who may write: the stream of a role with the greatest election id ever seen.
//!
//! ```text
//!   stream --MasterArbitrationUpdate(role, id)--> member of the role
//!      id >= greatest ever seen:  primary; all of the role are told
//!      else:                      backup; a primary that steps down so tells all of the role
//!   primary's stream ends:        nobody is primary, until somebody says so again
//! ```
//!
//! Section "Client Arbitration and Controller Replication" of P4Runtime 1.5.0. Every role
//! covers the whole pipeline, as there is no agreed scheme of role configurations.
//!
//! 1. The live election ids of a role are unique, and at most one stream of a role is primary.
//! 2. The greatest id of a role never falls, even when its stream is gone.
//! 3. A refused message changes nothing, except that its stream ends.

use std::collections::BTreeMap;

use crate::problem::{Code, Problem};
use crate::proto::google::rpc;
use crate::proto::p4::v1 as p4;

/// A stream of a controller, numbered by the code that accepts it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StreamId(pub u64);

/// Maximum number of roles that are remembered.
const MAX_ROLES: usize = 256;
/// Maximum length of a role's name, in bytes.
const MAX_NAME: usize = 256;

/// The streams of one device, and which of them are primary.
#[derive(Debug)]
pub(crate) struct Arbitration {
    device: u64,
    max_streams_per_role: usize,
    roles: BTreeMap<RoleName, Role>,
    streams: BTreeMap<StreamId, RoleName>,
}

/// A role's name, and its number in older versions of the protocol.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct RoleName {
    name: String,
    id: u64,
}

#[derive(Debug, Default)]
struct Role {
    members: BTreeMap<StreamId, Option<u128>>,
    primary: Option<StreamId>,
    greatest: Option<u128>,
}

/// Messages for streams, in order.
pub(crate) type Advice = Vec<(StreamId, p4::MasterArbitrationUpdate)>;

impl Arbitration {
    pub(crate) fn new(device: u64, max_streams_per_role: usize) -> Arbitration {
        Arbitration {
            device,
            max_streams_per_role,
            roles: BTreeMap::new(),
            streams: BTreeMap::new(),
        }
    }

    /// Handles a stream's request to be primary or backup.
    ///
    /// # Errors
    /// Fails if the stream may be neither; the caller must end the stream with the error.
    pub(crate) fn handle_update(
        &mut self,
        stream: StreamId,
        update: &p4::MasterArbitrationUpdate,
    ) -> Result<Advice, Problem> {
        let name = role_of(update);
        let known = self.streams.get(&stream);
        if update.device_id != self.device {
            return Err(match known {
                None => no_device(update.device_id, self.device),
                Some(_) => fixed("device", "open another stream for another device"),
            });
        }
        if known.is_some_and(|known| *known != name) {
            return Err(fixed("role", "open another stream for another role"));
        }
        if update
            .role
            .as_ref()
            .is_some_and(|role| role.config.is_some())
        {
            return Err(Problem::invalid(
                "the role has a configuration; no scheme of these is known, leave it out",
            ));
        }
        if name.name.len() > MAX_NAME {
            return Err(Problem::invalid("the role's name is too long"));
        }
        if !self.roles.contains_key(&name) && self.roles.len() >= MAX_ROLES {
            return Err(too_many("roles", MAX_ROLES));
        }
        let election = update.election_id.as_ref().map(election_id);
        let is_new = known.is_none();
        let members = self.roles.get(&name).map(|role| &role.members);
        let others = members
            .into_iter()
            .flatten()
            .filter(|(id, _)| **id != stream);
        let (mut count, mut is_taken) = (0, false);
        for (_, other) in others {
            count += 1;
            is_taken |= election.is_some() && *other == election;
        }
        // Invariant 1.
        if is_taken {
            return Err(Problem::invalid(
                "another controller of the role has this election id; use one of your own",
            ));
        }
        if is_new && count >= self.max_streams_per_role {
            return Err(too_many("streams of the role", self.max_streams_per_role));
        }
        self.streams.insert(stream, name.clone());
        let role = self.roles.entry(name.clone()).or_default();
        role.members.insert(stream, election);
        let was_primary = role.primary == Some(stream);
        let wins = election.is_some() && election >= role.greatest;
        if wins {
            role.primary = Some(stream);
            role.greatest = election;
            return Ok(self.advise_all(&name));
        }
        if was_primary {
            role.primary = None;
            return Ok(self.advise_all(&name));
        }
        Ok(vec![(stream, self.advice(&name, stream))])
    }

    /// Handles the end of a stream.
    pub(crate) fn handle_close(&mut self, stream: StreamId) -> Advice {
        let Some(name) = self.streams.remove(&stream) else {
            return Advice::new();
        };
        let Some(role) = self.roles.get_mut(&name) else {
            return Advice::new();
        };
        role.members.remove(&stream);
        if role.primary != Some(stream) {
            return Advice::new();
        }
        role.primary = None;
        self.advise_all(&name)
    }

    /// Checks that a writer is the primary of its role.
    ///
    /// # Errors
    /// `NOT_FOUND` for a role that no stream has announced, `PERMISSION_DENIED` for a writer
    /// other than the primary.
    pub(crate) fn check_primary(
        &self,
        role: &RoleName,
        election: Option<&p4::Uint128>,
    ) -> Result<(), Problem> {
        let Some(state) = self.roles.get(role) else {
            if *role == RoleName::default() {
                return Err(not_primary());
            }
            return Err(Problem::missing(
                "no stream has announced this role; open one and send an arbitration update",
            ));
        };
        let primary = state.primary.and_then(|stream| state.members.get(&stream));
        match (primary, election) {
            (Some(Some(primary)), Some(election)) if *primary == election_id(election) => Ok(()),
            _ => Err(not_primary()),
        }
    }

    /// Whether a stream is the primary of its role.
    pub(crate) fn is_primary(&self, stream: StreamId) -> bool {
        let role = self
            .streams
            .get(&stream)
            .and_then(|name| self.roles.get(name));
        role.is_some_and(|role| role.primary == Some(stream))
    }

    /// The primary of each role that has one.
    pub(crate) fn primaries(&self) -> impl Iterator<Item = StreamId> {
        self.roles.values().filter_map(|role| role.primary)
    }

    fn advise_all(&self, name: &RoleName) -> Advice {
        let role = &self.roles[name];
        // The new primary is told last, when every other stream knows that it is not.
        let others = role.members.keys().filter(|id| Some(**id) != role.primary);
        let streams = others.copied().chain(role.primary);
        streams
            .map(|stream| (stream, self.advice(name, stream)))
            .collect()
    }

    #[allow(deprecated)]
    fn advice(&self, name: &RoleName, stream: StreamId) -> p4::MasterArbitrationUpdate {
        let role = &self.roles[name];
        let (code, message) = match role.primary {
            Some(primary) if primary == stream => (Code::Ok, "you are primary"),
            Some(_) => (Code::AlreadyExists, "you are a backup"),
            None => (Code::NotFound, "there is no primary"),
        };
        p4::MasterArbitrationUpdate {
            device_id: self.device,
            role: (*name != RoleName::default()).then(|| p4::Role {
                id: name.id,
                name: name.name.clone(),
                config: None,
            }),
            election_id: role.greatest.map(|id| p4::Uint128 {
                high: (id >> 64) as u64,
                low: id as u64,
            }),
            status: Some(rpc::Status {
                code: code as i32,
                message: message.to_owned(),
                details: Vec::new(),
            }),
        }
    }
}

impl RoleName {
    /// The role that a call names.
    pub(crate) fn new(name: &str, id: u64) -> RoleName {
        RoleName {
            name: name.to_owned(),
            id,
        }
    }
}

#[allow(deprecated)]
fn role_of(update: &p4::MasterArbitrationUpdate) -> RoleName {
    let role = update.role.as_ref();
    role.map_or_else(RoleName::default, |role| RoleName::new(&role.name, role.id))
}

fn election_id(id: &p4::Uint128) -> u128 {
    u128::from(id.high) << 64 | u128::from(id.low)
}

/// The answer to a request for another device.
pub(crate) fn no_device(given: u64, device: u64) -> Problem {
    Problem::missing(format!(
        "there is no device {given}; this is device {device}"
    ))
}

fn fixed(what: &str, remedy: &str) -> Problem {
    let text = format!("the stream's {what} cannot change; {remedy}");
    Problem::new(Code::FailedPrecondition, text)
}

fn too_many(what: &str, limit: usize) -> Problem {
    let text = format!("there are {limit} {what} already; close one first");
    Problem::new(Code::ResourceExhausted, text)
}

fn not_primary() -> Problem {
    Problem::denied("the election id is not that of the role's primary; become primary first")
}

#[cfg(test)]
mod tests;
